"""Ephemeral volumes: a claim for each, named after pod and volume, owned by the pod and gone with it.

A claim of that name that somebody else made is left alone: the pod waits, and says why.
"""

from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import copy_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.informer import controller_of
from simulator.controllers.pods import is_terminating, owner_reference
from simulator.controllers.volumes import CLAIMS


class EphemeralVolumeController(Controller):
    """Makes the claims of ephemeral volumes."""

    name = "ephemeral-volume"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.informers("pods")
        self._pods.add_handler(self._on_pod)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None and _ephemeral(new):
            self.enqueue(new)

    def sync(self, key: Key) -> None:
        """Make the claims that a pod lacks."""
        pod = self._pods.get(key)
        if pod is None or is_terminating(pod):
            return
        for volume in _ephemeral(pod):
            name = f"{key[1]}-{volume['name']}"
            claim = self.api.get(CLAIMS, (key[0], name))
            if claim is None:
                self._create(pod, name, volume["ephemeral"]["volumeClaimTemplate"])
            elif (controller_of(claim) or {}).get("uid") != pod["metadata"]["uid"]:
                text = f'PVC "{key[0]}/{name}" was not created for pod "{key[0]}/{key[1]}" (pod is not owner)'
                self.event(pod, "Warning", "FailedBinding", text)

    def _create(self, pod: Object, name: str, template: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        own = {"name": name, "namespace": namespace, "ownerReferences": [owner_reference(pod)]}
        metadata = {**(template.get("metadata") or {}), **own}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
        self.api.create(CLAIMS, namespace, copy_of(body))


def _ephemeral(pod: Object) -> list[Object]:
    return [volume for volume in pod["spec"].get("volumes") or () if volume.get("ephemeral")]
