"""The extension points of the scheduling cycle, run in order by the rules of facts 1.2: PreFilter, Filter, PreScore,
Score, with nominated pods, dry runs for preemption, and the diagnosis of who refused which node.

The part of a profile's runtime that is synchronous and runs on one snapshot; `runtime.Framework` is the whole.
"""

import logging
from collections.abc import Iterable
from time import perf_counter

import numpy as np

from scheduler.framework import shape_fill
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.dry_runs import DryRuns
from scheduler.framework.enabled import EnabledPlugins, Observer
from scheduler.framework.feasibility import Feasibility, Scores
from scheduler.framework.handle import Handle
from scheduler.framework.kept_answers import KeptAnswers
from scheduler.framework.meter import Meter
from scheduler.framework.plugin import (
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from scheduler.framework.refusals import Refusals
from scheduler.framework.shape_cache import ASK
from scheduler.framework.status import Code, Status, error, unresolvable
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes

log = logging.getLogger(__name__)


class CyclePoints(DryRuns):
    """Owner: the Framework that it is the base of."""

    def __init__(self, enabled: EnabledPlugins, handle: Handle, observe: Observer, meter: Meter) -> None:
        points = enabled.points
        super().__init__(handle, points.get("preFilter", ()), points.get("filter", ()))
        self.observe = observe
        self.meter = meter
        self.pre_score: tuple[PreScorePlugin, ...] = points.get("preScore", ())
        self.scores: tuple[tuple[ScorePlugin, float], ...] = tuple(
            (plugin, float(enabled.weights.get(plugin.name, 1))) for plugin in points.get("score", ())
        )
        self.kept = KeptAnswers(self.snapshot, self.pre_filter, self.filters, self.pre_score, self.scores)
        #: rows that a group's placement confines cycles to, None for no confinement
        self.placement: Mask | None = None
        #: whether some plugin looks at one node at a time, so that kube-scheduler's node sampling applies
        self.has_scalar_plugins = any(p.is_scalar() for p in self.filters) or any(p.is_scalar() for p, _ in self.scores)
        handle.dry_run = self

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def find_feasible(self, state: CycleState, wanted: int | None = None) -> Feasibility:
        """PreFilter and Filter over all nodes, nominated pods counted. `wanted`: sample size for scalar filters."""
        started = perf_counter()
        self.meter.begin_cycle()
        nodes = self.snapshot.nodes
        entry, common = self.kept.entry_of(state, self.meter)
        found = Feasibility(state, nodes, entry, nodes.none if entry.mask is None else entry.mask)
        self._run_pre_filter(found)
        refused = found.rejection or found.error
        self.observe("PreFilter", refused.code.text if refused else "Success", perf_counter() - started)
        if refused is not None:
            return found
        started = perf_counter()
        found.error = self.kept.bring_up_to_date(entry, common, state, self.meter)
        found.mask = entry.mask
        if found.error is None:
            self._run_asked_filters(found, wanted)
        if found.error is None and not found.rejection:
            self._apply_nominated(found)
            if self.placement is not None:
                found.mask = found.mask & self.placement
        self.observe("Filter", found.error.code.text if found.error else "Success", perf_counter() - started)
        return found

    def _run_pre_filter(self, found: Feasibility) -> None:
        """Runs in plugin order. Unschedulable: the others still run; UnschedulableAndUnresolvable ends it."""
        state, entry = found.state, found.entry
        state.skip_filter |= entry.skip_filter
        state.data |= entry.data
        names: frozenset[str] | None = None
        with_nodes: list[str] = []
        for plugin, kept in entry.pre_filters:
            answer = (
                self.meter.call(plugin.name, "PreFilter", plugin.pre_filter, state, state.pod_info.pod, found.nodes)
                if kept is ASK
                else kept
            )
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

    def _run_asked_filters(self, found: Feasibility, wanted: int | None) -> None:
        state, nodes = found.state, found.nodes
        pod = state.pod_info.pod
        if found.candidates is not None:
            found.mask = found.mask & found.candidates
        scalar = []
        for plugin in found.entry.asked_filters:
            if plugin.name in state.skip_filter:
                continue
            if plugin.is_scalar():
                scalar.append(plugin)
                continue
            if plugin.sparse:
                answer = self._ask_sparse(plugin, found)
            else:
                answer = self.meter.call(plugin.name, "Filter", plugin.filter, state, pod, nodes)
            if isinstance(answer, Status):
                found.error = shape_fill.filter_error(plugin.name, answer)
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
        view, pod = self.snapshot.select(rows), found.state.pod_info.pod
        answer = self.meter.call(plugin.name, "Filter", plugin.filter, found.state, pod, view)
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
            refused = self.first_refusal(plugins, state, pod, info)
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

    # --- nominated pods -----------------------------------------------------------------------------------

    def _apply_nominated(self, found: Feasibility) -> None:
        """Nodes that hold nominated pods of equal or higher priority must fit with them too (facts 2.8).

        A node that is refused without them is refused; what its reason is with them, `diagnose` asks if anybody does.
        After a wave of preemptions most nodes with nominated pods are still full.
        """
        for row, pods in self.nominated_rows(found.state.pod_info).items():
            if found.candidates is not None and not found.candidates[row]:
                continue
            if not found.mask[row]:
                found.refused_anyway[row] = pods
                continue
            status = self._with_nominated(found, row, pods)
            if status is not None:
                if status.code is Code.ERROR:
                    found.error = status
                    return
                found.mask = found.mask.copy()
                found.mask[row] = False
                found.overrides[row] = status

    def _with_nominated(self, found: Feasibility, row: int, pods: Iterable[PodInfo]) -> Status | None:
        info = self.snapshot.infos[row]
        assert info is not None
        return self.filter_with_nominated(found.state, found.state.pod_info, info, pods, self.filters)

    # --- diagnosis ----------------------------------------------------------------------------------------

    def diagnose(self, found: Feasibility) -> Diagnosis:
        """Who refused which node and why: the first failing plugin in order wins, as upstream stops there."""
        snapshot = self.snapshot
        left = snapshot.nodes.all
        if self.placement is not None:
            left &= self.placement
        diagnosis = Diagnosis(snapshot, snapshot.count if self.placement is None else int(np.count_nonzero(left)))
        diagnosis.unschedulable_plugins.update(found.naming)
        if found.rejection is not None:
            diagnosis.pre_filter = found.rejection
            diagnosis.add_plugin_status(found.rejection)
            return diagnosis
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
        for row, pods in found.refused_anyway.items():
            first_pass = self._with_nominated(found, row, pods)
            if first_pass is not None and first_pass.rejected:
                found.overrides[row] = first_pass
        found.refused_anyway = {}
        for row, status in found.overrides.items():
            if not left[row]:
                continue
            diagnosis.add_refused(Refused(status.plugin, np.array([row]), Refusals((status,), np.zeros(1, np.intp))))
            left[row] = False

    # --- scoring ------------------------------------------------------------------------------------------

    def prioritize(self, found: Feasibility, rows: Codes) -> Scores | Status:
        """PreScore, Score and NormalizeScore of the feasible rows. An ERROR status ends the attempt."""
        started = perf_counter()
        view = found.nodes if len(rows) == found.nodes.size else self.snapshot.select(rows)
        failed = self._run_pre_score(found, view)
        if failed is not None:
            return failed
        scored = perf_counter()
        self.observe("PreScore", "Success", scored - started)
        scores = Scores(view, view.gather(found.entry.base), found)
        failed = self._add_kept_scores(scores) or self._add_asked_scores(scores)
        if failed is not None:
            return failed
        self.observe("Score", "Success", perf_counter() - scored)
        return scores

    def _run_pre_score(self, found: Feasibility, view: Nodes) -> Status | None:
        state = found.state
        for plugin in found.entry.asked_pre_scores:
            status = self.meter.call(plugin.name, "PreScore", plugin.pre_score, state, state.pod_info.pod, view)
            if status is not None and status.skip:
                state.skip_score.add(plugin.name)
            elif status is not None and not status.ok:
                return shape_fill.score_error("PreScore", plugin.name, status)
        return None

    def _add_kept_scores(self, scores: Scores) -> Status | None:
        """Kept scores that are not final before the feasible nodes are known."""
        entry, view = scores.feasibility.entry, scores.view
        for i in entry.varying:
            plugin, weight = entry.scores[i]
            final = entry.normalized(i, scores.feasibility.state, view)
            if not plugin.bounded and (wrong := shape_fill.out_of_range(plugin.name, final, view)) is not None:
                return wrong
            scores.total = scores.total + weight * final
        return None

    def _add_asked_scores(self, scores: Scores) -> Status | None:
        state, view = scores.feasibility.state, scores.view
        for plugin, weight in scores.feasibility.entry.asked_scores:
            if plugin.name in state.skip_score:
                continue
            answer = self.meter.call(plugin.name, "Score", plugin.score, state, state.pod_info.pod, view)
            if isinstance(answer, Status):
                return shape_fill.score_error("Score", plugin.name, answer)
            final = plugin.normalize(state, state.pod_info.pod, shape_fill.as_vector(answer, view), view)
            if not plugin.bounded and (wrong := shape_fill.out_of_range(plugin.name, final, view)) is not None:
                return wrong
            scores.asked[plugin.name] = weighted = weight * final
            scores.total = scores.total + weighted
        return None


def _empty_node_set(plugins: list[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}").by(plugins[0])
    names = " ".join(sorted(plugins))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously").by(plugins[0])
