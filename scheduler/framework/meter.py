"""The meter: counts how often plugins are asked, and times them in a sample of the cycles (facts 1.7).

A kept answer that is used again is no evaluation. Owner: the Framework of a profile. Every call goes through it, so it
only adds up; whoever serves the metrics takes the counts away when somebody looks.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from scheduler.framework.status import Status

T = TypeVar("T")

#: share of the cycles whose plugin calls are timed, as upstream samples them
SAMPLE = 0.1

#: (plugin, extension point, status, seconds)
Time = Callable[[str, str, str, float], None]


class Meter:
    """Calls plugins."""

    __slots__ = ("_counts", "_random", "_sample", "_sampling", "_time")

    def __init__(self, time: Time, sample: float = SAMPLE) -> None:
        """`sample`: share of the cycles that are timed, 0 to 1."""
        self._sample = sample
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._time = time
        # Its own source: measuring must not change which of equal nodes a seeded run chooses.
        self._random = random.Random()
        self._sampling = False

    def begin_cycle(self) -> None:
        """Decide whether this cycle is timed."""
        self._sampling = self._random.random() < self._sample

    def call(self, plugin: str, point: str, function: Callable[..., T], *args: Any) -> T:
        """Ask a plugin."""
        self._counts[plugin, point] += 1
        if not self._sampling:
            return function(*args)
        started = perf_counter()
        answer = function(*args)
        status = answer.code.text if isinstance(answer, Status) else "Success"
        self._time(plugin, point, status, perf_counter() - started)
        return answer

    def take_counts(self) -> dict[tuple[str, str], int]:
        """(plugin, extension point) -> evaluations since the last time."""
        counts, self._counts = self._counts, defaultdict(int)
        return counts


def _untimed(plugin: str, point: str, status: str, seconds: float) -> None:
    """Nobody measures."""


def idle_meter() -> Meter:
    """For runs that nobody scrapes."""
    return Meter(_untimed, sample=0.0)
