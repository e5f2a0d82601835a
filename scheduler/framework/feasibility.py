"""What the extension points of one scheduling cycle found: the feasible nodes, and how good they are.

Values made by `cycle_points`, read by the cycle, by preemption and by whoever explains. They refer to rows of the
snapshot the cycle ran on, so they are read before the next refresh.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.shape_cache import ShapeEntry
from scheduler.framework.status import Status
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes


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
    #: rows with nominated pods that are refused without these, too: their first pass is still to be made
    refused_anyway: dict[int, Sequence[PodInfo]] = field(default_factory=dict)
    rejection: Status | None = None
    error: Status | None = None

    def rows(self) -> Codes:
        """The feasible rows, in order; shared where all are, so nobody writes to them."""
        if np.count_nonzero(self.mask) == len(self.mask):
            return self.nodes.snapshot.every_row()
        rows: Codes = self.mask.nonzero()[0]
        return rows


@dataclass(slots=True)
class Scores:
    """How good the feasible nodes are."""

    view: Nodes
    #: `(size,)` Σ weight·score; may be what is kept of the shape, so nobody writes to it
    total: Vector
    feasibility: Feasibility
    #: plugins asked in this cycle: name -> weighted scores
    asked: dict[str, Vector] = field(default_factory=dict)

    def by_plugin(self) -> dict[str, Vector]:
        """name -> `(size,)` weighted final scores of every plugin that scored."""
        entry, state = self.feasibility.entry, self.feasibility.state
        parts = {name: np.full(self.view.size, score) for name, score in entry.constants.items()}
        for i, (plugin, weight) in enumerate(entry.scores):
            parts[plugin.name] = weight * entry.normalized(i, state, self.view)
        return parts | self.asked
