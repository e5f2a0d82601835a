"""Causes: who refused which nodes and why, with the numbers, labels, pods and claims it is about.

The diagnosis of a cycle says which plugin refused which rows with which reason. Here each in-tree plugin's reasons are
looked into; reasons of other plugins stand as they are. Nothing here decides: the refusals are the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kube.api.core import Taint
from kube.api.tolerations import find_untolerated
from plugins.node_resources_fit import TOO_MANY_PODS, insufficient
from podium.explain import label_causes, pod_causes, volume_causes
from podium.explain.amounts import amount, resource_name
from podium.explain.documents import MAX_NAMES, Cause, ResourceGap
from podium.explain.view import View
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.runtime import Feasibility
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Codes


@dataclass(frozen=True, slots=True)
class Group:
    """Rows with one detail."""

    rows: Codes
    detail: str
    gap: ResourceGap | None = None


#: (view, question, reason, rows it stands for) -> the same rows in groups with details
Describe = Callable[[View, Feasibility, str, Codes], Iterator[Group]]


def causes_of(view: View, found: Feasibility, diagnosis: Diagnosis) -> list[Cause]:
    """All causes, those of most nodes first."""
    if diagnosis.pre_filter is not None:
        return [_of_all(view, found, diagnosis.pre_filter)]
    causes = []
    if diagnosis.absent is not None and len(diagnosis.absent[0]):
        rows, status = diagnosis.absent
        causes += [_cause(view, status, status.message, Group(rows, label_causes.named_nodes(view, found)))]
    for refused in diagnosis.refused:
        for number, status in enumerate(refused.refusals.statuses):
            rows = refused.rows[refused.refusals.which == number]
            if len(rows):
                causes += _of_status(view, found, status, rows)
    return sorted(_merged(causes), key=lambda cause: -cause.nodes)


def _of_all(view: View, found: Feasibility, status: Status) -> Cause:
    """PreFilter refused the pod as a whole."""
    names = [info.name for info in view.snapshot.node_infos()]
    detail = volume_causes.claims_text(view, found.state.pod_info.pod) or status.message
    return Cause(
        plugin=status.plugin,
        reason=status.message,
        detail=detail,
        nodes=len(names),
        names=tuple(names[:MAX_NAMES]),
        eviction_may_help=status.code is Code.UNSCHEDULABLE,
    )


def _of_status(view: View, found: Feasibility, status: Status, rows: Codes) -> Iterator[Cause]:
    describe = DESCRIBE.get(status.plugin)
    for reason in status.reasons or ("refused without a reason",):
        groups = describe(view, found, reason, rows) if describe is not None else iter((Group(rows, reason),))
        for group in groups:
            yield _cause(view, status, reason, group)


def _cause(view: View, status: Status, reason: str, group: Group) -> Cause:
    infos = [view.snapshot.infos[row] for row in group.rows[:MAX_NAMES].tolist()]
    return Cause(
        plugin=status.plugin,
        reason=reason,
        detail=group.detail,
        nodes=len(group.rows),
        names=tuple(info.name for info in infos if info is not None),
        eviction_may_help=status.code is Code.UNSCHEDULABLE,
        gap=group.gap,
    )


def _merged(causes: Sequence[Cause]) -> list[Cause]:
    """The same detail under two statuses (nodes that lack memory too, or not) is one cause."""
    merged: dict[tuple[str, str, str], Cause] = {}
    for cause in causes:
        key = (cause.plugin, cause.reason, cause.detail if cause.gap is None else "")
        known = merged.get(key)
        merged[key] = cause if known is None else _joined(known, cause)
    return list(merged.values())


def _joined(one: Cause, other: Cause) -> Cause:
    """Where amounts differ, the node that lacks least speaks for both."""
    better = other if other.eviction_may_help and not one.eviction_may_help else one
    return Cause(
        plugin=one.plugin,
        reason=one.reason,
        detail=better.detail,
        nodes=one.nodes + other.nodes,
        names=(*one.names, *other.names)[:MAX_NAMES],
        eviction_may_help=one.eviction_may_help or other.eviction_may_help,
        gap=better.gap,
    )


# --- resources ------------------------------------------------------------------------------------------------------


def _resources(view: View, found: Feasibility, reason: str, rows: Codes) -> Iterator[Group]:
    nodes = view.snapshot.nodes
    if reason == TOO_MANY_PODS:
        allocatable, row = nodes.allocatable("pods")[rows], int(rows[0])
        same = f"{int(allocatable[0])} pods" if np.all(allocatable == allocatable[0]) else "as many pods as they may"
        info = nodes.info(row)
        yield Group(rows, f"{same} on each already" if len(rows) > 1 else f"{info.requested['pods']} pods already")
        return
    resource = reason.removeprefix(insufficient(""))
    gap, most = gap_of(view, found, resource, rows)
    yield Group(rows, _gap_text(gap, most >= found.state.pod_info.shape.requests.get(resource, 0), len(rows)), gap)


def gap_of(view: View, found: Feasibility, resource: str, rows: Codes) -> tuple[ResourceGap, float]:
    """The gap on the one of the rows that lacks least, and the largest allocatable amount among them."""
    nodes = view.snapshot.nodes
    wanted = found.state.pod_info.shape.requests.get(resource, 0)
    free, allocatable = nodes.free(resource)[rows], nodes.allocatable(resource)[rows]
    # Among nodes that could ever take the pod, if there are any: freeing a node that is too small leads nowhere.
    fair = np.where(allocatable >= wanted, free, -np.inf) if (allocatable >= wanted).any() else free
    best = int(rows[int(np.argmax(fair))])
    info = nodes.info(best)
    have, used = info.allocatable.get(resource, 0), info.requested.get(resource, 0)
    gap = ResourceGap(
        resource=resource,
        wanted=amount(resource, wanted),
        node=info.name,
        allocatable=amount(resource, have),
        requested=amount(resource, used),
        free=amount(resource, have - used),
        short=amount(resource, wanted - (have - used)),
    )
    return gap, float(allocatable.max())


def _gap_text(gap: ResourceGap, possible: bool, nodes: int) -> str:
    name = resource_name(gap.resource)
    if gap.allocatable == "0":
        return f"{gap.wanted} {name} requested, none there"
    if not possible:
        most = f"{gap.node} has" if nodes == 1 else "any of them has, the most is"
        where = "" if nodes == 1 else f" on {gap.node}"
        return f"{gap.wanted} {name} requested, more than {most} ({gap.allocatable}{where})"
    most = "free" if nodes == 1 else "at most free"
    numbers = f"{gap.allocatable} allocatable, {gap.requested} requested"
    return f"{gap.wanted} {name} requested, {gap.free} {most} on {gap.node} ({numbers}): {gap.short} short"


# --- taints ---------------------------------------------------------------------------------------------------------


def taint_text(taint: Taint) -> str:
    """`gpu=true:NoSchedule`, as kubectl spells taints."""
    return f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"


def first_untolerated(view: View, found: Feasibility, taints: Sequence[Taint]) -> Taint | None:
    """The taint that keeps the pod away."""
    comparison = view.handle.gate("TaintTolerationComparisonOperators")
    return find_untolerated(taints, found.state.pod_info.pod.spec.tolerations, comparison_operators=comparison)


def _taints(view: View, found: Feasibility, reason: str, rows: Codes) -> Iterator[Group]:
    codes = view.snapshot.nodes.taints[rows]
    by_text: dict[str, list[Codes]] = {}
    for code in np.unique(codes).tolist():
        taint = first_untolerated(view, found, view.snapshot.taint_sets.values[code])
        text = f"taint {taint_text(taint)}" if taint is not None else reason
        by_text.setdefault(text, []).append(rows[codes == code])
    for text, parts in by_text.items():
        yield Group(np.concatenate(parts), text)


def _cordoned(view: View, found: Feasibility, reason: str, rows: Codes) -> Iterator[Group]:
    yield Group(rows, "cordoned")


def _grouped(describe: Callable[[View, Feasibility, str, Codes], Iterator[tuple[Codes, str]]]) -> Describe:
    def groups(view: View, found: Feasibility, reason: str, rows: Codes) -> Iterator[Group]:
        return (Group(*each) for each in describe(view, found, reason, rows))

    return groups


DESCRIBE: dict[str, Describe] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordoned,
    "NodeAffinity": _grouped(label_causes.node_affinity),
    "NodePorts": _grouped(pod_causes.host_ports),
    "InterPodAffinity": _grouped(pod_causes.inter_pod_affinity),
    "PodTopologySpread": _grouped(pod_causes.topology_spread),
    "VolumeRestrictions": _grouped(volume_causes.in_use),
    "VolumeBinding": _grouped(volume_causes.claims),
    "VolumeZone": _grouped(volume_causes.claims),
    "NodeVolumeLimits": _grouped(volume_causes.limits),
}
