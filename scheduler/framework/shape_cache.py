"""The shape cache: what plugins answered for a pod shape, kept for the next pod of that shape.

Filters and scores that depend on nothing but the shape and the node (Scope.NODE) or the node with its pods
(Scope.ROW) are asked once about all rows; a repeat asks them again only about the rows that changed since.
A burst of replicas thus pays for the rows it changed, not for the cluster.

Owner: the framework of a profile. An entry is dropped when a node object changes (`node_epoch`).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.meter import Meter
from scheduler.framework.plugin import (
    MAX_NODE_SCORE,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from scheduler.framework.status import Status, error
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.snapshot import Nodes, Snapshot

T = TypeVar("T", bound=np.generic)

#: bytes all entries of one profile may take together, and what one takes beside its arrays
MAX_BYTES = 16 * 2**20
ENTRY_BYTES = 6 * 2**10


class Ask(enum.Enum):
    """In place of a kept answer: ask in every cycle."""

    ASK = enum.auto()


ASK = Ask.ASK


@dataclass(slots=True)
class ShapeEntry:
    """What is known of one shape. Arrays are `(…, rows)` over all rows of the snapshot."""

    node_epoch: int
    version: int
    #: the PreFilter plugins that matter for the shape, in order, each with its kept answer or ASK
    pre_filters: list[tuple[PreFilterPlugin, PreFilterResult | Status | Ask]] = field(default_factory=list)
    #: what PreFilter of NODE and ROW plugins wrote
    data: dict[str, Any] = field(default_factory=dict)
    #: plugins whose PreFilter skips, whatever the cluster
    skip_filter: set[str] = field(default_factory=set)
    skip_score: set[str] = field(default_factory=set)
    #: plugins to ask in every cycle, in order
    asked_filters: list[FilterPlugin] = field(default_factory=list)
    asked_pre_scores: list[PreScorePlugin] = field(default_factory=list)
    asked_scores: list[tuple[ScorePlugin, float]] = field(default_factory=list)
    filters: list[FilterPlugin] = field(default_factory=list)
    #: one mask a filter, `(rows,)` each
    masks: list[Mask] = field(default_factory=list)
    #: all masks at once
    mask: Any = None
    scores: list[tuple[ScorePlugin, float]] = field(default_factory=list)
    #: raw scores, one vector a plugin
    raw: list[Vector] = field(default_factory=list)
    #: Σ weight·score of the plugins that do not normalise
    base: Any = None
    #: indexes into `scores` of plugins that normalise and whose raw scores differ between nodes
    varying: list[int] = field(default_factory=list)
    #: weighted final scores of plugins that give all nodes the same: name -> score, and their sum
    constants: dict[str, float] = field(default_factory=dict)
    constant: float = 0.0
    #: whether every plugin that looks at the pods on a node can be asked about one node alone
    has_one_node_forms: bool = False

    @property
    def nbytes(self) -> int:
        """Memory it takes, about."""
        arrays: list[int] = [a.nbytes for a in (*self.masks, *self.raw, self.mask, self.base) if a is not None]
        return ENTRY_BYTES + sum(arrays)


class ShapeCache:
    """shape key -> entry, least recently used first. All entries are of one state of the node objects."""

    __slots__ = ("_bytes", "_entries", "_node_epoch")

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, ShapeEntry] = OrderedDict()
        self._bytes = 0
        self._node_epoch = 0

    def get(self, key: bytes, snapshot: Snapshot) -> ShapeEntry | None:
        """The entry of a shape, if no node object changed since it was made."""
        if self._node_epoch != snapshot.node_epoch:
            # None of them will ever be of use again, and many are of shapes that no pod has any more.
            self.clear()
            self._node_epoch = snapshot.node_epoch
        entry = self._entries.get(key)
        if entry is not None:
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


def fill_pre_filters(
    entry: ShapeEntry, plugins: Sequence[PreFilterPlugin], state: CycleState, nodes: Nodes, meter: Meter
) -> None:
    """Ask the PreFilters whose answer depends on the shape alone; the others only matter if they may have a say."""
    pod_info = state.pod_info
    for plugin in plugins:
        if plugin.ignores(pod_info.shape):
            entry.skip_filter.add(plugin.name)
            entry.skip_score.add(plugin.name)
        elif plugin.scope is Scope.CLUSTER:
            entry.pre_filters.append((plugin, ASK))
        else:
            before = len(state.data)
            answer = meter.call(plugin.name, "PreFilter", plugin.pre_filter, state, pod_info.pod, nodes)
            if len(state.data) > before:
                entry.data.update(list(state.data.items())[before:])
            if isinstance(answer, Status) and answer.skip:
                entry.skip_filter.add(plugin.name)
            elif answer is not None:
                entry.pre_filters.append((plugin, answer))


def fill_filters(
    entry: ShapeEntry, filters: Sequence[FilterPlugin], state: CycleState, nodes: Nodes, meter: Meter
) -> Status | None:
    """Ask the kept filters about all rows. Returns the error of a filter that ended in one."""
    pod = state.pod_info.pod
    entry.mask = nodes.all
    for plugin in filters:
        mask = meter.call(plugin.name, "Filter", plugin.filter, state, pod, nodes)
        if isinstance(mask, Status):
            return filter_error(plugin.name, mask)
        if mask is None and plugin.scope is Scope.NODE:
            continue
        entry.filters.append(plugin)
        entry.masks.append(np.ones(nodes.size, np.bool_) if mask is None else _own(mask))
        entry.mask &= entry.masks[-1]
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
            status = meter.call(plugin.name, "PreScore", plugin.pre_score, state, pod, nodes)
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
            continue
        answer = as_vector(answer, nodes)
        if plugin.normalizes():
            entry.varying.append(len(entry.raw))
        elif not plugin.bounded and (wrong := out_of_range(plugin.name, answer, nodes)) is not None:
            return wrong
        elif entry.base is None:
            entry.base = weight * answer
        else:
            entry.base += answer if weight == 1 else weight * answer
        entry.scores.append((plugin, weight))
        entry.raw.append(_own(answer))
    if entry.base is None:
        entry.base = nodes.zeros
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


def normalized(entry: ShapeEntry, i: int, state: CycleState, view: Nodes) -> Vector:
    """The final scores of one kept plugin for the feasible nodes of the view."""
    plugin = entry.scores[i][0]
    raw: Vector = view.gather(entry.raw[i])
    if not plugin.normalizes():
        return raw
    return plugin.normalize(state, state.pod_info.pod, raw.copy(), view)
