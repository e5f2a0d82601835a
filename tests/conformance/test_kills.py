"""podium, etcd and leaders are killed in the middle of their work on the real control plane: every pod is bound exactly
once, no node gets more than it has, and nothing is lost. What is told is the API server's own history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGKILL

import pytest
import pytest_asyncio

from tests.conformance.api import Api
from tests.conformance.conftest import Figures
from tests.conformance.find import Binaries
from tests.conformance.manifests import apply_rbac
from tests.conformance.podium_process import PodiumProcess, create_namespace, create_nodes, create_pods, pod
from tests.conformance.start import ControlPlane
from tests.conformance.witness import assert_each_is_bound_once, watching

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(240)]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/podium"
#: the default lease, and the longest a candidate sleeps between two looks at it
LEASE_SECONDS, LOOK_SECONDS = 15.0, 2.0 * 2.2


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """The servers of this file alone: they are killed."""
    async with ControlPlane(binaries) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kubeconfig(plane: ControlPlane) -> Path:
    return await apply_rbac(plane)


@pytest_asyncio.fixture
async def api(plane: ControlPlane) -> AsyncIterator[Api]:
    async with plane.api() as client:
        yield client


async def settled(podium: PodiumProcess) -> None:
    """Nobody waits and nothing is half done; and it ends as it was told."""
    async with asyncio.timeout(30):
        while await podium.metric("scheduler_pending_pods") or await podium.metric(
            "scheduler_cache_size", type="assumed_pods"
        ):
            await asyncio.sleep(0.1)
    assert await podium.metric("podium_cache_corrections_total") == 0
    assert await podium.stop() == 0
    assert "Traceback" not in podium.log


async def test_podium_is_killed_three_times_in_the_middle_of_2000_binds(
    plane: ControlPlane, api: Api, kubeconfig: Path, figures: Figures, tmp_path: Path
) -> None:
    """Twenty nodes with room for exactly a hundred pods each: a pod counted twice, or not at all, would show."""
    await create_nodes(api, "killed", 20, cpu="10")
    pods = await create_namespace(api, "killed")
    names = [f"p-{i}" for i in range(2000)]
    async with watching(api, pods) as witness:
        await create_pods(api, pods, [pod(name, "killed") for name in names])
        podium = PodiumProcess(kubeconfig, tmp_path / "log", "--no-leader-elect")
        async with podium:
            for count in (400, 900, 1400):
                await witness.has_seen(count)
                await podium.stop(SIGKILL)
                killed_at, before = time.monotonic(), witness.bound()
                assert before < 2000, "it was killed in the middle"
                await podium.start()
                await witness.has_seen(before + 1)
                figures.add(
                    f"podium killed at {before} of 2000 binds: next bind {time.monotonic() - killed_at:.1f} s later"
                )
            await witness.has_seen(2000)
            await assert_each_is_bound_once(api, pods, witness, names)
            await settled(podium)


async def test_etcd_is_killed_in_the_middle_of_binds(
    plane: ControlPlane, api: Api, kubeconfig: Path, figures: Figures, tmp_path: Path
) -> None:
    await create_nodes(api, "no-etcd", 10, cpu="8")
    pods = await create_namespace(api, "no-etcd")
    names = [f"p-{i}" for i in range(600)]
    async with (
        watching(api, pods) as witness,
        PodiumProcess(kubeconfig, tmp_path / "log", "--no-leader-elect") as podium,
    ):
        await create_pods(api, pods, [pod(name, "no-etcd") for name in names])
        await witness.has_seen(100)
        await plane.etcd.stop(SIGKILL)
        assert witness.bound() < 600, "it was killed in the middle"
        await asyncio.sleep(3)
        plane.etcd.start()
        await plane.wait_ready()
        started_at, before = time.monotonic(), witness.bound()
        later = [f"later-{i}" for i in range(200)]
        await create_pods(api, pods, [pod(name, "no-etcd") for name in later])
        await witness.has_seen(800)
        figures.add(
            f"etcd killed at {before} of 800 binds, away for 3 s: all bound {time.monotonic() - started_at:.1f} s after"
        )
        await assert_each_is_bound_once(api, pods, witness, names + later)
        await settled(podium)


async def _holder(api: Api) -> str:
    answer = await api.request("GET", LEASE)
    return str(answer.body["spec"].get("holderIdentity", "")) if answer.status == 200 else ""


async def _new_holder(api: Api, before: str, timeout: float) -> str:
    async with asyncio.timeout(timeout):
        while (holder := await _holder(api)) in {before, ""}:
            await asyncio.sleep(0.05)
    return holder


async def test_the_leader_of_two_replicas_is_killed_and_the_other_takes_over(
    plane: ControlPlane, api: Api, kubeconfig: Path, figures: Figures, tmp_path: Path
) -> None:
    await create_nodes(api, "led", 10, cpu="8")
    pods = await create_namespace(api, "led")
    names = [f"p-{i}" for i in range(800)]
    async with AsyncExitStack() as stack:
        witness = await stack.enter_async_context(watching(api, pods))
        replicas = [
            await stack.enter_async_context(PodiumProcess(kubeconfig, tmp_path / f"log-{i}", "--leader-elect"))
            for i in range(2)
        ]
        leader = await _new_holder(api, "", timeout=30)
        [killed] = [each for each in replicas if leader.endswith(f"_{each.pid}")]
        [other] = [each for each in replicas if each is not killed]
        creating = asyncio.create_task(create_pods(api, pods, [pod(name, "led") for name in names]))
        await witness.has_seen(200)
        await killed.stop(SIGKILL)
        killed_at, before = time.monotonic(), witness.bound()
        assert before < 800, "it was killed in the middle"
        await creating
        assert (await _new_holder(api, leader, timeout=60)).endswith(f"_{other.pid}")
        taken_over = time.monotonic() - killed_at
        await witness.has_seen(before + 1)
        first_bind = time.monotonic() - killed_at
        times = f"lease taken after {taken_over:.1f} s, next bind after {first_bind:.1f} s"
        figures.add(f"leader killed at {before} of 800 binds: {times}")
        # A candidate may see the last renewal one look late, and the lease's end another.
        assert taken_over <= LEASE_SECONDS + 2 * LOOK_SECONDS + 2.0, "lease, looks, and what two busy cores add"
        await witness.has_seen(800)
        await assert_each_is_bound_once(api, pods, witness, names)
        await settled(other)
