"""Schedulers in turn on the same API server: A B A B, each with a process of its own, on the same work.

For each workload: what comes before the measurement is created once (or anew each time, where measuring uses it up).
Then, round after round, each contender gets its pods, is started, and is watched until all are bound:

    pods wait ──► start the process ──► first bind ──► … ──► last bind ──► until it is quiet ──► stop, delete the pods

Pods wait before the process starts, so that the benchmark's own requests do not share the processor with what is
measured; only pods at a rate (`SteadyArrival`) are created while it runs. CPU is counted from the first bind that is
seen until the process is quiet (its events are written then), and also from the start.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.calibration import add_microseconds
from benchmarks.cluster import Cluster
from benchmarks.objects import Made, Maker, Names
from benchmarks.processes import Histogram, cpu_seconds, histogram, memory_mib
from benchmarks.schedulers import Contender, Running
from benchmarks.servers import Site
from benchmarks.workload import Barrier, Churn, CreatePods, DeletePods, Operation, Sleep, Workload
from kube.client.auth import load_credentials
from kube.client.rest import Client

#: seconds without any bind after which a run is given up
STALLED = 90.0
QUIET_SHARE = 0.1
QUIET_SECONDS = 1.0
QUIET_LIMIT = 60.0
EVENTS = ("/apis/events.k8s.io/v1/events", "/apis/events.k8s.io/v1/namespaces/{}/events")
#: kube-scheduler's attempt histogram, by its name since 1.23 and before
ATTEMPT = ("scheduler_scheduling_attempt_duration_seconds", "scheduler_e2e_scheduling_duration_seconds")
ALGORITHM = ("scheduler_scheduling_algorithm_duration_seconds",)


@dataclass(slots=True)
class Run:
    """One contender, one workload, one round."""

    scheduler: str
    round: int
    pods: int
    bound: int = 0
    #: first to last bind
    seconds: float = 0.0
    pods_per_second: float = 0.0
    cpu_ms_per_pod: float = 0.0
    cpu_ms_per_pod_with_start: float = 0.0
    server_cpu_ms_per_pod: float = 0.0
    first_bind_seconds: float | None = None
    attempt_p50_ms: float | None = None
    attempt_p99_ms: float | None = None
    algorithm_p50_ms: float | None = None
    algorithm_p99_ms: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    peak_mib: float = 0.0
    resident_mib: float = 0.0
    events: int = 0
    longest_silence_ms: float | None = None
    add_5000_us: float = 0.0
    note: str = ""


@dataclass(slots=True)
class _Window:
    """The part of a run in which pods are being bound. Reads the process's CPU at the first bind of a measured pod."""

    running: Running
    site: Site
    prefix: str
    started: float
    first: float = 0.0
    last: float = 0.0
    bound: int = 0
    cpu_at_first: float = 0.0
    server_cpu_at_first: float = 0.0
    times: dict[str, float] = field(default_factory=dict)

    def see(self, name: str) -> None:
        """A pod was bound."""
        if not name.startswith(self.prefix):
            return
        self.last = perf_counter()
        if not self.bound:
            self.first = self.last
            self.cpu_at_first = cpu_seconds(self.running.pid)
            self.server_cpu_at_first = server_cpu(self.site)
        self.bound += 1
        self.times[name] = self.last


def server_cpu(site: Site) -> float:
    """CPU seconds of the API server's processes."""
    return sum(cpu_seconds(pid) for pid in site.pids)


