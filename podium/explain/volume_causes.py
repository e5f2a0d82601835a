"""What the pod's claims and volumes have to do with a refusal. Used by `causes`."""

from __future__ import annotations

from collections.abc import Iterator

from kube.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kube.api.volumes import SELECTED_NODE, claim_class, claim_uses, required_affinity, waits_for_consumer
from plugins.node_volume_limits import NewVolumes
from plugins.volume_restrictions import CLAIM_IN_USE, claim_names
from plugins.volume_zone import topologies
from podium.explain.amounts import conjoined, listed
from podium.explain.label_causes import term_text
from podium.explain.view import View
from scheduler.framework.runtime import Feasibility
from scheduler.snapshot.columns import Codes

Groups = Iterator[tuple[Codes, str, str]]


def claims(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """The state of each claim stands for all of these nodes."""
    pod = found.state.pod_info.pod
    names = conjoined([use.name for use in claim_uses(pod)])
    yield rows, claims_text(view, pod) or reason, f"out of reach of claim {names}"


def claims_text(view: View, pod: Pod) -> str:
    """`claim data is bound to volume pv-1, which is in zone a`; empty for a pod without claims."""
    return "; ".join(_claim_text(view, pod.metadata.namespace, use.name) for use in claim_uses(pod))


def _claim_text(view: View, namespace: str, name: str) -> str:
    claim: PersistentVolumeClaim | None = view.handle.listers("PersistentVolumeClaim").get(name, namespace)
    if claim is None:
        return f"claim {name} does not exist"
    if claim.metadata.deletion_timestamp is not None:
        return f"claim {name} is being deleted"
    if not claim.spec.volume_name:
        return f"claim {name} {_unbound(view, claim)}"
    volume: PersistentVolume | None = view.handle.listers("PersistentVolume").get(claim.spec.volume_name)
    if volume is None:
        return f"claim {name} is bound to volume {claim.spec.volume_name}, which does not exist"
    return f"claim {name} is bound to volume {volume.metadata.name}{_place(volume)}"


def _unbound(view: View, claim: PersistentVolumeClaim) -> str:
    class_name = claim_class(claim)
    storage_class = view.handle.listers("StorageClass").get(class_name) if class_name else None
    if not class_name:
        return "is not bound and names no storage class: it waits for a volume that matches it"
    if storage_class is None:
        return f"is not bound, and its storage class {class_name} does not exist"
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected:
        return f"(class {class_name}) is being provisioned for node {selected}"
    if waits_for_consumer(storage_class):
        return f"(class {class_name}) has no volume yet, and none can be had on these nodes"
    return (
        f"is not bound, and its storage class {class_name} binds at once: it waits for its provisioner, "
        f"not for the scheduler"
    )


def _place(volume: PersistentVolume) -> str:
    """Where a volume can be reached from, by its node affinity and its zone labels."""
    required = required_affinity(volume)
    terms = required.node_selector_terms if required is not None else ()
    places = [" or ".join(map(term_text, terms[:3]))] if terms else []
    places += [f"{t.key} in {conjoined(sorted(t.values), 'or')}" for t in topologies(volume)]
    return f", to be reached from nodes with {conjoined(places)}" if places else ""


def in_use(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """Who uses the ReadWriteOncePod claim, or the disk."""
    pod = found.state.pod_info.pod
    if reason != CLAIM_IN_USE:
        yield rows, "a disk of the pod is mounted there by another pod", "where a disk of it is in use"
        return
    wanted = {f"{pod.metadata.namespace}/{name}": name for name in claim_names(pod)}
    users = [
        f"claim {wanted[key]} (ReadWriteOncePod) is in use by {other.key} on {info.name}"
        for info in view.snapshot.node_infos()
        if info.pvc_ref_counts.keys() & wanted.keys()
        for other in info.pods.values()
        for key in other.pvc_keys
        if key in wanted
    ]
    yield rows, listed(users, 2) or reason, "refused because its claim is in use"


def limits(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """The drivers of the pod's volumes and what the nodes allow."""
    new: NewVolumes = found.state.read("NodeVolumeLimits")
    info = view.snapshot.nodes.info(int(rows[0]))
    csi_node = view.handle.listers("CSINode").get(info.name)
    limit = {d.name: d.allocatable.count for d in csi_node.spec.drivers if d.allocatable} if csi_node else {}
    texts = [
        f"{len(volumes)} more of driver {driver}, of which {info.name} takes {limit[driver]}"
        for driver, volumes in sorted(new.by_driver.items())
        if driver in limit
    ]
    yield rows, f"the pod adds {conjoined(texts)}" if texts else reason, "with as many volumes as they take"
