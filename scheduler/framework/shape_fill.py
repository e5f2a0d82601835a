"""Filling an entry of the shape cache: asking plugins about all rows.

Done once for what a family of shapes has in common, and once for what is a shape's own.

Called by the cycle for shapes that it has not met. It keeps nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.meter import Meter
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from scheduler.framework.shape_cache import ASK, ShapeEntry, seen
from scheduler.framework.status import Status, error
from scheduler.snapshot.columns import Vector
from scheduler.snapshot.snapshot import Nodes

T = TypeVar("T", bound=np.generic)


def fill_pre_filters(
    entry: ShapeEntry, plugins: Sequence[PreFilterPlugin], state: CycleState, nodes: Nodes, meter: Meter
) -> None:
    """Ask the PreFilters whose answer depends on the shape alone; the others only matter if they may have a say."""
    pod = state.pod_info.pod
    for plugin in plugins:
        if plugin.scope is Scope.CLUSTER:
            entry.pre_filters.append((plugin, ASK))
            continue
        before = state.data.copy()
        answer = meter.call(plugin.name, "PreFilter", plugin.pre_filter, state, pod, nodes)
        _keep_writes(entry, state, before)
        if isinstance(answer, Status) and answer.skip:
            entry.skip_filter.add(plugin.name)
        elif answer is not None:
            entry.pre_filters.append((plugin, answer))


def _keep_writes(entry: ShapeEntry, state: CycleState, before: dict[str, Any]) -> None:
    for key, value in state.data.items():
        if before.get(key) is not value:
            entry.data[key] = value


def without_quiet(entry: ShapeEntry, plugins: Sequence[PreFilterPlugin], state: CycleState) -> list[PreFilterPlugin]:
    """The plugins that may have something to say about the pod; the entry notes for how long the others have not."""
    loud = []
    for plugin in plugins:
        sources = plugin.quiet_while(state.pod_info.shape)
        if sources is None:
            loud.append(plugin)
            continue
        entry.skip_filter.add(plugin.name)
        entry.skip_score.add(plugin.name)
        if sources:
            entry.quiet[plugin] = seen(sources)
    return loud


def fill_filters(
    entry: ShapeEntry, filters: Sequence[FilterPlugin], state: CycleState, nodes: Nodes, meter: Meter
) -> Status | None:
    """Ask the kept filters about all rows. Returns the error of a filter that ended in one."""
    pod = state.pod_info.pod
    for plugin in filters:
        if plugin.name in entry.skip_filter:
            continue
        mask = meter.call(plugin.name, "Filter", plugin.filter, state, pod, nodes)
        if isinstance(mask, Status):
            return filter_error(plugin.name, mask)
        if mask is None and plugin.scope is Scope.NODE:
            continue
        own = np.ones(nodes.size, np.bool_) if mask is None else _own(mask)
        entry.filters.append(plugin)
        entry.masks.append(own)
        entry.mask &= own
        if plugin.scope is Scope.ROW:
            entry.row_filters.append((plugin, own))
        else:
            entry.node_mask = entry.node_mask & own
    return None


def fill_scores(
    entry: ShapeEntry, scores: Sequence[tuple[ScorePlugin, float]], state: CycleState, nodes: Nodes, meter: Meter
) -> Status | None:
    """Ask the kept scores about all rows, and sum up those that are final as they are."""
    pod = state.pod_info.pod
    for plugin, weight in scores:
        if plugin.name in entry.skip_score:
            continue
        if isinstance(plugin, PreScorePlugin):
            before = state.data.copy()
            status = meter.call(plugin.name, "PreScore", plugin.pre_score, state, pod, nodes)
            _keep_writes(entry, state, before)
            if status is not None and status.skip:
                entry.skip_score.add(plugin.name)
                continue
            if status is not None and not status.ok:
                return score_error("PreScore", plugin.name, status)
        answer = meter.call(plugin.name, "Score", plugin.score, state, pod, nodes)
        if isinstance(answer, Status):
            return score_error("Score", plugin.name, answer)
        if isinstance(answer, float) and plugin.scope is Scope.NODE:
            _add_constant(entry, plugin, weight, answer, state, nodes)
        elif (wrong := _add_vector(entry, plugin, weight, as_vector(answer, nodes), nodes)) is not None:
            return wrong
    return None


def _add_vector(entry: ShapeEntry, plugin: ScorePlugin, weight: float, raw: Vector, nodes: Nodes) -> Status | None:
    final = not plugin.normalizes()
    if not final:
        entry.varying.append(len(entry.raw))
    elif not plugin.bounded and (wrong := out_of_range(plugin.name, raw, nodes)) is not None:
        return wrong
    else:
        # A new array, as it will be written to: what was there may be the family's, and `raw` stays as it is.
        entry.base = weight * raw if entry.base is None else entry.base + (raw if weight == 1 else weight * raw)
    own = _own(raw)
    entry.scores.append((plugin, weight))
    entry.raw.append(own)
    if plugin.scope is Scope.ROW:
        entry.row_scores.append((plugin, weight, own, final))
    return None


def _own(answer: NDArray[T]) -> NDArray[T]:
    """An array that may be written to: a plugin may have answered with a column of the snapshot, which is a view."""
    return answer if answer.flags.owndata and answer.flags.writeable else answer.copy()


def _add_constant(
    entry: ShapeEntry, plugin: ScorePlugin, weight: float, raw: float, state: CycleState, nodes: Nodes
) -> None:
    """A raw score that is the same on all nodes is the same after normalising, whoever is feasible."""
    final = raw
    row = next(iter(nodes.snapshot.row_of.values()), None)
    if plugin.normalizes() and row is not None:
        some = nodes.snapshot.select(np.array((row,)))
        final = float(plugin.normalize(state, state.pod_info.pod, np.array((raw,)), some)[0])
    entry.constants[plugin.name] = weight * final
    entry.constant += weight * final


def filter_error(plugin: str, status: Status) -> Status:
    """A filter that ended in an error ends the attempt."""
    return error(f'running "{plugin}" filter plugin: {status.message}').by(plugin)


def score_error(point: str, plugin: str, status: Status) -> Status:
    """So does a PreScore or Score plugin."""
    return error(f'running {point} plugin "{plugin}": {status.message}').by(plugin)


def as_vector(answer: Vector | float, nodes: Nodes) -> Vector:
    """One score for all nodes, written out."""
    return np.full(nodes.size, answer) if isinstance(answer, float) else answer


def out_of_range(plugin: str, final: Vector, nodes: Nodes) -> Status | None:
    """The error of a final score that is not 0..100; it would outweigh all other plugins (facts 1.2)."""
    if not final.size or (final.min() >= 0 and final.max() <= MAX_NODE_SCORE):
        return None
    final = final[nodes.column("alive")]
    if not final.size or (final.min() >= 0 and final.max() <= MAX_NODE_SCORE):
        return None
    wrong = final[(final < 0) | ~(final <= MAX_NODE_SCORE)][0]
    return error(f'plugin "{plugin}" gave a node the score {wrong:g}, it must be 0 to {MAX_NODE_SCORE}').by(plugin)
