"""What scheduling costs in counts, which are the same on every machine: the guard against slow changes.

Two kinds, each over a tiny workload:

- engine: Python calls, C calls (numpy's among them) and the largest temporary memory of one cycle, once in a small and
  once in a larger cluster; and how much the calls grow between the two, which no vectorised cycle may do;
- service: bytes decoded and HTTP requests for each pod that is bound, over HTTP against the embedded API server.

`tests/benchmarks/test_counts.py` holds them against recorded bounds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml

from benchmarks.engine import Engine, EngineRun
from benchmarks.objects import Maker, Names
from benchmarks.workload import Workload, load, select
from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from kube.api import codec
from kube.client.auth import Credentials
from kube.client.rest import Client
from plugins.registry import Registry
from podium.configuration import Effective
from podium.wiring import Options, Service
from scheduler.snapshot.pod_info import PodInfo
from simulator.apiserver import ApiServer

#: cycles that are counted, after as many that warm up
CYCLES = 8
SMALL, LARGE = 40, 240
PROFILE = "podium"


class CallCounter:
    """Counts calls while it is entered. One at a time: a process has one profile function."""

    def __init__(self) -> None:
        self.python = 0
        self.native = 0
        self.numpy = 0

    def __enter__(self) -> CallCounter:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self.native -= 1  # the call that ended it

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self.python += 1
        elif event == "c_call":
            self.native += 1
            owner = getattr(argument, "__self__", None)
            module = getattr(argument, "__module__", None) or ""
            self.numpy += isinstance(owner, np.ndarray | np.generic) or module.startswith("numpy")


def cycle_counts(workload: Workload, *, fresh: bool = False) -> dict[str, float]:
    """The median of the counted cycles of a workload."""
    run = EngineRun(workload, fresh=fresh)
    run.set_up()
    infos = list(run.pods(workload.measure.pods))
    for info in infos[:CYCLES]:
        _attempt(run.engine, info)
    counters = []
    for info in infos[CYCLES : 2 * CYCLES]:
        with CallCounter() as counter:
            _attempt(run.engine, info)
        counters.append(counter)
    return {
        "python_calls": statistics.median(c.python for c in counters),
        "c_calls": statistics.median(c.native for c in counters),
        "numpy_calls": statistics.median(c.numpy for c in counters),
        "peak_bytes": statistics.median(_peak_bytes(run.engine, info) for info in infos[2 * CYCLES : 3 * CYCLES]),
    }


def _attempt(engine: Engine, info: PodInfo) -> None:
    attempt = engine.schedule(info)
    if not attempt.node_name and engine.evict(attempt):
        engine.schedule(info)


def _peak_bytes(engine: Engine, info: PodInfo) -> int:
    tracemalloc.start()
    try:
        _attempt(engine, info)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _sized(workload: str, nodes: int) -> Workload:
    per_node = 4 if workload.startswith("Preemption") else 2
    numbers = {"nodes": nodes, "init": per_node * nodes, "pods": 3 * CYCLES, "namespaces": 4, "others": 0}
    return load(sizes={workload: numbers})[0]


def engine_counts(name: str) -> dict[str, float]:
    """Counts in the larger cluster, and the growth of calls from the small one."""
    large = _sized(name, LARGE)
    before, counts = cycle_counts(_sized(name, SMALL)), cycle_counts(large)
    counts["growth"] = round(counts["python_calls"] / before["python_calls"], 3)
    if name == "SchedulingBasic":
        different = cycle_counts(large, fresh=True)
        counts |= {f"all_different_{key}": value for key, value in different.items()}
    return counts


# --- service ---------------------------------------------------------------------------------------------------


class ByteCounter:
    """Sums the bytes that go through the codec while it is entered."""

    def __init__(self) -> None:
        self.total = 0
        self._decode: Callable[..., Any] = codec.decode

    def __enter__(self) -> ByteCounter:
        codec.decode = self._count
        return self

    def __exit__(self, *_: object) -> None:
        codec.decode = self._decode

    def _count(self, data: bytes | msgspec.Raw, type_: type[Any]) -> Any:
        self.total += len(memoryview(data))
        return self._decode(data, type_)


async def service_counts(title: str) -> dict[str, float]:
    """Bytes and requests for each bound pod: what the pods come to, without the first lists."""
    [workload] = select(load(), "short", f"^{title}$")
    maker = Maker(workload)
    async with ApiServer() as server, Client(Credentials(server.url), qps=-1, burst=0) as client:
        for operation in workload.set_up:
            for made in maker.make(operation, Names(PROFILE)):
                server.create(msgspec.json.decode(made.body))
        effective = Effective(default_configuration(DEFAULT_GATES), DEFAULT_GATES.as_dict(), Registry())
        service = Service(client, effective, Options(leader_elect=False, seed=0))
        await service.build()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service.run())
            await service.synced.wait()
            pods = workload.measure.pods
            requests = server.requests
            with ByteCounter() as counter:
                for made in maker.make(pods, Names(PROFILE, "measured-")):
                    server.create(msgspec.json.decode(made.body))
                await _until_quiet(service, pods.count)
            requests = server.requests - requests
            service.stop()
            await running
    return {
        "requests_per_pod": requests / pods.count,
        "bytes_decoded_per_pod": counter.total / pods.count,
    }


async def _until_quiet(service: Service, pods: int) -> None:
    """Until the informer has shown all binds and their events are written."""
    bound = 0
    while bound < pods:
        await asyncio.sleep(0.01)
        bound = sum(1 for s in service.cache.pods.values() if not s.assumed and "measured-" in s.info.key)
    await service.recorder.flush()


ENGINE = (
    "SchedulingBasic",
    "Unschedulable",
    "PreemptionBasic",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "DefaultTopologySpreading",
    "SchedulingPodAntiAffinity",
    "SchedulingPodAffinity",
    "SchedulingPreferredPodAffinity",
    "SchedulingPreferredPodAntiAffinity",
    "SchedulingNodeAffinity",
    "SchedulingRequiredPodAffinityWithNSSelector",
    "SchedulingSecrets",
    "SchedulingCSIPVs",
)
SERVICE = ("SchedulingBasic/20Nodes_50Pods", "SchedulingPodAntiAffinity/40Nodes_20Pods")


def record(counts: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write what is expected from now on."""
    plain = {name: dict(figures) for name, figures in counts.items()}
    path.write_text(
        "# Written by `python -m benchmarks counts --record FILE`.\n" + yaml.safe_dump(plain, sort_keys=False)
    )


def run_counts() -> dict[str, dict[str, float]]:
    """All of them, as a table."""
    counts = {name: engine_counts(name) for name in ENGINE}
    for title in SERVICE:
        counts[title] = asyncio.run(service_counts(title))
    for name, figures in counts.items():
        print(f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in figures.items()))
    return counts