class Bench:
    """One workload on one site. Owner: `compare`."""

    def __init__(self, workload: Workload, site: Site, cluster: Cluster, *, probe: bool = False) -> None:
        """`probe`: ask /healthz all the time, for the longest time without an answer."""
        self._workload = workload
        self._site = site
        self._cluster = cluster
        self._probe = probe
        self._maker = Maker(workload)
        self._standing: list[Made] = []

    async def set_up(self) -> None:
        """Everything before the measurement."""
        for operation in self._workload.set_up:
            if isinstance(operation, Sleep):
                await asyncio.sleep(operation.seconds)
            elif not isinstance(operation, Barrier):
                self._standing += await self._cluster.create(self._maker.make(operation, Names("nobody")))

    async def tear_down(self) -> None:
        """Delete all that was set up."""
        await self._cluster.let_go(self._standing)
        await self._cluster.delete(reversed(self._standing))
        self._standing = []
        self._maker = Maker(self._workload)

    async def measure(self, contender: Contender, number: int) -> Run:
        """One round of one contender."""
        names = Names(contender.name, f"{contender.name}-{number}-")
        pods = self._workload.measure.pods
        prefix = self._maker.pod_prefix(pods, names)
        made = list(self._maker.make(pods, names))
        run = Run(contender.name, number, pods.count, add_5000_us=round(add_microseconds(), 2))
        if not pods.rate:
            await self._cluster.create(made)
        running = await contender.start(self._site)
        window = _Window(running, self._site, prefix, running.started)
        self._cluster.on_bound = window.see
        try:
            await self._drive(run, window, made, names)
        finally:
            self._cluster.on_bound = lambda name: None
            await running.stop()
        await self._cluster.delete(reversed(made))
        return run

    async def _drive(self, run: Run, window: _Window, made: list[Made], names: Names) -> None:
        before = await self._events()
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(self._meanwhile(step, names)) for step in self._workload.measure.steps]
            if self._probe:
                others.append(group.create_task(self._watch_answers(run, window.running)))
            if self._workload.measure.pods.rate:
                await self._until_ready(window.running)
                idle = histograms(await window.running.metrics(), names.scheduler)
                others.append(group.create_task(self._arrive(made, self._workload.measure.pods)))
            else:
                idle = (Histogram(), Histogram())
            await self._until_bound(run, window)
            for other in others:
                other.cancel()
            await self._until_quiet(window.running)
        self._fill(run, window)
        attempt, algorithm = histograms(await window.running.metrics(), names.scheduler)
        _fill_latencies(run, attempt.since(idle[0]), algorithm.since(idle[1]))
        run.events = await self._events() - before

    async def _arrive(self, made: list[Made], pods: CreatePods) -> None:
        await self._cluster.create(made, rate=pods.rate)

    async def _until_ready(self, running: Running) -> None:
        while await running.answers() == float("inf"):
            running.must_run()
            await asyncio.sleep(0.1)
        # It answers before it has listed; so many seconds are enough for what has been set up.
        await asyncio.sleep(3.0)

    async def _until_bound(self, run: Run, window: _Window) -> None:
        while window.bound < run.pods:
            window.running.must_run()
            if perf_counter() - max(window.last, window.started) > STALLED:
                run.note = f"nothing bound for {STALLED:.0f} s"
                return
            await asyncio.sleep(0.02)

    async def _until_quiet(self, running: Running) -> None:
        """Until it has written its events: no new ones, and hardly any CPU, for a while."""
        end = perf_counter() + QUIET_LIMIT
        before = (cpu_seconds(running.pid), -1)
        while perf_counter() < end:
            await asyncio.sleep(QUIET_SECONDS)
            now = (cpu_seconds(running.pid), await self._events())
            if now[0] - before[0] <= QUIET_SHARE * QUIET_SECONDS and now[1] == before[1]:
                return
            before = now

    def _fill(self, run: Run, window: _Window) -> None:
        pid = window.running.pid
        run.bound = window.bound
        run.peak_mib = round(memory_mib(pid, "VmHWM"), 1)
        run.resident_mib = round(memory_mib(pid, "VmRSS"), 1)
        if not window.bound:
            return
        cpu = cpu_seconds(pid)
        run.first_bind_seconds = round(window.first - window.started, 3)
        run.seconds = round(window.last - window.first, 3)
        run.pods_per_second = round((window.bound - 1) / run.seconds, 1) if run.seconds else 0.0
        run.cpu_ms_per_pod = round((cpu - window.cpu_at_first) / window.bound * 1e3, 3)
        run.cpu_ms_per_pod_with_start = round(cpu / window.bound * 1e3, 3)
        run.server_cpu_ms_per_pod = round((server_cpu(self._site) - window.server_cpu_at_first) / window.bound * 1e3, 3)
        if self._workload.measure.pods.rate:
            created = self._cluster.created
            latencies = sorted(t - created[name] for name, t in window.times.items() if name in created)
            run.latency_p50_ms = round(statistics.median(latencies) * 1e3, 2)
            run.latency_p99_ms = round(latencies[int(len(latencies) * 0.99)] * 1e3, 2)

    async def _events(self) -> int:
        return await self._cluster.count(EVENTS[0])

    # --- what goes on meanwhile -----------------------------------------------------------------------------

    async def _watch_answers(self, run: Run, running: Running) -> None:
        longest = 0.0
        while True:
            answered = await running.answers()
            if answered != float("inf"):
                longest = max(longest, answered)
                run.longest_silence_ms = round(longest * 1e3, 1)
            await asyncio.sleep(0.01)

    async def _meanwhile(self, operation: Operation, names: Names) -> None:
        if isinstance(operation, DeletePods):
            leaving = [m for m in self._standing if m.name.startswith(f"{operation.name}-")]
            await self._cluster.delete(leaving, rate=operation.rate)
        elif isinstance(operation, Churn):
            await self._churn(operation, names)

    async def _churn(self, operation: Churn, names: Names) -> None:
        again = operation.mode == "recreate"
        number = 0
        made: dict[str, Made] = {}
        try:
            while True:
                await asyncio.sleep(operation.every)
                for template in operation.templates:
                    name = f"churn-{template}" if again else f"churn-{template}-{number}"
                    if name in made:
                        await self._cluster.delete_one(made[name])
                    made[name] = self._maker.one(template, name, number, names.scheduler)
                    await self._cluster.create([made[name]])
                number += 1
        finally:
            self._standing += made.values()


