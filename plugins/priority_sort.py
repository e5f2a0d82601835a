"""PrioritySort: the order of activeQ, highest priority first, then who has waited longest.

Called by the queue; it never looks at the cluster.
"""

from __future__ import annotations

from scheduler.framework.plugin import QueueSortPlugin
from scheduler.snapshot.pod_info import PodInfo


class PrioritySort(QueueSortPlugin):
    """Order pods by priority, then by the time they entered the queue."""

    name = "PrioritySort"
    events = ()

    def sort_key(self, pod_info: PodInfo, timestamp: float) -> tuple[int, float]:
        """Smaller comes first."""
        return (-pod_info.priority, timestamp)
