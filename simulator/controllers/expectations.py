"""Expectations: what a controller has asked for and not seen yet (client-go's ControllerExpectations).

A controller that has just created three pods may be called again before its informer knows them; it must not create
three more. So it writes down what it expects, ticks off what it sees, and manages nothing until all is seen or five
minutes are over. Deletions are kept by key, since a deletion may be seen twice (as marked, and as gone).
Owner: one controller. Time is the loop's.
"""

import asyncio
from dataclasses import dataclass, field

from simulator.apiserver.watch_cache import Key

TIMEOUT = 300.0


@dataclass(slots=True)
class Expected:
    """What one object's controller waits for."""

    creations: int = 0
    deletions: set[Key] = field(default_factory=set)
    since: float = 0.0


class Expectations:
    """By the key of the object that is managed."""

    def __init__(self) -> None:
        self._expected: dict[Key, Expected] = {}

    def satisfied(self, key: Key) -> bool:
        """Whether all was seen, or waited for in vain."""
        expected = self._expected.get(key)
        if expected is None or (expected.creations <= 0 and not expected.deletions):
            return True
        return asyncio.get_running_loop().time() - expected.since > TIMEOUT

    def expect_creations(self, key: Key, count: int) -> None:
        """So many creations are about to be sent."""
        self._expected[key] = Expected(creations=count, since=asyncio.get_running_loop().time())

    def expect_deletions(self, key: Key, pods: list[Key]) -> None:
        """Deletions of these are about to be sent."""
        self._expected[key] = Expected(deletions=set(pods), since=asyncio.get_running_loop().time())

    def creation_observed(self, key: Key) -> None:
        """A creation was seen, or will never be."""
        if (expected := self._expected.get(key)) is not None:
            expected.creations -= 1

    def deletion_observed(self, key: Key, pod: Key) -> None:
        """A deletion was seen, or will never be."""
        if (expected := self._expected.get(key)) is not None:
            expected.deletions.discard(pod)

    def forget(self, key: Key) -> None:
        """The managed object is gone."""
        self._expected.pop(key, None)
