"""What a plugin computes of every node with the pods on it, whatever pod is to be placed: kept, and brought up to date.

A cycle meets a snapshot in which few rows differ from the last one; only these are computed again, one at a time where
they are few, as the fixed cost of array functions would be most of the work.

Owner: the plugin that made it. Nobody else reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.shape_patch import FEW
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes

#: `(…, size)` for a view, and the same numbers for one node
Many = Callable[[Nodes], NDArray[Any]]
One = Callable[[NodeInfo], Any]


class KeptRows:
    """An array `(…, rows)` over all rows of the snapshot."""

    __slots__ = ("_many", "_one", "_values", "_version")

    def __init__(self, many: Many, one: One) -> None:
        self._many = many
        self._one = one
        self._values: NDArray[Any] = np.zeros(0)
        self._version = -1

    def of(self, nodes: Nodes) -> NDArray[Any]:
        """The view's part, `(…, size)`; for all rows the kept array itself, not to be changed."""
        snapshot = nodes.snapshot
        if self._values.shape[-1] != snapshot.size or self._version < snapshot.node_epoch:
            self._values = self._many(snapshot.nodes)
        elif self._version != snapshot.version:
            self._catch_up(nodes)
        self._version = snapshot.version
        part: NDArray[Any] = nodes.gather(self._values)
        return part

    def _catch_up(self, nodes: Nodes) -> None:
        snapshot = nodes.snapshot
        few = snapshot.few_changed_since(self._version, FEW)
        if few is None:
            rows = snapshot.changed_since(self._version)
            self._values[..., rows] = self._many(snapshot.select(rows))
            return
        for row in few:
            info = snapshot.infos[row]
            # A row without a node belongs to an older state of the nodes, of which nothing is kept.
            assert info is not None
            self._values[..., row] = self._one(info)
