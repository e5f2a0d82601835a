"""Volumes and claims that are in use do not go: a finalizer holds them until nobody uses them any more.

    kubernetes.io/pvc-protection   on every claim; goes, once it is deleted, when no pod on a node names it
    kubernetes.io/pv-protection    on every volume; goes, once it is deleted, when it is not bound

The server's admission puts them on; the controller adds them to what came by another way, as from a dump.
"""

from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.pods import is_terminating
from simulator.controllers.volumes import CLAIMS, VOLUMES

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


class VolumeProtectionController(Controller):
    """Holds what is in use. Keys are claims (namespace, name) and volumes ("", name)."""

    name = "volume-protection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.informers("pods")
        self._pods.add_index("volume claims", _claims_of)
        self._pods.add_handler(self._on_pod)
        for resource in (CLAIMS, VOLUMES):
            self.informers(resource).add_handler(lambda old, new: self.enqueue(new) if new is not None else None)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            for name in _claims_of(old):
                namespace, _, claim = name.partition("/")
                self.queue.add((namespace, claim))

    def sync(self, key: Key) -> None:
        """Put the finalizer on, or take it off."""
        resource, finalizer = (CLAIMS, CLAIM_FINALIZER) if key[0] else (VOLUMES, VOLUME_FINALIZER)
        obj = self.api.get(resource, key)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        held = finalizer in finalizers
        if not is_terminating(obj) and not held:
            self.api.set_metadata(resource, obj, finalizers=[*finalizers, finalizer])
        elif is_terminating(obj) and held and not (self._is_used(obj) if key[0] else _is_bound(obj)):
            left = [one for one in finalizers if one != finalizer]
            self.api.set_metadata(resource, obj, finalizers=left or None)

    def _is_used(self, claim: Object) -> bool:
        """A pod without a node uses nothing yet, and will not be started with a claim that is going."""
        users = self._pods.by_index("volume claims", "/".join(key_of(claim)))
        return any(pod["spec"].get("nodeName") for pod in users)


def _claims_of(pod: Object) -> list[str]:
    metadata, names = pod["metadata"], []
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral"):
            name = f"{metadata['name']}-{volume['name']}"
        if name:
            names.append(f"{metadata['namespace']}/{name}")
    return list(dict.fromkeys(names))


def _is_bound(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Bound"
