"""Permit: waiting, allowing, rejecting, timing out (facts 1.2). Time is virtual."""

import asyncio
from collections.abc import Callable

import pytest

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import PermitPlugin
from scheduler.framework.status import SUCCESS, Code, Status, error, unschedulable
from scheduler.framework.waiting_pods import WaitingPod, WaitingPods, go_duration
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_pod
from tests.scheduler.harness import Cluster

pytestmark = pytest.mark.looptime

WAIT = Status(Code.WAIT)


def permits(name: str, answer: Status | None, timeout: float = 0.0) -> type[PermitPlugin]:
    class Permits(PermitPlugin):
        def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
            return answer, timeout

    Permits.name = name
    return Permits


def permit(cluster: Cluster) -> tuple[PodInfo, Status]:
    info = cluster.info(make_pod("web"))
    return info, cluster.framework.run_permit(CycleState(info), info, "n1")


@pytest.mark.parametrize(
    ("answers", "code", "plugin"),
    [
        pytest.param([None, SUCCESS], Code.SUCCESS, "", id="all agree"),
        pytest.param([WAIT, None], Code.WAIT, "", id="one wants to wait"),
        pytest.param([WAIT, unschedulable("no")], Code.UNSCHEDULABLE, "P1", id="a rejection wins over waiting"),
        pytest.param([unschedulable("no"), WAIT], Code.UNSCHEDULABLE, "P0", id="whatever comes after it"),
        pytest.param([error("boom"), None], Code.ERROR, "P0", id="an error"),
    ],
)
async def test_the_answer_of_all_plugins(answers: list[Status | None], code: Code, plugin: str) -> None:
    cluster = Cluster(*(permits(f"P{i}", answer, 10) for i, answer in enumerate(answers)))
    info, status = permit(cluster)
    assert (status.code, status.plugin) == (code, plugin)
    assert (cluster.waiting.get(info.uid) is not None) is (code is Code.WAIT)


async def test_a_pod_that_does_not_wait_goes_on_at_once() -> None:
    cluster = Cluster(permits("P", None))
    info, _ = permit(cluster)
    assert await cluster.framework.wait_on_permit(info) == SUCCESS


def allow_all(pod: WaitingPod) -> None:
    pod.allow("P0")
    pod.allow("P1")


def allow_one(pod: WaitingPod) -> None:
    pod.allow("P0")


def reject(pod: WaitingPod) -> None:
    assert pod.reject("P1", "changed my mind")
    assert not pod.reject("P0", "me too")


@pytest.mark.parametrize(
    ("act", "seconds", "status"),
    [
        pytest.param(allow_all, 5, SUCCESS, id="allowed by all plugins"),
        pytest.param(reject, 5, unschedulable("changed my mind").by("P1"), id="rejected by one"),
        pytest.param(
            allow_one,
            60,
            unschedulable("rejected due to timeout after waiting 1m0s at plugin P1").by("P1"),
            id="allowed by one, until the other's time is over",
        ),
        pytest.param(
            lambda pod: None,
            30,
            unschedulable("rejected due to timeout after waiting 30s at plugin P0").by("P0"),
            id="forgotten, until the first plugin's time is over",
        ),
    ],
)
async def test_how_the_wait_ends(act: Callable[[WaitingPod], None], seconds: float, status: Status) -> None:
    cluster = Cluster(permits("P0", WAIT, 30), permits("P1", WAIT, 60))
    info, _ = permit(cluster)
    loop = asyncio.get_running_loop()
    started = loop.time()
    loop.call_later(5, lambda: [act(pod) for pod in cluster.waiting])
    assert await cluster.framework.wait_on_permit(info) == status
    assert loop.time() - started == pytest.approx(seconds, abs=0.01)
    assert len(cluster.waiting) == 0


async def test_nobody_waits_longer_than_fifteen_minutes() -> None:
    cluster = Cluster(permits("P", WAIT, 7200))
    info, _ = permit(cluster)
    loop = asyncio.get_running_loop()
    started = loop.time()
    status = await cluster.framework.wait_on_permit(info)
    assert status.code is Code.UNSCHEDULABLE
    assert loop.time() - started == pytest.approx(900, abs=0.01)


async def test_a_decision_before_the_wait_begins_counts() -> None:
    cluster = Cluster(permits("P", WAIT, 30))
    info, _ = permit(cluster)
    waiting = cluster.waiting.get(info.uid)
    assert waiting is not None
    waiting.allow("P")
    assert await cluster.framework.wait_on_permit(info) == SUCCESS


async def test_a_waiting_pod_can_be_preempted_and_one_that_does_not_wait_cannot() -> None:
    cluster = Cluster(permits("P", WAIT, 30))
    info, _ = permit(cluster)
    assert cluster.waiting.preempt(info.uid, "DefaultPreemption")
    assert await cluster.framework.wait_on_permit(info) == unschedulable("preempted").by("DefaultPreemption")
    assert not cluster.waiting.preempt(info.uid, "DefaultPreemption")


async def test_a_cancelled_wait_leaves_no_waiting_pod() -> None:
    cluster = Cluster(permits("P", WAIT, 30))
    info, _ = permit(cluster)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(cluster.framework.wait_on_permit(info), timeout=1)
    assert len(cluster.waiting) == 0


async def test_a_plugin_that_raises_rejects_by_an_error() -> None:
    class Raises(PermitPlugin):
        name = "Raises"

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
            raise RuntimeError("bug")

    _, status = permit(Cluster(Raises))
    assert (status.code, status.message) == (Code.ERROR, 'running Permit plugin "Raises": RuntimeError: bug')


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "500ms"), (1.5, "1.5s"), (59.9, "59.9s"), (60, "1m0s"), (300, "5m0s"), (630, "10m30s"), (3630, "1h0m30s")],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


async def test_a_rejected_pod_is_leaving_until_its_binding_cycle_knows():
    pods = WaitingPods()
    waiting = WaitingPod(
        Snapshot().shapes.pod_info(make_pod("p", uid="p")), "n", {"Gang": 60.0}, asyncio.get_running_loop().time()
    )
    pods.add(waiting)
    assert pods.leaving == set()
    waiting.reject("Gang", "no")
    assert pods.leaving == {"p"}
    pods.remove("p")
    assert pods.leaving == set()
