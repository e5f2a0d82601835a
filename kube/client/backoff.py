"""Waiting between tries: exponential, capped, jittered; and giving way to I/O by time slice.

Anybody in `kube.client` may use it; each user owns its own instance. Delays are in loop time; only `TimeSlice` looks at
the processor's clock, since what it measures is how long the loop stood still, not when something is due.
"""

import asyncio
import random
import time


class Backoff:
    """Delays `initial`, `initial * factor`, … up to `cap`, each lengthened by up to `jitter` of itself.

    Starts anew once `reset_after` seconds passed without a call, as client-go's reflector does it.
    """

    def __init__(
        self,
        initial: float = 0.8,
        cap: float = 30.0,
        *,
        factor: float = 2.0,
        jitter: float = 1.0,
        reset_after: float = 120.0,
    ) -> None:
        self.initial = initial
        self.cap = cap
        self.factor = factor
        self.jitter = jitter
        self.reset_after = reset_after
        self._next = initial
        self._last = float("-inf")

    def next(self) -> float:
        """The delay before the next try."""
        now = asyncio.get_running_loop().time()
        if now - self._last > self.reset_after:
            self.reset()
        delay = self._next * (1.0 + random.random() * self.jitter)
        self._next = min(self.cap, self._next * self.factor)
        self._last = now + delay
        return delay

    def reset(self) -> None:
        """Begin with the shortest delay again."""
        self._next = self.initial

    async def sleep(self) -> None:
        """Wait for the next delay."""
        await asyncio.sleep(self.next())


class TimeSlice:
    """Lets a busy loop of ours give way to I/O: `if work.spent: await work.give_way()`."""

    def __init__(self, seconds: float = 0.005) -> None:
        self._seconds = seconds
        self._end = time.perf_counter() + seconds

    @property
    def spent(self) -> bool:
        """Whether the slice is used up."""
        return time.perf_counter() >= self._end

    def begin(self) -> None:
        """Start a new slice, after the caller has waited for something."""
        self._end = time.perf_counter() + self._seconds

    async def give_way(self) -> None:
        """Let everything else that is ready run once."""
        await asyncio.sleep(0)
        self.begin()
