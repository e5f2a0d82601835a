"""A scheduling queue with a clock that the test moves, plugins given by their hints, and one-line questions."""

from collections.abc import Callable, Iterable
from typing import Any

from kube.api.core import Pod
from scheduler.framework.cluster_event import ClusterEventWithHint
from scheduler.framework.status import Status
from scheduler.queue.hints import Hint, ProfileHooks
from scheduler.queue.nominator import Nominator
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import Observers, QueueConfig, SchedulingQueue
from scheduler.snapshot.pod_info import PodInfo, ShapeTable


def by_priority(info: PodInfo, timestamp: float) -> tuple[int, float]:
    return (-info.priority, timestamp)


class Bench:
    """`plugins`: name to what it registers; `gate`: PreEnqueue; `any_event`: plugins that registered nothing."""

    def __init__(
        self,
        plugins: dict[str, Iterable[ClusterEventWithHint]] | None = None,
        *,
        gate: Callable[[Pod], Status | None] = lambda pod: None,
        any_event: Iterable[str] = (),
        config: QueueConfig | None = None,
    ) -> None:
        self.now = 1000.0
        self.counted: list[tuple[str, str]] = []
        self.shapes = ShapeTable()
        hints = [Hint(name, each) for name, registered in (plugins or {}).items() for each in registered]
        hooks = ProfileHooks(gate, hints, frozenset(any_event))
        self.queue = SchedulingQueue(
            lambda pod: hooks,
            Nominator(),
            by_priority,
            lambda: self.now,
            config,
            Observers(incoming=lambda queue, event: self.counted.append((queue, event))),
        )

    def info(self, pod: Pod) -> PodInfo:
        return self.shapes.pod_info(pod)

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.queue.add(self.info(pod))

    def pop(self) -> str | None:
        item = self.queue.pop_nowait()
        return None if item is None else item.pod.metadata.name

    def popped(self, pod: Pod) -> QueuedPodInfo:
        """Add the pod and pop it; the queue must be empty."""
        self.add(pod)
        return self.pop_item()

    def pop_item(self) -> QueuedPodInfo:
        item = self.queue.pop_nowait()
        assert item is not None, "nothing to pop"
        return item

    def refuse(self, item: QueuedPodInfo, *plugins: str, pending: Iterable[str] = ()) -> None:
        """The attempt failed; without plugins by an error."""
        item.unschedulable_plugins, item.pending_plugins = {*plugins, *pending}, set(pending)
        self.queue.add_unschedulable(item)

    def pool(self, pod: Pod) -> str | None:
        found = self.queue.get(self.info(pod).uid)
        return None if found is None else found[1]

    def happens(self, event: Any, old: Any = None, new: Any = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new)
