"""`podium demo --trace`: a recorded workload replayed in compressed time, and a picture of it at the end.

Each task is created when it came and deleted when it left, N times as fast; a pause without arrivals is cut to an hour
of the trace. The service schedules over HTTP as always. Called by the demo command only.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from kube.api import quantity
from podium import svg
from podium.configuration import Effective
from podium.output import writing
from podium.wiring import Service
from simulator.apiserver.errors import ApiError
from simulator.apiserver.watch_cache import Event
from simulator.cluster import Cluster
from simulator.load.traces import GPU, GPU_SHARE, NAMESPACE, Task, Trace, read_nodes, read_trace

Serving = Callable[[Cluster, Effective, int], AbstractAsyncContextManager[Service]]
Object = dict[str, Any]

DAY = 86400.0
PAUSE = 3600.0
#: how long a replay takes where nobody says how fast it shall go, seconds
DEFAULT_SECONDS = 30.0
_SAMPLES = 400
_FULL = 0.75
_SLICE = 0.02
_MOMENT = 0.1
_MOST_UNTRIED = 50
_AFTER_LAST = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """A task comes or goes, at a second of the replayed trace."""

    at: float
    arrives: bool
    task: Task


def steps(trace: Trace, stretch: float, pause: float = PAUSE) -> list[Step]:
    """All arrivals and departures in order, long pauses cut short, lifetimes stretched; ends as the trace ends."""
    found, now, last = [], 0.0, trace.tasks[0].created
    end = 0.0
    for task in trace.tasks:
        now += min(task.created - last, pause)
        last = task.created
        found += [Step(now, True, task), Step(now + task.lifetime * stretch, False, task)]
        end = now + min(pause, task.lifetime)
    return sorted((step for step in found if step.at <= end), key=lambda step: (step.at, not step.arrives))


def filling_stretch(trace: Trace, nodes: list[Object], gpu: str) -> float:
    """How much longer the tasks must live for the cluster to be three quarters full at the peak; a whole number.

    Recorded tasks are short against the months of a trace: as they were, a large cluster would look empty.
    """
    usage = Usage(gpu)
    for node in nodes:
        usage.add_node(node)
    low, high = 1, 4096
    while low < high:
        middle = (low + high) // 2
        if _peak(steps(trace, middle), usage) < _FULL:
            low = middle + 1
        else:
            high = middle
    return float(low)


def _peak(plan: list[Step], usage: Usage) -> float:
    """The largest share of any resource that all tasks together ask for at once."""
    taken, peak = dict.fromkeys(usage.capacity, 0), 0.0
    for step in plan:
        for name, amount in usage.requests(step.task.pod).items():
            taken[name] += amount if step.arrives else -amount
            peak = max(peak, taken[name] / (usage.capacity[name] or 1))
    return peak


@dataclass(slots=True)
class Usage:
    """What of the cluster is taken, kept up to date by the store's events. CPU in thousandths, memory in bytes."""

    gpu: str
    capacity: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, dict[str, int]] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)

    def add_node(self, node: Object) -> None:
        """One more node."""
        for name, amount in self._amounts(node["status"]["allocatable"]).items():
            self.capacity[name] = self.capacity.get(name, 0) + amount

    def on_pod(self, event: Event) -> None:
        """A pod came, was bound, or went."""
        pod = event.revision.obj
        uid = pod["metadata"]["uid"]
        if event.type == "DELETED":
            self.pending.pop(uid, None)
            self._count(self.pods.pop(uid, {}), -1)
        elif not pod["spec"].get("nodeName"):
            self.pending.setdefault(uid, perf_counter())
        elif uid not in self.pods:
            self.waits.append(perf_counter() - self.pending.pop(uid, perf_counter()))
            self.pods[uid] = self.requests(pod)
            self._count(self.pods[uid], 1)

    def requests(self, pod: Object) -> dict[str, int]:
        """What a pod of a trace asks for."""
        return self._amounts(pod["spec"]["containers"][0]["resources"].get("requests") or {})

    def share(self, name: str) -> float:
        """Used over capacity."""
        return self.used.get(name, 0) / (self.capacity.get(name) or 1)

    def _count(self, amounts: dict[str, int], sign: int) -> None:
        for name, amount in amounts.items():
            self.used[name] = self.used.get(name, 0) + sign * amount

    def _amounts(self, resources: dict[str, str]) -> dict[str, int]:
        found = {"cpu": quantity.milli_value(resources.get("cpu", "0"))}
        for name in ("memory", self.gpu):
            found[name] = quantity.value(resources.get(name, "0"))
        return found


