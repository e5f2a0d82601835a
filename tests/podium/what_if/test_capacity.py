"""How many copies fit, and how many nodes are needed."""

from __future__ import annotations

import pytest

from kube.api.core import Node, Pod
from podium.what_if.capacity import NodeSearch, NodesNeeded, how_many, templates_of
from podium.what_if.cluster_changes import Template
from simulator.load import ClusterObjects
from simulator.offline import Simulation
from tests.builders import HOSTNAME, affinity, make_node, make_pod, owned_by, pod_term, taint
from tests.podium.explain.asking import simulation_of
from tests.podium.harness import effective

web = make_pod("web", cpu="500m")
db = make_pod("db", cpu="1")


def room(*cpu: str) -> Simulation:
    return simulation_of([make_node(f"n{i}", cpu=each) for i, each in enumerate(cpu)])


@pytest.mark.parametrize(
    ("templates", "cpu", "copies", "stopped"),
    [
        pytest.param([web], ["2", "1"], 6, "web-7", id="as many as there is CPU for"),
        pytest.param([web, db], ["3"], 2, "web-3", id="whole sets of several, one of each in turn"),
        pytest.param([web, db], ["2"], 1, "db-2", id="the one that does not fit is named"),
        pytest.param([web], [], 0, "web-1", id="none without nodes"),
    ],
)
def test_copies(templates: list[Pod], cpu: list[str], copies: int, stopped: str) -> None:
    answer = how_many(room(*cpu), templates)
    assert (answer.sets, answer.stopped_by.name if answer.stopped_by else "") == (copies, stopped)


def test_what_stops_the_next_copy_is_explained() -> None:
    alone = make_pod("db", labels={"app": "db"}, affinity=affinity(anti_required=[pod_term(HOSTNAME, {"app": "db"})]))
    answer = how_many(simulation_of([make_node("n1"), make_node("n2")]), [alone])
    assert answer.sets == 2
    assert answer.stopped_by is not None
    assert "pod anti-affinity to app=db on the same node" in answer.stopped_by.verdict
    assert dict(answer.nodes) == {"n1": 1, "n2": 1}


def test_copies_evict_nobody() -> None:
    low = make_pod("low", cpu="2", node_name="n1")
    simulation = simulation_of([make_node("n1", cpu="2")], [low])
    assert how_many(simulation, [make_pod("vip", cpu="1", priority=100)]).sets == 0


def test_replicas_are_one_template() -> None:
    owner = owned_by("ReplicaSet", "web-1")
    pods = [make_pod("web-1-a", owner=owner), make_pod("web-1-b", owner=owner), make_pod("x"), make_pod("y")]
    assert [pod.metadata.name for pod in templates_of(pods)] == ["web-1-a", "x", "y"]


# --- nodes ------------------------------------------------------------------------------------------------------------


def needed(nodes: list[Node], pods: list[Pod], template: Node) -> NodesNeeded:
    objects = ClusterObjects(nodes=tuple(nodes), pods=tuple(pods))
    return NodeSearch(objects, Template(template), effective(), seed=0, any_name=True).run()


@pytest.mark.parametrize(
    ("pods", "count", "pending"),
    [
        pytest.param(0, 0, 0, id="none for no pods"),
        pytest.param(2, 0, 0, id="none where all fit"),
        pytest.param(3, 1, 0, id="one more"),
        pytest.param(17, 4, 0, id="the least number, not one too many"),
        pytest.param(18, 4, 0, id="filled to the brim"),
        pytest.param(19, 5, 0, id="and one over"),
    ],
)
def test_nodes_needed(pods: int, count: int, pending: int) -> None:
    wanted = [make_pod(f"p{i}", cpu="1") for i in range(pods)]
    answer = needed([make_node("n1", cpu="2")], wanted, make_node("big", cpu="4"))
    assert (answer.nodes, answer.pending_after) == (count, pending)


def test_pods_that_no_such_node_helps_are_named() -> None:
    wanted = [make_pod("huge", cpu="64"), make_pod("p", cpu="3"), make_pod("ssd", node_selector={"disk": "ssd"})]
    answer = needed([make_node("n1", cpu="2")], wanted, make_node("big", cpu="4"))
    assert (answer.nodes, answer.pending_before, answer.pending_after) == (1, 3, 2)
    assert sorted(row.name for row in answer.still_pending) == ["huge", "ssd"]


def test_nodes_that_help_nobody_are_not_bought() -> None:
    answer = needed([], [make_pod("p")], make_node("closed", taints=[taint("gpu")]))
    assert (answer.nodes, answer.pending_after) == (0, 1)
