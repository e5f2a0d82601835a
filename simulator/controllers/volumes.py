"""Volumes and claims: binding, and what becomes of a volume whose claim is gone.

    claim without a volume ─► a volume that was promised to it ─► bound
                           ─► Immediate: the smallest free volume that suits ─► bound, or the provisioner's work
                           ─► WaitForFirstConsumer: nothing, until the scheduler has chosen a volume or a node
    volume                 ─► Available · Bound · claim gone: deleted, or Released (reclaim policy)

Provisioning is `provisioner.py`. What suits is judged by `kube.api.volumes`, as the scheduler judges it.
"""

from collections.abc import Iterable

from kube.api.codec import convert
from kube.api.core import PersistentVolume, PersistentVolumeClaim
from kube.api.labels import match_labels
from kube.api.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    WAIT_FOR_FIRST_CONSUMER,
    capacity_of,
    is_free,
    offers_modes,
    suits,
)
from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"


def class_of(claim: Object) -> str:
    """The storage class that a claim names, "" for none."""
    return str(claim["spec"].get("storageClassName") or "")


def claim_reference(claim: Object) -> Object:
    """A volume's reference to its claim."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


class VolumeController(Controller):
    """Binds claims and volumes. Keys are claims (namespace, name) and volumes ("", name)."""

    name = "persistentvolume"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims = self.informers(CLAIMS)
        self._volumes = self.informers(VOLUMES)
        self._classes = self.informers(CLASSES)
        self._claims.add_handler(self._on_claim)
        self._volumes.add_handler(self._on_volume)
        self._classes.add_handler(lambda old, new: self._look_at_pending())

    # --- what is news ----------------------------------------------------------------------------------------------

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        claim = new or old
        if claim is None:
            return
        self.enqueue(claim)
        if new is None and claim["spec"].get("volumeName"):
            self.queue.add(("", claim["spec"]["volumeName"]))

    def _on_volume(self, old: Object | None, new: Object | None) -> None:
        volume = new or old
        if volume is None:
            return
        if new is not None:
            self.enqueue(new)
        reference = volume["spec"].get("claimRef")
        if reference:
            self.queue.add((reference["namespace"], reference["name"]))
        elif old is None:
            self._look_at_pending()

    def _look_at_pending(self) -> None:
        for claim in self._claims.all():
            if not claim["spec"].get("volumeName"):
                self.enqueue(claim)

    # --- doing it --------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Look at a claim or at a volume."""
        if key[0]:
            claim = self._claims.get(key)
            if claim is not None:
                self._sync_claim(claim)
        else:
            volume = self._volumes.get(key)
            if volume is not None:
                self._sync_volume(volume)

    def _sync_claim(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if name:
            volume = self.api.get(VOLUMES, ("", name))
            if volume is not None and _may_have(volume, claim):
                self._bind(volume, claim)
            elif BIND_COMPLETED in _annotations(claim):
                status = {**(claim.get("status") or {}), "phase": "Lost"}
                self.api.set_status(CLAIMS, claim, status)
            return
        promised = [volume for volume in self._volumes.all() if _is_promised(volume, claim)]
        if promised:
            self._bind(promised[0], claim)
        elif not self._waits(claim) and (volume := self._free_volume(claim)) is not None:
            self._bind(volume, claim)

    def _waits(self, claim: Object) -> bool:
        found = self._classes.get(("", class_of(claim)))
        return found is not None and found.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER

    def _free_volume(self, claim: Object) -> Object | None:
        """The smallest that suits; of equal ones the first by name."""
        wanted = convert(claim, PersistentVolumeClaim)
        found = [
            volume
            for volume in _typed(self._volumes.all())
            if is_free(volume)
            and suits(volume, wanted)
            and offers_modes(volume, wanted)
            and (wanted.spec.selector is None or match_labels(wanted.spec.selector, volume.metadata.labels))
        ]
        if not found:
            return None
        smallest = min(found, key=lambda volume: (capacity_of(volume), volume.metadata.name))
        return self.api.get(VOLUMES, ("", smallest.metadata.name))

    def _bind(self, volume: Object, claim: Object) -> None:
        """Volume first: only one claim can be in it. Then the claim, then both their statuses."""
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") != claim["metadata"]["uid"]:
            marks = {} if reference else {BOUND_BY_CONTROLLER: "yes"}
            self.api.change(VOLUMES, volume, lambda body: _write_reference(body, claim, marks))
        self._set_volume_phase(volume, "Bound")
        if claim["spec"].get("volumeName") != volume["metadata"]["name"] or BIND_COMPLETED not in _annotations(claim):
            marks = {BIND_COMPLETED: "yes"}
            if not claim["spec"].get("volumeName"):
                marks[BOUND_BY_CONTROLLER] = "yes"
            self.api.change(CLAIMS, claim, lambda body: _write_volume(body, volume, marks))
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": {"storage": volume["spec"]["capacity"]["storage"]},
        }
        if claim.get("status") != status:
            self.api.set_status(CLAIMS, claim, status)

    def _sync_volume(self, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        if not reference:
            self._set_volume_phase(volume, "Available")
            return
        claim = self.api.get(CLAIMS, (reference["namespace"], reference["name"]))
        if not reference.get("uid"):
            self._set_volume_phase(volume, "Available")
            return
        if claim is not None and claim["metadata"]["uid"] == reference["uid"]:
            self.queue.add(key_of(claim))
            return
        self._set_volume_phase(volume, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.api.delete(VOLUMES, volume)

    def _set_volume_phase(self, volume: Object, phase: str) -> None:
        current = self.api.get(VOLUMES, key_of(volume))
        if current is not None and (current.get("status") or {}).get("phase") != phase:
            self.api.set_status(VOLUMES, volume, {**(current.get("status") or {}), "phase": phase})


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _is_promised(volume: Object, claim: Object) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    return (reference.get("namespace"), reference.get("name")) == key_of(claim) and _may_have(volume, claim)


def _may_have(volume: Object, claim: Object) -> bool:
    reference = volume["spec"].get("claimRef") or {}
    if not reference:
        return True
    known = (reference.get("namespace"), reference.get("name")) == key_of(claim)
    return known and reference.get("uid") in (None, "", claim["metadata"]["uid"])


def _typed(volumes: Iterable[Object]) -> list[PersistentVolume]:
    return [convert(volume, PersistentVolume) for volume in volumes]


def _write_reference(body: Object, claim: Object, marks: dict[str, str]) -> None:
    body["spec"]["claimRef"] = claim_reference(claim)
    body["metadata"]["annotations"] = {**_annotations(body), **marks}


def _write_volume(body: Object, volume: Object, marks: dict[str, str]) -> None:
    body["spec"]["volumeName"] = volume["metadata"]["name"]
    body["metadata"]["annotations"] = {**_annotations(body), **marks}
