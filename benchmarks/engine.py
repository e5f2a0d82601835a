"""The engine alone: a workload against cache, snapshot and plugins in this process, no API server.

Every measured pod goes through one scheduling cycle and is assumed and reserved, so that the next cycle meets a changed
snapshot; a pod for which preemption finds victims loses them at once and is tried again. What goes on meanwhile (churn,
deletions) follows a clock that advances by a millisecond a pod. `fresh` makes every pod's requests different, so that
nothing is kept between them. Times are CPU times: on a machine with nothing else to do the same as the clock's.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import process_time

from msgspec.structs import replace

from benchmarks.objects import Made, Maker, Names
from benchmarks.workload import Churn, CreatePods, DeletePods, Operation, Workload
from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from kube.api import codec
from kube.api.core import Container, Node, Pod
from kube.api.scheduling import PriorityClass
from plugins.registry import Registry
from scheduler.cache import SchedulerCache
from scheduler.framework.handle import Handle
from scheduler.framework.registry import build_framework
from scheduler.framework.runtime import Framework
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.nominator import Nominator
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot
from simulator.listers import ObjectListers
from simulator.load import ClusterObjects

#: seconds of the workload's clock that a measured pod stands for
CLOCK = 0.001
PROFILE = "podium"
#: measured pods that warm up
WARM = 0.1


@dataclass(slots=True)
class Cost:
    """What the cycles of one run cost; CPU seconds."""

    name: str
    nodes: int
    fresh: bool
    times: list[float] = field(default_factory=list)
    cpu: float = 0.0
    bound: int = 0
    failed: int = 0
    victims: int = 0

    def result(self) -> dict[str, object]:
        """As JSON has it."""
        ordered = sorted(self.times)
        cpu = self.cpu / len(ordered) * 1e6
        return {
            "name": self.name,
            "nodes": self.nodes,
            "fresh": self.fresh,
            "cycles": len(ordered),
            "median_us": round(statistics.median(ordered) * 1e6, 1),
            "p99_us": round(ordered[int(len(ordered) * 0.99)] * 1e6, 1),
            "cpu_us": round(cpu, 1),
            "pods_per_second": round(1e6 / cpu),
            "bound": self.bound,
            "failed": self.failed,
            "victims": self.victims,
        }


class Engine:
    """A cluster in memory and one default profile. Owner: whoever measures."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.listers = ObjectListers(ClusterObjects())
        self.nominator = Nominator()
        self.priorities: dict[str, int] = {}
        handle = Handle(
            snapshot=self.snapshot,
            profile=PROFILE,
            listers=self.listers,
            nominator=self.nominator,
            waiting_pods=WaitingPods(),
            feature_gates=DEFAULT_GATES.as_dict(),
            random=random.Random(0),
        )
        configuration = default_configuration(DEFAULT_GATES)
        self.framework: Framework = build_framework(configuration.profiles[0], Registry(), handle)

    def add(self, made: Made) -> None:
        """An object appears. Pods without a node are ignored: who schedules them holds them."""
        obj = codec.decode(made.body, made.resource.type)
        if isinstance(obj, Node):
            self.cache.add_node(obj)
        elif isinstance(obj, PriorityClass):
            self.priorities[obj.metadata.name] = obj.value
        elif isinstance(obj, Pod):
            if obj.spec.node_name:
                self.cache.add_pod(self._admitted(obj))
        else:
            self.listers(made.resource.kind).indexer.add(obj)

    def pod_info(self, made: Made, fresh: int = 0) -> PodInfo:
        """A pod as the queue would hold it."""
        pod = self._admitted(codec.decode(made.body, Pod))
        return self.snapshot.shapes.pod_info(_unlike_others(pod, fresh) if fresh else pod)

    def remove(self, name: str, namespace: str = "default") -> None:
        """A pod leaves."""
        self.cache.remove_pod(_uid(namespace, name))

    def remove_node(self, name: str) -> None:
        """A node leaves."""
        self.cache.remove_node(name)

    def schedule(self, info: PodInfo) -> Attempt:
        """One cycle, with what follows it before the bind."""
        attempt = schedule_pod(self.framework, info)
        if attempt.node_name:
            assumed = info.on_node(attempt.node_name)
            self.cache.assume_pod(assumed, attempt.node_name)
            self.nominator.delete(info.uid)
            self.framework.run_reserve(attempt.state, assumed.pod, attempt.node_name)
        return attempt

    def evict(self, attempt: Attempt) -> int:
        """Take the victims of a preemption away, and nominate their node; how many there were."""
        found = attempt.post_filter
        if found is None or not found.nominated_node_name:
            return 0
        for victim in found.victims:
            self.cache.remove_pod(victim.uid)
        self.nominator.add(attempt.pod_info, found.nominated_node_name)
        return len(found.victims)

    def _admitted(self, pod: Pod) -> Pod:
        """With what the API server would add: identity and priority."""
        priority = self.priorities.get(pod.spec.priority_class_name, 0)
        metadata = replace(pod.metadata, uid=_uid(pod.metadata.namespace, pod.metadata.name))
        return replace(pod, metadata=metadata, spec=replace(pod.spec, priority=priority))


