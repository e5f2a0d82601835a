"""The scheduler as a whole: assume, bind, confirm; and everything that can go wrong on the way (facts 1.6, 2.8)."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kube.api.core import Node, Pod, PodStatus
from kube.api.meta import Condition
from kube.client.errors import Conflict, NotFound, ServerError, Unreachable
from scheduler import scheduler as scheduler_module
from scheduler import status_patches
from scheduler.failure import pod_scheduled_condition
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.queue import in_flight
from tests.builders import make_node, make_pod
from tests.scheduler.world import World

pytestmark = pytest.mark.looptime


def pods(count: int, **fields: Any) -> list[Pod]:
    return [make_pod(f"p{i}", **fields) for i in range(count)]


class Books(ReservePlugin):
    """Who is reserved where."""

    name = "Books"
    events = ()

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.reserved: dict[str, str] = {}

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved[pod.metadata.name] = node_name
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.pop(pod.metadata.name, None)


class SlowVolumes(PreBindPlugin):
    """Two seconds of work before the bind."""

    name = "SlowVolumes"
    events = ()
    fails: Status | None = None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(2)
        return self.fails


class Hold(PermitPlugin):
    """Pods labelled `hold` wait for a minute."""

    name = "Hold"
    events = ()

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 60.0) if "hold" in pod.metadata.labels else (None, 0.0)


# --- the way of a pod --------------------------------------------------------------------------------------------


async def test_a_pod_is_assumed_bound_and_confirmed() -> None:
    async with World(nodes=[make_node("n1")]) as world:
        pod = make_pod("web", uid="u", cpu="1")
        world.create(pod)
        await world.settle(0.05)
        assert world.api.binds == [("web", "n1")]
        assert world.cache.is_assumed("u")
        assert world.node_of("web") == ""
        await world.settle(0.1)
        assert world.node_of("web") == "n1"
        assert not world.cache.is_assumed("u")
        assert world.cache.nodes["n1"].requested["cpu"] == 1000
        assert "u" not in world.queue
        assert world.events == [("Scheduled", "Successfully assigned default/web to n1")]
        assert world.attempts("scheduled") == 1
        assert world.api.patches == []
        (decision,) = world.scheduler.decisions
        assert (decision.result, decision.node, decision.feasible, decision.nodes) == ("scheduled", "n1", 1, 1)
        assert world.scheduler.idle


async def test_pods_of_one_burst_never_share_room_that_is_there_once() -> None:
    async with World(nodes=[make_node("n1", cpu="2"), make_node("n2", cpu="2")]) as world:
        world.create(*pods(5, cpu="1"))
        await world.settle()
        nodes = [world.node_of(f"p{i}") for i in range(5)]
        assert (nodes.count("n1"), nodes.count("n2"), nodes.count("")) == (2, 2, 1)
        assert world.queue.lengths()["unschedulable"] == 1


async def test_higher_priority_goes_first_whoever_came_first() -> None:
    async with World() as world:
        world.create(*pods(3), make_pod("important", priority=10))
        await world.settle(0.01)
        world.handlers.add_node(make_node("n1"))
        await world.settle(5)
        assert world.api.binds[0] == ("important", "n1")


async def test_a_pod_of_another_scheduler_is_counted_and_not_scheduled() -> None:
    async with World(nodes=[make_node("n1", cpu="1")]) as world:
        world.create(
            make_pod("foreign", scheduler_name="somebody"),
            make_pod("running", scheduler_name="somebody", node_name="n1", cpu="1"),
            make_pod("web", cpu="1"),
        )
        await world.settle()
        assert world.api.binds == []
        assert world.pool("web") == "unschedulable"
        assert world.pool("foreign") is None


# --- refused pods ------------------------------------------------------------------------------------------------


async def test_a_refused_pod_gets_an_event_and_a_condition_and_is_woken_by_room() -> None:
    async with World(nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("old", node_name="n1", cpu="1"), make_pod("web", cpu="1"))
        await world.settle()
        text = "0/1 nodes are available: 1 Insufficient cpu."
        assert world.events == [("FailedScheduling", text)]
        assert world.conditions() == [("web", "Unschedulable", text)]
        assert world.attempts("unschedulable") == 1
        world.delete("old")
        await world.settle(3)
        assert world.node_of("web") == "n1"


async def test_the_condition_is_written_only_when_it_changes() -> None:
    async with World(nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("web", cpu="2"))
        for _ in range(3):
            await world.settle(15)
            world.queue.activate(["default/web"])
        await world.settle()
        assert world.attempts("unschedulable") == 4
        assert len(world.api.patches) == 1
        world.handlers.add_node(make_node("n2", cpu="1"))
        await world.settle(15)
        _, second = (patch["conditions"][0] for _, patch in world.api.patches)
        assert second["message"] == "0/2 nodes are available: 2 Insufficient cpu."


LONG_AGO = "2020-02-02T20:20:20Z"


@pytest.mark.parametrize(
    ("old", "since_long_ago"),
    [
        pytest.param(("False", "Unschedulable", "text"), None, id="says so already: nothing is written"),
        pytest.param(("False", "Unschedulable", "other"), True, id="another text is no transition"),
        pytest.param(("False", "SchedulerError", "text"), True, id="neither is another reason"),
        pytest.param(("True", "", ""), False, id="another status is"),
        pytest.param(None, False, id="and so is the first one"),
    ],
)
def test_a_condition(old: tuple[str, str, str] | None, since_long_ago: bool | None) -> None:
    kept = () if old is None else (Condition("PodScheduled", *old, last_transition_time=LONG_AGO),)
    pod = make_pod("web", status=PodStatus(conditions=(Condition("Ready", "False"), *kept)))
    pod = replace(pod, metadata=replace(pod.metadata, generation=3))
    made = pod_scheduled_condition(pod, "Unschedulable", "text")
    if since_long_ago is None:
        assert made is None
        return
    assert made is not None
    said = (made["type"], made["status"], made["reason"], made["message"], made["observedGeneration"])
    assert said == ("PodScheduled", "False", "Unschedulable", "text", 3)
    assert (made["lastTransitionTime"] == LONG_AGO) is since_long_ago


async def test_a_condition_that_waits_to_be_written_is_dropped_when_the_pod_is_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_patches, "WORKERS", 1)
    world = World(nodes=[make_node("n1", cpu="1")])
    world.api.patch_latency = 20
    async with world:
        world.create(make_pod("big", cpu="9", priority=1), make_pod("web", cpu="2"))
        await world.settle(1)
        world.handlers.add_node(make_node("n2", cpu="2"))
        await world.settle(60)
        assert world.node_of("web") == "n2"
        assert {name for name, _ in world.api.patches} == {"big"}


async def test_a_cluster_without_nodes_is_retried_by_backoff_alone() -> None:
    async with World() as world:
        world.create(make_pod("web"))
        await world.settle(0.1)
        assert world.conditions() == [("web", "Unschedulable", "no nodes available to schedule pods")]
        assert world.pool("web") == "backoff"


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(None, id="the pod is gone"),
        pytest.param(make_pod("web", uid="u", node_name="n9"), id="the pod has a node by now"),
        pytest.param(make_pod("web", uid="another"), id="the name belongs to another pod by now"),
    ],
)
async def test_a_failed_pod_is_dropped_if(now: Pod | None) -> None:
    async with World(nodes=[make_node("n1", cpu="1")]) as world:
        pod = make_pod("web", uid="u", cpu="2", scheduler_name="podium", nominated_node_name="n1")
        if now is not None:
            world.informed["default", "web"] = now
        world.queue.add(world.info(pod))
        await world.settle()
        assert world.attempts("unschedulable") == 1
        assert "u" not in world.queue
        assert world.nominator.node_of("u") == ""
        assert world.events == []
        assert world.api.patches == []


async def test_a_failed_pod_is_queued_as_the_informer_has_it() -> None:
    async with World(nodes=[make_node("n1", cpu="1")]) as world:
        pod = make_pod("web", uid="u", cpu="2", scheduler_name="podium")
        fresh = replace(pod, metadata=replace(pod.metadata, labels={"new": "label"}))
        world.api.pods["default", "web"] = world.informed["default", "web"] = fresh
        world.queue.add(world.info(pod))
        # Before its own condition comes back as an update.
        await world.settle(0.005)
        assert world.attempts("unschedulable") == 1
        found = world.queue.get("u")
        assert found is not None
        assert found[0].pod.metadata.labels == {"new": "label"}


async def test_a_pod_that_is_being_deleted_is_skipped_with_an_event() -> None:
    async with World(nodes=[make_node("n1")]) as world:
        world.create(make_pod("web", deletion_timestamp="2026-01-01T00:00:00Z"))
        await world.settle()
        assert world.events == [("FailedScheduling", "skip schedule deleting pod: default/web")]
        assert world.api.binds == []
        assert world.attempts("unschedulable") == world.attempts("error") == 0
        assert world.queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


# --- nominations -------------------------------------------------------------------------------------------------


class Promise(PostFilterPlugin):
    """Promises n1 once, then clears the promise."""

    name = "Promise"
    events = ()
    promised = ("n1", "")

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.left = list(self.promised)

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Any) -> tuple[PostFilterResult | None, Status]:
        return PostFilterResult(self.left.pop(0)), unschedulable("waits for room")


async def test_a_nomination_is_written_and_kept_until_it_is_cleared() -> None:
    async with World(Promise, nodes=[make_node("n1", cpu="1")]) as world:
        world.lag = 30  # the informer is slow: nothing may depend on it
        world.create(make_pod("web", uid="u", cpu="2"))
        await world.settle(31)
        assert world.nominator.node_of("u") == "n1"
        world.queue.activate(["default/web"])
        await world.settle(1)
        assert world.nominator.node_of("u") == ""
        assert [p["nominatedNodeName"] for _, p in world.api.patches if "nominatedNodeName" in p] == ["n1", None]


async def test_a_nominated_pod_counts_once_while_it_is_being_bound() -> None:
    async with World(SlowVolumes, nodes=[make_node("n1", cpu="2")]) as world:
        world.create(make_pod("web", uid="u", cpu="1", priority=9, nominated_node_name="n1"))
        await world.settle(0.5)
        assert world.cache.is_assumed("u")
        assert world.nominator.node_of("u") == ""
        world.create(make_pod("second", cpu="1"))
        await world.settle(3)
        assert world.node_of("second") == "n1"


@pytest.mark.parametrize("lag", [0.0, 10.0], ids=["the informer is fast", "the informer is slow"])
async def test_the_expected_node_is_written_while_the_pod_waits_and_cleared_if_it_fails(lag: float) -> None:
    gates = {"NominatedNodeNameForExpectation": True}
    rejecting = type("SlowVolumes", (SlowVolumes,), {"fails": unschedulable("no volume")})
    async with World(rejecting, nodes=[make_node("n1")], gates=gates) as world:
        world.create(make_pod("web", uid="u"))
        await world.settle(0.5)
        world.lag = lag
        await world.settle(2.2)
        assert [p["nominatedNodeName"] for _, p in world.api.patches if "nominatedNodeName" in p] == ["n1", None]
        assert world.conditions() == [("web", "Unschedulable", "0/1 nodes are available: 1 no volume.")]


async def test_a_pod_that_does_not_wait_is_bound_without_a_nomination() -> None:
    async with World(nodes=[make_node("n1")], gates={"NominatedNodeNameForExpectation": True}) as world:
        world.create(make_pod("web"))
        await world.settle()
        assert world.api.patches == []


# --- bind failures -----------------------------------------------------------------------------------------------


async def test_a_failed_bind_is_undone_others_are_woken_and_the_pod_is_tried_again() -> None:
    async with World(Books, nodes=[make_node("n1", cpu="1")]) as world:
        world.api.bind_errors = [(ServerError("etcd is slow", status=500), False)]
        world.create(make_pod("web", uid="u", cpu="1", priority=5), make_pod("other", cpu="1"))
        await world.settle(0.09)
        assert world.plugins["Books"].reserved == {"web": "n1"}
        assert world.pool("other") == "unschedulable"
        await world.settle(0.02)
        # The room is free again, and who waited for it was told.
        assert world.plugins["Books"].reserved == {"other": "n1"}
        assert not world.cache.is_assumed("u")
        assert world.pool("web") == "backoff"
        assert world.conditions() == [
            ("other", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."),
            ("web", "SchedulerError", "500: etcd is slow"),
        ]
        await world.settle(0.5)
        assert world.node_of("other") == "n1"
        assert world.attempts("error") == 1


LOST = Unreachable("no answer in time", maybe_applied=True, reason="Timeout")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(LOST, id="no answer came"),
        pytest.param(ServerError("bad gateway", status=502), id="a proxy lost the answer"),
        pytest.param(Conflict("already assigned", status=409), id="the answer of a repeated call"),
    ],
)
async def test_a_bind_that_was_carried_out_although_the_call_failed_is_a_success(error: Exception) -> None:
    async with World(Books, nodes=[make_node("n1"), make_node("n2")]) as world:
        world.lag = 5
        world.api.bind_errors = [(error, True)]
        world.create(make_pod("web"))
        await world.settle(12)
        assert len(world.api.binds) == 1
        assert world.plugins["Books"].reserved == {"web": world.node_of("web")}
        assert [reason for reason, _ in world.events] == ["Scheduled"]
        assert (world.attempts("scheduled"), world.attempts("error")) == (1, 0)


async def test_a_bind_that_was_not_carried_out_is_tried_again() -> None:
    async with World(nodes=[make_node("n1")]) as world:
        world.api.bind_errors = [(LOST, False)]
        world.create(make_pod("web"))
        await world.settle(4)
        assert world.api.binds == [("web", "n1")] * 2
        assert world.node_of("web") == "n1"


async def test_a_pod_that_somebody_else_bound_counts_as_a_conflict_and_is_let_go() -> None:
    async with World(nodes=[make_node("n1"), make_node("n2")]) as world:
        world.api.bind_errors = [(Conflict("already assigned", status=409), False)]
        world.create(make_pod("web", uid="u"))
        await world.settle(0.05)
        stored = world.api.pods["default", "web"]
        world.api.pods["default", "web"] = replace(stored, spec=replace(stored.spec, node_name="n9"))
        await world.settle(0.1)
        assert world.metrics.bind_conflicts._value.get() == 1
        world.handlers.update_pod(
            stored, replace(world.api.pods["default", "web"], metadata=replace(stored.metadata, resource_version="9"))
        )
        await world.settle(5)
        assert len(world.api.binds) == 1
        assert "u" not in world.queue
        assert set(world.cache.nodes["n9"].pods) == {"u"}


async def test_a_pod_that_was_deleted_during_its_bind_is_let_go() -> None:
    async with World(Books, nodes=[make_node("n1")]) as world:
        world.api.bind_errors = [(NotFound("pods web", status=404), False)]
        world.create(make_pod("web", uid="u"))
        await world.settle(0.05)
        world.delete("web")
        await world.settle(5)
        assert "u" not in world.queue
        assert world.cache.pods == {}
        assert world.plugins["Books"].reserved == {}
        assert world.api.patches == []


# --- the node is looked at once more right before the bind ---------------------------------------------------------


async def test_a_node_that_another_scheduler_filled_meanwhile_is_not_bound_to() -> None:
    async with World(SlowVolumes, nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("web", cpu="1"))
        await world.settle(0.5)
        world.create(make_pod("foreign", cpu="1", node_name="n1", scheduler_name="somebody"))
        world.handlers.add_node(make_node("n2", cpu="1"))
        await world.settle(1.6)
        assert world.metrics.bind_rechecks._value.get() == 1
        assert world.events[0] == ("FailedScheduling", "node n1 was filled by others: cpu")
        # Nothing is wrong with the pod: it is tried at once, without backoff.
        await world.settle(2.2)
        assert world.api.binds == [("web", "n2")]


async def test_a_node_that_is_gone_is_not_bound_to() -> None:
    async with World(SlowVolumes, nodes=[make_node("n1")]) as world:
        world.create(make_pod("web"))
        await world.settle(0.5)
        world.handlers.delete_node(make_node("n1"), False)
        world.handlers.add_node(make_node("n2"))
        await world.settle(4.5)
        assert world.events[0] == ("FailedScheduling", "node n1 is gone")
        assert world.api.binds == [("web", "n2")]


@pytest.mark.parametrize(
    ("node", "requests"),
    [
        pytest.param(make_node("n1"), {"example.com/ignored": "1"}, id="the node does not report it at all"),
        pytest.param(
            make_node("n1", extra={"example.com/ignored": "1"}),
            {"example.com/ignored": "2"},
            id="it has too little of it",
        ),
    ],
)
async def test_what_filters_were_told_to_ignore_does_not_stop_the_bind(node: Node, requests: dict[str, str]) -> None:
    async with World(nodes=[node]) as world:
        world.create(make_pod("web", requests=requests))
        await world.settle()
        assert world.node_of("web") == "n1"


async def test_an_overfull_node_does_not_stop_a_pod_that_asks_for_nothing_of_it() -> None:
    async with World(SlowVolumes, nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("web"))
        await world.settle(0.5)
        world.create(make_pod("foreign", cpu="4", node_name="n1", scheduler_name="somebody"))
        await world.settle(3)
        assert world.node_of("web") == "n1"


# --- Permit ------------------------------------------------------------------------------------------------------


async def test_a_waiting_pod_is_bound_when_it_is_allowed() -> None:
    async with World(Hold, nodes=[make_node("n1")]) as world:
        world.create(make_pod("web", uid="u", labels={"hold": ""}))
        await world.settle(10)
        assert world.cache.is_assumed("u")
        assert world.pool("web") == "in flight"
        waiting = world.waiting.get("u")
        assert waiting is not None
        waiting.allow("Hold")
        await world.settle()
        assert world.node_of("web") == "n1"


async def test_events_beyond_what_is_kept_for_pods_in_flight_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "MAX_EVENTS", 3)
    async with World(Hold, nodes=[make_node("n1")]) as world:
        world.create(make_pod("web", uid="u", labels={"hold": ""}))
        await world.settle(1)
        world.create(*(make_pod(f"foreign-{i}", node_name="n1", scheduler_name="somebody") for i in range(5)))
        await world.settle(2)
        kept, dropped = world.queue.in_flight_events(), world.metrics.dropped_in_flight_events._value.get()
        assert (kept, dropped) == (3, 2)


async def test_a_waiting_pod_that_times_out_is_undone_and_its_room_is_free() -> None:
    async with World(Hold, Books, nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("web", uid="u", cpu="1", priority=5, labels={"hold": ""}))
        world.create(make_pod("other", cpu="1"))
        await world.settle(59)
        assert world.pool("other") == "unschedulable"
        await world.settle(2)
        assert world.node_of("other") == "n1"
        assert world.pool("web") == "unschedulable"
        text = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Hold."
        assert world.conditions()[-1] == ("web", "Unschedulable", text)


async def test_a_waiting_pod_that_is_deleted_leaves_nothing() -> None:
    async with World(Hold, Books, nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("web", uid="u", cpu="1", priority=5, labels={"hold": ""}), make_pod("other", cpu="1"))
        await world.settle(5)
        world.delete("web")
        await world.settle(5)
        assert world.node_of("other") == "n1"
        assert "u" not in world.queue
        assert set(world.plugins["Books"].reserved) == {"other"}


async def test_an_event_during_the_wait_is_not_lost_for_the_waiting_pod() -> None:
    """Its own rejection is by Hold, which listens to nothing; a whole-cluster event still counts."""
    async with World(type("Hold", (Hold,), {"events": None}), nodes=[make_node("n1")]) as world:
        world.create(make_pod("web", labels={"hold": ""}))
        await world.settle(30)
        world.handlers.add_node(make_node("n2"))
        await world.settle(31)
        assert world.pool("web") != "unschedulable"


# --- bugs of plugins ---------------------------------------------------------------------------------------------


class FailsOnce:
    """The first call of the method raises."""

    method: str

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "method") and not object.__getattribute__(self, "__dict__").get(
            "failed"
        ):
            object.__getattribute__(self, "__dict__")["failed"] = True
            raise RuntimeError("bug")
        return object.__getattribute__(self, name)


class DoesNothing(PreFilterPlugin, FilterPlugin, ScorePlugin, ReservePlugin, PermitPlugin, PreBindPlugin):
    name = "DoesNothing"
    events = ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> None:
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: Any) -> Any:
        return nodes.all

    def score(self, state: CycleState, pod: Pod, nodes: Any) -> Any:
        return nodes.zeros

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return None, 0.0

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None


@pytest.mark.parametrize(
    "method", ["pre_filter", "filter", "score", "reserve", "permit", "pre_bind_pre_flight", "pre_bind"]
)
async def test_a_plugin_that_raises_costs_its_pod_one_retry(method: str, caplog: pytest.LogCaptureFixture) -> None:
    buggy = type("DoesNothing", (FailsOnce, DoesNothing), {"method": method})
    async with World(buggy, Books, nodes=[make_node("n1"), make_node("n2")]) as world:
        world.create(make_pod("web"))
        await world.settle(0.5)
        assert world.attempts("error") == 1
        assert world.pool("web") == "backoff"
        assert world.plugins["Books"].reserved == {}
        assert world.cache.pods == {}
        (condition,) = world.conditions()
        assert condition[1] == "SchedulerError"
        assert condition[2].endswith("RuntimeError: bug")
        await world.settle(3)
        assert world.node_of("web") != ""
    assert "RuntimeError: bug" in caplog.text


async def test_a_reason_that_cannot_be_told_costs_one_retry_too() -> None:
    class NoReasons(FilterPlugin):
        name = "NoReasons"
        events = ()

        def filter(self, state: CycleState, pod: Pod, nodes: Any) -> Any:
            return nodes.none

        def refusals(self, state: CycleState, pod: Pod, nodes: Any) -> Any:
            raise RuntimeError("bug")

    async with World(NoReasons, nodes=[make_node("n1")]) as world:
        world.create(make_pod("web"))
        await world.settle(0.5)
        assert world.conditions() == [("web", "SchedulerError", "RuntimeError: bug")]


async def test_a_post_bind_plugin_that_raises_does_not_undo_the_bind() -> None:
    class Raises(PostBindPlugin):
        name = "Raises"

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            raise RuntimeError("bug")

    async with World(Raises, Books, nodes=[make_node("n1")]) as world:
        world.create(make_pod("web"))
        await world.settle()
        assert world.node_of("web") == "n1"
        assert world.plugins["Books"].reserved == {"web": "n1"}
        assert world.attempts("error") == 0


async def test_work_beside_the_loop_that_raises_does_not_end_the_scheduler() -> None:
    async def breaks() -> None:
        raise RuntimeError("bug")

    async with World(nodes=[make_node("n1")]) as world:
        world.scheduler.spawn(breaks())
        await world.settle()
        world.create(make_pod("web"))
        await world.settle()
        assert world.node_of("web") == "n1"


# --- bounds and the end ------------------------------------------------------------------------------------------


async def test_no_more_binds_are_in_flight_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "MAX_BINDS_IN_FLIGHT", 3)
    async with World(nodes=[make_node("n1")]) as world:
        world.create(*pods(10))
        await world.settle(0.05)
        assert len(world.api.binds) == 3
        assert world.queue.lengths()["active"] == 7
        await world.settle(1)
        assert world.api.most_binding == 3
        assert all(world.node_of(f"p{i}") == "n1" for i in range(10))


async def test_after_stop_binds_in_flight_end_and_nothing_new_begins() -> None:
    world = World(nodes=[make_node("n1")])
    world.api.latency = 5
    async with world:
        world.create(make_pod("web"))
        await world.settle(1)
        world.scheduler.stop()
        world.create(make_pod("late"))
    assert world.node_of("web") == "n1"
    assert world.node_of("late") == ""
    assert world.pool("late") == "active"


@pytest.mark.parametrize("why", ["the API server hangs", "the pod waits on Permit"])
async def test_after_stop_nobody_waits_for_ever(why: str) -> None:
    loop = asyncio.get_running_loop()
    world = World(Hold, Books, nodes=[make_node("n1")])
    world.api.latency = 3600
    async with world:
        world.create(make_pod("web", labels={"hold": ""} if "Permit" in why else None))
        await world.settle(1)
        started = loop.time()
    assert loop.time() - started == pytest.approx(scheduler_module.SHUTDOWN_TIMEOUT, abs=0.1)
    assert world.plugins["Books"].reserved == {}
    assert world.cache.assumed == set()


async def test_a_scheduler_without_work_can_be_stopped_at_once() -> None:
    loop = asyncio.get_running_loop()
    world = World()
    async with world:
        await world.settle(1)
        started = loop.time()
    assert loop.time() - started < 0.1


async def test_gauges_tell_what_waits_where_and_why() -> None:
    async with World(Hold, nodes=[make_node("n1", cpu="1")]) as world:
        world.create(make_pod("big", cpu="9"), make_pod("held", labels={"hold": ""}), make_pod("old", node_name="n1"))
        await world.settle(2)
        text = world.metrics.registry
        assert text.get_sample_value("scheduler_pending_pods", {"queue": "unschedulable"}) == 1
        assert text.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 0
        assert text.get_sample_value("scheduler_cache_size", {"type": "pods"}) == 2
        assert text.get_sample_value("scheduler_cache_size", {"type": "assumed_pods"}) == 1
        assert text.get_sample_value("scheduler_cache_size", {"type": "nodes"}) == 1
        assert text.get_sample_value("scheduler_goroutines", {"operation": "binding"}) == 1
        labels = {"plugin": "Room", "profile": "podium"}
        assert text.get_sample_value("scheduler_unschedulable_pods", labels) == 1
        world.delete("big")
        await world.settle(2)
        assert text.get_sample_value("scheduler_unschedulable_pods", labels) == 0


async def test_a_pod_that_only_the_flush_could_save_is_counted() -> None:
    deaf = type(
        "Room",
        (FilterPlugin,),
        {"name": "Deaf", "events": (), "filter": lambda self, state, pod, nodes: nodes.unschedulable},
    )
    async with World(deaf, nodes=[make_node("n1")]) as world:
        world.create(make_pod("web"))
        await world.settle(100)
        world.handlers.update_node(make_node("n1"), make_node("n1", unschedulable=True, resource_version="2"))
        await world.settle(100)
        assert world.node_of("web") == ""
        await world.settle(140)
        assert world.node_of("web") == "n1"
        assert world.metrics.scheduled_after_flush._value.get() == 1
