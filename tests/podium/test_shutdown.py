"""SIGTERM: no new cycles, binds in flight end in bounded time, the lease is released, exit code 0."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube.client.auth import Credentials
from kube.client.rest import Client
from podium.http import HttpServer
from podium.wiring import Options, Service
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Answer, Cut, Effect, Hang, Latency
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import effective, node_of, until

virtual = pytest.mark.looptime


def ours(name: str) -> dict[str, Any]:
    """A pod that names podium."""
    return pod(name, schedulerName="podium")


@asynccontextmanager
async def running(server: ApiServer) -> AsyncIterator[tuple[Service, asyncio.Task[None]]]:
    """A service that was started, and elects; the test stops it."""
    async with Client(Credentials(server.url), qps=-1, burst=0) as client:
        service = Service(client, effective(), Options(seed=0, identity="one"))
        await service.build()
        task = asyncio.create_task(service.run())
        yield service, task
        await task


def holder(server: ApiServer) -> str:
    """Who holds the lease."""
    return str(server.get("leases", "podium", "kube-system")["spec"].get("holderIdentity") or "")


async def seconds(task: asyncio.Task[None]) -> float:
    """How long it takes to end."""
    started = asyncio.get_running_loop().time()
    await task
    return asyncio.get_running_loop().time() - started


@virtual
async def test_binds_in_flight_end_and_no_new_cycle_begins(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    slow = api_server.faults.add(Latency(3.0), path="/binding$", count=None)
    async with running(api_server) as (service, task):
        for i in range(10):
            api_server.create(ours(f"early-{i}"))
        await until(lambda: slow.hits == 10, "ten binds are in flight")
        service.stop()
        api_server.create(ours("late"))
        assert await seconds(task) <= 4.0
    assert all(node_of(api_server, f"early-{i}") == "n1" for i in range(10))
    assert (node_of(api_server, "late"), holder(api_server)) == ("", "")


@virtual
@pytest.mark.parametrize(
    ("effect", "path"),
    [
        pytest.param(Hang(), "/binding$", id="binds hang"),
        pytest.param(Hang(), "/events", id="events hang"),
        pytest.param(Hang(), "/status$", id="status patches hang"),
        pytest.param(Hang(), "/leases/", id="the lease hangs"),
        pytest.param(Hang(), "", id="the API server hangs altogether"),
        pytest.param(Cut(), "", id="the API server is gone"),
        pytest.param(Answer(500), "", id="the API server only fails"),
        pytest.param(Answer(429, retry_after=60), "", id="the API server is busy"),
    ],
)
async def test_it_ends_in_bounded_time_whatever_the_api_server_does(
    api_server: ApiServer, effect: Effect, path: str
) -> None:
    api_server.create(node("n1", cpu="1"))
    async with running(api_server) as (service, task):
        await until(lambda: service.elector is not None and service.elector.is_leader, "one leads")
        api_server.faults.add(effect, path=path, count=None)
        for i in range(20):
            api_server.create(ours(f"web-{i}"))
        await asyncio.sleep(3.0)
        service.stop()
        # Binds 10 s, the lease 5 s, events 5 s: within the 30 s of grace that a pod gets.
        assert await seconds(task) <= 21.0


@virtual
@pytest.mark.parametrize("path", [pytest.param("/pods", id="lists hang"), pytest.param("/leases/", id="nobody leads")])
async def test_it_can_be_stopped_before_it_has_begun(api_server: ApiServer, path: str) -> None:
    api_server.faults.add(Hang(), path=path, count=None)
    async with running(api_server) as (service, task):
        await asyncio.sleep(5.0)
        service.stop()
        assert await seconds(task) <= 11.0


@virtual
async def test_it_is_not_ready_while_it_stops(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with (
        running(api_server) as (service, task),
        HttpServer(service, "127.0.0.1", 0) as endpoints,
        aiohttp.ClientSession(f"http://127.0.0.1:{endpoints.port}") as http,
    ):
        await until(service.synced.is_set, "it has synced")
        service.stop()
        async with http.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (500, "shutting down\n")
        await task


# --- the program -------------------------------------------------------------------------------------------------


class Program:
    """`podium run` as a process."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self._log.read_text()


@asynccontextmanager
async def program(server: ApiServer, folder: Path, configuration: str = "") -> AsyncIterator[Program]:
    """Started; killed at the end if it still runs."""
    kubeconfig = server.write_kubeconfig(folder / "kubeconfig")
    words = ["run", "--kubeconfig", str(kubeconfig), "--bind-address", "127.0.0.1", "--port", "0"]
    if configuration:
        (folder / "config.yaml").write_text(configuration)
        words += ["--config", str(folder / "config.yaml")]
    log = folder / "log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "podium", *words, stderr=stderr)
    try:
        yield Program(process, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_sigterm_ends_the_program_with_code_0_and_releases_the_lease(
    api_server: ApiServer, tmp_path: Path
) -> None:
    api_server.create(node("n1"))
    async with program(api_server, tmp_path) as started:
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound", 60.0)
        assert holder(api_server) != ""
        started.process.send_signal(signal.SIGTERM)
        assert await started.process.wait() == 0
        assert holder(api_server) == ""
        assert "Traceback" not in started.log


async def test_a_lost_lease_ends_the_program_with_code_1_and_one_line(api_server: ApiServer, tmp_path: Path) -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 3s, renewDeadline: 1s, retryPeriod: 200ms}
"""
    async with program(api_server, tmp_path, text) as started:
        await until(lambda: bool(api_server.list("leases.coordination.k8s.io")), "there is a lease", 60.0)
        await until(lambda: holder(api_server) != "", "it is held", 60.0)
        api_server.faults.add(Answer(500), path="/leases/", count=None)
        assert await started.process.wait() == 1
        assert "was not renewed in 1 s" in started.log
        assert "Traceback" not in started.log


async def test_sigusr2_dumps_cache_and_queue_and_compares_them(api_server: ApiServer, tmp_path: Path) -> None:
    api_server.create(node("n1", cpu="1"))
    big = ours("big")
    big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    async with program(api_server, tmp_path) as started:
        api_server.create(ours("web"))
        api_server.create(big)
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound", 60.0)
        await until(lambda: "conditions" in api_server.get("pods", "big")["status"], "big was tried", 60.0)
        started.process.send_signal(signal.SIGUSR2)
        await until(lambda: "Dump of scheduling queue" in started.log, "it was dumped", 60.0)
        assert "Cache comparison: no mismatch" in started.log
        assert "Dump of cached NodeInfo" in started.log
        assert "n1: requested" in started.log
        assert "unschedulable: default/big" in started.log
        started.process.send_signal(signal.SIGTERM)
        assert await started.process.wait() == 0
