"""KeptAnswers: which plugins are asked once for a family, once for a shape, or in every cycle; and what they answered.

For a known shape, what is kept is brought up to date with the rows that changed (`shape_patch`). For a new one plugins
are asked about all rows (`shape_fill`): all of them for the first shape of a family, for another one only those that
look at what is requested or at the pods on nodes.

Owner: the framework of a profile. It asks nobody whose answers may depend on anything else.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from scheduler.framework import shape_fill
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.meter import Meter
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreScorePlugin, Scope, ScorePlugin
from scheduler.framework.shape_cache import ShapeCache, ShapeEntry
from scheduler.framework.shape_patch import patch
from scheduler.framework.status import Status
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Snapshot

Weighted = Sequence[tuple[ScorePlugin, float]]


class KeptAnswers:
    """The shape cache at work."""

    def __init__(
        self,
        snapshot: Snapshot,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        pre_scores: Sequence[PreScorePlugin],
        scores: Weighted,
    ) -> None:
        self.shapes = ShapeCache()
        self.families = ShapeCache()
        self._snapshot = snapshot
        self._pre_filters = pre_filters
        self._order = {plugin: i for i, plugin in enumerate(pre_filters)}
        self._split_filters(filters)
        self._split_scores(pre_scores, scores)

    def _split_filters(self, filters: Sequence[FilterPlugin]) -> None:
        kept = [p for p in filters if p.scope is not Scope.CLUSTER and not p.sparse and not p.is_scalar()]
        self._asked_filters = [p for p in filters if p not in kept]
        self._family_filters = [p for p in kept if _is_for_family(p)]
        self._shape_filters = [p for p in kept if not _is_for_family(p)]
        by_row = [p for p in kept if p.scope is Scope.ROW]
        self._has_one_node_forms = all(type(p).filter_node is not FilterPlugin.filter_node for p in by_row)

    def _split_scores(self, pre_scores: Sequence[PreScorePlugin], scores: Weighted) -> None:
        kept = [(p, w) for p, w in scores if p.scope is not Scope.CLUSTER and not p.is_scalar()]
        names = {p.name for p, _ in kept}
        self._asked_pre_scores = [p for p in pre_scores if p.name not in names]
        self._asked_scores = [(p, w) for p, w in scores if p.name not in names]
        self._family_scores = [(p, w) for p, w in kept if _is_for_family(p)]
        self._shape_scores = [(p, w) for p, w in kept if not _is_for_family(p)]
        by_row = [p for p, _ in kept if p.scope is Scope.ROW]
        if not all(type(p).score_node is not ScorePlugin.score_node for p in by_row):
            self._has_one_node_forms = False

    def empty(self) -> KeptAnswers:
        """The same plugins with nothing kept."""
        other = copy.copy(self)
        other.shapes, other.families = ShapeCache(), ShapeCache()
        return other

    # --- PreFilter ----------------------------------------------------------------------------------------

    def entry_of(self, state: CycleState, meter: Meter) -> tuple[ShapeEntry, ShapeEntry | None]:
        """What is known of the pod's shape; for a new shape what PreFilters say, and what its family has in common."""
        shape = state.pod_info.shape
        entry = self._known(self.shapes, shape.key, shape)
        if entry is not None:
            return entry, None
        common = self._known(self.families, shape.family_key, shape) or self._new_family(state, meter)
        return self._new_entry(common, state, meter), common

    def _known(self, cache: ShapeCache, key: bytes, shape: PodShape) -> ShapeEntry | None:
        entry = cache.get(key, self._snapshot)
        if entry is not None and not entry.is_quiet(shape):
            cache.drop(key)
            return None
        return entry

    def _new_family(self, state: CycleState, meter: Meter) -> ShapeEntry:
        common = ShapeEntry(self._snapshot.version)
        loud = shape_fill.without_quiet(common, self._pre_filters, state)
        shared = [p for p in loud if p.scope is Scope.CLUSTER or not p.reads_requests]
        common.own_pre_filters = [p for p in loud if p not in shared]
        shape_fill.fill_pre_filters(common, shared, state, self._snapshot.nodes, meter)
        self._choose_asked(common)
        return common

    def _new_entry(self, common: ShapeEntry, state: CycleState, meter: Meter) -> ShapeEntry:
        entry = ShapeEntry(self._snapshot.version)
        entry.begin(common)
        state.data |= entry.data
        answers, skipping = len(entry.pre_filters), len(entry.skip_filter)
        shape_fill.fill_pre_filters(entry, common.own_pre_filters, state, self._snapshot.nodes, meter)
        if len(entry.pre_filters) > answers:
            entry.pre_filters.sort(key=lambda each: self._order[each[0]])
        if len(entry.skip_filter) > skipping:
            self._choose_asked(entry)
        return entry

    def _choose_asked(self, entry: ShapeEntry) -> None:
        """Who has to be asked in every cycle."""
        entry.asked_filters = [p for p in self._asked_filters if p.name not in entry.skip_filter]
        entry.asked_pre_scores = [p for p in self._asked_pre_scores if p.name not in entry.skip_score]
        entry.asked_scores = [(p, w) for p, w in self._asked_scores if p.name not in entry.skip_score]

    # --- Filter and Score ---------------------------------------------------------------------------------

    def bring_up_to_date(
        self, entry: ShapeEntry, common: ShapeEntry | None, state: CycleState, meter: Meter
    ) -> Status | None:
        """Filters and scores as of now; `common` as `entry_of` gave it. The error of a plugin that ended in one."""
        status = patch(entry, state, self._snapshot) if common is None else self._fill(entry, common, state, meter)
        state.skip_score |= entry.skip_score
        return status

    def _fill(self, entry: ShapeEntry, common: ShapeEntry, state: CycleState, meter: Meter) -> Status | None:
        nodes, shape = self._snapshot.nodes, state.pod_info.shape
        if not common.filled:
            common.mask = common.node_mask = nodes.all
            status = self._ask(common, self._family_filters, self._family_scores, state, meter)
            if status is not None:
                return status
            common.filled = True
            self.families.put(shape.family_key, common, common.own_bytes(nodes.size))
        entry.take_over(common)
        entry.has_one_node_forms = self._has_one_node_forms
        status = self._ask(entry, self._shape_filters, self._shape_scores, state, meter)
        if status is None:
            entry.base = (nodes.zeros if entry.base is None else entry.base) + entry.constant
            self.shapes.put(shape.key, entry, entry.own_bytes(nodes.size, common))
        return status

    def _ask(
        self, entry: ShapeEntry, filters: Sequence[FilterPlugin], scores: Weighted, state: CycleState, meter: Meter
    ) -> Status | None:
        nodes = self._snapshot.nodes
        return shape_fill.fill_filters(entry, filters, state, nodes, meter) or shape_fill.fill_scores(
            entry, scores, state, nodes, meter
        )


def _is_for_family(plugin: FilterPlugin | ScorePlugin) -> bool:
    """Whether its answers are the same for all shapes of a family, and need not be brought up to date."""
    return plugin.scope is Scope.NODE and not plugin.reads_requests
