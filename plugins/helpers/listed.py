"""Derived: something worked out from all objects of a kind, kept until one of them (or a node) changes.

Plugins use it where an answer for every node rests on objects other than nodes and pods: limits in CSINodes,
VolumeAttachments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from scheduler.framework.handle import Lister
from scheduler.snapshot.snapshot import Snapshot

T = TypeVar("T")


class Derived(Generic[T]):
    """A value made by `make` from a lister's objects. Owner: the plugin that made it."""

    __slots__ = ("_lister", "_make", "_snapshot", "_stamp", "_value")

    def __init__(self, lister: Lister, snapshot: Snapshot, make: Callable[[], T]) -> None:
        self._lister = lister
        self._snapshot = snapshot
        self._make = make
        self._stamp: tuple[int, int, int] | None = None
        self._value: T | None = None

    def get(self) -> T:
        """The value as of now."""
        stamp = (self._lister.version, self._snapshot.node_epoch, self._snapshot.size)
        if self._value is None or stamp != self._stamp:
            self._value = self._make()
            self._stamp = stamp
        return self._value
