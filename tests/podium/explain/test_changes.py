"""What explain proposes is checked by the engine first, and the asking itself changes nothing."""

from __future__ import annotations

import random

import pytest

from kube.api.core import Pod
from podium.explain.explain import explain
from podium.explain.sources import cluster_of
from tests.builders import (
    HOSTNAME,
    ZONE,
    affinity,
    make_container,
    make_node,
    make_pod,
    owned_by,
    pod_term,
    spread,
    taint,
)
from tests.podium.explain.asking import explained, simulation_of

tainted = make_node("tainted", cpu="2", taints=[taint("gpu", "true")])


def test_a_change_that_is_not_enough_is_completed() -> None:
    found = explained(make_pod("p", cpu="1500m"), [tainted], [make_pod("q", cpu="1", node_name="tainted")])
    assert [change.text for change in found.changes] == [
        "tolerate gpu=true:NoSchedule and request 1 CPU instead of 1500m"
    ]
    assert found.nearest[0].lacks == ("with taint gpu=true:NoSchedule", "500m CPU short")


def test_what_helps_with_more_than_needed_is_not_told() -> None:
    nodes = [make_node("plain", cpu="1"), tainted]
    found = explained(make_pod("p", cpu="1500m"), nodes, [make_pod("q", cpu="1", node_name="tainted")])
    assert [(c.text, c.nodes, c.names) for c in found.changes] == [("request 1 CPU instead of 1500m", 1, ("plain",))]


def test_a_change_counts_the_nodes_that_fit_with_it() -> None:
    nodes = [make_node(f"n{i}", taints=[taint("gpu", "true")]) for i in range(14)]
    (change,) = explained(make_pod("p"), nodes).changes
    assert (change.text, change.nodes, len(change.names)) == ("tolerate gpu=true:NoSchedule", 14, 10)


def test_a_request_is_cut_by_no_more_than_half() -> None:
    found = explained(make_pod("p", cpu="2"), [make_node("n1", cpu="2")], [make_pod("q", cpu="1500m", node_name="n1")])
    assert found.changes == ()
    assert found.nearest[0].without_pods == ("default/q",)


def test_all_containers_together_make_the_request() -> None:
    pod = make_pod("p", containers=[make_container("a", cpu="600m"), make_container("b", cpu="600m")])
    found = explained(pod, [make_node("n1", cpu="1")])
    assert [change.text for change in found.changes] == ["request 1 CPU instead of 1200m"]


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param(
            [make_pod("small", cpu="200m", node_name="n1"), make_pod("large", cpu="800m", node_name="n1")],
            ("default/large",),
            id="the one that is large enough",
        ),
        pytest.param(
            [make_pod(f"p{i}", cpu="750m", priority=i, node_name="n1") for i in (3, 1)],
            ("default/p1",),
            id="the least important of several",
        ),
        pytest.param(
            [make_pod(f"p{i}", cpu="250m", priority=i, node_name="n1") for i in range(5)],
            ("default/p0", "default/p1"),
            id="as few as possible where one is not enough",
        ),
        pytest.param(
            [make_pod("daemon", cpu="1500m", node_name="n1", owner=owned_by("DaemonSet", "logs"))],
            (),
            id="never a DaemonSet's: it would come back",
        ),
    ],
)
def test_pods_in_the_way(pods: list[Pod], gone: tuple[str, ...]) -> None:
    found = explained(make_pod("new", cpu="1"), [make_node("n1", cpu="1750m")], pods)
    assert found.nearest[0].without_pods == gone


def test_eviction_is_no_way_out_where_a_label_is_missing() -> None:
    pod = make_pod("p", cpu="1", node_selector={"disk": "ssd"})
    found = explained(pod, [make_node("n1", cpu="1")], [make_pod("q", cpu="1", node_name="n1")])
    assert found.nearest[0].without_pods == ()


def random_cluster(seed: int) -> tuple[list[Pod], list[Pod], list[object]]:
    """Small and crowded, so that most pods are refused for several reasons."""
    rng = random.Random(seed)
    nodes = [
        make_node(
            f"n{i}",
            zone=rng.choice("ab"),
            cpu=rng.choice(("1", "2", "4")),
            taints=[taint("gpu", "true")] if rng.random() < 0.3 else [],
            labels={"disk": rng.choice(("ssd", "hdd"))},
            unschedulable=rng.random() < 0.1,
        )
        for i in range(6)
    ]
    running = [
        make_pod(f"r{i}", cpu=rng.choice(("250m", "500m", "900m")), labels={"app": rng.choice("xy")},
                 priority=rng.randrange(3), node_name=f"n{rng.randrange(6)}")
        for i in range(9)
    ]  # fmt: skip
    pending = [
        make_pod(
            f"p{i}",
            cpu=rng.choice(("750m", "1500m", "3")),
            labels={"app": rng.choice("xy")},
            priority=rng.randrange(3),
            node_selector={"disk": "ssd"} if rng.random() < 0.4 else {},
            affinity=affinity(anti_required=[pod_term(HOSTNAME, {"app": "x"})]) if rng.random() < 0.4 else None,
            spread=[spread(ZONE, {"app": "y"})] if rng.random() < 0.4 else [],
        )
        for i in range(5)
    ]
    return pending, running, nodes  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(12))
def test_pods_in_the_way_are_really_in_the_way(seed: int) -> None:
    """Without them, the pod fits there according to a cluster that never had them."""
    pending, running, nodes = random_cluster(seed)
    for pod in pending:
        for near in explained(pod, nodes, running).nearest:
            if near.without_pods:
                left = [each for each in running if each.key not in near.without_pods]
                (result,) = simulation_of(nodes, left).judge_alone([pod])
                assert near.node in result.feasible


def test_asking_changes_nothing() -> None:
    """Neither the cache, nor the answers that are kept, nor what the scheduler draws next."""
    pending, running, nodes = random_cluster(3)
    asked, other = (simulation_of(nodes, [*running, *pending]) for _ in range(2))
    for pod in (*pending, *running):
        explain(cluster_of(asked), pod)
    assert asked.cache.validate() == []
    assert len(asked.frameworks["podium"].kept.shapes) == 0
    assert list(asked.run()) == list(other.run())
