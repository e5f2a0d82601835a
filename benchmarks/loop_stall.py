"""How long podium's event loop does not serve I/O, and how long a start takes, on a cluster full of running pods.

podium's service runs in this process, against the embedded API server in another; a task that wants to run every
millisecond tells how late it came. Phases: the first list and sync, a burst of pods, a new list of everything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter, process_time
from typing import Any

from benchmarks.cluster import Cluster
from benchmarks.comparison import on
from benchmarks.curves import sized
from benchmarks.objects import Made, Maker, Names
from benchmarks.processes import memory_mib
from benchmarks.servers import Site, embedded
from benchmarks.workload import Workload
from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from kube.client.auth import load_credentials
from kube.client.rest import Client
from plugins.registry import Registry
from podium.configuration import Effective
from podium.running import run_loop
from podium.wiring import Options, Service

PERIOD = 0.001
PROFILE = "podium"


class Ticker:
    """Notes how late it is woken. Owner: the measurement."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._most_cpu = 0.0

    async def run(self) -> None:
        """Tick until cancelled."""
        last, cpu = perf_counter(), process_time()
        while True:
            await asyncio.sleep(PERIOD)
            now, used = perf_counter(), process_time()
            self._longest = max(self._longest, now - last - PERIOD)
            self._most_cpu = max(self._most_cpu, used - cpu)
            last, cpu = now, used

    @asynccontextmanager
    async def phase(self, name: str, into: list[dict[str, Any]]) -> AsyncIterator[None]:
        """One line of the result: its time, its CPU, and the longest delay in it.

        The delay in CPU time is what the loop itself did; on a machine that is shared the clock tells more.
        """
        await asyncio.sleep(10 * PERIOD)  # what came before the phase is none of its business
        self._longest = self._most_cpu = 0.0
        started, cpu = perf_counter(), process_time()
        yield
        await asyncio.sleep(2 * PERIOD)
        row = {
            "phase": name,
            "seconds": round(perf_counter() - started, 3),
            "cpu_seconds": round(process_time() - cpu, 3),
            "longest_stall_ms": round(self._longest * 1e3, 1),
            "longest_stall_cpu_ms": round(self._most_cpu * 1e3, 1),
        }
        into.append(row)
        print(
            f"{name:<42}{row['seconds']:>9} s{row['cpu_seconds']:>9} s cpu  stall {row['longest_stall_ms']:>7} ms, "
            f"{row['longest_stall_cpu_ms']:>6} ms cpu"
        )


def run_stall(nodes: int, running: int, burst: int) -> dict[str, Any]:
    """All phases."""
    workload = sized("SchedulingBasic", nodes, running, burst)
    results: list[dict[str, Any]] = []

    async def measure() -> int:
        async with embedded() as site, on(site) as cluster:
            await _measure(workload, site, cluster, results)
        return 0

    run_loop(measure())
    return {
        "nodes": nodes,
        "running": running,
        "burst": burst,
        "phases": results,
        "peak_mib": round(memory_mib(os.getpid(), "VmHWM"), 1),
    }


async def _measure(workload: Workload, site: Site, cluster: Cluster, into: list[dict[str, Any]]) -> None:
    maker = Maker(workload)
    for operation in workload.set_up:
        await cluster.create(maker.make(operation, Names(PROFILE)))
    effective = Effective(default_configuration(DEFAULT_GATES), DEFAULT_GATES.as_dict(), Registry())
    ticker = Ticker()
    credentials = await load_credentials(str(site.kubeconfig))
    async with Client(credentials, qps=-1, burst=0) as client, asyncio.TaskGroup() as group:
        ticking = group.create_task(ticker.run())
        service = Service(client, effective, Options(leader_elect=False, seed=0))
        async with ticker.phase("list and sync", into):
            await service.build()
            running = group.create_task(service.run())
            await service.synced.wait()
        pods = list(maker.make(workload.measure.pods, Names(PROFILE, "burst-")))
        async with ticker.phase("first pod, from creation to bind", into):
            await cluster.create(pods[:1])
            await _until_bound(cluster, pods[:1])
        async with ticker.phase(f"burst of {len(pods) - 1} pods, created from here", into):
            await cluster.create(pods[1:])
            await _until_bound(cluster, pods)
        async with ticker.phase("relist of everything", into):
            await asyncio.gather(*(informer.relist() for informer in service.factory.informers))
        service.stop()
        await running
        ticking.cancel()


async def _until_bound(cluster: Cluster, pods: list[Made]) -> None:
    for made in pods:
        while made.name not in cluster.bound:  # noqa: ASYNC110 - the watch knows nothing of who waits
            await asyncio.sleep(0.005)
