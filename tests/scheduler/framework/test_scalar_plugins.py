"""Plugins that look at one node at a time, as their authors write them, sampled as kube-scheduler does."""

import inspect
from collections import Counter

import pytest

from kube.api.core import Node, Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, ScorePlugin
from scheduler.framework.status import Status, error, unschedulable
from scheduler.scheduling_cycle import num_feasible_nodes_to_find, schedule_pod
from scheduler.snapshot.node_info import NodeInfo
from tests.builders import make_node, make_pod
from tests.scheduler.harness import Cluster


class GreenPower(ScorePlugin):
    """Prefer nodes that run on green power: annotation example.com/green, 0..100."""

    name = "GreenPower"

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.annotations.get("example.com/green", "0"))


class EvenNodes(FilterPlugin):
    """Nodes with even numbers only."""

    name = "EvenNodes"
    asked = 0

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        type(self).asked += 1
        return None if int(node.name[1:]) % 2 == 0 else unschedulable("node is odd")


def green(name: str, share: int) -> Node:
    return make_node(name, annotations={"example.com/green": str(share)})


def nodes(count: int) -> list[Node]:
    return [make_node(f"n{i}") for i in range(count)]


def test_a_scheduling_cycle_never_awaits() -> None:
    assert not inspect.iscoroutinefunction(schedule_pod)


def test_the_greenest_node_is_chosen() -> None:
    cluster = Cluster(GreenPower, nodes=[green("n1", 20), green("n2", 90), green("n3", 0)])
    attempt = cluster.attempt(make_pod("web"))
    assert attempt.node_name == "n2"
    assert attempt.scores is not None
    assert attempt.scores.by_plugin()["GreenPower"].tolist() == [20, 90, 0]


def test_a_weight_multiplies_the_score() -> None:
    cluster = Cluster(GreenPower, nodes=[green("n1", 20), green("n2", 90)], weights={"GreenPower": 3})
    scores = cluster.attempt(make_pod("web")).scores
    assert scores is not None
    assert scores.total.tolist() == [60, 270]


def test_a_score_that_is_out_of_range_is_an_error() -> None:
    cluster = Cluster(GreenPower, nodes=[green("n1", 20), green("n2", 101)])
    attempt = cluster.attempt(make_pod("web"))
    assert attempt.node_name == ""
    assert attempt.message() == 'plugin "GreenPower" gave a node the score 101, it must be 0 to 100'


def test_a_filter_with_one_method_refuses_and_explains() -> None:
    cluster = Cluster(EvenNodes, nodes=[make_node("n1"), make_node("n3")])
    assert cluster.reasons(make_pod("web")) == {
        "n1": ("EvenNodes", ("node is odd",)),
        "n3": ("EvenNodes", ("node is odd",)),
    }


def test_a_filter_that_errs_ends_the_attempt() -> None:
    class Errs(FilterPlugin):
        name = "Errs"

        def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return error("no idea")

    attempt = Cluster(Errs, nodes=[make_node("n1")]).attempt(make_pod("web"))
    assert attempt.message() == 'running "Errs" filter plugin: no idea'


# --- sampling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (50, 50), (99, 99), (100, 100), (150, 100), (200, 100), (250, 120), (500, 230), (1000, 420), (2000, 680),
        (3000, 780), (5000, 500), (5625, 281), (6250, 312), (10000, 500), (15000, 750),
    ],
)  # fmt: skip
def test_adaptive_sample_sizes(count: int, wanted: int) -> None:
    assert num_feasible_nodes_to_find(count) == wanted


@pytest.mark.parametrize(
    ("count", "percentage", "wanted"),
    [
        pytest.param(5000, 100, 5000, id="all"),
        pytest.param(5000, 10, 500, id="a tenth"),
        pytest.param(500, 10, 100, id="at least a hundred"),
        pytest.param(99, 1, 99, id="below a hundred nodes nothing is left out"),
    ],
)
def test_a_configured_percentage(count: int, percentage: int, wanted: int) -> None:
    assert num_feasible_nodes_to_find(count, percentage) == wanted


def test_a_scalar_filter_stops_when_it_has_found_enough() -> None:
    cluster = Cluster(EvenNodes, nodes=nodes(500))
    EvenNodes.asked = 0
    assert cluster.attempt(make_pod("web"), percentage=20).feasible_count == 100
    assert 199 <= EvenNodes.asked <= 201


def test_a_scalar_score_is_asked_about_a_sample_too() -> None:
    class Counting(GreenPower):
        asked = 0

        def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            type(self).asked += 1
            return 0

    cluster = Cluster(Counting, nodes=nodes(500))
    assert cluster.attempt(make_pod("web"), percentage=20).feasible_count == 100
    assert Counting.asked == 100


def test_where_the_search_starts_differs_so_that_no_node_is_always_left_out() -> None:
    cluster = Cluster(GreenPower, nodes=nodes(500))
    seen = {cluster.attempt(make_pod("web"), percentage=20).node_name for _ in range(300)}
    assert len(seen) > 200


@pytest.mark.parametrize("plugin", [EvenNodes, GreenPower])
def test_the_nominated_node_is_never_sampled_away(plugin: type[FilterPlugin | ScorePlugin]) -> None:
    cluster = Cluster(plugin, nodes=nodes(500))
    names = {cluster.attempt(make_pod("web", nominated_node_name="n250"), 20).node_name for _ in range(20)}
    assert names == {"n250"}


# --- ties --------------------------------------------------------------------------------------------------------


def chosen(seed: int, pods: int = 2000) -> list[str]:
    cluster = Cluster(GreenPower, nodes=[green("n1", 50), green("n2", 50), green("n3", 10), green("n4", 50)], seed=seed)
    return [cluster.attempt(make_pod("web")).node_name for _ in range(pods)]


def test_ties_are_broken_uniformly_among_the_best_and_only_among_them() -> None:
    counts = Counter(chosen(seed=7))
    assert set(counts) == {"n1", "n2", "n4"}
    # Mean 667, standard deviation 21: six of them either way.
    assert all(540 < count < 794 for count in counts.values())


def test_the_same_seed_makes_the_same_choices() -> None:
    assert chosen(seed=3, pods=50) == chosen(seed=3, pods=50)
    assert chosen(seed=3, pods=50) != chosen(seed=4, pods=50)
