"""What others keep per row of the snapshot: indexes, and columns of a plugin's own.

Owner: the Snapshot, which tells them of every change. Plugins ask for them by `Snapshot.index` and `add_column`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


class RowIndex(Protocol):
    """An index over rows that a plugin keeps in the snapshot; told of every change of a node as it happens."""

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """The node of this row is new, has changed, or is gone (None; its pods were removed before)."""


@runtime_checkable
class PodRowIndex(RowIndex, Protocol):
    """One that is told of every pod, too."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod is counted on this row now."""

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """A pod is no longer counted on this row."""


class OwnColumn(NamedTuple):
    """A plugin's own column: its key and what its values come from."""

    key: str
    function: Callable[[NodeInfo], float]
    by_pods: bool

    def value(self, info: NodeInfo) -> float:
        """0 where the plugin has no answer: its bug must not stop the refresh, which all others wait for."""
        try:
            return self.function(info)
        except Exception:
            log.exception("column %s: no value for node %s", self.key, info.name)
            return 0
