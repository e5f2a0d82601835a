"""Bringing what is kept of a shape up to date with the rows whose pods changed since.

A few rows are asked about one at a time, by the plugins' one-node forms: the fixed cost of array functions would
be most of a cycle. Many rows are asked about at once.

Called by the framework at the start of a cycle, for a shape it has met before.
"""

from __future__ import annotations

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import MAX_NODE_SCORE, ScorePlugin
from scheduler.framework.shape_cache import ShapeEntry
from scheduler.framework.shape_fill import as_vector, filter_error, out_of_range, score_error
from scheduler.framework.status import Code, Status, error
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Snapshot

#: above this many changed rows array functions are cheaper (engine notes: the two meet at about ten)
FEW = 10


def patch(entry: ShapeEntry, state: CycleState, snapshot: Snapshot) -> Status | None:
    """Ask again about the rows that changed. Returns the error of a plugin that ended in one."""
    if entry.version == snapshot.version:
        return None
    few = snapshot.few_changed_since(entry.version, FEW) if entry.has_one_node_forms else None
    if few is None:
        rows = snapshot.changed_since(entry.version)
        status = _patch_many(entry, state, snapshot, rows) if len(rows) else None
    else:
        status = _patch_few(entry, state, snapshot, few)
    if status is None:
        # Not before: after an error or a plugin's exception the rows are still to be asked about.
        entry.version = snapshot.version
    return status


def _patch_few(entry: ShapeEntry, state: CycleState, snapshot: Snapshot, rows: set[int]) -> Status | None:
    for row in rows:
        info = snapshot.infos[row]
        # A row without a node belongs to an older state of the nodes, of which nothing is kept.
        assert info is not None
        status = _patch_filters(entry, state, row, info) or _patch_scores(entry, state, row, info)
        if status is not None:
            return status
    return None


def _patch_filters(entry: ShapeEntry, state: CycleState, row: int, info: NodeInfo) -> Status | None:
    pod = state.pod_info.pod
    fits = bool(entry.node_mask[row])
    for plugin, mask in entry.row_filters:
        status = plugin.filter_node(state, pod, info)
        passed = status is None or status.ok
        if not passed and status is not None and status.code is Code.ERROR:
            return filter_error(plugin.name, status)
        mask[row] = passed
        fits = fits and passed
    entry.mask[row] = fits
    return None


def _patch_scores(entry: ShapeEntry, state: CycleState, row: int, info: NodeInfo) -> Status | None:
    pod = state.pod_info.pod
    for plugin, weight, raw, final in entry.row_scores:
        score = plugin.score_node(state, pod, info)
        if final:
            if not 0 <= score <= MAX_NODE_SCORE:
                return _wrong_score(plugin, score)
            entry.base[row] += weight * (score - raw[row])
        raw[row] = score
    return None


def _wrong_score(plugin: ScorePlugin, score: float) -> Status:
    text = f'plugin "{plugin.name}" gave a node the score {score:g}, it must be 0 to {MAX_NODE_SCORE}'
    return error(text).by(plugin.name)


def _patch_many(entry: ShapeEntry, state: CycleState, snapshot: Snapshot, rows: Codes) -> Status | None:
    view, pod = snapshot.select(rows), state.pod_info.pod
    fits = entry.node_mask.take(rows)
    for plugin, kept in entry.row_filters:
        mask = plugin.filter(state, pod, view)
        if isinstance(mask, Status):
            return filter_error(plugin.name, mask)
        kept[rows] = passed = view.all if mask is None else mask
        fits &= passed
    entry.mask[rows] = fits
    for score, weight, raw, final in entry.row_scores:
        answer = score.score(state, pod, view)
        if isinstance(answer, Status):
            return score_error("Score", score.name, answer)
        answer = as_vector(answer, view)
        if final:
            if not score.bounded and (wrong := out_of_range(score.name, answer, view)) is not None:
                return wrong
            entry.base[rows] += weight * (answer - raw.take(rows))
        raw[rows] = answer
    return None
