"""The meter: counts how often plugins are asked, and times them in a sample of the cycles (facts 1.7).

A kept answer that is used again is no evaluation. Owner: the Framework of a profile. Costs a fraction of a microsecond
a call, so that every call can go through it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from scheduler.framework.status import Status

T = TypeVar("T")

#: share of the cycles whose plugin calls are timed, as upstream samples them
SAMPLE = 0.1

#: (plugin, extension point)
Count = Callable[[str, str], None]
#: (plugin, extension point, status, seconds)
Time = Callable[[str, str, str, float], None]


class Meter:
    """Calls plugins."""

    __slots__ = ("_count", "_random", "_sampling", "_time")

    def __init__(self, count: Count, time: Time) -> None:
        self._count = count
        self._time = time
        # Its own source: measuring must not change which of equal nodes a seeded run chooses.
        self._random = random.Random()
        self._sampling = False

    def begin_cycle(self) -> None:
        """Decide whether this cycle is timed."""
        self._sampling = self._random.random() < SAMPLE

    def call(self, plugin: str, point: str, function: Callable[..., T], *args: Any) -> T:
        """Ask a plugin."""
        self._count(plugin, point)
        if not self._sampling:
            return function(*args)
        started = perf_counter()
        answer = function(*args)
        status = answer.code.text if isinstance(answer, Status) else "Success"
        self._time(plugin, point, status, perf_counter() - started)
        return answer


def _uncounted(plugin: str, point: str) -> None:
    """Nobody counts."""


def _untimed(plugin: str, point: str, status: str, seconds: float) -> None:
    """Nobody measures."""


def idle_meter() -> Meter:
    """For runs that nobody scrapes."""
    return Meter(_uncounted, _untimed)
