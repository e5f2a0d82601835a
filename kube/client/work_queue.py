"""A queue of things to be done again until they are as they should be: client-go's rate-limited work queue.

dirty         must be looked at; an item is in the queue at most once, however often it is added
processing    was taken with `get` and not yet given back with `done`; added meanwhile, it comes again after `done`
waiting       comes when its delay is over (`add_after`, `add_rate_limited`)

Owner: one controller. Used on one event loop. Bound: one entry per distinct item. Time is the loop's.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from kube.client.rate_limit import TokenBucket

T = TypeVar("T", bound=Hashable)


class QueueShutDown(Exception):  # noqa: N818 - it tells the ordinary end, no error
    """The queue was shut down and is empty: the worker's loop ends."""


class RateLimiter(Generic[T]):
    """How long an item waits: doubled with each failure of its own, and never less than the bucket for all allows."""

    def __init__(
        self, base_delay: float = 0.005, max_delay: float = 1000.0, overall: TokenBucket | None = None
    ) -> None:
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._overall = overall or TokenBucket(10.0, 100)
        self._failures: dict[T, int] = {}

    def when(self, item: T) -> float:
        """The delay before the item's next try; counts as a failure of it."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        # The exponent is cut before a float would overflow.
        delay = min(self._max_delay, self._base_delay * 2.0 ** min(failures, 64))
        return max(delay, self._overall.reserve())

    def forget(self, item: T) -> None:
        """The item is well: its next failure is its first."""
        self._failures.pop(item, None)

    def num_requeues(self, item: T) -> int:
        """How often the item failed since it was last well."""
        return self._failures.get(item, 0)


class WorkQueue(Generic[T]):
    """Each item is worked on by one worker at a time, in the order of arrival."""

    def __init__(self, rate_limiter: RateLimiter[T] | None = None) -> None:
        self._limiter = rate_limiter or RateLimiter[T]()
        self._queue: deque[T] = deque()
        self._dirty: set[T] = set()
        self._processing: set[T] = set()
        self._waiting: dict[T, asyncio.TimerHandle] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shutting_down = False

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, item: T) -> None:
        """The item must be looked at."""
        if self._shutting_down or item in self._dirty:
            return
        self._dirty.add(item)
        if item not in self._processing:
            self._queue.append(item)
            self._wake_one()

    def add_after(self, item: T, delay: float) -> None:
        """The item must be looked at after the delay; of several such wishes the earliest counts."""
        if self._shutting_down:
            return
        if delay <= 0.0:
            self.add(item)
            return
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(item)
        if waiting is not None:
            if waiting.when() <= loop.time() + delay:
                return
            waiting.cancel()
        self._waiting[item] = loop.call_later(delay, self._delay_is_over, item)

    def add_rate_limited(self, item: T) -> None:
        """The item failed: look at it again, later each time."""
        self.add_after(item, self._limiter.when(item))

    def forget(self, item: T) -> None:
        """The item is well; it still needs `done`."""
        self._limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """How often the item failed since it was last well."""
        return self._limiter.num_requeues(item)

    async def get(self) -> T:
        """The next item, which is the caller's until `done`. Raises QueueShutDown when there will be none."""
        while not self._queue:
            if self._shutting_down:
                raise QueueShutDown
            await self._wait()
        item = self._queue.popleft()
        self._processing.add(item)
        self._dirty.discard(item)
        return item

    def done(self, item: T) -> None:
        """The caller has finished with the item."""
        self._processing.discard(item)
        if item in self._dirty:
            self._queue.append(item)
            self._wake_one()

    def shut_down(self) -> None:
        """Take nothing more; what is queued may still be taken, what waits for a delay is dropped."""
        self._shutting_down = True
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    @property
    def shutting_down(self) -> bool:
        """Whether `shut_down` was called."""
        return self._shutting_down

    def _delay_is_over(self, item: T) -> None:
        del self._waiting[item]
        self.add(item)

    async def _wait(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled() and self._queue:
                self._wake_one()  # this getter was woken for an item that it will not take
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
