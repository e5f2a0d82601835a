"""Native pod groups end to end, beyond what was recorded: where podium does better, and what must never happen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podium.explain.asking import _ask
from podium.http import HttpServer
from simulator.apiserver import ApiServer
from simulator.apiserver.resources import Resource
from tests.fixtures_apiserver import node
from tests.podium.gangs import (
    GROUP_PREEMPTION,
    SETTLED,
    TOPOLOGY,
    effective,
    group,
    group_condition,
    places,
    pod,
    rack,
    said,
    store,
)
from tests.podium.harness import events_of, node_of, podium, until

pytestmark = pytest.mark.looptime

WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def two_kinds(order: str) -> str:
    """A profile whose gangs are tried in so many orders."""
    return f"[{{schedulerName: podium, pluginConfig: [{{name: GangScheduling, args: {{maxOrders: {order}}}}}]}}]"


# --- better than the recordings ------------------------------------------------------------------------------------


async def test_nobody_is_evicted_for_a_gang_that_does_not_fit_anyway(api_server: ApiServer) -> None:
    """kube-scheduler evicts what its single members find, though the gang then does not start."""
    store(api_server, node("a", cpu="4"), pod("old", "4", priority=1, nodeName="a"), group(min_count=2))
    async with podium(api_server, effective()):
        store(api_server, pod("p-0", "4", of="g", priority=100), pod("p-1", "4", of="g", priority=100))
        await asyncio.sleep(SETTLED)
        assert places(api_server) == {"old": "a", "p-0": "", "p-1": ""}
        assert said(api_server, "p-0") == WAITS
        assert events_of(api_server, "old") == []


@pytest.mark.parametrize(
    ("orders", "fits"),
    [
        pytest.param("1", False, id="in the order of kube-scheduler it does not fit"),
        pytest.param("2", True, id="large members first it does"),
    ],
)
async def test_a_gang_of_unlike_members_may_be_tried_in_more_than_one_order(
    api_server: ApiServer, orders: str, fits: bool
) -> None:
    store(api_server, node("a", cpu="4"), node("b", cpu="2"), group(min_count=2))
    async with podium(api_server, effective(profiles=two_kinds(orders))):
        store(api_server, pod("small", "2", of="g", priority=9), pod("large", "4", of="g"))
        await asyncio.sleep(SETTLED)
        assert all(places(api_server).values()) is fits


async def test_the_condition_of_a_started_gang_is_not_taken_back_by_a_member_that_is_left_over(
    api_server: ApiServer,
) -> None:
    store(api_server, node("a", cpu="2"), group(min_count=2))
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"p-{i}", of="g", priority=9 - i) for i in range(3)))
        await asyncio.sleep(SETTLED)
        assert places(api_server) == {"p-0": "a", "p-1": "a", "p-2": ""}
        assert group_condition(api_server)[0] == "True"
        store(api_server, pod("p-3", of="g"))
        await until(lambda: said(api_server, "p-3") != "", "p-3 was tried, and p-2 with it")
        await asyncio.sleep(SETTLED)
        assert group_condition(api_server)[0] == "True"


async def test_a_hopeless_gang_is_tried_as_seldom_as_its_backoff_says(api_server: ApiServer) -> None:
    """kube-scheduler tries it again every few milliseconds while nothing else waits."""
    store(api_server, node("a", cpu="2"), group(min_count=3))
    async with podium(api_server, effective()) as service:
        store(api_server, *(pod(f"p-{i}", of="g") for i in range(3)))
        await asyncio.sleep(60)
        tries = service.metrics.group_attempts.labels("unschedulable", "podium")._value.get()
        assert 5 <= tries <= 10


async def test_an_event_that_helps_a_member_wakes_its_gang_at_once(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="2"), group(min_count=3))
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"p-{i}", of="g") for i in range(3)))
        await asyncio.sleep(61)
        store(api_server, node("b", cpu="1"))
        await until(lambda: all(places(api_server).values()), "the gang runs", 1.0)


async def test_the_condition_has_the_name_that_the_servers_version_gives_it(api_server: ApiServer) -> None:
    api_server.registry.register(
        Resource("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", subresources=("status",))
    )
    newest = group(min_count=2) | {"apiVersion": "scheduling.k8s.io/v1beta1"}
    store(api_server, node("a"), newest, pod("p-0", of="g"), pod("p-1", of="g"))
    async with podium(api_server, effective()):
        await until(lambda: group_condition(api_server)[0] == "True", "the gang runs")
        (condition,) = api_server.get("podgroups.scheduling.k8s.io", "g")["status"]["conditions"]
        assert condition["type"] == "PodGroupInitiallyScheduled"


async def test_what_is_told_is_in_the_words_of_the_servers_version(api_server: ApiServer) -> None:
    api_server.registry.register(
        Resource("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", subresources=("status",))
    )
    newest = group(min_count=3) | {"apiVersion": "scheduling.k8s.io/v1beta1"}
    store(api_server, node("a", cpu="2"), pod("lone", of="later"))
    async with podium(api_server, effective()) as service:
        queue = service.scheduler.queue
        await until(lambda: queue.lengths()["gated"] == 1, "it waits for its group")
        ((item, _),) = queue.pending_pods()
        assert item.gating_message == 'waiting for pod\'s pod group "later" to appear in scheduling queue'
        store(api_server, newest, *(pod(f"p-{i}", of="g") for i in range(3)))
        await until(lambda: group_condition(api_server)[0] == "False", "the gang was tried")
        text = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        assert group_condition(api_server)[2] == text
        await until(lambda: said(api_server, "p-0") == f"pod group is unschedulable, {text}", "and its members say so")


async def test_a_gang_that_does_not_fit_keeps_nobody_waiting(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="2"), group("big", min_count=3), group("fits", min_count=2))
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"big-{i}", of="big", priority=5) for i in range(3)))
        await until(lambda: said(api_server, "big-0") != "", "the big gang was tried")
        store(api_server, *(pod(f"fits-{i}", of="fits", priority=5) for i in range(2)))
        await until(lambda: all(node_of(api_server, f"fits-{i}") for i in range(2)), "the other gang runs", 2.0)


# --- preemption ----------------------------------------------------------------------------------------------------


async def test_a_gang_waits_for_victims_that_take_their_time_and_keeps_its_places(api_server: ApiServer) -> None:
    old = [pod(f"old-{i}", "2", priority=1, nodeName="a", terminationGracePeriodSeconds=30) for i in range(2)]
    store(api_server, node("a", cpu="4"), *old, group(min_count=2))
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"p-{i}", "2", of="g", priority=100) for i in range(2)))
        await asyncio.sleep(SETTLED)
        assert group_condition(api_server) == (
            "False",
            "Unschedulable",
            "pod group is waiting for preemption to complete",
        )
        assert [api_server.get("pods", f"p-{i}")["status"]["nominatedNodeName"] for i in range(2)] == ["a", "a"]
        store(api_server, pod("thief", "2", priority=50))
        for victim in ("old-0", "old-1"):
            assert "deletionTimestamp" in api_server.get("pods", victim)["metadata"]
            api_server.delete("pods", victim, grace_seconds=0)
        await until(lambda: node_of(api_server, "p-0") == node_of(api_server, "p-1") == "a", "the gang runs")
        assert node_of(api_server, "thief") == ""


async def test_a_victim_that_makes_room_for_two_members_is_evicted_once(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="4"), pod("old", "3", priority=1, nodeName="a"), group(min_count=2))
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"p-{i}", "2", of="g", priority=100) for i in range(2)))
        await until(lambda: places(api_server) == {"p-0": "a", "p-1": "a"}, "the gang runs")
        assert [event["reason"] for event in events_of(api_server, "old")] == ["Preempted"]


async def test_group_preemption_takes_a_group_that_is_only_disrupted_whole_as_one(api_server: ApiServer) -> None:
    victims = group("victims", min_count=2, disruptionMode="PodGroup", priority=1)
    store(
        api_server,
        node("a", cpu="2"),
        node("b", cpu="2"),
        victims,
        pod("v-0", "2", of="victims", nodeName="a"),
        pod("v-1", "2", of="victims", nodeName="b"),
        group("g", min_count=1, priority=100),
    )
    async with podium(api_server, effective(GROUP_PREEMPTION)):
        store(api_server, pod("p-0", "2", of="g"))
        await until(lambda: bool(node_of(api_server, "p-0")), "the preemptor runs")
        assert sorted(places(api_server)) == ["p-0"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"priority": 100, "preemptionPolicy": "Never"},
            "pod group is unschedulable, not eligible due to preemptionPolicy=Never.",
            id="a group that never preempts",
        ),
        pytest.param(
            {"priority": 0},
            "pod group is unschedulable, No preemption victims found for incoming preemptor",
            id="a group that is below everybody",
        ),
    ],
)
async def test_group_preemption_asks_the_group_and_not_its_pods(
    api_server: ApiServer, spec: dict[str, Any], message: str
) -> None:
    store(api_server, node("a", cpu="4"), pod("old", "4", priority=1, nodeName="a"), group(min_count=1, **spec))
    async with podium(api_server, effective(GROUP_PREEMPTION)):
        store(api_server, pod("p-0", "4", of="g", priority=1000))
        await asyncio.sleep(SETTLED)
        assert places(api_server) == {"old": "a", "p-0": ""}
        assert group_condition(api_server) == ("False", "Unschedulable", message)


async def test_group_preemption_spares_the_more_important_and_what_a_budget_protects(api_server: ApiServer) -> None:
    old = [pod(f"old-{i}", "2", priority=i, nodeName="abc"[i]) for i in range(3)]
    old[0]["metadata"]["labels"] = {"app": "protected"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "protected"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 0},
    }
    store(api_server, *(node(name, cpu="2") for name in "abc"), *old, budget, group(min_count=1, priority=100))
    async with podium(api_server, effective(GROUP_PREEMPTION)):
        store(api_server, pod("p-0", "2", of="g"))
        await until(lambda: bool(node_of(api_server, "p-0")), "the preemptor runs")
        assert places(api_server) == {"old-0": "a", "old-2": "c", "p-0": "b"}


# --- placements ----------------------------------------------------------------------------------------------------


async def test_of_two_racks_that_hold_the_gang_the_fuller_one_is_taken(api_server: ApiServer) -> None:
    store(
        api_server,
        rack("a1", "A"),
        rack("b1", "B"),
        pod("other", "2", nodeName="b1"),
        group(min_count=2, topology="example.com/rack"),
    )
    async with podium(api_server, effective(TOPOLOGY)):
        store(api_server, *(pod(f"p-{i}", of="g") for i in range(2)))
        await asyncio.sleep(SETTLED)
        assert {node_of(api_server, f"p-{i}") for i in range(2)} == {"b1"}


async def test_of_two_racks_the_one_that_takes_more_members_is_better_than_the_fuller_one(
    api_server: ApiServer,
) -> None:
    store(api_server, rack("a1", "A", cpu="4"), rack("b1", "B", cpu="4"), pod("other", "2", nodeName="b1"))
    async with podium(api_server, effective(TOPOLOGY)):
        store(api_server, *(pod(f"p-{i}", of="g", priority=9 - i) for i in range(4)))
        await asyncio.sleep(SETTLED)
        # The group comes last, so that all four are known when it may start.
        store(api_server, group(min_count=2, topology="example.com/rack"))
        await asyncio.sleep(SETTLED)
        assert {node_of(api_server, f"p-{i}") for i in range(4)} == {"a1"}


async def test_a_member_that_runs_keeps_the_others_in_its_rack_even_if_they_do_not_fit_there(
    api_server: ApiServer,
) -> None:
    running = pod("r", "4", of="g", nodeName="b1")
    store(api_server, rack("a1", "A"), rack("b1", "B"), running, group(min_count=2, topology="example.com/rack"))
    async with podium(api_server, effective(TOPOLOGY)):
        store(api_server, pod("p-0", of="g"))
        await asyncio.sleep(SETTLED)
        assert places(api_server) == {"r": "b1", "p-0": ""}
        assert group_condition(api_server)[2].startswith("0/1 placements are available")


@pytest.mark.parametrize(
    ("topology", "condition", "told"),
    [
        pytest.param(
            "example.com/rack",
            "0/2 placements are available, first placement status: pod group is unschedulable",
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to placement-based pod group scheduling limitation",
            id="no rack holds it: the nodes of one are counted, and nobody preempts",
        ),
        pytest.param(
            "",
            "0/1 placements are available, first placement status: pod group is unschedulable",
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
            id="without a constraint all nodes are the one placement",
        ),
    ],
)
async def test_a_gang_that_no_placement_holds_says_so(
    api_server: ApiServer, topology: str, condition: str, told: str
) -> None:
    store(api_server, rack("a1", "A", cpu="2"), rack("b1", "B", cpu="2"), group(min_count=3, topology=topology))
    async with podium(api_server, effective(TOPOLOGY)):
        store(api_server, *(pod(f"p-{i}", "2", of="g", priority=9 - i) for i in range(3)))
        await asyncio.sleep(SETTLED)
        assert set(places(api_server).values()) == {""}
        assert group_condition(api_server) == ("False", "Unschedulable", condition)
        assert said(api_server, "p-2") == told


async def test_members_in_two_racks_are_an_error(api_server: ApiServer) -> None:
    running = (pod("r-0", of="g", nodeName="a1"), pod("r-1", of="g", nodeName="b1"))
    store(api_server, rack("a1", "A"), rack("b1", "B"), *running, group(min_count=3, topology="example.com/rack"))
    async with podium(api_server, effective(TOPOLOGY)):
        store(api_server, pod("p-0", of="g"))
        await asyncio.sleep(SETTLED)
        status, reason, message = group_condition(api_server)
        assert (status, reason) == ("False", "SchedulerError")
        assert message == 'members of pod group "g" run in more than one domain of example.com/rack: A, B'


# --- the rest ------------------------------------------------------------------------------------------------------


async def test_members_that_name_two_profiles_are_an_error(api_server: ApiServer) -> None:
    store(api_server, node("a"), group(min_count=2))
    async with podium(api_server, effective(profiles="[{schedulerName: podium}, {schedulerName: second}]")):
        store(api_server, pod("p-0", of="g"), pod("p-1", of="g", scheduler="second"))
        await until(lambda: said(api_server, "p-1") != "", "p-1 was tried")
        text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "podium" and "second"'
        assert {said(api_server, "p-0"), said(api_server, "p-1")} == {text}


async def test_a_member_waits_until_its_group_wants_fewer(api_server: ApiServer) -> None:
    store(api_server, node("a"), group(min_count=3))
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"p-{i}", of="g") for i in range(2)))
        await asyncio.sleep(SETTLED)
        assert set(places(api_server).values()) == {""}
        store(api_server, group(min_count=2))
        await until(lambda: set(places(api_server).values()) == {"a"}, "two are enough now", 5.0)


async def test_with_the_gates_off_a_group_means_nothing(api_server: ApiServer) -> None:
    store(api_server, node("a"), group(min_count=3))
    async with podium(api_server, effective("")):
        store(api_server, pod("p-0", of="g"))
        await until(lambda: node_of(api_server, "p-0") == "a", "p-0 is a pod like any other")
        assert group_condition(api_server) == ("", "", "")


async def test_without_the_group_cycle_the_members_meet_at_permit(api_server: ApiServer) -> None:
    """As in 1.35, and where extenders have a say."""
    store(api_server, node("a", cpu="2"), group(min_count=2))
    async with podium(api_server, effective("GangScheduling=true")) as service:
        store(api_server, pod("p-0", of="g"), pod("p-1", of="g"))
        await until(lambda: set(places(api_server).values()) == {"a"}, "both run")
        assert service.metrics.group_attempts.labels("scheduled", "podium")._value.get() == 0


async def test_a_gang_of_a_thousand_goes_in_one_cycle(api_server: ApiServer) -> None:
    store(api_server, *(node(f"n-{i}", cpu="40") for i in range(25)), group(min_count=1000))
    members = [pod(f"p-{i:03}", of="g") for i in range(1000)]
    async with podium(api_server, effective()) as service:
        store(api_server, *members)
        await until(lambda: all(places(api_server).values()), "all run")
        assert service.metrics.group_attempts.labels("scheduled", "podium")._value.get() == 1
        assert group_condition(api_server)[0] == "True"


# --- members that share a claim ------------------------------------------------------------------------------------


def devices() -> list[dict[str, object]]:
    """One device on node a, a claim for it, and its class."""
    meta = {"namespace": "default", "name": "c", "uid": "claim-c"}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    sliced = {"driver": "d.example.com", "pool": pool, "nodeName": "a", "devices": [{"name": "gpu-0"}]}
    return [
        {"apiVersion": DEVICES, "kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "class"}, "spec": {}},
        {"apiVersion": DEVICES, "kind": "ResourceSlice", "metadata": {"name": "s", "uid": "slice"}, "spec": sliced},
        {
            "apiVersion": DEVICES,
            "kind": "ResourceClaim",
            "metadata": meta,
            "spec": {"devices": {"requests": [request]}},
        },
    ]


DEVICES = "resource.k8s.io/v1"


@pytest.mark.parametrize(
    ("room_on_a", "together"),
    [
        pytest.param("2", True, id="with room for both beside the device both run there"),
        pytest.param("1", False, id="with room for one nobody runs: the other node cannot reach the device"),
    ],
)
async def test_members_that_share_a_claim_run_where_its_device_is(
    api_server: ApiServer, room_on_a: str, together: bool
) -> None:
    for kind, plural in (("ResourceClaim", "resourceclaims"), ("ResourceClaimTemplate", "resourceclaimtemplates")):
        serve(api_server, kind, plural, namespaced=True)
    for kind, plural in (("ResourceSlice", "resourceslices"), ("DeviceClass", "deviceclasses")):
        serve(api_server, kind, plural, namespaced=False)
    store(api_server, node("a", cpu=room_on_a), node("b", cpu="2"), group(min_count=2), *devices())
    claims = [{"name": "c", "resourceClaimName": "c"}]
    async with podium(api_server, effective()):
        store(api_server, *(pod(f"p-{i}", of="g", resourceClaims=claims) for i in range(2)))
        await asyncio.sleep(SETTLED)
        claim = api_server.get("resourceclaims.resource.k8s.io", "c")
        users = {user["name"] for user in claim.get("status", {}).get("reservedFor", ())}
        if together:
            assert places(api_server) == {"p-0": "a", "p-1": "a"}
            assert users == {"p-0", "p-1"}
            assert [d["device"] for d in claim["status"]["allocation"]["devices"]["results"]] == ["gpu-0"]
        else:
            assert places(api_server) == {"p-0": "", "p-1": ""}
            assert users == set()
            assert said(api_server, "p-1").startswith("0/2 nodes are available: 1 Insufficient cpu")


def serve(server: ApiServer, kind: str, plural: str, *, namespaced: bool) -> None:
    """Let the API server have a kind of resource.k8s.io, if it has not."""
    if server.registry.by_kind(DEVICES, kind) is None:
        server.registry.register(
            Resource("resource.k8s.io", "v1", kind, plural, namespaced, subresources=("status",), strategic_merge=False)
        )


async def test_a_running_podium_explains_what_a_gang_waits_for_and_changes_nothing(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="2"), group(min_count=3))
    async with podium(api_server, effective()) as service, HttpServer(service, "127.0.0.1", 0) as http:
        store(api_server, *(pod(f"p-{i}", of="g", priority=9 - i) for i in range(3)))
        await until(lambda: said(api_server, "p-2") != "", "the gang was tried")
        (answer,) = await _ask(f"http://127.0.0.1:{http.port}", "default", "p-0")
        assert answer.verdict.startswith(
            'Its pod group "g" needs 3 members together, and only 2 of 3 fit: p-2 does not fit'
        )
        assert (service.cache.assumed, service.cache.validate(), service.scheduler.queue.validate()) == (set(), [], [])
