"""Small words for queueing hints. Only hints of plugins call it; it never looks at anything but its arguments."""

from __future__ import annotations

from kube.api.core import Pod
from scheduler.framework.cluster_event import QueueingHint


def queue_if(worth_a_try: bool) -> QueueingHint:
    """QUEUE where the event may make the pod schedulable, else SKIP."""
    return QueueingHint.QUEUE if worth_a_try else QueueingHint.SKIP


def is_same_pod(pod: Pod, other: Pod | None) -> bool:
    """Whether the event is about the waiting pod itself."""
    return other is not None and other.metadata.uid == pod.metadata.uid


def had_a_place(pod: Pod) -> bool:
    """Whether a pod took room: it was assigned, or nominated to a node."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
