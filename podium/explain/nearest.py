"""The nearest nodes: which ones nearly take the pod, and what it would take, each answer checked by the engine.

A change of the pod is checked by asking all filters about the changed pod on all nodes; a change of a node, or pods
leaving it, by asking them about a clone of that node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from kube.api.core import Pod
from podium.explain.amounts import conjoined, resource_name
from podium.explain.causes import described
from podium.explain.changes import CORDONED, Fix, propose
from podium.explain.documents import MAX_NAMES, Change, NearNode
from podium.explain.pieces import Pieces
from podium.explain.view import View
from scheduler.framework.runtime import Feasibility
from scheduler.framework.status import Status
from scheduler.snapshot.columns import Codes, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo

#: nodes shown, and nodes for which changes are worked out
SHOWN = 5
TRIED = 8
#: nodes that the same filters refuse, among those shown
ALIKE = 2
#: changes of one answer at the most
MOST_FIXES = 4
#: pods that would have to go at the most
MOST_GONE = 5
#: what neither the pod's author nor a node's owner can change easily
_FIXED = frozenset({"NodeName", "VolumeZone", "VolumeBinding", "DynamicResources"})
_MIRROR = "kubernetes.io/config.mirror"


@dataclass(slots=True)
class Attempted:
    """A node and the changes that were tried for it."""

    info: NodeInfo
    refusing: list[Status]
    fixes: list[Fix] = field(default_factory=list)
    #: the pod with all changes, where it fits with them
    pod: Pod | None = None
    without: list[PodInfo] = field(default_factory=list)
    #: what there is to tell of it
    told: NearNode | None = None

    @property
    def is_solved(self) -> bool:
        """Something was found."""
        return self.pod is not None or bool(self.without)


def near_nodes(view: View, info: PodInfo) -> Pieces[tuple[list[NearNode], list[Change]]]:
    """The nodes that lack least, and the changes of the pod after which it fits somewhere."""
    found = view.now(info)
    if found.rejection is not None or found.error is not None:
        return [], []
    names = [view.snapshot.nodes.info(row).name for row in _rows_to_try(view, found)]
    yield None
    tried: list[Attempted] = []
    for name in names:
        tried += _attempted(view, info, name)
        yield None
    solved = [each for each in tried if each.is_solved]
    shown = _varied([*solved, *(each for each in tried if not each.is_solved)])
    changes = yield from _changes(view, tried)
    return [each.told for each in shown if each.told is not None], changes


def _attempted(view: View, info: PodInfo, name: str) -> Iterator[Attempted]:
    """Meanwhile the node may be gone, or take the pod."""
    found, node = view.now(info), view.snapshot.info(name)
    if node is None or node.row < 0 or found.rejection is not None or found.error is not None:
        return
    tried = _attempt(view, found, node)
    if tried.refusing:
        tried.told = _near(view, found, tried)
        yield tried


# --- which nodes ------------------------------------------------------------------------------------------------------


def _rows_to_try(view: View, found: Feasibility) -> list[int]:
    """The nearest rows first, and the nearest of each set of refusing filters before its second."""
    alive = view.snapshot.nodes.all.nonzero()[0]
    distance, kinds = _distances(view, found, alive)
    order = np.argsort(distance, kind="stable")
    rank: dict[int, int] = {}
    ranked: list[tuple[int, int, int]] = []
    for i in order.tolist():
        kind = int(kinds[i])
        rank[kind] = rank.get(kind, -1) + 1
        if rank[kind] < TRIED:
            ranked.append((rank[kind] // ALIKE, len(ranked), int(alive[i])))
        if len(ranked) >= 100 * TRIED:
            break
    return [row for _, _, row in sorted(ranked)[:TRIED]]


def _distances(view: View, found: Feasibility, rows: Codes) -> tuple[Vector, Codes]:
    """How far each row is from fitting, and a number for the set of filters that refuse it."""
    distance, kinds = np.zeros(len(rows)), np.zeros(len(rows), np.intp)
    masks = dict(zip([p.name for p in found.entry.filters], found.entry.masks, strict=True)) | found.asked
    if found.candidates is not None:
        masks["candidates"] = found.candidates
    for bit, (name, mask) in enumerate(masks.items()):
        refused = ~mask[rows]
        distance += refused * (4.0 if name in _FIXED else 1.0)
        kinds += refused.astype(np.intp) << bit
    return distance + _shortage(view, found, rows), kinds


def _shortage(view: View, found: Feasibility, rows: Codes) -> Vector:
    """Below 1, so that it decides among nodes that as many filters refuse."""
    nodes = view.snapshot.nodes
    total = np.zeros(len(rows))
    requests = found.state.pod_info.shape.requests
    for resource, wanted in requests.items():
        if wanted > 0:
            total += np.clip((wanted - nodes.free(resource)[rows]) / wanted, 0, None)
    shortage: Vector = total / (1 + total)
    return shortage


def _varied(tried: list[Attempted]) -> list[Attempted]:
    """Not five times the same."""
    shown: list[Attempted] = []
    for each in tried:
        alike = [other for other in shown if _names(other.refusing) == _names(each.refusing)]
        if len(alike) < ALIKE and len(shown) < SHOWN:
            shown.append(each)
    return shown


def _names(statuses: Iterable[Status]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(status.plugin for status in statuses))


# --- what it would take -----------------------------------------------------------------------------------------------


def _attempt(view: View, found: Feasibility, info: NodeInfo) -> Attempted:
    tried = Attempted(info, view.refusing(found, info))
    pod, asked, node = found.state.pod_info.pod, found, info
    for _ in range(MOST_FIXES + 1):
        status = view.refusal(asked, node)
        if status is None:
            tried.pod = pod
            break
        fix = propose(view, asked, status, node) if len(tried.fixes) < MOST_FIXES else None
        if fix is None:
            tried.fixes.clear()
            break
        tried.fixes.append(fix)
        if fix.pod is not None:
            pod = fix.pod
            asked = view.feasibility(view.info(pod))
        elif fix.node is not None:
            node = node.clone()
            node.set_node(fix.node)
    tried.without = _in_the_way(view, found, info)
    return tried


def _in_the_way(view: View, found: Feasibility, info: NodeInfo) -> list[PodInfo]:
    """The fewest pods, the least important first, without which the pod fits there; empty where that does not help."""
    refused = view.refusing(found, info)
    by_name = {plugin.name: plugin for plugin in view.engine.filters}
    if any(s.plugin in by_name and not by_name[s.plugin].depends_on_pods for s in refused):
        return []
    pods = sorted((p for p in info.pods.values() if _may_go(p)), key=lambda p: (p.priority, _size(p)))
    if not pods or not view.fits(*view.without_pods(found, info, pods)):
        return []
    short = _short(found, info)
    for pod in pods:
        enough = all(pod.requests.get(resource, 0) >= missing for resource, missing in short.items())
        if enough and view.fits(*view.without_pods(found, info, [pod])):
            return [pod]
    return _several(view, found, info, pods)


def _several(view: View, found: Feasibility, info: NodeInfo, pods: list[PodInfo]) -> list[PodInfo]:
    """Take pods off, the least important and largest first, until it fits; then put back what need not go."""
    order = sorted(pods, key=lambda p: (p.priority, -_size(p)))
    gone: list[PodInfo] = []
    for pod in order[: 4 * MOST_GONE]:
        gone.append(pod)
        if view.fits(*view.without_pods(found, info, gone)):
            break
    else:
        return []
    for pod in list(gone):
        others = [each for each in gone if each is not pod]
        if others and view.fits(*view.without_pods(found, info, others)):
            gone = others
    return gone if len(gone) <= MOST_GONE else []


def _short(found: Feasibility, info: NodeInfo) -> dict[str, int]:
    requests = found.state.pod_info.shape.requests
    missing = {
        resource: wanted - info.allocatable.get(resource, 0) + info.requested.get(resource, 0)
        for resource, wanted in requests.items()
    }
    return {resource: n for resource, n in missing.items() if n > 0}


def _may_go(pod: PodInfo) -> bool:
    """Static pods belong to their node, and pods of DaemonSets come back."""
    meta = pod.pod.metadata
    return _MIRROR not in meta.annotations and not any(owner.kind == "DaemonSet" for owner in meta.owner_references)


def _size(pod: PodInfo) -> float:
    """CPU cores and 4 GiB of memory weigh the same."""
    return pod.requests.get("cpu", 0) / 1000 + pod.requests.get("memory", 0) / 2**32


# --- in words ---------------------------------------------------------------------------------------------------------


def _near(view: View, found: Feasibility, tried: Attempted) -> NearNode:
    cordoned = any(status.plugin == "NodeUnschedulable" for status in tried.refusing)
    lacks = tuple(
        text
        for status in tried.refusing
        for text in _lacks(view, found, status, tried.info)
        if not (cordoned and CORDONED in text)
    )
    without = tuple(f"{pod.key} (priority {pod.priority})" for pod in tried.without)
    changes = tuple(fix.text for fix in tried.fixes)
    options = []
    if without:
        options.append(f"fits without {'pod' if len(without) == 1 else 'pods'} {conjoined(without)}")
    if changes:
        options.append(f"fits if you {conjoined(changes)}" if not without else f"or {conjoined(changes)}")
    return NearNode(
        node=tried.info.name,
        refused_by=_names(tried.refusing),
        lacks=lacks,
        changes=changes,
        without_pods=tuple(pod.key for pod in tried.without),
        text="; ".join([conjoined(lacks), *options]),
    )


def _lacks(view: View, found: Feasibility, status: Status, info: NodeInfo) -> Iterator[str]:
    row = np.array([info.row], np.intp)
    for reason in status.reasons:
        for group in described(view, found, status.plugin, reason, row):
            gap = group.gap
            yield f"{gap.short} {resource_name(gap.resource)} short" if gap is not None else group.brief


def _changes(view: View, tried: list[Attempted]) -> Pieces[list[Change]]:
    """The pods' changes among the answers, each asked about all nodes; the least change first."""
    options: dict[frozenset[str], Attempted] = {}
    for each in tried:
        if each.pod is not None and each.fixes and all(fix.pod is not None for fix in each.fixes):
            options.setdefault(frozenset(fix.text for fix in each.fixes), each)
    # What already helps with less is no news.
    least = [each for parts, each in options.items() if not any(other < parts for other in options)]
    made = []
    for each in least:
        made.append((sum(fix.cost for fix in each.fixes), _change(view, each)))
        yield None
    made.sort(key=lambda item: (round(item[0], 2), -item[1].nodes))
    return [change for _, change in made if change.nodes]


def _change(view: View, tried: Attempted) -> Change:
    assert tried.pod is not None
    found = view.feasibility(view.info(tried.pod))
    rows = found.rows() if not found.rejection and not found.error else np.zeros(0, np.intp)
    names = [view.snapshot.nodes.info(int(row)).name for row in rows[:MAX_NAMES]]
    text = conjoined([fix.text for fix in tried.fixes])
    return Change(text=text, kinds=tuple(fix.kind for fix in tried.fixes), nodes=len(rows), names=tuple(names))
