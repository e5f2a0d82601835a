"""Groups offline: `podium simulate` decides on all members of a gang together, as the service would."""

from __future__ import annotations

from typing import Any

import pytest

from config.defaults import default_configuration
from config.feature_gates import parse
from kube.api.core import Node, Pod, PodSchedulingGroup, WorkloadReference
from kube.api.meta import ObjectMeta
from kube.api.workload import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    Workload,
    WorkloadPodGroup,
    WorkloadSpec,
)
from plugins.registry import Registry
from simulator.load import ClusterObjects
from simulator.offline import PodResult, Simulation
from tests.builders import make_node, make_pod

GANGS = "GenericWorkload=true,GangScheduling=true"
WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def gang(min_count: int, name: str = "g", **spec: Any) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=min_count))
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        spec=PodGroupSpec(scheduling_policy=policy, **spec),
    )


def member(name: str, cpu: str = "2", of: str = "g", **spec: Any) -> Pod:
    return make_pod(name, cpu=cpu, scheduling_group=PodSchedulingGroup(pod_group_name=of), **spec)


def simulation(*objects: PodGroup | Workload, nodes: list[Node], pods: list[Pod], gates: str = GANGS) -> Simulation:
    found, _ = parse(gates)
    others: dict[str, tuple[Any, ...]] = {}
    for obj in objects:
        others[obj.KIND] = (*others.get(obj.KIND, ()), obj)
    cluster = ClusterObjects(nodes=tuple(nodes), pods=tuple(pods), others=others)
    return Simulation(cluster, default_configuration(found), Registry(), found.as_dict())


def nodes_of(results: list[PodResult]) -> dict[str, str | None]:
    return {result.name: result.node for result in results}


@pytest.mark.parametrize(
    ("cpu", "placed"),
    [pytest.param("6", True, id="all of them fit"), pytest.param("4", False, id="one does not fit, so none goes")],
)
@pytest.mark.parametrize("listed", [pytest.param(True, id="given"), pytest.param(False, id="pending")])
def test_a_gang_goes_as_a_whole_or_not_at_all(cpu: str, placed: bool, listed: bool) -> None:
    pods = [member(f"p-{i}") for i in range(3)]
    asked = simulation(gang(3), nodes=[make_node("a", cpu=cpu)], pods=[] if listed else pods)
    results = list(asked.schedule(pods) if listed else asked.run())
    assert nodes_of(results) == dict.fromkeys(("p-0", "p-1", "p-2"), "a" if placed else None)
    if not placed:
        assert {result.message for result in results if result.feasible} == {WAITS}
        assert sum(len(info.pods) for info in asked.cache.nodes.values()) == 0


def test_what_is_told_of_a_member_is_what_it_found() -> None:
    pods = [member(f"p-{i}", priority=9 - i) for i in range(2)]
    asked = simulation(gang(2), nodes=[make_node("a", cpu="4"), make_node("b", cpu="2")], pods=pods)
    first, second = asked.run()
    assert set(first.feasible) == {"a", "b"}
    assert set(second.feasible) == {"a", "b"} - ({"b"} if first.node == "b" else set())
    assert set(first.scores) == {"a", "b"}


def test_pods_between_the_members_keep_their_turn() -> None:
    pods = [member("p-0"), make_pod("single", cpu="2"), member("p-1")]
    asked = simulation(gang(2), nodes=[make_node("a", cpu="4")], pods=[])
    results = list(asked.schedule(pods))
    assert [(result.name, result.node) for result in results] == [("p-0", "a"), ("single", None), ("p-1", "a")]


def test_too_few_members_are_not_tried() -> None:
    asked = simulation(gang(3), nodes=[make_node("a")], pods=[member("p-0")])
    (result,) = asked.run()
    assert (result.node, result.message) == (
        None,
        "waiting for minCount pods from a gang to appear in scheduling queue",
    )


def test_the_victims_of_a_gang_make_room_for_all_of_it() -> None:
    old = [make_pod(f"old-{i}", cpu="2", node_name="a", priority=1) for i in range(2)]
    pods = [member(f"p-{i}", priority=100) for i in range(2)]
    asked = simulation(gang(2), nodes=[make_node("a", cpu="4")], pods=[*old, *pods])
    results = list(asked.run())
    assert nodes_of(results) == {"p-0": "a", "p-1": "a"}
    assert sorted(victim for result in results for victim in result.victims) == ["default/old-0", "default/old-1"]


def test_a_workload_of_1_35_holds_its_gang_itself() -> None:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=2))
    workload = Workload(
        metadata=ObjectMeta(name="job", namespace="default"),
        spec=WorkloadSpec(pod_groups=(WorkloadPodGroup(name="workers", policy=policy),)),
    )
    refs = [WorkloadReference(name="job", pod_group="workers", pod_group_replica_key=key) for key in ("0", "0", "1")]
    pods = [make_pod(f"p-{i}", cpu="1", workload_ref=ref) for i, ref in enumerate(refs)]
    results = list(simulation(workload, nodes=[make_node("a")], pods=pods).run())
    assert nodes_of(results) == {"p-0": "a", "p-1": "a", "p-2": None}


def test_without_the_gates_members_are_pods_like_others() -> None:
    asked = simulation(gang(3), nodes=[make_node("a", cpu="2")], pods=[member("p-0")], gates="")
    assert nodes_of(list(asked.run())) == {"p-0": "a"}
