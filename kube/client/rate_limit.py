"""A token bucket: at most `qps` requests a second on average, `burst` of them at once (client-go's flowcontrol).

Owned by a REST client (or a work queue); used on one event loop only. Waiters are served in the order they came, since
each takes its token at once and then sleeps until that token exists. Time is the loop's.
"""

import asyncio
from collections.abc import Callable

DEFAULT_QPS = 5.0
DEFAULT_BURST = 10


class TokenBucket:
    """Limits how often `wait` returns. A negative qps switches it off; zero means client-go's defaults, 5 and 10."""

    def __init__(self, qps: float, burst: int) -> None:
        self.qps = qps or DEFAULT_QPS
        self.burst = burst or DEFAULT_BURST
        self._tokens = float(self.burst)
        self._updated: float | None = None
        #: the loop's, once there is one
        self._clock: Callable[[], float] | None = None

    def reserve(self) -> float:
        """Take a token, and say how many seconds it takes until it is really there."""
        if self.qps < 0:
            return 0.0
        self._refill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self.qps)

    def try_accept(self) -> bool:
        """Take a token if there is one."""
        if self.qps < 0:
            return True
        self._refill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def wait(self) -> None:
        """Return when it is the caller's turn; a cancelled caller gives its token back."""
        delay = self.reserve()
        if delay <= 0.0:
            return
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self._tokens += 1.0
            raise

    def _refill(self) -> None:
        if self._clock is None:
            self._clock = asyncio.get_running_loop().time
        now = self._clock()
        if self._updated is not None:
            self._tokens = min(float(self.burst), self._tokens + (now - self._updated) * self.qps)
        self._updated = now