def _uid(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _unlike_others(pod: Pod, number: int) -> Pod:
    first = pod.spec.containers[0]
    requests = {**first.resources.requests, "memory": f"{500 + number}Mi"}
    changed: Container = replace(first, resources=replace(first.resources, requests=requests))
    return replace(pod, spec=replace(pod.spec, containers=(changed, *pod.spec.containers[1:])))


@dataclass(slots=True)
class _Meanwhile:
    """What an operation does beside the measured pods, each time its moment has come."""

    every: float
    act: Callable[[int], None]
    times: int = 0

    def until(self, now: float) -> None:
        """Catch up."""
        while (self.times + 1) * self.every <= now:
            self.act(self.times)
            self.times += 1


class EngineRun:
    """One workload on one engine."""

    def __init__(self, workload: Workload, *, fresh: bool = False, limit: int = 0) -> None:
        """`limit`: measure no more pods than that, whatever the workload says."""
        self.engine = Engine()
        self._workload = workload
        self._fresh = fresh
        self._limit = limit
        self._maker = Maker(workload)
        self._names = Names(PROFILE)
        self._cost = Cost(workload.title, workload.nodes, fresh)

    def set_up(self) -> None:
        """Everything before the measurement."""
        for operation in self._workload.set_up:
            for made in self._maker.make(operation, self._names):
                self.engine.add(made)
        self.engine.snapshot.refresh()

    def measure(self) -> Cost:
        """Schedule the measured pods."""
        infos = list(self.pods(self._workload.measure.pods))
        meanwhile = [m for step in self._workload.measure.steps if (m := self._meanwhile(step)) is not None]
        warm = int(len(infos) * WARM)
        cpu = 0.0
        for i, info in enumerate(infos):
            if i == warm:
                cpu = process_time()
            for other in meanwhile:
                other.until(i * CLOCK)
            self._schedule(info, counts=i >= warm)
        self._cost.cpu = process_time() - cpu
        return self._cost

    def run(self) -> Cost:
        """Both."""
        self.set_up()
        return self.measure()

    def pods(self, operation: CreatePods) -> Iterator[PodInfo]:
        """The measured pods, as the queue would hold them; what comes with them is added."""
        number = 0
        names = Names(PROFILE, run="measured-")
        for made in self._maker.make(operation, names):
            if made.resource.kind == "Pod":
                number += 1
                if self._limit and number > self._limit:
                    return
                yield self.engine.pod_info(made, number if self._fresh else 0)
            else:
                self.engine.add(made)

    def _schedule(self, info: PodInfo, *, counts: bool) -> None:
        started = process_time()
        attempt = self.engine.schedule(info)
        victims = 0 if attempt.node_name else self.engine.evict(attempt)
        if victims:
            attempt = self.engine.schedule(info)
        if not counts:
            return
        cost = self._cost
        cost.times.append(process_time() - started)
        cost.victims += victims
        cost.bound += bool(attempt.node_name)
        cost.failed += not attempt.node_name

    def _meanwhile(self, operation: Operation) -> _Meanwhile | None:
        if isinstance(operation, DeletePods):
            return _Meanwhile(1 / operation.rate, lambda i: self.engine.remove(f"{operation.name}-{i}"))
        if isinstance(operation, Churn):
            return _Meanwhile(operation.every, lambda i: self._churn(operation, i))
        return None

    def _churn(self, operation: Churn, number: int) -> None:
        again = operation.mode == "recreate"
        for template in operation.templates:
            name = f"churn-{template}" if again else f"churn-{template}-{number}"
            made = self._maker.one(template, name, number, PROFILE)
            if made.resource.kind == "Pod":
                self._schedule(self.engine.pod_info(made), counts=False)
            else:
                if again and number and made.resource.kind == "Node":
                    self.engine.remove_node(name)
                self.engine.add(made)
