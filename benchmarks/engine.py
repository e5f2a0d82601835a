"""The engine alone: one scheduling cycle over all nodes, no API server.

Clusters and pods in the shape of kube-scheduler's own scheduler_perf suite: nodes of 4 CPU and 32 GiB in three zones,
pods of 100m and 500 MiB. Each measured pod is assumed, so that the next cycle meets a changed snapshot.
`fresh` pods are all of different shapes (nothing is kept between them), `repeat` pods are replicas.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, process_time

import msgspec

from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from kube.api.core import Node, Pod
from plugins.registry import Registry
from scheduler.cache import SchedulerCache
from scheduler.framework.handle import Handle
from scheduler.framework.registry import build_framework
from scheduler.framework.runtime import Framework
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.nominator import Nominator
from scheduler.scheduling_cycle import schedule_pod
from scheduler.snapshot.snapshot import Snapshot
from simulator.listers import ObjectListers
from simulator.load import ClusterObjects
from tests.builders import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of one cycle, assume included."""

    name: str
    cycles: int
    median: float
    p99: float
    cpu: float

    @property
    def per_second(self) -> float:
        """Pods a second of one core."""
        return 1e6 / self.cpu


class Engine:
    """A cluster in memory and one default profile."""

    def __init__(self, nodes: int, objects: ClusterObjects | None = None) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.listers = ObjectListers(objects or ClusterObjects())
        configuration = default_configuration(DEFAULT_GATES)
        handle = Handle(
            snapshot=self.snapshot,
            profile="podium",
            listers=self.listers,
            nominator=Nominator(),
            waiting_pods=WaitingPods(),
            feature_gates=DEFAULT_GATES.as_dict(),
            random=random.Random(0),
        )
        self.framework: Framework = build_framework(configuration.profiles[0], Registry(), handle)
        for node in make_nodes(nodes):
            self.cache.add_node(node)

    def run_pods(self, pods: Iterator[Pod], count: int) -> None:
        """Put pods on nodes round robin, as pods that run there already."""
        names = list(self.snapshot.row_of)
        for i in range(count):
            pod = next(pods)
            spec = msgspec.structs.replace(pod.spec, node_name=names[i % len(names)])
            self.cache.add_pod(msgspec.structs.replace(pod, spec=spec))
        self.snapshot.refresh()

    def measure(self, name: str, pods: Iterator[Pod], count: int = 400) -> Cost:
        """Schedule and assume `count` pods; the first tenth warms up."""
        infos = [self.snapshot.shapes.pod_info(next(pods)) for _ in range(count)]
        times = []
        warm = count // 10
        cpu = 0.0
        for i, info in enumerate(infos):
            if i == warm:
                cpu = process_time()
            started = perf_counter()
            attempt = schedule_pod(self.framework, info)
            if attempt.node_name:
                self.cache.assume_pod(info.on_node(attempt.node_name), attempt.node_name)
            times.append(perf_counter() - started)
        cpu = process_time() - cpu
        times = times[warm:]
        ordered = sorted(times)
        return Cost(
            name,
            len(times),
            statistics.median(times) * 1e6,
            ordered[int(len(ordered) * 0.99)] * 1e6,
            cpu / len(times) * 1e6,
        )


def make_nodes(count: int) -> Iterator[Node]:
    """Nodes of scheduler_perf's node-default in three zones."""
    for i in range(count):
        labels = {ZONE: f"zone-{i % 3}", HOSTNAME: f"node-{i}"}
        yield make_node(f"node-{i}", cpu="4", memory="32Gi", pods="110", labels=labels)


def default_pods(prefix: str = "pod", **keywords: object) -> Iterator[Pod]:
    """Replicas of pod-default."""
    i = 0
    while True:
        yield make_pod(f"{prefix}-{i}", cpu="100m", memory="500Mi", **keywords)  # type: ignore[arg-type]
        i += 1


def fresh_pods(**keywords: object) -> Iterator[Pod]:
    """Pods that all differ in their requests, so that nothing can be kept."""
    i = 0
    while True:
        yield make_pod(f"fresh-{i}", cpu=f"{100 + i % 50}m", memory=f"{500 + i}Mi", **keywords)  # type: ignore[arg-type]
        i += 1


Workload = Callable[[Engine], Iterator[Pod]]


def plain() -> Iterator[Cost]:
    """The plain pod, nothing kept and repeats, by number of nodes."""
    for nodes in (1_000, 5_000, 15_000):
        engine = Engine(nodes)
        yield engine.measure(f"plain, fresh shapes, {nodes} nodes", fresh_pods())
        yield engine.measure(f"plain, repeats, {nodes} nodes", default_pods())
