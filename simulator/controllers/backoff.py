"""Back-off for what fails again and again: client-go's flowcontrol.Backoff, as the DaemonSet controller uses it.

A pod that its kubelet refuses is Failed at once; a controller that replaced it at once would make thousands an hour.
So the next one waits a second, then two, up to fifteen minutes; after half an hour of peace it begins anew.
Owner: one controller. Time is the loop's.
"""

import asyncio
from dataclasses import dataclass

BASE = 1.0
MAX = 900.0


@dataclass(slots=True)
class Entry:
    """How long the wait was last, and when it began."""

    delay: float
    since: float


class Backoff:
    """Waits by key: the object that is managed, and what else tells its failures apart."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, ...], Entry] = {}

    def left(self, *key: str) -> float:
        """How long is still to wait; 0 for not at all."""
        entry = self._entries.get(key)
        if entry is None:
            return 0.0
        return max(0.0, entry.since + entry.delay - asyncio.get_running_loop().time())

    def failed(self, *key: str) -> None:
        """It failed again; what fails while it waits anyway is the same failure."""
        if self.left(*key):
            return
        now, entry = asyncio.get_running_loop().time(), self._entries.get(key)
        fresh = entry is None or now - entry.since > 2 * MAX
        delay = BASE if entry is None or fresh else min(MAX, 2 * entry.delay)
        self._entries[key] = Entry(delay, now)
        self._forget_old(now)

    def _forget_old(self, now: float) -> None:
        old = [key for key, entry in self._entries.items() if now - entry.since > 2 * MAX]
        for key in old:
            del self._entries[key]
