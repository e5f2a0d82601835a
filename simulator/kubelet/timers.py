"""One timer for thousands of things to come: a heap of calls, and one handle of the event loop for the earliest.

Nothing is taken back: who no longer wants a call lets it find out. At most so many calls are made in one turn of the
loop, so that a thousand things due at once do not hold up everybody else. Owner: `HollowKubelet`.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

BATCH = 200


class Call(NamedTuple):
    """Something due; `order` keeps what is due at the same time in the order it came."""

    when: float
    order: int
    function: Callable[..., None]
    arguments: tuple[Any, ...]


class Timers:
    """Calls in time."""

    def __init__(self) -> None:
        self._due: list[Call] = []
        self._order = 0
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def after(self, delay: float, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function so many seconds from now, never at once."""
        when = asyncio.get_running_loop().time() + delay
        self._order += 1
        heapq.heappush(self._due, Call(when, self._order, function, arguments))
        self._arm()

    def stop(self) -> None:
        """Forget everything."""
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        """Set the handle to what is due first."""
        if not self._due:
            return
        when = self._due[0].when
        if self._handle is not None:
            if self._armed_for <= when:
                return
            self._handle.cancel()
        # The time is kept here: a handle of uvloop for something due at once does not know it.
        self._armed_for = when
        self._handle = asyncio.get_running_loop().call_at(when, self._work)

    def _work(self) -> None:
        self._handle = None
        now = asyncio.get_running_loop().time()
        for _ in range(BATCH):
            if not self._due or self._due[0].when > now:
                break
            call = heapq.heappop(self._due)
            call.function(*call.arguments)
        self._arm()
