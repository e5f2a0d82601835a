"""The provisioner of all storage classes that name one: makes volumes for claims, after a while, or fails to.

    Immediate                ─► a volume anywhere its class allows
    WaitForFirstConsumer     ─► once the scheduler has written the selected node: a volume that this node reaches
    asked to fail            ─► the selected node is taken away again, so that the scheduler decides anew

A volume made for a node is reachable from the node's zone; on a node without a zone, from that node alone.
`fail` is how tests and the demo let provisioning go wrong. Owner: the manager.
"""

from collections.abc import Callable

from kube.api.codec import convert
from kube.api.storage import StorageClass
from kube.api.volumes import BIND_COMPLETED, NO_PROVISIONER, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, topology_allowed
from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.volumes import CLAIMS, CLASSES, VOLUMES, claim_reference, class_of

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
Judge = Callable[[Object, str], bool]
"""Given a claim and a node's name ("" for none): shall provisioning fail?"""


class Provisioner(Controller):
    """Makes volumes."""

    name = "provisioner"

    def __init__(self, context: Context, delay: float = 0.0) -> None:
        super().__init__(context)
        self.delay = delay
        self.provisioned = 0
        self.refused = 0
        self._judge: Judge = lambda claim, node: False
        self._asked: dict[Key, tuple[str, str]] = {}
        self._claims = self.informers(CLAIMS)
        self._classes = self.informers(CLASSES)
        self._volumes = self.informers(VOLUMES)
        self._claims.add_handler(self._on_claim)
        self._classes.add_handler(self._on_class)

    def fail(self, judge: Judge) -> None:
        """Let provisioning fail where the judge says so, from now on."""
        self._judge = judge

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._asked.pop(key_of(old), None)
            return
        if not new["spec"].get("volumeName"):
            self._consider(new)

    def _on_class(self, old: Object | None, new: Object | None) -> None:
        for claim in self._claims.all():
            if not claim["spec"].get("volumeName"):
                self._consider(claim)

    def _consider(self, claim: Object) -> None:
        """Start the work, once for each claim and selected node."""
        storage_class = self._classes.get(("", class_of(claim)))
        if storage_class is None or storage_class["provisioner"] == NO_PROVISIONER:
            return
        node = _selected(claim)
        if storage_class.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER and not node:
            self._asked.pop(key_of(claim), None)
            return
        work = (claim["metadata"]["uid"], node)
        if self._asked.get(key_of(claim)) != work:
            self._asked[key_of(claim)] = work
            self.queue.add_after(key_of(claim), self.delay)

    def sync(self, key: Key) -> None:
        """Make the volume of a claim, unless there is one now, or it must fail."""
        claim = self.api.get(CLAIMS, key)
        if claim is None or claim["spec"].get("volumeName") or BIND_COMPLETED in _annotations(claim):
            return
        storage_class = self._classes.get(("", class_of(claim)))
        node = _selected(claim)
        if storage_class is None or self._is_promised(claim):
            return
        if self._judge(claim, node) or not self._reachable(storage_class, node):
            self._refuse(claim, node)
            return
        self.provisioned += 1
        self.api.create(VOLUMES, "", self._volume(claim, storage_class, node))
        self.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {_name(claim)}")

    def _is_promised(self, claim: Object) -> bool:
        """Whether a volume waits for this claim already: the controller binds the two."""
        references = (volume["spec"].get("claimRef") or {} for volume in self._volumes.all())
        return any(reference.get("uid") == claim["metadata"]["uid"] for reference in references)

    def _reachable(self, storage_class: Object, node: str) -> bool:
        found = self.api.get("nodes", ("", node)) if node else None
        if not node:
            return True
        labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
        return found is not None and topology_allowed(convert(storage_class, StorageClass).allowed_topologies, labels)

    def _refuse(self, claim: Object, node: str) -> None:
        self.refused += 1
        self._asked.pop(key_of(claim), None)
        where = f" for node {node}" if node else ""
        self.event(claim, "Warning", "ProvisioningFailed", f"failed to provision volume{where}")
        if node:
            annotations = {name: value for name, value in _annotations(claim).items() if name != SELECTED_NODE}
            self.api.change(CLAIMS, claim, lambda body: body["metadata"].update(annotations=annotations))

    def _volume(self, claim: Object, storage_class: Object, node: str) -> Object:
        spec = claim["spec"]
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": _name(claim), "annotations": {_PROVISIONED_BY: storage_class["provisioner"]}},
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": list(spec.get("accessModes") or ["ReadWriteOnce"]),
                "volumeMode": spec.get("volumeMode", "Filesystem"),
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": class_of(claim),
                "claimRef": claim_reference(claim),
                "csi": {"driver": storage_class["provisioner"], "volumeHandle": _name(claim)},
            },
        }
        requirement = self._where(storage_class, node)
        if requirement is not None:
            terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
            body["spec"]["nodeAffinity"] = {"required": terms}  # type: ignore[index]  # a dict, as written above
        return body

    def _where(self, storage_class: Object, node: str) -> Object | None:
        """What a node must be labelled with to reach the volume; None: any will do."""
        if not node:
            return None
        found = self.api.get("nodes", ("", node)) or {"metadata": {}}
        labels = found["metadata"].get("labels") or {}
        keys = [
            expression["key"]
            for term in storage_class.get("allowedTopologies") or ()
            for expression in term.get("matchLabelExpressions") or ()
        ]
        for key in (*keys, ZONE, HOSTNAME):
            if key in labels:
                return {"key": key, "operator": "In", "values": [labels[key]]}
        return None


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _selected(claim: Object) -> str:
    return _annotations(claim).get(SELECTED_NODE, "")


def _name(claim: Object) -> str:
    return f"pvc-{claim['metadata']['uid']}"
