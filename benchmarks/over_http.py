"""podium over HTTP against the embedded API server in a process of its own: CPU of podium per bound pod.

The server process only serves; pods are created by it before podium starts, so podium's CPU is list, watch, cycle,
bind, event and status. Reported: process CPU seconds of podium per bound pod, throughput, and requests per pod.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import time
from dataclasses import dataclass
from typing import Any

import gc

from benchmarks.engine import HOSTNAME, ZONE


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run."""

    nodes: int
    pods: int
    seconds: float
    cpu: float
    requests: int

    @property
    def cpu_per_pod(self) -> float:
        """Milliseconds."""
        return self.cpu / self.pods * 1e3


def node(i: int) -> dict[str, Any]:
    """scheduler_perf's node-default."""
    size = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {ZONE: f"zone-{i % 3}", HOSTNAME: f"node-{i}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i}", "labels": labels},
        "status": {"capacity": size, "allocatable": size},
    }


def pod(i: int) -> dict[str, Any]:
    """scheduler_perf's pod-default, for podium."""
    resources = {"requests": {"cpu": "100m", "memory": "500Mi"}}
    container = {"name": "pause", "image": "registry.example/pause:3.9", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{i}", "namespace": "default", "labels": {"app": "bench"}},
        "spec": {"schedulerName": "podium", "containers": [container]},
    }


def serve(nodes: int, pods: int, channel: multiprocessing.connection.Connection) -> None:
    """The server's process: fill, say the URL, create pods when told, answer with the request count at the end."""
    asyncio.run(_serve(nodes, pods, channel))


async def _serve(nodes: int, pods: int, channel: multiprocessing.connection.Connection) -> None:
    from simulator.apiserver import ApiServer

    async with ApiServer() as server:
        for i in range(nodes):
            server.create(node(i))
        gc.freeze()
        channel.send(server.url)
        while not channel.poll():
            await asyncio.sleep(0.05)
        channel.recv()
        for i in range(pods):
            server.create(pod(i))
            if i % 20 == 0:
                await asyncio.sleep(0)
        while not channel.poll():
            await asyncio.sleep(0.05)
        channel.send(server.requests)


async def drive(url: str, channel: multiprocessing.connection.Connection, nodes: int, pods: int) -> Run:
    """podium, measured from the first pod's creation to the last bind and event."""
    from config.defaults import default_configuration
    from config.feature_gates import DEFAULT_GATES
    from kube.client.auth import Credentials
    from kube.client.rest import Client
    from plugins.registry import Registry
    from podium.configuration import Effective
    from podium.wiring import Options, Service

    effective = Effective(default_configuration(DEFAULT_GATES), DEFAULT_GATES.as_dict(), Registry())
    async with Client(Credentials(url), qps=-1, burst=0) as client:
        service = Service(client, effective, Options(leader_elect=False, seed=0))
        await service.build()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service.run())
            await service.synced.wait()
            cpu, started = time.process_time(), time.perf_counter()
            channel.send("go")
            while sum(1 for state in service.cache.pods.values() if not state.assumed) < pods:
                await asyncio.sleep(0.05)
            await service.recorder.flush()
            run = Run(nodes, pods, time.perf_counter() - started, time.process_time() - cpu, 0)
            service.stop()
            await running
    return run


def measure(nodes: int, pods: int) -> Run:
    """One run in two processes."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(nodes, pods, theirs))
    server.start()
    try:
        url = ours.recv()
        run = _loop(drive(url, ours, nodes, pods))
        ours.send("done")
        return Run(run.nodes, run.pods, run.seconds, run.cpu, ours.recv())
    finally:
        server.join(5)
        if server.is_alive():
            server.terminate()


def _loop(main: Any) -> Run:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result: Run = runner.run(main)
        return result


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    print(measure(1000, 3000))
