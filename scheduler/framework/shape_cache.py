"""The shape cache: what plugins answered for a pod shape, kept for the next pod of that shape.

Filters and scores that depend on nothing but the shape and the node (Scope.NODE) or the node with its pods
(Scope.ROW) are asked once about all rows; a repeat asks them again only about the rows that changed since.
A burst of replicas thus pays for the rows it changed, not for the cluster.

Owner: the framework of a profile. An entry is dropped when a node object changes (`node_epoch`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from scheduler.framework.status import Status, error
from scheduler.snapshot.columns import Codes, Vector
from scheduler.snapshot.snapshot import Nodes, Snapshot

#: bytes all entries of one profile may take together
MAX_BYTES = 16 * 2**20


@dataclass(slots=True)
class ShapeEntry:
    """What is known of one shape. Arrays are `(…, rows)` over all rows of the snapshot."""

    node_epoch: int
    version: int
    #: what PreFilter of NODE and ROW plugins answered and wrote
    pre_filter: dict[str, PreFilterResult | Status | None] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    skip_score: set[str] = field(default_factory=set)
    filters: list[FilterPlugin] = field(default_factory=list)
    masks: Any = None
    #: all masks at once
    mask: Any = None
    scores: list[tuple[ScorePlugin, float]] = field(default_factory=list)
    raw: Any = None
    #: Σ weight·score of the plugins that do not normalise
    base: Any = None
    #: indexes into `scores` of plugins that normalise and whose raw scores differ between nodes
    varying: list[int] = field(default_factory=list)
    #: Σ weight·score of plugins that normalise to one value for all nodes
    constant: float = 0.0

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(a.nbytes for a in (self.masks, self.mask, self.raw, self.base) if a is not None)


class ShapeCache:
    """shape key -> entry, least recently used first."""

    __slots__ = ("_bytes", "_entries")

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, ShapeEntry] = OrderedDict()
        self._bytes = 0

    def get(self, key: bytes, snapshot: Snapshot) -> ShapeEntry | None:
        """The entry of a shape, if no node object changed since it was made."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.node_epoch != snapshot.node_epoch:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: ShapeEntry) -> None:
        """Keep an entry; older ones go when the room is used up."""
        self._entries[key] = entry
        self._bytes += entry.nbytes
        while self._bytes > MAX_BYTES and len(self._entries) > 1:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        self._bytes -= self._entries.pop(key).nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)


def fill_filters(entry: ShapeEntry, filters: Sequence[FilterPlugin], state: CycleState, nodes: Nodes) -> Status | None:
    """Ask the kept filters about all rows. Returns the error of a filter that ended in one."""
    pod = state.pod_info.pod
    entry.filters = list(filters)
    entry.masks = np.empty((len(entry.filters), nodes.size), np.bool_)
    for i, plugin in enumerate(entry.filters):
        mask = plugin.filter(state, pod, nodes)
        if isinstance(mask, Status):
            return filter_error(plugin.name, mask)
        entry.masks[i] = mask
    entry.mask = nodes.all
    for mask in entry.masks:
        entry.mask &= mask
    return None


def fill_scores(
    entry: ShapeEntry, scores: Sequence[tuple[ScorePlugin, float]], state: CycleState, nodes: Nodes
) -> Status | None:
    """Ask the kept scores about all rows, and sum up those that are final as they are."""
    pod = state.pod_info.pod
    kept = []
    for plugin, weight in scores:
        if isinstance(plugin, PreScorePlugin):
            status = plugin.pre_score(state, pod, nodes)
            if status is not None and status.skip:
                entry.skip_score.add(plugin.name)
                continue
            if status is not None and not status.ok:
                return score_error("PreScore", plugin.name, status)
        kept.append((plugin, weight))
    entry.scores = kept
    entry.raw = np.empty((len(kept), nodes.size))
    entry.base = np.zeros(nodes.size)
    alive = nodes.column("alive")
    for i, (plugin, weight) in enumerate(kept):
        answer = plugin.score(state, pod, nodes)
        if isinstance(answer, Status):
            return score_error("Score", plugin.name, answer)
        entry.raw[i] = answer
        if not plugin.normalizes():
            if (wrong := out_of_range(plugin.name, entry.raw[i][alive])) is not None:
                return wrong
            entry.base += weight * entry.raw[i]
    _sort_normalized(entry, state, nodes)
    return None


