"""Evicting the victims: the order of the API calls, who is told, and what follows a failure (facts 2.8, step 7)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kube.api.core import PodStatus
from kube.api.meta import Condition
from kube.client.errors import Conflict, NotFound, ServerError
from plugins.default_preemption import WAITING
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import PreBindPlugin
from scheduler.framework.status import Code, unresolvable
from scheduler.framework.waiting_pods import WaitingPod
from tests.builders import make_node, make_pod
from tests.scheduler.framework.preempting import Cluster, on

VIP = make_pod("vip", cpu="4", priority=1000, uid="vip", scheduler_name="podium")


class ApiServer:
    """Takes down what is asked of it. `failing`: (verb, pod name) -> the error it answers with."""

    def __init__(self, failing: Mapping[tuple[str, str], Exception] | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.patches: dict[str, Any] = {}
        self.uids: dict[str, str] = {}
        self.failing = failing or {}
        #: called with each deletion
        self.deleting = lambda name: None

    async def patch(self, obj, patch, subresource="", kind="strategic"):
        assert (subresource, kind) == ("status", "strategic")
        self._answer("patch", obj)
        self.patches[obj.metadata.name] = patch
        await asyncio.sleep(0)

    async def delete(self, obj, *, uid=""):
        self.deleting(obj.metadata.name)
        self._answer("delete", obj)
        self.uids[obj.metadata.name] = uid
        await asyncio.sleep(0)

    def _answer(self, verb, obj):
        self.calls.append((verb, obj.metadata.name))
        if (verb, obj.metadata.name) in self.failing:
            raise self.failing[verb, obj.metadata.name]


def three_victims():
    return [on("n", name, cpu="1", priority=priority) for name, priority in [("a", 1), ("b", 2), ("c", 3)]]


def preempting(api, running=None, **options):
    """A cluster whose VIP pod has found its victims, and the eviction that has not begun yet."""
    cluster = Cluster([make_node("n", cpu="4")], three_victims() if running is None else running, client=api, **options)
    result = cluster.attempt(VIP).post_filter
    assert result is not None
    assert result.nominated_node_name == "n"
    return cluster


async def evict(cluster):
    (work,) = cluster.spawned
    await work


async def test_each_victim_is_told_why_and_then_deleted_by_its_uid_the_last_one_last():
    api = ApiServer()
    cluster = preempting(api)
    await evict(cluster)
    assert sorted(api.calls) == sorted((verb, name) for verb in ("patch", "delete") for name in "abc")
    assert all(api.calls.index(("patch", name)) < api.calls.index(("delete", name)) for name in "abc")
    # The least important one is the last of the list.
    assert api.calls[-2:] == [("patch", "a"), ("delete", "a")]
    assert api.uids == {"a": "a", "b": "b", "c": "c"}
    assert cluster.events == [
        (f"default/{name}", "Preempted", "Preempted by pod vip on node n") for name in ("c", "b", "a")
    ]
    assert cluster.activated == []
    assert cluster.metrics == ["attempt", (3, "success")]


async def test_the_condition_names_the_scheduler_and_the_pod_it_is_meant_for():
    api = ApiServer()
    cluster = preempting(api, [on("n", "a", cpu="4", priority=1)])
    await evict(cluster)
    assert api.patches["a"] == {
        "metadata": {"uid": "a"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "podium: preempting to accommodate a higher priority pod",
                    "lastProbeTime": None,
                    "lastTransitionTime": "1970-01-01T00:00:00Z",
                }
            ]
        },
    }


async def test_the_preemptor_is_held_back_until_the_last_deletion_is_sent():
    api = ApiServer()
    cluster = preempting(api)
    held: list[tuple[str, bool]] = []
    api.deleting = lambda name: held.append((name, cluster.plugin.pre_enqueue(VIP) is not None))
    assert cluster.plugin.pre_enqueue(VIP) == unresolvable(WAITING)
    assert cluster.plugin.pre_enqueue(make_pod("other")) is None
    await evict(cluster)
    assert sorted(held[:2]) == [("b", True), ("c", True)]
    assert held[2] == ("a", False)
    assert cluster.plugin.pre_enqueue(VIP) is None


async def test_a_condition_that_says_so_already_is_not_written_again():
    condition = Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message="podium: preempting to accommodate a higher priority pod",
    )
    api = ApiServer()
    victim = on("n", "a", cpu="4", priority=1, status=PodStatus(conditions=(condition,)))
    await evict(preempting(api, [victim]))
    assert api.calls == [("delete", "a")]


NOBODY = ServerError("etcd is away", status=500)


@pytest.mark.parametrize(
    ("failing", "calls", "result"),
    [
        pytest.param(
            {("patch", "b"): NOBODY},
            {("patch", "b"), ("patch", "c"), ("delete", "c")},
            "error",
            id="one cannot be told: the last one is spared",
        ),
        pytest.param(
            {("delete", "c"): NOBODY},
            {("patch", "b"), ("patch", "c"), ("delete", "b"), ("delete", "c")},
            "error",
            id="one cannot be deleted: the last one is spared",
        ),
        pytest.param(
            {("delete", "a"): NOBODY},
            {(verb, name) for verb in ("patch", "delete") for name in "abc"},
            "error",
            id="the last one cannot be deleted",
        ),
    ],
)
async def test_a_failure_sends_the_preemptor_to_look_again(failing, calls, result):
    api = ApiServer(failing)
    cluster = preempting(api)
    await evict(cluster)
    assert set(api.calls) == calls
    assert cluster.activated == ["default/vip"]
    assert cluster.metrics[-1] == (3, result)
    assert cluster.plugin.pre_enqueue(VIP) is None


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param({("patch", "b"): NotFound("no b", status=404)}, id="gone before it was told"),
        pytest.param({("delete", "b"): Conflict("another uid", status=409)}, id="another pod bears its name"),
        pytest.param(
            {("patch", "b"): Conflict("changed", status=409)}, id="it changed meanwhile: deleted all the same"
        ),
    ],
)
async def test_a_victim_that_is_gone_is_no_failure(failing):
    api = ApiServer(failing)
    cluster = preempting(api)
    await evict(cluster)
    assert cluster.activated == []
    assert cluster.metrics[-1] == (3, "success")
    assert api.calls[-1] == ("delete", "a")


async def test_no_event_is_made_up_for_a_victim_that_went_by_itself():
    cluster = preempting(ApiServer({("patch", "b"): NotFound("no b", status=404)}))
    await evict(cluster)
    assert [key for key, _, _ in cluster.events] == ["default/c", "default/a"]


async def test_with_all_victims_gone_meanwhile_no_event_will_wake_the_preemptor_so_it_is_activated():
    cluster = preempting(ApiServer())
    for uid in "abc":
        cluster.cache.remove_pod(uid)
    await evict(cluster)
    assert cluster.activated == ["default/vip"]


def test_victims_that_are_all_leaving_already_need_no_call():
    cluster = preempting(ApiServer(), [on("n", "a", cpu="4", priority=1, deletion_timestamp="2026-01-01T00:00:00Z")])
    assert cluster.spawned == []
    assert cluster.plugin.pre_enqueue(VIP) is None


def test_offline_nobody_is_evicted():
    cluster = Cluster([make_node("n", cpu="4")], three_victims())
    assert cluster.outcome(VIP) == ("n", ["c", "b", "a"])
    assert cluster.plugin.pre_enqueue(VIP) is None


# --- nominations of others ---------------------------------------------------------------------------------------


async def test_lower_pods_that_were_promised_the_node_look_for_another():
    api = ApiServer()
    cluster = Cluster([make_node("n", cpu="4")], three_victims(), client=api)
    lower = make_pod("lower", cpu="1", priority=5, uid="lower", nominated_node_name="n")
    unwritten = make_pod("unwritten", cpu="1", priority=5, uid="unwritten")
    higher = make_pod("higher", uid="higher", priority=2000, nominated_node_name="n")
    for pod in (lower, unwritten, higher):
        cluster.nominate(pod, "n")
    assert cluster.outcome(VIP)[0] == "n"
    assert [info.uid for info in cluster.nominator.nominated_pods_for_node("n")] == ["higher"]
    await evict(cluster)
    assert api.patches["lower"] == {"metadata": {"uid": "lower"}, "status": {"nominatedNodeName": None}}
    assert "unwritten" not in api.patches
    assert cluster.activated == ["default/lower", "default/unwritten"]


async def test_a_nomination_that_cannot_be_cleared_does_not_stop_the_eviction():
    api = ApiServer({("patch", "lower"): NOBODY})
    cluster = Cluster([make_node("n", cpu="4")], three_victims(), client=api)
    cluster.nominate(make_pod("lower", priority=5, nominated_node_name="n"), "n")
    cluster.attempt(VIP)
    await evict(cluster)
    assert cluster.metrics[-1] == (3, "success")


# --- victims that are not bound yet ------------------------------------------------------------------------------


async def test_a_victim_that_waits_on_permit_is_rejected_in_memory():
    api = ApiServer()
    cluster = preempting(api, [on("n", "a", cpu="4", priority=1)])
    waiting = WaitingPod(cluster.snapshot.info("n").pods["a"], "n", {"Gang": 60}, asyncio.get_running_loop().time())
    cluster.waiting_pods.add(waiting)
    await evict(cluster)
    status = await waiting.wait()
    assert (status.code, status.plugin, status.message) == (Code.UNSCHEDULABLE, "DefaultPreemption", "preempted")
    assert api.calls == []
    assert cluster.events == [("default/a", "Preempted", "Preempted by pod vip on node n (in kube-scheduler memory).")]


async def test_a_waiting_victim_whose_fate_is_decided_is_deleted():
    api = ApiServer()
    cluster = preempting(api, [on("n", "a", cpu="4", priority=1)])
    waiting = WaitingPod(cluster.snapshot.info("n").pods["a"], "n", {"Gang": 60}, asyncio.get_running_loop().time())
    waiting.allow("Gang")
    cluster.waiting_pods.add(waiting)
    await evict(cluster)
    assert (await waiting.wait()).ok
    assert api.calls == [("patch", "a"), ("delete", "a")]


class SlowVolume(PreBindPlugin):
    """Its volume never comes."""

    name = "SlowVolume"

    async def pre_bind(self, state, pod, node_name):
        await asyncio.Event().wait()


async def test_a_victim_in_pre_bind_is_stopped_in_memory():
    api = ApiServer()
    cluster = preempting(api, [on("n", "a", cpu="4", priority=1)], more_plugins={"preBind": (SlowVolume,)})
    info = cluster.snapshot.info("n").pods["a"]
    framework = cluster.framework
    async with asyncio.TaskGroup() as group:
        binding = group.create_task(framework.run_pre_bind(framework.pre_bind, CycleState(info), info.pod, "n"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await evict(cluster)
    status = binding.result()
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "preempted")
    assert api.calls == []
    assert cluster.waiting_pods.pre_binding == {}


async def test_a_stopped_scheduler_cancels_pre_bind_as_ever():
    cluster = Cluster([make_node("n")], more_plugins={"preBind": (SlowVolume,)})
    info = cluster.snapshot.shapes.pod_info(make_pod("a"))
    framework = cluster.framework
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await framework.run_pre_bind(framework.pre_bind, CycleState(info), info.pod, "n")
    assert cluster.waiting_pods.pre_binding == {}
