"""The runtime of a profile: runs its plugins at each extension point, in order, by the rules of facts 1.2.

Owner: the scheduler, one per profile. Everything up to Permit is synchronous and runs on one snapshot;
PreBind and Bind await. The runtime knows no plugin by name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from kube.api.core import Pod
from scheduler.framework import shape_cache
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.extender import Extender
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Refusals,
    ReservePlugin,
    Scope,
    ScorePlugin,
)
from scheduler.framework.shape_cache import ASK, ShapeCache, ShapeEntry
from scheduler.framework.shape_patch import patch
from scheduler.framework.status import SUCCESS, Code, Status, error, failed, unresolvable, unschedulable
from scheduler.framework.waiting_pods import WaitingPod
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes

log = logging.getLogger(__name__)

#: (extension point, status, seconds)
Observer = Callable[[str, str, float], None]


def unobserved(point: str, status: str, seconds: float) -> None:
    """Nobody measures."""


@dataclass(frozen=True, slots=True)
class EnabledPlugins:
    """The plugins of a profile, per extension point and in run order; scores with their weights."""

    points: dict[str, tuple[Any, ...]]
    weights: dict[str, int]


@dataclass(slots=True)
class Feasibility:
    """Where a pod can go: the outcome of PreFilter and Filter."""

    state: CycleState
    nodes: Nodes
    entry: ShapeEntry
    #: `(rows,)` bool; meaningless after a rejection or an error
    mask: Mask
    #: (plugin, mask) of the filters that were asked in this cycle, in plugin order with the kept ones left out
    asked: dict[str, Mask] = field(default_factory=dict)
    #: rows inside the node set of PreFilter; None: all
    candidates: Mask | None = None
    absent: Status | None = None
    #: the PreFilter plugins that named that set: an event of any of them may widen it
    naming: tuple[str, ...] = ()
    #: rows that nominated pods decided, with the status of the first pass
    overrides: dict[int, Status] = field(default_factory=dict)
    rejection: Status | None = None
    error: Status | None = None

    def rows(self) -> Codes:
        """The feasible rows."""
        rows: Codes = self.mask.nonzero()[0]
        return rows


@dataclass(slots=True)
class Scores:
    """How good the feasible nodes are."""

    view: Nodes
    #: `(size,)` Σ weight·score
    total: Vector
    feasibility: Feasibility
    #: plugins asked in this cycle: name -> weighted scores
    asked: dict[str, Vector] = field(default_factory=dict)

    def by_plugin(self) -> dict[str, Vector]:
        """name -> `(size,)` weighted final scores of every plugin that scored."""
        entry, state = self.feasibility.entry, self.feasibility.state
        parts = {name: np.full(self.view.size, score) for name, score in entry.constants.items()}
        for i, (plugin, weight) in enumerate(entry.scores):
            parts[plugin.name] = weight * shape_cache.normalized(entry, i, state, self.view)
        return parts | self.asked


class Framework:
    """One profile's plugins at work."""

    def __init__(self, profile: str, enabled: EnabledPlugins, handle: Handle, observe: Observer = unobserved) -> None:
        self.profile = profile
        self.handle = handle
        self.snapshot = handle.snapshot
        self.observe = observe
        points = enabled.points
        self.pre_enqueue: tuple[PreEnqueuePlugin, ...] = points.get("preEnqueue", ())
        self.queue_sort: QueueSortPlugin = points["queueSort"][0]
        self.pre_filter: tuple[PreFilterPlugin, ...] = points.get("preFilter", ())
        self.filters: tuple[FilterPlugin, ...] = points.get("filter", ())
        self.post_filter: tuple[PostFilterPlugin, ...] = points.get("postFilter", ())
        self.scores: tuple[tuple[ScorePlugin, float], ...] = tuple(
            (plugin, float(enabled.weights.get(plugin.name, 1))) for plugin in points.get("score", ())
        )
        self.pre_score: tuple[PreScorePlugin, ...] = points.get("preScore", ())
        self.reserve_plugins: tuple[ReservePlugin, ...] = points.get("reserve", ())
        self.permit: tuple[PermitPlugin, ...] = points.get("permit", ())
        self.pre_bind: tuple[PreBindPlugin, ...] = points.get("preBind", ())
        self.bind_plugins: tuple[BindPlugin, ...] = points.get("bind", ())
        self.post_bind: tuple[PostBindPlugin, ...] = points.get("postBind", ())
        self.shapes = ShapeCache()
        self._kept_filters = [
            p for p in self.filters if p.scope is not Scope.CLUSTER and not p.sparse and not p.is_scalar()
        ]
        kept = {p.name for p in self._kept_filters}
        self._asked_filters = [p for p in self.filters if p.name not in kept]
        self._kept_scores = [(p, w) for p, w in self.scores if p.scope is not Scope.CLUSTER and not p.is_scalar()]
        kept_scores = {p.name for p, _ in self._kept_scores}
        self._asked_scores = [(p, w) for p, w in self.scores if p.name not in kept_scores]
        self._asked_pre_scores = [p for p in self.pre_score if p.name not in kept_scores]
        by_row = [p for p in self._kept_filters if p.scope is Scope.ROW]
        scored_by_row = [p for p, _ in self._kept_scores if p.scope is Scope.ROW]
        self._has_one_node_forms = all(type(p).filter_node is not FilterPlugin.filter_node for p in by_row) and all(
            type(p).score_node is not ScorePlugin.score_node for p in scored_by_row
        )
        #: whether some plugin looks at one node at a time, so that kube-scheduler's node sampling applies
        self.has_scalar_plugins = any(p.is_scalar() for p in self.filters) or any(p.is_scalar() for p, _ in self.scores)
        handle.dry_run = self

    def plugins(self) -> list[Plugin]:
        """Every plugin once, in the order of first appearance."""
        groups: Iterable[Sequence[Plugin]] = (
            self.pre_enqueue, (self.queue_sort,), self.pre_filter, self.filters, self.post_filter, self.pre_score,
            [p for p, _ in self.scores], self.reserve_plugins, self.permit, self.pre_bind, self.bind_plugins,
            self.post_bind,
        )  # fmt: skip
        return list({plugin.name: plugin for group in groups for plugin in group}.values())

    def interested_extenders(self, pod: Pod) -> Sequence[Extender]:
        """The extenders that have a say in this pod, in the order in which they are asked."""
        extenders = self.handle.extenders
        return [extender for extender in extenders if extender.is_interested(pod)] if extenders else ()

    # --- PreEnqueue ---------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: Pod) -> Status | None:
        """The first rejection, or None where the pod may enter activeQ."""
        for plugin in self.pre_enqueue:
            try:
                status = plugin.pre_enqueue(pod)
            except Exception as bug:  # it keeps the pod out until the plugin's events or the flush ask again
                log.exception("PreEnqueue plugin %s failed for pod %s", plugin.name, pod.key)
                status = failed(bug)
            if status is not None and not status.ok:
                return status.by(plugin.name)
        return None

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def find_feasible(self, state: CycleState, wanted: int | None = None) -> Feasibility:
        """PreFilter and Filter over all nodes, nominated pods counted. `wanted`: sample size for scalar filters."""
        started = perf_counter()
        nodes = self.snapshot.nodes
        entry = self.shapes.get(state.pod_info.shape.key, self.snapshot)
        fresh = entry is None
        if entry is None:
            entry = ShapeEntry(self.snapshot.node_epoch, self.snapshot.version)
        found = Feasibility(state, nodes, entry, nodes.none if fresh else entry.mask)
        self._run_pre_filter(found, fresh)
        refused = found.rejection or found.error
        self.observe("PreFilter", refused.code.text if refused else "Success", perf_counter() - started)
        if refused is not None:
            return found
        started = perf_counter()
        found.error = self._run_kept_filters(found, fresh)
        if found.error is None:
            self._run_asked_filters(found, wanted)
        if found.error is None and not found.rejection:
            self._apply_nominated(found)
        self.observe("Filter", found.error.code.text if found.error else "Success", perf_counter() - started)
        return found

    def _run_pre_filter(self, found: Feasibility, fresh: bool) -> None:
        """Runs in plugin order. Unschedulable: the others still run; UnschedulableAndUnresolvable ends it."""
        state, entry = found.state, found.entry
        if fresh:
            shape_cache.fill_pre_filters(entry, self.pre_filter, state, found.nodes)
        state.skip_filter |= entry.skip_filter
        state.data |= entry.data
        names: frozenset[str] | None = None
        with_nodes: list[str] = []
        for plugin, kept in entry.pre_filters:
            answer = plugin.pre_filter(state, state.pod_info.pod, found.nodes) if kept is ASK else kept
            if answer is None:
                continue
            if isinstance(answer, Status):
                if answer.skip:
                    state.skip_filter.add(plugin.name)
                elif answer.rejected:
                    found.rejection = answer.by(plugin.name)
                    if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                        return
                elif not answer.ok:
                    found.error = error(f'running PreFilter plugin "{plugin.name}": {answer.message}').by(plugin.name)
                    return
                continue
            if answer.node_names is None:
                continue
            with_nodes.append(plugin.name)
            found.naming = tuple(with_nodes)
            names = answer.node_names if names is None else names & answer.node_names
            if not names:
                found.rejection = _empty_node_set(with_nodes)
                return
        if names is not None:
            found.candidates = self._rows_named(names)
            found.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(with_nodes))}]").by(
                with_nodes[0]
            )

    def _rows_named(self, names: frozenset[str]) -> Mask:
        mask = self.snapshot.nodes.none
        row_of = self.snapshot.row_of
        mask[[row_of[name] for name in names if name in row_of]] = True
        return mask

    def _run_kept_filters(self, found: Feasibility, fresh: bool) -> Status | None:
        entry, state = found.entry, found.state
        if fresh:
            kept = [p for p in self._kept_filters if p.name not in state.skip_filter]
            entry.has_one_node_forms = self._has_one_node_forms
            status = shape_cache.fill_filters(entry, kept, state, found.nodes)
            if status is None:
                status = shape_cache.fill_scores(entry, self._kept_scores, state, found.nodes)
            if status is None:
                self.shapes.put(state.pod_info.shape.key, entry)
        else:
            status = patch(entry, state, self.snapshot)
        state.skip_score |= entry.skip_score
        found.mask = entry.mask
        return status

    def _run_asked_filters(self, found: Feasibility, wanted: int | None) -> None:
        state, nodes = found.state, found.nodes
        pod = state.pod_info.pod
        if found.candidates is not None:
            found.mask = found.mask & found.candidates
        scalar = []
        for plugin in self._asked_filters:
            if plugin.name in state.skip_filter:
                continue
            if plugin.is_scalar():
                scalar.append(plugin)
                continue
            answer = self._ask_sparse(plugin, found) if plugin.sparse else plugin.filter(state, pod, nodes)
            if isinstance(answer, Status):
                found.error = shape_cache.filter_error(plugin.name, answer)
                return
            if answer is None:
                continue
            found.asked[plugin.name] = answer
            found.mask = found.mask & answer
        if scalar:
            self._run_scalar_filters(scalar, found, wanted)
        elif wanted is not None:
            self._sample(found, wanted)

    def _ask_sparse(self, plugin: FilterPlugin, found: Feasibility) -> Mask | Status | None:
        """Rows that earlier filters refused count as passed here: they are not this plugin's."""
        rows = found.rows()
        answer = plugin.filter(found.state, found.state.pod_info.pod, self.snapshot.select(rows))
        if answer is None or isinstance(answer, Status):
            return answer
        mask = np.ones(found.nodes.size, np.bool_)
        mask[rows] = answer
        return mask

    def _sample(self, found: Feasibility, wanted: int) -> None:
        """Only score plugins look at one node at a time: they are asked about a sample of the feasible nodes."""
        rows = self._visiting_order(found)
        if len(rows) > wanted:
            found.mask = found.nodes.none
            found.mask[rows[:wanted]] = True

    def _visiting_order(self, found: Feasibility) -> Codes:
        """The rows that are left from a random start on; the nominated one first, as it may not be sampled away."""
        rows = found.rows()
        if not len(rows):
            return rows
        rows = np.roll(rows, -self.handle.random.randrange(len(rows)))
        nominated = self.snapshot.row_of.get(found.state.pod_info.pod.status.nominated_node_name, -1)
        first = rows == nominated
        return np.concatenate((rows[first], rows[~first])) if first.any() else rows

    def _run_scalar_filters(self, plugins: list[FilterPlugin], found: Feasibility, wanted: int | None) -> None:
        """One node at a time over the survivors, from a random start, until `wanted` feasible ones are found."""
        state, pod = found.state, found.state.pod_info.pod
        masks = {plugin.name: np.ones(found.nodes.size, np.bool_) for plugin in plugins}
        feasible: list[int] = []
        for row in self._visiting_order(found).tolist():
            info = self.snapshot.infos[row]
            assert info is not None
            refused = self._first_refusal(plugins, state, pod, info)
            if refused is None:
                feasible.append(row)
                if wanted is not None and len(feasible) >= wanted:
                    break
            elif refused.code is Code.ERROR:
                found.error = refused
                return
            else:
                masks[refused.plugin][row] = False
        found.asked |= masks
        found.mask = found.nodes.none
        found.mask[feasible] = True

    def _first_refusal(
        self, plugins: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        for plugin in plugins:
            if plugin.name in state.skip_filter:
                continue
            status = plugin.filter_node(state, pod, node)
            if status is None or status.ok:
                continue
            if not status.rejected:
                return shape_cache.filter_error(plugin.name, status)
            return status.by(plugin.name)
        return None

    # --- nominated pods and dry runs ----------------------------------------------------------------------

    def _apply_nominated(self, found: Feasibility) -> None:
        """Nodes that hold nominated pods of equal or higher priority must fit with them too (facts 2.8)."""
        pod_info = found.state.pod_info
        for row, pods in self.nominated_rows(pod_info).items():
            if found.candidates is not None and not found.candidates[row]:
                continue
            info = self.snapshot.infos[row]
            assert info is not None
            status = self._filter_with_nominated(found.state, pod_info, info, pods, self.filters)
            if status is not None:
                if status.code is Code.ERROR:
                    found.error = status
                    return
                found.mask = found.mask.copy()
                found.mask[row] = False
                found.overrides[row] = status

    def nominated_rows(self, pod_info: PodInfo) -> dict[int, list[PodInfo]]:
        """row -> nominated pods of equal or higher priority, other than the pod itself."""
        rows = {}
        for name, pods in self.handle.nominator.nominated_nodes().items():
            row = self.snapshot.row_of.get(name)
            counting = [p for p in pods if _counts_for(p, pod_info)]
            if row is not None and counting:
                rows[row] = counting
        return rows

    def _filter_with_nominated(
        self,
        state: CycleState,
        pod_info: PodInfo,
        node: NodeInfo,
        nominated: Iterable[PodInfo],
        filters: Sequence[FilterPlugin],
    ) -> Status | None:
        state, node = state.clone(), node.clone()
        for added in nominated:
            self.add_pod(state, pod_info, added, node)
        return self._first_refusal(filters, state, pod_info.pod, node)

    def filter_with_nominated_pods(
        self, state: CycleState, pod_info: PodInfo, node: NodeInfo, filters: Sequence[FilterPlugin] | None = None
    ) -> Status | None:
        """Filters (default: all) for one node, one at a time: with nominated pods, then without. None: fits."""
        filters = self.filters if filters is None else filters
        nominated = [p for p in self.handle.nominator.nominated_pods_for_node(node.name) if _counts_for(p, pod_info)]
        if nominated:
            status = self._filter_with_nominated(state, pod_info, node, nominated, filters)
            if status is not None:
                return status
        return self._first_refusal(filters, state, pod_info.pod, node)

    def active_filters(self, state: CycleState) -> list[FilterPlugin]:
        """The filters whose PreFilter did not skip, in order."""
        return [plugin for plugin in self.filters if plugin.name not in state.skip_filter]

    def add_pod(self, state: CycleState, pod_info: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put a pod on a cloned node and tell the plugins."""
        node.add_pod(added)
        for plugin in self.pre_filter:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod_info.pod, added, node)

    def remove_pod(self, state: CycleState, pod_info: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take a pod off a cloned node and tell the plugins."""
        node.remove_pod(removed)
        for plugin in self.pre_filter:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod_info.pod, removed, node)

    # --- diagnosis ----------------------------------------------------------------------------------------

    def diagnose(self, found: Feasibility) -> Diagnosis:
        """Who refused which node and why: the first failing plugin in order wins, as upstream stops there."""
        snapshot = self.snapshot
        diagnosis = Diagnosis(snapshot, snapshot.count)
        diagnosis.unschedulable_plugins.update(found.naming)
        if found.rejection is not None:
            diagnosis.pre_filter = found.rejection
            diagnosis.add_plugin_status(found.rejection)
            return diagnosis
        left = snapshot.nodes.all
        if found.candidates is not None and found.absent is not None:
            diagnosis.absent = ((left & ~found.candidates).nonzero()[0], found.absent)
            diagnosis.add_plugin_status(found.absent)
            left &= found.candidates
        self._add_overrides(diagnosis, found, left)
        kept = dict(zip([p.name for p in found.entry.filters], found.entry.masks, strict=True))
        for plugin in self.filters:
            mask = kept.get(plugin.name, found.asked.get(plugin.name))
            if mask is None:
                continue
            rows = (left & ~mask).nonzero()[0]
            if len(rows):
                refusals = plugin.refusals(found.state, found.state.pod_info.pod, snapshot.select(rows))
                diagnosis.add_refused(Refused(plugin.name, rows, refusals))
                left &= mask
        return diagnosis

    def _add_overrides(self, diagnosis: Diagnosis, found: Feasibility, left: Mask) -> None:
        for row, status in found.overrides.items():
            diagnosis.add_refused(Refused(status.plugin, np.array([row]), Refusals((status,), np.zeros(1, np.intp))))
            left[row] = False

    def run_post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Until one succeeds, errs or says unresolvable; otherwise all their reasons (facts 1.2)."""
        run = _PostFilterRun(self.observe)
        for plugin in self.post_filter:
            if run.ends_with(plugin, *plugin.post_filter(state, pod, diagnosis)):
                break
        return run.outcome()

    async def run_post_filter_with_extenders(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The same in a cycle that may await."""
        run = _PostFilterRun(self.observe)
        for plugin in self.post_filter:
            if run.ends_with(plugin, *await plugin.post_filter_with_extenders(state, pod, diagnosis)):
                break
        return run.outcome()

    # --- scoring ------------------------------------------------------------------------------------------

    def prioritize(self, found: Feasibility, rows: Codes) -> Scores | Status:
        """PreScore, Score and NormalizeScore of the feasible rows. An ERROR status ends the attempt."""
        started = perf_counter()
        entry, state = found.entry, found.state
        pod = state.pod_info.pod
        view = found.nodes if len(rows) == found.nodes.size else self.snapshot.select(rows)
        for pre in self._asked_pre_scores:
            status = pre.pre_score(state, pod, view)
            if status is not None and status.skip:
                state.skip_score.add(pre.name)
            elif status is not None and not status.ok:
                return shape_cache.score_error("PreScore", pre.name, status)
        self.observe("PreScore", "Success", perf_counter() - started)
        started = perf_counter()
        total: Vector = view.gather(entry.base) + entry.constant
        for i in entry.varying:
            final = shape_cache.normalized(entry, i, state, view)
            if (wrong := shape_cache.out_of_range(entry.scores[i][0].name, final, view)) is not None:
                return wrong
            total += entry.scores[i][1] * final
        scores = Scores(view, total, found)
        for plugin, weight in self._asked_scores:
            if plugin.name in state.skip_score:
                continue
            answer = plugin.score(state, pod, view)
            if isinstance(answer, Status):
                return shape_cache.score_error("Score", plugin.name, answer)
            final = plugin.normalize(state, pod, shape_cache.as_vector(answer, view), view)
            if (wrong := shape_cache.out_of_range(plugin.name, final, view)) is not None:
                return wrong
            scores.asked[plugin.name] = weighted = weight * final
            total += weighted
        self.observe("Score", "Success", perf_counter() - started)
        return scores

    # --- Reserve and Permit -------------------------------------------------------------------------------

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """The first rejection; the caller then unreserves all."""
        for plugin in self.reserve_plugins:
            try:
                status = plugin.reserve(state, pod, node_name)
            except Exception as bug:
                log.exception("Reserve plugin %s failed for pod %s", plugin.name, pod.key)
                status = failed(bug)
            if status is not None and not status.ok:
                if status.rejected:
                    return status.by(plugin.name)
                return error(f'running Reserve plugin "{plugin.name}": {status.message}').by(plugin.name)
        return None

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """In reverse order, also where Reserve did not run."""
        for plugin in reversed(self.reserve_plugins):
            try:
                plugin.unreserve(state, pod, node_name)
            except Exception:  # the others have books to correct, too
                log.exception("plugin %s failed to unreserve pod %s", plugin.name, pod.key)

    def run_permit(self, state: CycleState, pod_info: PodInfo, node_name: str) -> Status:
        """Success, WAIT (the pod is in `waiting_pods` then), or the first rejection."""
        timeouts: dict[str, float] = {}
        for plugin in self.permit:
            try:
                status, timeout = plugin.permit(state, pod_info.pod, node_name)
            except Exception as bug:
                log.exception("Permit plugin %s failed for pod %s", plugin.name, pod_info.key)
                status, timeout = failed(bug), 0.0
            if status is None or status.ok:
                continue
            if status.code is Code.WAIT:
                timeouts[plugin.name] = timeout
            elif status.rejected:
                return status.by(plugin.name)
            else:
                return error(f'running Permit plugin "{plugin.name}": {status.message}').by(plugin.name)
        if not timeouts:
            return SUCCESS
        self.handle.waiting_pods.add(WaitingPod(pod_info, node_name, timeouts))
        return Status(Code.WAIT, ("one or more plugins asked to wait and no plugin rejected pod",))

    async def wait_on_permit(self, pod_info: PodInfo) -> Status:
        """Until the waiting pod is allowed or rejected; success where it does not wait."""
        waiting = self.handle.waiting_pods.get(pod_info.uid)
        if waiting is None:
            return SUCCESS
        try:
            return await waiting.wait()
        finally:
            self.handle.waiting_pods.remove(pod_info.uid)

    # --- PreBind, Bind, PostBind --------------------------------------------------------------------------

    def run_pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[list[PreBindPlugin], Status]:
        """The PreBind plugins that have work to do, in order."""
        working = []
        for plugin in self.pre_bind:
            status = plugin.pre_bind_pre_flight(state, pod, node_name)
            if status is None or status.ok:
                working.append(plugin)
            elif not status.skip:
                return [], error(f'running PreBindPreFlight "{plugin.name}": {status.message}').by(plugin.name)
        return working, SUCCESS

    async def run_pre_bind(
        self, plugins: Sequence[PreBindPlugin], state: CycleState, pod: Pod, node_name: str
    ) -> Status | None:
        """In order; neighbours that allow it run together. A skipped plugin that does not still splits the group.

        For as long as they run the pod can be preempted in memory: its calls are cancelled then.
        """
        uid, pre_binding = state.pod_info.uid, self.handle.waiting_pods.pre_binding
        for group in _parallel_groups(self.pre_bind, plugins):
            async with asyncio.TaskGroup() as tasks:
                running = [(p, tasks.create_task(_pre_bind(p, state, pod, node_name))) for p in group]
                pre_binding[uid] = [task for _, task in running]
                try:
                    await asyncio.wait(pre_binding[uid])
                finally:
                    del pre_binding[uid]
            for plugin, task in running:
                if task.cancelled():
                    return unschedulable("preempted").by(plugin.name)
                status = task.result()
                if status is None or status.ok:
                    continue
                if status.rejected:
                    return status.by(plugin.name)
                return error(f'running PreBind plugin "{plugin.name}": {status.message}').by(plugin.name)
        return None

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """The first plugin that does not skip binds."""
        for plugin in self.bind_plugins:
            status = await plugin.bind(state, pod, node_name)
            if status is not None and status.skip:
                continue
            if status is None or status.ok:
                return None
            if status.rejected:
                return status.by(plugin.name)
            return error(f'running Bind plugin "{plugin.name}": {status.message}').by(plugin.name)
        return error("no Bind plugin took the pod")

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """For information."""
        for plugin in self.post_bind:
            try:
                plugin.post_bind(state, pod, node_name)
            except Exception:  # the pod is bound, whatever becomes of the plugin
                log.exception("PostBind plugin %s failed for pod %s", plugin.name, pod.key)


async def _pre_bind(plugin: PreBindPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """An exception, of the API server or a bug, is this plugin's error and not the end of its neighbours."""
    try:
        return await plugin.pre_bind(state, pod, node_name)
    except Exception as failure:
        log.exception("PreBind plugin %s failed for pod %s", plugin.name, pod.key)
        return failed(failure)


class _PostFilterRun:
    """What the PostFilter plugins of one cycle said so far."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self._started = perf_counter()
        self._result: PostFilterResult | None = None
        self._reasons: list[str] = []
        self._rejecting = ""
        self._end: Status | None = None

    def ends_with(self, plugin: PostFilterPlugin, answer: PostFilterResult | None, status: Status) -> bool:
        """Take a plugin's answer in; True where no further plugin is asked."""
        if not status.rejected or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self._result = answer if status.ok or status.rejected else None
            self._end = status if status.ok else status.by(plugin.name)
            return True
        if answer is not None and answer.nominated_node_name is not None:
            self._result = answer
        self._reasons += status.reasons
        self._rejecting = self._rejecting or plugin.name
        return False

    def outcome(self) -> tuple[PostFilterResult | None, Status]:
        """What PostFilter as a whole says."""
        status = self._end or Status(Code.UNSCHEDULABLE, tuple(self._reasons), self._rejecting)
        self._observe("PostFilter", status.code.text, perf_counter() - self._started)
        return self._result, status


def _counts_for(nominated: PodInfo, pod_info: PodInfo) -> bool:
    return nominated.priority >= pod_info.priority and nominated.uid != pod_info.uid


def _empty_node_set(plugins: list[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(plugins[0])
    names = " ".join(sorted(plugins))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously").by(plugins[0])


def _parallel_groups(order: Sequence[PreBindPlugin], working: Sequence[PreBindPlugin]) -> list[list[PreBindPlugin]]:
    groups: list[list[PreBindPlugin]] = []
    together = False
    for plugin in order:
        if plugin in working:
            if plugin.allow_parallel and together:
                groups[-1].append(plugin)
            else:
                groups.append([plugin])
        together = plugin.allow_parallel and (plugin in working or together)
    return groups
