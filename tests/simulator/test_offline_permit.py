"""Coscheduling offline: pods of a group wait for each other, in a time of the simulation's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from config.load import loads
from kube.api.core import Node, Pod
from kube.api.meta import ObjectMeta
from kube.api.workload import CoschedulingPodGroup, CoschedulingPodGroupSpec
from plugins.registry import Registry
from simulator.load import ClusterObjects
from simulator.offline import PodResult, Simulation
from tests.builders import make_node, make_pod

LABEL = "scheduling.x-k8s.io/pod-group"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: podium
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig: [{name: Coscheduling, args: {podGroupBackoffSeconds: %d}}]
"""


def group(min_member: int, name: str = "g", **spec: Any) -> CoschedulingPodGroup:
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return CoschedulingPodGroup(metadata=meta, spec=CoschedulingPodGroupSpec(min_member=min_member, **spec))


def member(name: str, cpu: str = "1", of: str = "g", scheduler: str = "podium") -> Pod:
    return make_pod(name, cpu=cpu, labels={LABEL: of}, scheduler_name=scheduler)


def members(count: int, of: str = "g", **kwargs: Any) -> list[Pod]:
    return [member(f"{of}-{i}", of=of, **kwargs) for i in range(count)]


def simulation(
    *groups: CoschedulingPodGroup, nodes: list[Node], pods: Iterable[Pod], backoff: int = 0, detail: bool = True
) -> Simulation:
    registry = Registry()
    cluster = ClusterObjects(
        nodes=tuple(nodes), pods=tuple(pods), others={"podgroups.v1alpha1.scheduling.x-k8s.io": groups}
    )
    known: Any = registry
    configuration = loads(CONFIG % backoff, known_plugins=known).configuration
    return Simulation(cluster, configuration, registry, {}, any_scheduler_name=False, detail=detail)


def by_name(results: Iterable[PodResult]) -> dict[str, PodResult]:
    return {result.name: result for result in results}


def places(results: Iterable[PodResult]) -> dict[str, str | None]:
    return {result.name: result.node for result in results}


def held(asked: Simulation) -> int:
    """Pods that the nodes count."""
    return sum(node.pods for node in asked.nodes())


def test_a_group_that_fits_is_placed_as_a_whole() -> None:
    asked = simulation(group(3), nodes=[make_node("a", cpu="3")], pods=members(3))
    assert places(asked.run()) == dict.fromkeys(("g-0", "g-1", "g-2"), "a")


@pytest.mark.parametrize("detail", [True, False])
def test_a_group_that_does_not_fit_holds_no_room(detail: bool) -> None:
    pods = [*members(4), *members(3, of="later")]
    groups = group(4), group(3, "later")
    asked = simulation(*groups, nodes=[make_node("a", cpu="3")], pods=pods, detail=detail)
    results = by_name(asked.run())
    assert {name for name, result in results.items() if result.node} == {"later-0", "later-1", "later-2"}
    assert all(results[f"g-{i}"].message for i in range(4))
    assert held(asked) == 3


def test_too_few_siblings_are_refused_and_nobody_waits() -> None:
    asked = simulation(group(3), nodes=[make_node("a")], pods=members(2))
    text = "pre-filter pod g-1 cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
    assert text in by_name(asked.run())["g-1"].message
    assert held(asked) == 0


@pytest.mark.parametrize(("seconds", "waited"), [(None, "1m0s"), (5, "5s")], ids=["a minute", "as the group says"])
def test_who_waits_in_vain_gives_its_room_back_when_its_time_is_over(seconds: int | None, waited: str) -> None:
    pods = [*members(2), member("g-2", scheduler="nobody")]
    asked = simulation(group(3, schedule_timeout_seconds=seconds), nodes=[make_node("a", cpu="2")], pods=pods)
    results = by_name(asked.run())
    told = {results[name].message for name in ("g-0", "g-1")}
    assert told == {
        f"0/1 nodes are available: 1 rejected due to timeout after waiting {waited} at plugin Coscheduling.",
        "0/1 nodes are available: 1 rejection in Unreserve.",
    }
    assert "no profile is named 'nobody'" in results["g-2"].message
    assert held(asked) == 0


@pytest.mark.parametrize("backoff", [0, 20])
def test_who_comes_after_a_group_that_waits_in_vain_has_the_room_then(backoff: int) -> None:
    waiting = [*members(2, of="first"), member("first-2", of="first", scheduler="nobody")]
    pods = [*waiting, *members(3, of="second")]
    groups = group(3, "first"), group(3, "second")
    results = by_name(simulation(*groups, nodes=[make_node("a", cpu="3")], pods=pods, backoff=backoff).run())
    assert {name for name, result in results.items() if result.node} == {"second-0", "second-1", "second-2"}
    assert "Insufficient cpu" in results["first-0"].message


def test_pods_that_are_given_wait_for_each_other_too_and_come_in_their_order() -> None:
    asked = simulation(group(2), group(3, "h"), nodes=[make_node("a", cpu="3")], pods=[])
    given = [member("h-0", of="h"), member("g-0"), member("g-1"), member("h-1", of="h"), member("h-2", of="h")]
    results = list(asked.schedule(given))
    assert [(result.name, result.node) for result in results] == [
        ("h-0", None),
        ("g-0", "a"),
        ("g-1", "a"),
        ("h-1", None),
        ("h-2", None),
    ]
    assert results[0].message == "0/1 nodes are available: 1 optimistic rejection in PostFilter."
    assert held(asked) == 2


def test_alone_each_member_is_judged_by_itself_and_nobody_waits() -> None:
    pods = members(3)
    asked = simulation(group(3), nodes=[make_node("a", cpu="1")], pods=pods)
    assert places(asked.judge_alone(pods)) == dict.fromkeys(("g-0", "g-1", "g-2"), "a")
    assert held(asked) == 0
