"""The decision log: a short record of each recent cycle, for whoever asks why.

Owner: Scheduler. Bounded: the oldest records go. Nothing is computed for it on the hot path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

MAX_RECORDS = 2_000


class Decision(msgspec.Struct, frozen=True, gc=False):
    """One cycle. `time`: wall clock, seconds."""

    time: float
    namespace: str
    name: str
    uid: str
    profile: str
    attempt: int
    #: "scheduled", "unschedulable" or "error"
    result: str
    node: str
    feasible: int
    nodes: int
    seconds: float
    message: str = ""
    nominated_node: str = ""
    victims: tuple[str, ...] = ()


class DecisionLog:
    """The newest decisions."""

    def __init__(self, limit: int = MAX_RECORDS) -> None:
        self._records: deque[Decision] = deque(maxlen=limit)
        #: told of each decision as it is noted
        self.listener: Callable[[Decision], None] | None = None

    def add(self, decision: Decision) -> None:
        """Note a decision."""
        self._records.append(decision)
        if self.listener is not None:
            self.listener(decision)

    def __iter__(self) -> Iterator[Decision]:
        """Newest first."""
        return iter([*self._records][::-1])

    def __len__(self) -> int:
        return len(self._records)
