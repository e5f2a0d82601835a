"""The shape cache: what plugins answered for a pod shape, kept for the next pod of that shape.

Filters and scores that depend on nothing but the shape and the node (Scope.NODE) or the node with its pods
(Scope.ROW) are asked once about all rows; a repeat asks them again only about the rows that changed since.
A burst of replicas thus pays for the rows it changed, not for the cluster.

Shapes that differ in what they request (amounts, volumes, devices) and in nothing else are a family: what plugins
answer that do not look at requests is kept once for all of it, so that a new shape of a known family asks the others
alone.

Owner: the framework of a profile, which fills entries (`shape_fill`) and brings them up to date (`shape_patch`). All
entries are dropped when a node object changes (`node_epoch`).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import (
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Versioned,
)
from scheduler.framework.status import Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes, Snapshot

#: bytes all entries of one profile may take together, and what one takes beside its arrays
MAX_BYTES = 16 * 2**20
ENTRY_BYTES = 6 * 2**10


class Ask(enum.Enum):
    """In place of a kept answer: ask in every cycle."""

    ASK = enum.auto()


ASK = Ask.ASK

#: whose state an answer holds for, each with the version that was seen
Versions = tuple[tuple[Versioned, int], ...]


@dataclass(slots=True)
class ShapeEntry:
    """What is known of one shape, or of what a family has in common. Arrays are `(…, rows)` over all rows."""

    #: the state of the snapshot that the rows were judged in
    version: int
    #: the PreFilter plugins that matter for the shape, in order, each with its kept answer or ASK
    pre_filters: list[tuple[PreFilterPlugin, PreFilterResult | Status | Ask]] = field(default_factory=list)
    #: what PreFilter and PreScore of NODE and ROW plugins wrote
    data: dict[str, Any] = field(default_factory=dict)
    #: plugins that are not asked for the shape: kept answers that skip, and those that are quiet
    skip_filter: set[str] = field(default_factory=set)
    skip_score: set[str] = field(default_factory=set)
    #: plugins that have nothing to say while these versions stay
    quiet: dict[PreFilterPlugin, Versions] = field(default_factory=dict)
    #: plugins to ask in every cycle, in order
    asked_filters: list[FilterPlugin] = field(default_factory=list)
    asked_pre_scores: list[PreScorePlugin] = field(default_factory=list)
    asked_scores: list[tuple[ScorePlugin, float]] = field(default_factory=list)
    filters: list[FilterPlugin] = field(default_factory=list)
    #: one mask a filter, `(rows,)` each
    masks: list[Mask] = field(default_factory=list)
    #: of these filters those that look at the pods on a node
    row_filters: list[tuple[FilterPlugin, Mask]] = field(default_factory=list)
    #: all masks of the others at once; shared with the family, so not written to
    node_mask: Any = None
    #: all masks at once
    mask: Any = None
    scores: list[tuple[ScorePlugin, float]] = field(default_factory=list)
    #: raw scores, one vector a plugin
    raw: list[Vector] = field(default_factory=list)
    #: of these scores those that look at the pods on a node: plugin, weight, raw scores, whether they are final
    row_scores: list[tuple[ScorePlugin, float, Vector, bool]] = field(default_factory=list)
    #: Σ weight·score of the plugins that do not normalise, once filled with those that give all nodes the same
    base: Any = None
    #: indexes into `scores` of plugins that normalise and whose raw scores differ between nodes
    varying: list[int] = field(default_factory=list)
    #: weighted final scores of plugins that give all nodes the same: name -> score, and their sum
    constants: dict[str, float] = field(default_factory=dict)
    constant: float = 0.0
    #: of a family: the PreFilters that each of its shapes has to ask
    own_pre_filters: list[PreFilterPlugin] = field(default_factory=list)
    #: of a family: whether filters and scores were asked
    filled: bool = False
    #: whether every plugin that looks at the pods on a node can be asked about one node alone
    has_one_node_forms: bool = False
    #: memory it takes, about; written by the cache
    nbytes: int = 0

    def begin(self, common: ShapeEntry) -> None:
        """Take over what the family's PreFilters answered."""
        self.pre_filters = list(common.pre_filters)
        self.data = dict(common.data)
        self.skip_filter = set(common.skip_filter)
        self.skip_score = set(common.skip_score)
        self.quiet = common.quiet
        self.asked_filters = common.asked_filters
        self.asked_pre_scores = common.asked_pre_scores
        self.asked_scores = common.asked_scores

    def take_over(self, common: ShapeEntry) -> None:
        """Take over what the family's filters and scores answered. Its arrays are of plugins that look at no pods."""
        self.data = common.data | self.data
        self.filters = list(common.filters)
        self.masks = list(common.masks)
        self.node_mask = common.mask
        self.mask = common.mask.copy()
        self.skip_score |= common.skip_score
        self.scores = list(common.scores)
        self.raw = list(common.raw)
        self.base = common.base
        self.varying = list(common.varying)
        self.constants = dict(common.constants)
        self.constant = common.constant

    def own_bytes(self, rows: int, common: ShapeEntry | None = None) -> int:
        """Memory of its arrays, those of the family left out."""
        masks, vectors = len(self.masks) + 1, len(self.raw) + 1
        if common is not None:
            masks, vectors = masks - len(common.masks), vectors - len(common.raw)
        return rows * (masks + 8 * vectors)

    def normalized(self, i: int, state: CycleState, view: Nodes) -> Vector:
        """The final scores of one kept plugin for the feasible nodes of the view."""
        plugin = self.scores[i][0]
        raw: Vector = view.gather(self.raw[i])
        if not plugin.normalizes():
            return raw
        return plugin.normalize(state, state.pod_info.pod, raw.copy(), view)

    def is_quiet(self, shape: PodShape) -> bool:
        """Whether the plugins that had nothing to say still have nothing; asked again where something changed."""
        for plugin, versions in self.quiet.items():
            for source, version in versions:
                if source.version != version:
                    now = plugin.quiet_while(shape)
                    if now is None:
                        return False
                    self.quiet[plugin] = seen(now)
                    break
        return True


def seen(sources: tuple[Versioned, ...]) -> Versions:
    """With the versions that they have now."""
    return tuple((source, source.version) for source in sources)


class ShapeCache:
    """shape key -> entry, and family key -> what it has in common, least recently used first.

    All entries are of one state of the node objects.
    """

    __slots__ = ("_bytes", "_entries", "_node_epoch")

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, ShapeEntry] = OrderedDict()
        self._bytes = 0
        self._node_epoch = 0

    def get(self, key: bytes, snapshot: Snapshot) -> ShapeEntry | None:
        """The entry of a shape or family, if no node object changed since it was made."""
        if self._node_epoch != snapshot.node_epoch:
            # None of them will ever be of use again, and many are of shapes that no pod has any more.
            self.clear()
            self._node_epoch = snapshot.node_epoch
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: ShapeEntry, arrays: int) -> None:
        """Keep an entry; older ones go when the room is used up. `arrays`: bytes of those that are its own."""
        entry.nbytes = ENTRY_BYTES + arrays
        self._entries[key] = entry
        self._bytes += entry.nbytes
        while self._bytes > MAX_BYTES and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.nbytes

    def drop(self, key: bytes) -> None:
        """Forget one that does not hold any more."""
        self._bytes -= self._entries.pop(key).nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)
