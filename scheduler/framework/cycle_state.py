"""CycleState: what one scheduling cycle of one pod remembers between extension points.

Owner: the cycle of that pod; it dies with it. A plugin writes under its own name in PreFilter or PreScore and
reads it back later. Dry runs (nominated pods, preemption) work on a clone: a value that changes in
`add_pod`/`remove_pod` offers `clone()`; values without it are shared, so they must not change.
"""

from __future__ import annotations

from typing import Any

from scheduler.snapshot.pod_info import PodInfo


class CycleState:
    """Scratch space of one cycle."""

    __slots__ = ("data", "pod_info", "skip_filter", "skip_score")

    def __init__(self, pod_info: PodInfo) -> None:
        self.pod_info = pod_info
        self.data: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def write(self, key: str, value: object) -> None:
        """Remember a value under a key, by convention the plugin's name."""
        self.data[key] = value

    def read(self, key: str) -> Any:
        """The value, or None where nothing was written."""
        return self.data.get(key)

    def clone(self) -> CycleState:
        """A copy whose changes do not reach this one."""
        copy = CycleState(self.pod_info)
        copy.data = {key: value.clone() if hasattr(value, "clone") else value for key, value in self.data.items()}
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        return copy
