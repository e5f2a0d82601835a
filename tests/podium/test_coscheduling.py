"""The Coscheduling plugin end to end: the cases from users' reports (cases/g*), and what the plugin must not repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plugins.coscheduling import Coscheduling
from podium.configuration import Effective
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node
from tests.podium.gangs import SETTLED, effective, places, said, store
from tests.podium.gangs import pod as plain_pod
from tests.podium.harness import Object, events_of, node_of, podium, until

pytestmark = pytest.mark.looptime

LABEL = "scheduling.x-k8s.io/pod-group"


def coscheduling(**args: int) -> Effective:
    """A profile that a team brings along from scheduler-plugins."""
    given = ", ".join(f"{key}: {value}" for key, value in args.items())
    plugins = "{multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {enabled: [{name: Coscheduling}], "
    plugins += "disabled: [{name: '*'}]}}"
    config = f"[{{name: Coscheduling, args: {{kind: CoschedulingArgs, {given}}}}}]"
    return effective("", profiles=f"[{{schedulerName: podium, plugins: {plugins}, pluginConfig: {config}}}]")


def group(name: str = "g", *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Object:
    """A PodGroup of scheduling.x-k8s.io."""
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}", "creationTimestamp": created}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(name: str, cpu: str = "1", *, of: str = "g", **spec: Any) -> Object:
    """A member by label."""
    made = plain_pod(name, cpu, **spec)
    made["metadata"]["labels"] = {LABEL: of}
    return made


async def test_g01_too_few_siblings_are_refused_before_any_node_is_looked_at(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="10"), group(minMember=3), plain_pod("low", "9", priority=-5, nodeName="a"))
    store(api_server, pod("p-0", "3"), pod("p-1", "3"))
    async with podium(api_server, coscheduling()):
        await until(lambda: said(api_server, "p-0") != "", "p-0 was tried")
        text = "pre-filter pod p-0 cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
        assert text in said(api_server, "p-0")
        await asyncio.sleep(SETTLED)
        assert places(api_server) == {"low": "a", "p-0": "", "p-1": ""}
        api_server.delete("pods", "low", grace_seconds=0)
        store(api_server, pod("p-2", "3"))
        await until(lambda: set(places(api_server).values()) == {"a"}, "all three run", 11.0)


async def test_g02_a_label_without_a_group_is_refused_at_permit(api_server: ApiServer) -> None:
    store(api_server, node("a"))
    async with podium(api_server, coscheduling()):
        store(api_server, pod("x", "4", of="ghost"))
        await until(lambda: "PodGroup not found" in said(api_server, "x"), "x was refused")
        assert node_of(api_server, "x") == ""
        store(api_server, plain_pod("solo", "4"))
        await until(lambda: node_of(api_server, "solo") == "a", "the room was given back")
        api_server.delete("pods", "solo", grace_seconds=0)
        store(api_server, group("ghost", minMember=1))
        await until(lambda: node_of(api_server, "x") == "a", "x runs once its group is there", 15.0)


async def test_g04_the_wait_ends_and_takes_the_whole_group_down(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="4"), group(minMember=3, scheduleTimeoutSeconds=5))
    async with podium(api_server, coscheduling()) as service:
        # The third member is somebody else's to schedule, and nobody does.
        store(api_server, pod("p-2", "2", scheduler="nobody"), pod("p-0", "2"), pod("p-1", "2"))
        await asyncio.sleep(4)
        assert len(service.cache.assumed) == 2
        store(api_server, plain_pod("solo", "4"))
        await asyncio.sleep(4)
        assert node_of(api_server, "solo") == "a"
        told = "".join(event["note"] for name in ("p-0", "p-1") for event in events_of(api_server, name))
        assert "rejected due to timeout after waiting 5s at plugin Coscheduling" in told
        assert "rejection in Unreserve" in told
        assert places(api_server)["p-0"] == places(api_server)["p-1"] == ""


@pytest.mark.parametrize(
    ("own", "argument", "seconds"),
    [
        pytest.param({"scheduleTimeoutSeconds": 5}, {"permitWaitingTimeSeconds": 20}, 5, id="the group says how long"),
        pytest.param({}, {"permitWaitingTimeSeconds": 20}, 20, id="else the argument"),
        pytest.param({}, {}, 60, id="else a minute"),
    ],
)
async def test_g04_who_says_how_long_members_wait(
    api_server: ApiServer, own: dict[str, Any], argument: dict[str, int], seconds: int
) -> None:
    store(api_server, node("a"), group(minMember=2, **own), pod("p-0"), pod("p-1", scheduler="nobody"))
    async with podium(api_server, coscheduling(**argument)):
        await asyncio.sleep(seconds - 1)
        assert said(api_server, "p-0") == ""
        await asyncio.sleep(3)
        assert "timeout" in said(api_server, "p-0")


async def test_g05_one_member_that_fits_nowhere_rejects_those_that_wait(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="3"), group(minMember=4))
    async with podium(api_server, coscheduling()):
        store(api_server, *(pod(f"p-{i}") for i in range(4)))
        await until(lambda: said(api_server, "p-3") != "", "p-3 was tried")
        await asyncio.sleep(0.5)
        text = "PodGroup default/g gets rejected due to Pod p-3 is unschedulable even after PostFilter"
        assert said(api_server, "p-3").endswith(text)
        told = {said(api_server, f"p-{i}") for i in range(3)}
        assert told == {"0/1 nodes are available: 1 optimistic rejection in PostFilter."}
        store(api_server, plain_pod("solo", "3"))
        await until(lambda: node_of(api_server, "solo") == "a", "the room is free", 2.0)
        assert [node_of(api_server, f"p-{i}") for i in range(4)] == ["", "", "", ""]


async def test_g05_a_group_that_lacks_hardly_anybody_goes_on_waiting(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="9"), group(minMember=10))
    async with podium(api_server, coscheduling()) as service:
        store(api_server, *(pod(f"p-{i}") for i in range(10)))
        await until(lambda: said(api_server, "p-9") != "", "p-9 was tried")
        await asyncio.sleep(1)
        assert len(service.cache.assumed) == 9
        store(api_server, node("b", cpu="1"))
        await until(lambda: all(places(api_server).values()), "all ten run")


async def test_a_group_that_does_not_fit_is_tried_as_seldom_as_its_backoff_says(api_server: ApiServer) -> None:
    """The original calls the siblings again and again, and blocks the scheduler."""
    store(api_server, node("a", cpu="3"), group(minMember=4), *(pod(f"p-{i}") for i in range(4)))
    async with podium(api_server, coscheduling()) as service:
        await asyncio.sleep(60)
        tries = len(service.scheduler.decisions)
        assert 8 <= tries <= 120
        store(api_server, node("b", cpu="1"))
        await until(lambda: all(places(api_server).values()), "all run once there is room", 15.0)


async def test_g07_a_rejected_group_is_left_alone_until_its_backoff_is_over(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="2"), group(minMember=3))
    async with podium(api_server, coscheduling(podGroupBackoffSeconds=20)):
        store(api_server, *(pod(f"p-{i}") for i in range(3)))
        await until(lambda: said(api_server, "p-2") != "", "the group was rejected")
        await asyncio.sleep(5)
        store(api_server, pod("p-3"))
        await until(lambda: "podGroup default/g failed recently" in said(api_server, "p-3"), "p-3 was tried", 3.0)
        store(api_server, node("b", cpu="2"))
        await asyncio.sleep(8)
        assert set(places(api_server).values()) == {""}
        await until(lambda: all(places(api_server).values()), "the group runs after its backoff", 15.0)


async def test_g08_a_failed_group_goes_behind_others_of_its_priority(api_server: ApiServer) -> None:
    older = group("old", minMember=3, created="2026-01-01T00:00:00Z")
    newer = group("new", minMember=2, created="2026-01-01T00:10:00Z")
    store(api_server, node("a", cpu="2"), older, newer)
    names = ["old-0", "new-0", "old-1", "new-1", "old-2"]
    store(api_server, *(pod(name, of=name.partition("-")[0]) for name in names))
    async with podium(api_server, coscheduling()) as service:
        await until(lambda: all(node_of(api_server, f"new-{i}") for i in range(2)), "the newer group runs", 5.0)
        tried = [decision.name for decision in service.scheduler.decisions][::-1]
        assert tried[:3] == ["old-0", "old-1", "old-2"]
        assert [name for name in tried[3:] if name.startswith("new")][:2] == ["new-0", "new-1"]
        assert tried.index("new-1") < next((i for i, n in enumerate(tried) if i > 2 and n.startswith("old")), 99)


async def test_groups_of_one_age_are_handled_back_to_back(api_server: ApiServer) -> None:
    """Sorted by name alone their members alternate, and each group waits for room that the other holds."""
    store(api_server, node("a", cpu="2"), group("x", minMember=2), group("y", minMember=2))
    store(api_server, pod("1", of="x"), pod("2", of="y"), pod("3", of="x"), pod("4", of="y"))
    async with podium(api_server, coscheduling()):
        await asyncio.sleep(1)
        assert {name for name, place in places(api_server).items() if place} == {"1", "3"}


async def test_g09_min_resources_are_compared_with_the_free_room_of_the_cluster(api_server: ApiServer) -> None:
    low = [plain_pod(f"low-{name}", "4", priority=-5, nodeName=name) for name in "ab"]
    store(api_server, node("a", cpu="8"), node("b", cpu="8"), *low, group(minMember=2, minResources={"cpu": "10"}))
    async with podium(api_server, coscheduling()):
        store(api_server, pod("p-0", "5"), pod("p-1", "5"))
        await until(lambda: "resource gap: cpu 2" in said(api_server, "p-0"), "p-0 was refused")
        await asyncio.sleep(SETTLED)
        assert {name for name, place in places(api_server).items() if place} == {"low-a", "low-b"}
        assert events_of(api_server, "low-a") == []
        store(api_server, node("c", cpu="12"))
        store(api_server, group(minMember=2, minResources={"cpu": 10}, scheduleTimeoutSeconds=60))
        await until(lambda: all(places(api_server).values()), "both run", 15.0)


async def test_g11_a_re_created_member_of_a_running_group_is_bound_without_waiting(api_server: ApiServer) -> None:
    running = [pod(f"p-{i}", nodeName="a") for i in range(3)]
    store(api_server, node("a"), group(minMember=3), *running)
    async with podium(api_server, coscheduling()):
        api_server.delete("pods", "p-0", grace_seconds=0)
        store(api_server, pod("p-3"))
        await until(lambda: node_of(api_server, "p-3") == "a", "the newcomer runs", 2.0)
        for name in ("p-1", "p-2"):
            api_server.delete("pods", name, grace_seconds=0)
        store(api_server, pod("p-4"))
        await until(lambda: "current pods number: 2" in said(api_server, "p-4"), "a lone one is refused")
        store(api_server, pod("p-5"))
        await until(
            lambda: node_of(api_server, "p-4") == node_of(api_server, "p-5") == "a", "the second is there", 15.0
        )


async def test_gated_siblings_do_not_count_as_long_as_they_are_gated(api_server: ApiServer) -> None:
    gated = pod("p-1", schedulingGates=[{"name": "example.com/hold"}])
    store(api_server, node("a"), group(minMember=2))
    async with podium(api_server, coscheduling()):
        store(api_server, gated, pod("p-0"))
        text = "pre-filter pod p-0 cannot proceed due to gated pods in the same PodGroup"
        await until(lambda: text in said(api_server, "p-0"), "p-0 was refused")
        store(api_server, pod("p-1"))
        await until(lambda: set(places(api_server).values()) == {"a"}, "both run", 15.0)


async def test_the_status_is_left_to_the_controller_as_in_scheduler_plugins(api_server: ApiServer) -> None:
    store(api_server, node("a"), group(minMember=2), pod("p-0"), pod("p-1"))
    async with podium(api_server, coscheduling()):
        await until(lambda: set(places(api_server).values()) == {"a"}, "both run", 5.0)
        await asyncio.sleep(SETTLED)
        assert api_server.get("podgroups.scheduling.x-k8s.io", "g").get("status", {}) == {}


async def test_nothing_is_remembered_of_a_group_that_is_gone(api_server: ApiServer) -> None:
    store(api_server, node("a", cpu="1"), group(minMember=2), pod("p-0"), pod("p-1"))
    async with podium(api_server, coscheduling()) as service:
        (plugin,) = [p for p in service.scheduler.frameworks["podium"].permit if isinstance(p, Coscheduling)]
        await until(lambda: plugin._groups.known_history("default/g") is not None, "the group failed")
        for name in ("p-0", "p-1"):
            api_server.delete("pods", name, grace_seconds=0)
        api_server.delete("podgroups.scheduling.x-k8s.io", "g")
        await until(lambda: plugin._groups.known_history("default/g") is None, "the group is forgotten", 5.0)


async def test_a_group_that_never_fits_is_called_no_more_often_than_its_members_backoff_ends(
    api_server: ApiServer,
) -> None:
    """scheduler-plugins#682: each member that waited called the others, whose failure let the next one wait."""
    store(api_server, node("a", cpu="1"), group(minMember=3))
    async with podium(api_server, coscheduling()) as service:
        store(api_server, *(pod(f"p-{i}") for i in range(3)))
        await asyncio.sleep(20)
        attempts = [item.attempts for item, _ in service.scheduler.queue.pending_pods()]
        assert len(attempts) == 3
        assert 1 < max(attempts) <= 6
        # The room that the last waiting one had is given back with the next failure.
        store(api_server, plain_pod("solo", "1"))
        await until(lambda: node_of(api_server, "solo") == "a", "a single pod has the room", 15.0)


async def test_members_that_went_before_their_group_was_complete_are_forgotten(api_server: ApiServer) -> None:
    """A Job makes its pods anew, under new names, for as long as it takes."""
    store(api_server, node("a", cpu="10"), group(minMember=3))
    async with podium(api_server, coscheduling()) as service:
        [plugin] = [each for each in service.scheduler.frameworks["podium"].plugins() if isinstance(each, Coscheduling)]
        for i in range(6):
            store(api_server, pod(f"p-{i}", "1"))
            await until(lambda i=i: said(api_server, f"p-{i}") != "", "it was refused")
            assert plugin._refused == {"default/g": {f"default/p-{i}"}}
            api_server.delete("pods", f"p-{i}", grace_seconds=0)
            await asyncio.sleep(1)