@dataclass(slots=True)
class Record:
    """The samples of a replay."""

    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    gpu: list[float] = field(default_factory=list)
    pending: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)

    def sample(self, day: float, usage: Usage, untried: int) -> None:
        """Note how it is now. A pod that was not tried yet waits for this machine, and does not count as pending."""
        self.times.append(day)
        self.cpu.append(usage.share("cpu"))
        self.memory.append(usage.share("memory"))
        self.gpu.append(usage.share(usage.gpu))
        self.pending.append(len(usage.pending) - untried)
        self.running.append(len(usage.pods))


async def replay(args: argparse.Namespace, effective: Effective, serving: Serving) -> int:
    """Replay, print the figures, write the picture."""
    nodes, trace = read_nodes(args.trace_nodes), read_trace(args.trace, gpu_share=args.gpu_share)
    gpu = GPU_SHARE if args.gpu_share else GPU
    stretch = args.stretch or filling_stretch(trace, nodes, gpu)
    plan = steps(trace, stretch)
    speedup = args.speedup or max(plan[-1].at, 1.0) / DEFAULT_SECONDS
    usage, record = Usage(gpu), Record()
    async with Cluster(args.port, seed=args.seed) as cluster:
        for node in nodes:
            cluster.add_node({"metadata": node["metadata"], "status": node["status"]}, node["metadata"]["name"])
            usage.add_node(node)
        _found(cluster, trace)
        unfollow = cluster.server.store.listen("pods", usage.on_pod)
        async with serving(cluster, effective, args.seed) as service:
            player = Player(cluster, plan, speedup, usage, record, lambda: _untried(service, usage))
            await player.play()
        unfollow()
    _print(record, usage, player)
    longer = f", each living {stretch:,.0f} times as long" if stretch != 1 else ""
    about = f"{len(nodes):,} nodes, {len(trace.tasks):,} tasks{longer}; time {speedup:,.0f} times as fast"
    path = Path(args.picture)
    with writing(path):
        path.write_text(picture(record, Path(args.trace).name, about), encoding="utf-8")
    print(f"picture: {args.picture}", file=sys.stderr)
    return 0


def _found(cluster: Cluster, trace: Trace) -> None:
    """The namespace, and a priority class for each priority: an API server takes no bare numbers."""
    cluster.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for value in sorted({task.pod["spec"]["priority"] for task in trace.tasks}):
        cluster.server.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"trace-{value}"},
                "value": value,
            }
        )


def _untried(service: Service, usage: Usage) -> int:
    """Pods that the service has still to look at, or to finish binding."""
    lengths = service.scheduler.queue.lengths()
    return len(usage.pending) - lengths["backoff"] - lengths["unschedulable"] - lengths["gated"]


