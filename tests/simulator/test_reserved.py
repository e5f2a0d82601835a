"""A simulation in which one pod after another takes what there is only one of: placed pods are reserved for, too."""

from __future__ import annotations

from typing import Any

from config.load import loads
from kube.api.core import Pod
from plugins.registry import IN_TREE, Registry
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import ReservePlugin
from scheduler.framework.status import Status, unschedulable
from simulator.load import ClusterObjects
from simulator.offline import PodResult, Simulation
from tests.builders import make_node, make_pod
from tests.plugins.volumes.builders import claim, storage_class, volume


class OneAtATime(ReservePlugin):
    """Somebody's own plugin: a team has one pod at a time."""

    name = "OneAtATime"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.teams: set[str] = set()
        self.undone: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        team = pod.metadata.labels.get("team")
        if team in self.teams:
            return unschedulable(f"team {team} has one already")
        self.teams |= {team} if team else set()
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.undone.append(pod.metadata.name)


def simulation(*objects: Any, pods: tuple[Pod, ...] = ()) -> Simulation:
    others: dict[str, list[Any]] = {}
    for obj in objects:
        others.setdefault(obj.KIND, []).append(obj)
    cluster = ClusterObjects(
        nodes=(make_node("n1"), make_node("n2")),
        pods=pods,
        others={kind: tuple(found) for kind, found in others.items()},
    )
    registry = Registry({**IN_TREE, OneAtATime.name: OneAtATime})
    text = """
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles: [{schedulerName: podium, plugins: {multiPoint: {enabled: [{name: OneAtATime}]}}}]
    """
    return Simulation(cluster, loads(text, known_plugins=registry).configuration, registry, {})


def places(results: list[PodResult]) -> dict[str, str | None]:
    return {result.name: result.node for result in results}


LOCAL = storage_class("wait", provisioner="kubernetes.io/no-provisioner")
DISK = volume("disk", host="n2")


def test_one_volume_is_not_given_to_two_pods() -> None:
    claims = [claim("c1"), claim("c2")]
    pods = [make_pod(f"p{i}", claims=[f"c{i}"]) for i in (1, 2)]
    results = list(simulation(LOCAL, DISK, *claims).schedule(pods))
    assert places(results) == {"p1": "n2", "p2": None}
    assert "2 node(s) didn't find available persistent volumes to bind" in results[1].message


def test_two_pods_with_one_claim_share_its_volume() -> None:
    pods = [make_pod(f"p{i}", claims=["c1"]) for i in (1, 2)]
    assert places(list(simulation(LOCAL, DISK, claim("c1")).schedule(pods))) == {"p1": "n2", "p2": "n2"}


def test_the_queue_of_a_simulation_reserves_as_well() -> None:
    pods = tuple(make_pod(f"p{i}", claims=[f"c{i}"]) for i in (1, 2))
    made = simulation(LOCAL, DISK, claim("c1"), claim("c2"), pods=pods)
    assert sorted(str(place) for place in places(list(made.run())).values()) == ["None", "n2"]


def test_each_pod_is_still_judged_alone_where_that_was_asked_for() -> None:
    pods = [make_pod(f"p{i}", claims=[f"c{i}"]) for i in (1, 2)]
    made = simulation(LOCAL, DISK, claim("c1"), claim("c2"))
    assert places(list(made.judge_alone(pods))) == {"p1": "n2", "p2": "n2"}


def test_a_refusal_by_reserve_leaves_the_pod_pending_and_takes_nothing() -> None:
    pods = tuple(make_pod(name, labels={"team": "red"}, cpu="3") for name in ("first", "second"))
    made = simulation(pods=pods)
    results = list(made.run())
    assert [(r.node is None, r.message) for r in results if r.name == "second"] == [
        (True, "0/1 nodes are available: 1 team red has one already.")
    ]
    assert sum(node.requested.get("cpu", 0) for node in made.nodes()) == 3000
    assert "second" in made.frameworks["podium"].reserve_plugins[-1].undone
