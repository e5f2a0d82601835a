"""PodTopologySpread's scores, by example."""

import math
from typing import Any

import numpy as np
import pytest

from kube.api.core import Pod
from plugins.pod_topology_spread import PodTopologySpread, scoring
from tests.builders import HOSTNAME, ZONE, make_node, make_pod, spread, taint
from tests.plugins.harness import Bench

APP = {"app": "s"}


def bench(*nodes: Any, **counts: int) -> Bench:
    """These nodes (or a, b and c in zones of their own), with so many pods of the app each."""
    cluster = nodes or [make_node(name, zone=name) for name in "abc"]
    pods = [make_pod(f"{n}{i}", labels=APP, node_name=n) for n, count in counts.items() for i in range(count)]
    return Bench(PodTopologySpread, nodes=cluster, pods=pods)


def new(*constraints: Any, **fields: Any) -> Pod:
    return make_pod("new", labels=APP, spread=constraints, **fields)


def soft(key: str = ZONE, max_skew: int = 1, **fields: Any) -> Any:
    return spread(key, APP, soft=True, max_skew=max_skew, **fields)


def test_no_soft_constraint_is_skipped() -> None:
    assert bench(a=3).score(new(spread(ZONE, APP))) is None


def test_the_emptier_the_better() -> None:
    # ln(3 + 2) = 1.609: 0, 1 and 2 pods are 0, 2 and 3
    assert bench(a=0, b=1, c=2).score(new(soft()), normalized=False) == {"a": 0, "b": 2, "c": 3}
    assert bench(a=0, b=1, c=2).score(new(soft())) == {"a": 100, "b": 33, "c": 0}


def test_no_pods_at_all_is_100_everywhere() -> None:
    assert bench().score(new(soft())) == {"a": 100, "b": 100, "c": 100}


def test_a_larger_max_skew_flattens_the_scores() -> None:
    # 0, 2 and 3 plus 4
    assert bench(a=0, b=1, c=2).score(new(soft(max_skew=5))) == {"a": 100, "b": 71, "c": 57}


def test_the_weight_depends_on_the_feasible_values() -> None:
    # ln(2 + 2) = 1.386: one pod is 1, two are 3
    assert bench(a=1, b=2).score(new(soft()), feasible=["a", "b"], normalized=False) == {"a": 1, "b": 3}


def test_pods_on_nodes_that_are_not_feasible_count_for_their_zone() -> None:
    nodes = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b", zone="b")]

    # ln(2 + 2) = 1.386: two pods are 3
    assert bench(*nodes, a2=2).score(new(soft()), feasible=["a1", "b"], normalized=False) == {"a1": 3, "b": 0}


def test_each_host_is_a_domain_of_its_own() -> None:
    # ln(3 + 2) = 1.609
    assert bench(a=2, b=1).score(new(soft(HOSTNAME)), normalized=False) == {"a": 3, "b": 2, "c": 0}


def test_a_node_that_lacks_a_key_scores_0_and_forms_no_domain() -> None:
    nodes = [make_node("a", zone="a"), make_node("b", zone="b"), make_node("nowhere")]
    pod = new(soft(), soft(HOSTNAME))

    assert bench(*nodes, a=1, nowhere=5).score(pod) == {"a": 0, "b": 100, "nowhere": 0}


def test_all_feasible_nodes_lack_the_key() -> None:
    assert bench(make_node("x"), make_node("y")).score(new(soft())) == {"x": 0, "y": 0}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, {"a1": 3, "b": 0}, id="tainted nodes count by default"),
        pytest.param({"node_taints_policy": "Honor"}, {"a1": 0, "b": 0}, id="and do not where taints are honored"),
    ],
)
def test_inclusion_policies(policy: Any, expected: dict[str, int]) -> None:
    nodes = [make_node("a1", zone="a"), make_node("a2", zone="a", taints=[taint("gone")]), make_node("b", zone="b")]

    assert bench(*nodes, a2=2).score(new(soft(**policy)), feasible=["a1", "b"], normalized=False) == expected


def test_on_a_host_pods_count_whatever_the_policies() -> None:
    nodes = [make_node("a", taints=[taint("gone")]), make_node("b")]

    assert bench(*nodes, a=2).score(new(soft(HOSTNAME, node_taints_policy="Honor")), normalized=False) == {
        "a": 3,
        "b": 0,
    }


@pytest.mark.parametrize(
    ("size", "weight"), [(1, 1.099), (2, 1.386), (3, 1.609), (5, 1.946), (100, 4.625), (5000, 8.518)]
)
def test_weights(size: int, weight: float) -> None:
    cluster = Bench(PodTopologySpread, nodes=[make_node(f"n{i}") for i in range(size)])
    pod = new(soft(HOSTNAME))
    state = cluster.state(pod)
    cluster.plugin.pre_score(state, pod, cluster.snapshot.nodes)

    assert round(state.read("PodTopologySpread/score").weighed[0].weight, 3) == weight
    assert math.isclose(math.log(size + 2), weight, abs_tol=0.0005)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [([0, 0], [100, 100]), ([0, 1, 2], [100, 50, 0]), ([2, 5], [100, 40]), ([3, 3], [100, 100]), ([], [])],
)
def test_normalising(raw: list[int], expected: list[int]) -> None:
    found = scoring.normalize(scoring.ScoreState((), None), np.array(raw, np.float64))

    assert found.tolist() == expected


@pytest.mark.parametrize("feasible", [200, 150, 130])
def test_values_that_only_the_last_feasible_nodes_show_are_seen(feasible: int) -> None:
    """Zone b has a single node, at the end."""
    nodes = [make_node(f"n{i}", zone="a") for i in range(250)] + [make_node("last", zone="b")]
    cluster = Bench(PodTopologySpread, nodes=nodes, pods=[make_pod("p", labels=APP, node_name="n249")])
    chosen = [f"n{i}" for i in range(feasible)]

    assert weight_of(cluster, chosen) == math.log(3)
    assert weight_of(cluster, [*chosen, "last"]) == math.log(4)


def weight_of(cluster: Bench, names: list[str]) -> float:
    state = cluster.state(new(soft()))
    view = cluster.snapshot.select(np.array([cluster.snapshot.row_of[name] for name in names], np.intp))
    cluster.plugin.pre_score(state, state.pod_info.pod, view)
    return float(state.read("PodTopologySpread/score").weighed[0].weight)
