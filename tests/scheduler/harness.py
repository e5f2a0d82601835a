"""A profile made of a test's own plugins, on the real cache, snapshot, nominator and runtime.

cluster = Cluster(Even, nodes=[make_node("n1"), make_node("n2")])
cluster.attempt(make_pod("web")).node_name
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kube.api.core import Node, Pod
from scheduler.cache import SchedulerCache
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import EXTENSION_POINTS, Plugin, QueueSortPlugin
from scheduler.framework.runtime import EnabledPlugins, Feasibility, Framework
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.nominator import Nominator
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot

PROFILE = "podium"


class ByPriority(QueueSortPlugin):
    name = "ByPriority"
    events = ()

    def sort_key(self, pod_info: PodInfo, timestamp: float) -> tuple[int, float]:
        return (-pod_info.priority, timestamp)


class Cluster:
    """Nodes, pods, and one profile. `plugins` in run order; each takes part in all points it implements."""

    def __init__(
        self,
        *plugins: type[Plugin],
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        weights: Mapping[str, int] | None = None,
        gates: Mapping[str, bool] | None = None,
        client: Any = None,
        seed: int = 0,
    ) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.nominator = Nominator()
        self.waiting = WaitingPods()
        for node in nodes:
            self.cache.add_node(node)
        for pod in pods:
            self.cache.add_pod(pod)
        self.handle = Handle(
            snapshot=self.snapshot,
            profile=PROFILE,
            listers=lambda kind: (_ for _ in ()).throw(AssertionError(f"no {kind} here")),
            nominator=self.nominator,
            waiting_pods=self.waiting,
            feature_gates=dict(gates or {}),
            random=random.Random(seed),
            client=client,
        )
        self.plugins: dict[str, Any] = {plugin.name: plugin(None, self.handle) for plugin in (ByPriority, *plugins)}
        self.weights = dict(weights or {})
        self.framework = self.fresh_framework()

    def fresh_framework(self) -> Framework:
        """The same plugin objects in a runtime that remembers nothing."""
        points = {
            point: tuple(plugin for plugin in self.plugins.values() if isinstance(plugin, kind))
            for point, kind in EXTENSION_POINTS.items()
        }
        return Framework(PROFILE, EnabledPlugins(points, self.weights), self.handle)

    def info(self, pod: Pod) -> PodInfo:
        return self.snapshot.shapes.pod_info(pod)

    def attempt(self, pod: Pod, percentage: int = 0) -> Attempt:
        return schedule_pod(self.framework, self.info(pod), percentage)

    def feasible(self, pod: Pod) -> set[str]:
        """Names of the nodes that pass PreFilter and Filter."""
        attempt = self.attempt(pod)
        return set(attempt.feasible())

    def reasons(self, pod: Pod) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Refused node -> (plugin, reasons)."""
        diagnosis = self.attempt(pod).diagnosis
        assert diagnosis is not None, "the pod fits"
        return {name: (status.plugin, status.reasons) for name, status in diagnosis.node_statuses().items()}

    def find(self, pod: Pod) -> tuple[CycleState, Feasibility]:
        self.snapshot.refresh()
        state = CycleState(self.info(pod))
        return state, self.framework.find_feasible(state)
