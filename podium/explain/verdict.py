"""The verdict: one sentence that says why a pod is where it is, or nowhere. Pure functions of what was found."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Sequence

from kube.api.core import Pod
from podium.explain.amounts import conjoined, listed, plural
from podium.explain.documents import Cause, Change, NearNode, NodeScore, Preemption

#: causes named in the sentence
NAMED = 3


def foreign(pod: Pod, profiles: Collection[str]) -> str:
    """A pod that no profile claims."""
    name, served = pod.spec.scheduler_name, conjoined(sorted(profiles))
    if not name:
        return f"it names no scheduler in spec.schedulerName, and this one serves {served}"
    close = difflib.get_close_matches(name, profiles, 1, 0.75)
    if close:
        return f'nobody schedules it: spec.schedulerName is "{name}", did you mean "{close[0]}"?'
    return f'it belongs to another scheduler: spec.schedulerName is "{name}", this one serves {served}'


def gated(pod: Pod, message: str) -> str:
    """A pod that a PreEnqueue plugin keeps out of the queue."""
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if gates:
        whose = "scheduling gate" if len(gates) == 1 else "scheduling gates"
        return f"it is not scheduled before its {whose} {conjoined(gates)} {'is' if len(gates) == 1 else 'are'} removed"
    return f"it is kept out of the queue: {message}"


def running(node: str, scores: Sequence[NodeScore], best: Sequence[str], feasible: int, refused: str) -> str:
    """A pod on a node, judged as if it were to be placed now."""
    if refused:
        return f"it is on {node}, and would not fit there any more: {refused}"
    if feasible == 1:
        return f"it is on {node}, the only node that it fits on"
    mine = next((score for score in scores if score.node == node), None)
    if mine is None or not scores:
        return f"it is on {node}, one of {plural(feasible, 'node')} that it fits on"
    if node in best:
        equal = [name for name in best if name != node]
        also = f", as good as {listed(equal, 2)}" if equal else ""
        return f"it is on {node}, which is still the best of {plural(feasible, 'node')} that it fits on{also}"
    return f"it is on {node} (score {mine.total}); {best[0]} would win now (score {scores[0].total})"


def binding(node: str, plugins: Sequence[str]) -> str:
    """A pod that was placed, and that the API server does not show on its node yet."""
    waits = f", once {conjoined(plugins)} {'allows' if len(plugins) == 1 else 'allow'} it" if plugins else ""
    return f"a node was found for it: it is about to be bound to {node}{waits}"


def fits(scores: Sequence[NodeScore], best: Sequence[str], feasible: int, nodes: int, only: str) -> str:
    """A pending pod that could be placed."""
    if nodes == 1:
        return f"it fits on {only}, the only node"
    if feasible == 1:
        return f"it fits on {only}, and on no other of {plural(nodes, 'node')}"
    if not scores:
        return f"it fits on {feasible} of {plural(nodes, 'node')}"
    place = f"the best is {best[0]}" if len(best) == 1 else f"the best are {listed(best, 3)}"
    return f"it fits on {feasible} of {plural(nodes, 'node')}, {place} (score {scores[0].total})"


def unschedulable(
    causes: Sequence[Cause],
    nodes: int,
    near: Sequence[NearNode],
    changes: Sequence[Change],
    preemption: Preemption | None,
) -> str:
    """A pod that fits nowhere: the causes of most nodes, and the smallest change that helps."""
    if not nodes:
        return "there are no nodes to schedule it on"
    if len(causes) == 1 and causes[0].nodes == nodes and nodes > 1:
        text = f"it fits on none of {plural(nodes, 'node')}: {causes[0].detail}"
    else:
        counts: Counter[str] = Counter()
        for cause in causes:
            counts[cause.brief] += cause.nodes
        parts = [f"{number:,} {brief}" for brief, number in counts.most_common(NAMED)]
        rest = len(counts) - NAMED
        more = f" and {plural(rest, 'more cause')}" if rest > 0 else ""
        text = f"it fits on none of {plural(nodes, 'node')}: {', '.join(parts)}{more}"
        if nodes == 1:
            text = f"it does not fit on the only node: {causes[0].detail}" if causes else text
    return text + _way_out(near, changes, preemption)


def _way_out(near: Sequence[NearNode], changes: Sequence[Change], preemption: Preemption | None) -> str:
    if preemption is not None and preemption.node:
        return f"; preemption would make room on {preemption.node}"
    if changes:
        where = f"on {changes[0].names[0]}" if changes[0].nodes == 1 else f"on {plural(changes[0].nodes, 'node')}"
        return f"; it would fit {where} if you {changes[0].text}"
    for node in near:
        if node.changes:
            return f"; it would fit on {node.node} if you {conjoined(node.changes)}"
    for node in near:
        if node.without_pods:
            return f"; it would fit on {node.node} without {listed(node.without_pods, 2)}"
    return ""