def histograms(text: str, profile: str) -> tuple[Histogram, Histogram]:
    """The whole attempt of pods that were placed, and its algorithm."""
    attempt = histogram(text, ATTEMPT, {"result": "scheduled", "profile": profile})
    return attempt, histogram(text, ALGORITHM, {})


def _fill_latencies(run: Run, attempt: Histogram, algorithm: Histogram) -> None:
    def milliseconds(which: Histogram, q: float) -> float | None:
        seconds = which.quantile(q)
        return None if seconds is None else round(seconds * 1e3, 2)

    run.attempt_p50_ms, run.attempt_p99_ms = milliseconds(attempt, 0.5), milliseconds(attempt, 0.99)
    run.algorithm_p50_ms, run.algorithm_p99_ms = milliseconds(algorithm, 0.5), milliseconds(algorithm, 0.99)


@asynccontextmanager
async def on(site: Site) -> AsyncIterator[Cluster]:
    """The cluster of a site, with its binds being watched."""
    async with Client(await load_credentials(str(site.kubeconfig)), qps=-1, burst=0, timeout=120) as client:
        cluster = Cluster(client)
        watching = asyncio.Event()
        task = asyncio.create_task(cluster.watch_binds(watching))
        try:
            await watching.wait()
            yield cluster
        finally:
            task.cancel()
            await asyncio.wait([task])


async def compare(
    workload: Workload,
    site: Site,
    contenders: Sequence[Contender],
    rounds: int,
    tell: Callable[[Run], None],
    *,
    probe: bool = False,
) -> dict[str, Any]:
    """All rounds of one workload, as JSON has it."""
    runs: list[Run] = []
    async with on(site) as cluster:
        bench = Bench(workload, site, cluster, probe=probe)
        await bench.set_up()
        fresh = True
        for number in range(rounds):
            for contender in contenders:
                if workload.spends and not fresh:
                    await bench.tear_down()
                    await bench.set_up()
                fresh = False
                run = await bench.measure(contender, number)
                runs.append(run)
                tell(run)
        await bench.tear_down()
        await cluster.clear(EVENTS[1].format("default"))
    return {
        "workload": workload.title,
        "about": workload.about,
        "server": site.name,
        "nodes": workload.nodes,
        "pods": workload.measure.pods.count,
        "runs": [_as_dict(run) for run in runs],
    }


def _as_dict(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__slots__}
