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
from podium.explain import device_causes, label_causes, pod_causes, volume_causes
from podium.explain.amounts import amount, listed, resource_name
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
    #: a few words, to be put behind a number of nodes
    brief: str
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
        causes += [
            _cause(
                view,
                status,
                status.message,
                Group(rows, label_causes.named_nodes(view, found), "not among the nodes it may go to"),
            )
        ]
    for refused in diagnosis.refused:
        for number, status in enumerate(refused.refusals.statuses):
            rows = refused.rows[refused.refusals.which == number]
            if len(rows):
                causes += _of_status(view, found, status, rows)
    return sorted(_merged(causes), key=lambda cause: -cause.nodes)


def _of_all(view: View, found: Feasibility, status: Status) -> Cause:
    """PreFilter refused the pod as a whole."""
    names = [info.name for info in view.snapshot.node_infos()]
    volumes = volume_causes.claims_text(view, found.state.pod_info.pod) if status.plugin.startswith("Volume") else ""
    detail = volumes or status.message
    return Cause(
        plugin=status.plugin,
        reason=status.message,
        detail=detail,
        brief=status.message,
        nodes=len(names),
        names=tuple(names[:MAX_NAMES]),
        eviction_may_help=status.code is Code.UNSCHEDULABLE,
    )


def _of_status(view: View, found: Feasibility, status: Status, rows: Codes) -> Iterator[Cause]:
    for reason in status.reasons or ("refused without a reason",):
        for group in described(view, found, status.plugin, reason, rows):
            yield _cause(view, status, reason, group)


def described(view: View, found: Feasibility, plugin: str, reason: str, rows: Codes) -> Iterator[Group]:
    """Rows that a plugin refused for a reason, in groups of which there is more to say."""
    describe = DESCRIBE.get(plugin)
    if describe is not None:
        return describe(view, found, reason, rows)
    return iter((Group(rows, reason, reason.removeprefix("node(s) ")),))


def _cause(view: View, status: Status, reason: str, group: Group) -> Cause:
    infos = [view.snapshot.infos[row] for row in group.rows[:MAX_NAMES].tolist()]
    return Cause(
        plugin=status.plugin,
        reason=reason,
        detail=group.detail,
        brief=group.brief,
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
        brief=better.brief,
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
        info = nodes.info(row)
        limit = info.allocatable.get("pods", 0)
        same = f"{limit} pods are" if np.all(allocatable == limit) else "as many pods as allowed are"
        brief = f"full ({info.requested['pods']} of {limit} pods)" if len(rows) == 1 else "full of pods"
        yield Group(rows, f"{same} on {'each' if len(rows) > 1 else info.name} already", brief)
        return
    resource = reason.removeprefix(insufficient(""))
    kept = nodes.free(resource)[rows] >= found.state.pod_info.shape.requests.get(resource, 0)
    if kept.any():
        yield _kept_for_nominated(view, found, resource, rows[kept])
        rows = rows[~kept]
    if not len(rows):
        return
    gap, most = gap_of(view, found, resource, rows)
    possible = most >= found.state.pod_info.shape.requests.get(resource, 0)
    yield Group(rows, _gap_text(gap, possible, len(rows)), gap_brief(gap, possible), gap)


def _kept_for_nominated(view: View, found: Feasibility, resource: str, rows: Codes) -> Group:
    """There is room, but pods that preemption nominated to these nodes are to have it."""
    info = view.snapshot.nodes.info(int(rows[0]))
    free = amount(resource, info.allocatable.get(resource, 0) - info.requested.get(resource, 0))
    names = [pod.key for pod in view.engine.nominated_rows(found.state.pod_info).get(int(rows[0]), ())]
    detail = f"{free} {resource_name(resource)} free on {info.name}, but kept for nominated {listed(names, 3)}"
    return Group(rows, detail, f"kept for nominated {listed(names, 1)}")


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


def gap_brief(gap: ResourceGap, possible: bool) -> str:
    """`short of CPU (n7 by 250m)`."""
    name = resource_name(gap.resource)
    if gap.allocatable == "0":
        return f"without {name}"
    return (
        f"short of {name} ({gap.node} by {gap.short})"
        if possible
        else f"too small in {name} (at most {gap.allocatable})"
    )


def _gap_text(gap: ResourceGap, possible: bool, nodes: int) -> str:
    name = resource_name(gap.resource)
    if gap.allocatable == "0":
        return f"{gap.wanted} {name} requested, none there"
    if not possible:
        most = f"{gap.node} has" if nodes == 1 else f"any of them has, {gap.node} the most"
        return f"{gap.wanted} {name} requested, more than {most} ({gap.allocatable})"
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
        text = taint_text(taint) if taint is not None else reason
        by_text.setdefault(text, []).append(rows[codes == code])
    for text, parts in by_text.items():
        yield Group(np.concatenate(parts), f"taint {text}", f"with taint {text}")


def _cordoned(view: View, found: Feasibility, reason: str, rows: Codes) -> Iterator[Group]:
    yield Group(rows, "cordoned", "cordoned")


def _grouped(describe: Callable[[View, Feasibility, str, Codes], Iterator[tuple[Codes, str, str]]]) -> Describe:
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
    "DynamicResources": _grouped(device_causes.devices),
}