class Player:
    """Plays the steps in their time; while the service has much to catch up with, the time of the trace stands still.

    So the outcome does not depend on how fast the machine is. Owner: `replay`.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: list[Step],
        speedup: float,
        usage: Usage,
        record: Record,
        untried: Callable[[], int],
    ) -> None:
        self._untried = untried
        self._cluster = cluster
        self._plan = plan
        self._speedup = speedup
        self._usage = usage
        self._record = record
        self.created = 0
        self.left_pending = 0
        self.seconds = 0.0

    async def play(self) -> None:
        """To the end; nothing is left out."""
        left = iter(self._plan)
        step = next(left, None)
        end, now, sampled = self._plan[-1].at, 0.0, float("-inf")
        started = before = perf_counter()
        while step is not None:
            clock = perf_counter()
            if self._untried() < _MOST_UNTRIED:
                # A stretch of waiting counts as no more than a moment, or what follows would come all at once.
                now = min(now + min(clock - before, _MOMENT) * self._speedup, end)
                while step is not None and step.at <= now and perf_counter() < clock + _SLICE:
                    self._take(step)
                    step = next(left, None)
                now = now if step is None else min(now, step.at)
            before = clock
            if now - sampled >= end / _SAMPLES:
                self._record.sample(now / DAY, self._usage, self._untried())
                sampled = now
            await asyncio.sleep(0.002)
        self.seconds = perf_counter() - started
        await asyncio.sleep(_AFTER_LAST)
        self._record.sample(end / DAY, self._usage, self._untried())

    def _take(self, step: Step) -> None:
        pod = step.task.pod
        if step.arrives:
            spec = {key: value for key, value in pod["spec"].items() if key != "priority"}
            spec |= {"schedulerName": "podium", "priorityClassName": f"trace-{pod['spec']['priority']}"}
            self._cluster.server.create({**pod, "spec": spec})
            self.created += 1
            return
        try:
            before = len(self._usage.pending)
            self._cluster.server.delete("pods", pod["metadata"]["name"], NAMESPACE)
            self.left_pending += before - len(self._usage.pending)
        except ApiError as error:
            if error.code != 404:  # preempted meanwhile
                raise


def _print(record: Record, usage: Usage, player: Player) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 3))
    waits = sorted(usage.waits) or [0.0]
    p50, p99 = waits[len(waits) // 2] * 1000, waits[min(len(waits) - 1, int(len(waits) * 0.99))] * 1000
    table.add_row("replayed", f"{record.times[-1]:,.1f} days of the trace in {player.seconds:,.1f} s")
    table.add_row("arrived", f"{player.created:,} pods, {len(waits):,} bound, {player.left_pending:,} left unbound")
    table.add_row("bound after", f"median {p50:,.0f} ms, p99 {p99:,.0f} ms")
    for title, values in (("CPU", record.cpu), ("memory", record.memory), ("GPU", record.gpu)):
        mean = sum(values) / len(values)
        table.add_row(f"use of {title}", f"peak {max(values):.1%}, mean {mean:.1%}, at the end {values[-1]:.1%}")
    table.add_row("running", f"peak {max(record.running):,.0f} pods")
    table.add_row("pending", f"peak {max(record.pending):,.0f} pods, at the end {record.pending[-1]:,.0f}")
    Console(highlight=False).print(table)


def picture(record: Record, name: str, about: str) -> str:
    """Use above, pods that run and pods that wait below."""
    use = [
        svg.Series("CPU", svg.BLUE, record.cpu),
        svg.Series("memory", svg.GREEN, record.memory),
        svg.Series("GPU", svg.ORANGE, record.gpu),
    ]
    top = 1.0 if max((*record.cpu, *record.memory, *record.gpu)) > 0.5 else None
    label = "{:.0%}" if top else "{:.1%}"
    panels = [
        svg.Panel("Requested of what there is", use, height=220, top=top or _nice_share(record), label=label),
        svg.Panel("Pods running", [svg.Series("running", svg.BLUE, record.running)], height=110, fill=True),
        svg.Panel("Pods pending", [svg.Series("pending", svg.PURPLE, record.pending)], height=110, fill=True),
    ]
    return svg.draw(f"podium: replay of {name}", about, record.times, panels, "days of the trace")


def _nice_share(record: Record) -> float:
    return svg.round_up(max((*record.cpu, *record.memory, *record.gpu, 0.001)))
