"""Explain one pod: find out where it stands, ask the engine, and put the answers into one document.

Without consequences: nothing is scheduled, evicted or measured. Live, it runs on the scheduler's event loop in pieces,
each of which sees one state of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kube.api.core import Pod
from podium.explain import verdict
from podium.explain.amounts import conjoined, listed, plural
from podium.explain.causes import causes_of
from podium.explain.documents import (
    Cause,
    Change,
    Explanation,
    Group,
    LastDecision,
    NearNode,
    NodeScore,
    Preemption,
    QueueState,
    Wake,
)
from podium.explain.extenders import Said, add_to_diagnosis, ask_extenders, causes_by_extenders
from podium.explain.groups import group_of
from podium.explain.nearest import near_nodes
from podium.explain.pieces import Pieces, Question, at_once
from podium.explain.preemption import preemption_of
from podium.explain.view import Cluster, View
from podium.explain.wakes import ANYTHING, wakes_of
from scheduler.extender_cycle import EXTENDER
from scheduler.framework.extender import Extender
from scheduler.framework.runtime import Feasibility
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.snapshot.pod_info import PodInfo, uid_of

#: nodes in a table of scores
BEST = 5
#: members of a group that a running podium tries for an explanation: it schedules nobody meanwhile
LIVE_MEMBERS = 200


@dataclass(slots=True)
class _Found:
    """What was found out so far. Owner: one call of `explain`."""

    state: str = "unschedulable"
    verdict: str = ""
    profile: str | None = None
    node: str | None = None
    message: str = ""
    node_count: int = 0
    feasible: int = 0
    causes: list[Cause] = field(default_factory=list)
    nearest: list[NearNode] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    preemption: Preemption | None = None
    wakes: list[Wake] = field(default_factory=list)
    group: Group | None = None
    scores: list[NodeScore] = field(default_factory=list)
    #: all nodes with the highest score
    best: list[str] = field(default_factory=list)


def explain(cluster: Cluster, pod: Pod, ask: Callable[[Question], Any] | None = None) -> Explanation:
    """Why the pod is where it is, or nowhere; at once. `ask` runs what extenders are asked."""
    return at_once(explaining(cluster, pod), ask)


def explaining(cluster: Cluster, pod: Pod, patience: float | None = None) -> Pieces[Explanation]:
    """The same in pieces. `patience`: seconds that a search for victims may take, None for all the time it needs."""
    found = _Found(node=cluster.place_of(pod) or None, node_count=cluster.cache.node_count())
    found.profile = cluster.profile_of(pod)
    if found.profile is None:
        found.state, found.verdict = "foreign", verdict.foreign(pod, cluster.frameworks)
        if found.node is not None:
            found.state = "running"
            found.verdict = f'it is on {found.node}, where scheduler "{pod.spec.scheduler_name}" put it'
        return _document(cluster, pod, found)
    view = View(cluster.frameworks[found.profile], cluster.cache)
    if found.node is not None:
        _explain_placed(cluster, view, pod, found.node, found)
    else:
        yield from _explain_pending(cluster, view, pod, found, patience)
        _add_group(view, pod, found, LIVE_MEMBERS if patience is not None else None)
    if pod.metadata.deletion_timestamp is not None:
        found.verdict = f"it is being deleted; {found.verdict}" if found.verdict else "it is being deleted"
        found.state = "terminating"
    return _document(cluster, pod, found)


# --- placed ---------------------------------------------------------------------------------------------------------


def _explain_placed(cluster: Cluster, view: View, pod: Pod, node: str, found: _Found) -> None:
    found.state = "running"
    with cluster.without(pod):
        asked = view.feasibility(view.info(pod))
        if asked.error is not None:
            found.verdict = f"it is on {node}; judging it now ends in an error: {asked.error.message}"
            return
        info = view.snapshot.info(node)
        if info is None:
            found.verdict = f"it is on {node}, and that node is gone"
            return
        refusal = view.refusal(asked, info)
        found.feasible = int(asked.mask.sum()) if asked.rejection is None else 0
        found.scores, found.best = _scores(view, asked, node)
        found.verdict = verdict.running(
            node, found.scores, found.best, found.feasible, refusal.message if refusal else ""
        )
    if not pod.spec.node_name:
        plugins = _asked_to_wait(view, pod)
        found.state, found.verdict = "binding", verdict.binding(node, plugins)
        found.group = group_of(view, pod, LIVE_MEMBERS) if plugins else None
        if found.group is not None:
            found.verdict += f"; {found.group.text}"
    view.snapshot.refresh()


def _asked_to_wait(view: View, pod: Pod) -> Sequence[str]:
    """The Permit plugins that have not let it go yet."""
    waiting = view.handle.waiting_pods.get(uid_of(pod))
    return sorted(waiting.deadlines) if waiting is not None else ()


def _scores(
    view: View, asked: Feasibility, own: str = "", extra: Mapping[str, Mapping[str, int]] | None = None
) -> tuple[list[NodeScore], list[str]]:
    """The best nodes and the pod's own, by total, then by name; and the names of all that are equally best.

    `extra`: what others than plugins add, by who and node.
    """
    scores = view.scores(asked)
    if scores is None:
        return [], []
    names = [info.name for _, info in scores.view.infos()]
    parts = {plugin: values.tolist() for plugin, values in scores.by_plugin().items()}
    total = scores.total.tolist()
    for who, added in (extra or {}).items():
        parts[who] = [added.get(name, 0) for name in names]
        total = [sum(pair) for pair in zip(total, parts[who], strict=True)]
    order = sorted(range(len(names)), key=lambda i: (-total[i], names[i] != own, names[i]))
    chosen = order[:BEST]
    if own in names and names.index(own) not in chosen:
        chosen.append(names.index(own))
    best = [names[i] for i in order if total[i] == total[order[0]]]
    return [
        NodeScore(
            node=names[i],
            total=int(total[i]),
            plugins={name: int(values[i]) for name, values in parts.items()},
        )
        for i in chosen
    ], best


# --- pending --------------------------------------------------------------------------------------------------------


def _explain_pending(cluster: Cluster, view: View, pod: Pod, found: _Found, patience: float | None) -> Pieces[None]:
    status = view.engine.run_pre_enqueue(pod)
    if status is not None:
        found.state, found.message = "gated", status.message
        found.verdict = verdict.gated(pod, status.message)
        found.wakes = wakes_of(view.engine, {status.plugin})
        return
    info = view.info(pod)
    view.now(info)
    yield None
    asked = view.now(info)
    if asked.error is not None:
        found.state, found.message = "error", asked.error.message
        found.verdict = f"judging it ends in an error: {asked.error.message}"
        return
    if asked.rejection is not None or not len(asked.rows()):
        yield from _explain_refused(view, info, found, patience)
    else:
        yield from _explain_passing(cluster, view, info, found)
    _add_waiting(cluster, pod, found)


def _explain_passing(cluster: Cluster, view: View, info: PodInfo, found: _Found) -> Pieces[None]:
    """Some nodes pass the filters: extenders may still refuse them."""
    asked, extenders = view.now(info), view.engine.interested_extenders(info.pod)
    if not cluster.asks or not extenders:
        _explain_fitting(view, asked, found)
        _add_extenders(extenders, found)
        return
    names = [view.snapshot.nodes.info(row).name for row in asked.rows().tolist()]
    said: Said = yield from ask_extenders(extenders, info.pod, names)
    asked = view.now(info)
    if said.error and cluster.queue is None:
        # Elsewhere than in its cluster an extender is often out of reach.
        _explain_fitting(view, asked, found)
        _add_extenders(extenders, found)
        found.verdict += f" (which could not be asked: {said.error})"
        return
    if said.error:
        found.state, found.message = "error", said.error
        found.verdict = f"judging it ends in an error: {said.error}"
        return
    left = view.among(asked, said.names)
    if len(left.rows()):
        _explain_fitting(view, left, found, said.scores)
        return
    diagnosis = view.engine.diagnose(asked)
    found.causes = sorted((*causes_by_extenders(said), *causes_of(view, asked, diagnosis)), key=lambda c: -c.nodes)
    add_to_diagnosis(view, diagnosis, said)
    found.message = diagnosis.message()
    found.wakes = [Wake(plugin=EXTENDER, events=(ANYTHING,)), *wakes_of(view.engine, diagnosis.unschedulable_plugins)]
    found.verdict = verdict.unschedulable(found.causes, found.node_count, (), (), None)


def _explain_fitting(
    view: View, asked: Feasibility, found: _Found, extra: Mapping[str, Mapping[str, int]] | None = None
) -> None:
    found.state = "fits"
    found.feasible = len(asked.rows())
    if found.feasible > 1:
        found.scores, found.best = _scores(view, asked, extra=extra or {})
    only = view.snapshot.nodes.info(int(asked.rows()[0])).name
    found.verdict = verdict.fits(found.scores, found.best, found.feasible, found.node_count, only)


def _explain_refused(view: View, info: PodInfo, found: _Found, patience: float | None) -> Pieces[None]:
    asked = view.now(info)
    diagnosis = view.engine.diagnose(asked)
    message = ""
    if found.node_count:
        found.causes = causes_of(view, asked, diagnosis)
    refusing = set(diagnosis.unschedulable_plugins)
    found.message = diagnosis.message()
    yield None
    if found.node_count:
        found.preemption, message = yield from preemption_of(view, info, patience)
        found.nearest, found.changes = yield from near_nodes(view, info)
    found.wakes = wakes_of(view.engine, refusing)
    found.message += f" preemption: {message}" if message else ""
    found.verdict = verdict.unschedulable(
        found.causes, found.node_count, found.nearest, found.changes, found.preemption
    )


def _add_extenders(extenders: Sequence[Extender], found: _Found) -> None:
    """They were not asked: they may say no."""
    names = [extender.name for extender in extenders]
    if names:
        found.verdict += f", if {conjoined(names, 'and')} let{'s' if len(names) == 1 else ''} it"


def _add_waiting(cluster: Cluster, pod: Pod, found: _Found) -> None:
    """What the queue and a nomination add to the sentence."""
    nominated = pod.status.nominated_node_name
    if nominated:
        leaving = _leaving(cluster, nominated)
        found.state = "nominated"
        waits = f"for {listed(leaving, 3)} to terminate" if leaving else "for its turn"
        found.verdict = f"preemption nominated it to {nominated}, where it waits {waits}; {found.verdict}"
    queued = cluster.queue.get(uid_of(pod)) if cluster.queue is not None else None
    if queued is None or cluster.queue is None:
        return
    item, pool = queued
    if pool == "backoff":
        found.state = "backoff" if found.state == "fits" else found.state
        seconds = max(item.backoff_expiration - cluster.queue.now(), 0)
        why = plural(item.attempts, "failed attempt")
        found.verdict += f"; it is in backoff after {why}, for another {seconds:.0f} s"
    elif pool == "active":
        found.verdict += "; it is in activeQ and will be tried next to its peers"


def _add_group(view: View, pod: Pod, found: _Found, most: int | None) -> None:
    """Whoever waits for siblings is told so first: that it fits by itself does not help it."""
    found.group = group_of(view, pod, most)
    if found.group is not None:
        alone = "" if found.state == "gated" else f"; by itself {found.verdict}"
        found.verdict = found.group.text + alone
        if found.state == "fits" and found.group.members and found.group.fitting < max(found.group.min_count, 1):
            found.state = "unschedulable"


def _leaving(cluster: Cluster, node: str) -> list[str]:
    info = cluster.cache.nodes.get(node)
    return [pod.key for pod in info.pods.values() if pod.terminating] if info is not None else []


# --- the document -----------------------------------------------------------------------------------------------------


def _document(cluster: Cluster, pod: Pod, found: _Found) -> Explanation:
    meta = pod.metadata
    queued = cluster.queue.get(uid_of(pod)) if cluster.queue is not None else None
    text = found.verdict
    return Explanation(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        state=found.state,
        verdict=text[:1].upper() + text[1:] + ("" if text.endswith("?") else "."),
        scheduler_name=pod.spec.scheduler_name,
        profile=found.profile,
        priority=pod.spec.priority or 0,
        node=found.node,
        nominated_node=pod.status.nominated_node_name or None,
        message=found.message,
        node_count=found.node_count,
        feasible=found.feasible,
        causes=tuple(found.causes),
        nearest=tuple(found.nearest),
        changes=tuple(found.changes),
        preemption=found.preemption,
        wakes=tuple(found.wakes),
        scores=tuple(found.scores),
        group=found.group,
        queue=_queue_state(cluster, *queued) if queued is not None else None,
        last_decision=_last_decision(cluster, pod),
    )


def _queue_state(cluster: Cluster, item: QueuedPodInfo, pool: str) -> QueueState:
    assert cluster.queue is not None
    clock = cluster.queue.now()
    left = item.backoff_expiration - clock
    in_backoff = pool == "backoff"
    return QueueState(
        pool=pool,
        attempts=item.attempts,
        waiting=round(max(clock - item.timestamp, 0.0), 3),
        backoff_until=time_text(cluster.now() + left) if in_backoff else None,
        backoff_seconds=round(max(left, 0.0), 3) if in_backoff else None,
    )


def time_text(seconds: float) -> str:
    """RFC 3339 with seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _last_decision(cluster: Cluster, pod: Pod) -> LastDecision | None:
    uid = uid_of(pod)
    last = next((d for d in cluster.decisions if d.uid == uid), None) if cluster.decisions is not None else None
    if last is None:
        return None
    return LastDecision(
        time=time_text(last.time), result=last.result, node=last.node, message=last.message, attempt=last.attempt
    )