def _sort_normalized(entry: ShapeEntry, state: CycleState, nodes: Nodes) -> None:
    """A raw score that is the same on all nodes is the same after normalising, whoever is feasible."""
    alive = nodes.column("alive")
    for i, (plugin, weight) in enumerate(entry.scores):
        if not plugin.normalizes():
            continue
        values = entry.raw[i] if alive.all() else entry.raw[i][alive]
        if plugin.scope is Scope.NODE and values.size and values.min() == values.max():
            first = nodes.snapshot.select(alive.nonzero()[0][:1])
            one = plugin.normalize(state, state.pod_info.pod, values[:1].copy(), first)
            entry.constant += weight * float(one[0])
        else:
            entry.varying.append(i)


def patch(entry: ShapeEntry, state: CycleState, snapshot: Snapshot) -> Status | None:
    """Bring an entry up to date with the rows whose pods changed."""
    if entry.version == snapshot.version:
        return None
    rows = snapshot.changed_since(entry.version)
    status = _patch_rows(entry, state, snapshot, rows) if len(rows) else None
    if status is None:
        # Not before: after an error or a plugin's exception the rows are still to be asked about.
        entry.version = snapshot.version
    return status


def _patch_rows(entry: ShapeEntry, state: CycleState, snapshot: Snapshot, rows: Codes) -> Status | None:
    view, pod = snapshot.select(rows), state.pod_info.pod
    for i, plugin in enumerate(entry.filters):
        if plugin.scope is Scope.ROW:
            mask = plugin.filter(state, pod, view)
            if isinstance(mask, Status):
                return filter_error(plugin.name, mask)
            entry.masks[i, rows] = mask
    entry.mask[rows] = entry.masks.take(rows, axis=1).all(axis=0) & view.column("alive")
    return _patch_scores(entry, state, view, rows)


def _patch_scores(entry: ShapeEntry, state: CycleState, view: Nodes, rows: Codes) -> Status | None:
    if entry.raw is None:
        return None
    for i, (plugin, weight) in enumerate(entry.scores):
        if plugin.scope is not Scope.ROW:
            continue
        answer = plugin.score(state, state.pod_info.pod, view)
        if isinstance(answer, Status):
            return score_error("Score", plugin.name, answer)
        if not plugin.normalizes():
            if (wrong := out_of_range(plugin.name, answer[view.column("alive")])) is not None:
                return wrong
            entry.base[rows] += weight * (answer - entry.raw[i].take(rows))
        entry.raw[i, rows] = answer
    return None


def filter_error(plugin: str, status: Status) -> Status:
    """A filter that ended in an error ends the attempt."""
    return error(f'running "{plugin}" filter plugin: {status.message}').by(plugin)


def score_error(point: str, plugin: str, status: Status) -> Status:
    """So does a PreScore or Score plugin."""
    return error(f'running {point} plugin "{plugin}": {status.message}').by(plugin)


def out_of_range(plugin: str, final: Vector) -> Status | None:
    """The error of a final score that is not 0..100; it would outweigh all other plugins (facts 1.2)."""
    if not final.size or (final.min() >= 0 and final.max() <= MAX_NODE_SCORE):
        return None
    wrong = final[(final < 0) | ~(final <= MAX_NODE_SCORE)][0]
    return error(f'plugin "{plugin}" gave a node the score {wrong:g}, it must be 0 to {MAX_NODE_SCORE}').by(plugin)


def normalized(entry: ShapeEntry, i: int, state: CycleState, view: Nodes) -> Vector:
    """The final scores of one kept plugin for the feasible nodes of the view."""
    plugin = entry.scores[i][0]
    raw: Vector = view.gather(entry.raw[i])
    if not plugin.normalizes():
        return raw
    return plugin.normalize(state, state.pod_info.pod, raw.copy(), view)
