"""PreScore, Score and NormalizeScore (facts 1.2): what counts, in which range, and what an error does."""

from typing import Any

import numpy as np
import pytest

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import PreScorePlugin, Scope, ScorePlugin, max_normalize
from scheduler.framework.status import SKIP, Status, error
from scheduler.snapshot.columns import Vector
from scheduler.snapshot.snapshot import Nodes
from tests.builders import make_node, make_pod
from tests.scheduler.harness import Cluster

NODES = [make_node("n1", cpu="1"), make_node("n2", cpu="2"), make_node("n3", cpu="4")]


class Cores(ScorePlugin):
    """As many points as cores, times a factor."""

    name = "Cores"
    factor = 1.0

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        return nodes.allocatable("cpu") / 1000 * self.factor


class Normalized(Cores):
    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        return max_normalize(scores)


def variant(base: type[Any], scope: Scope, **fields: Any) -> type[Any]:
    return type(base.__name__, (base,), {"scope": scope, **fields})


def totals(*plugins: type[Any], **weights: int) -> list[float]:
    scores = Cluster(*plugins, nodes=NODES, weights=weights).attempt(make_pod("web")).scores
    assert scores is not None
    return list(scores.total.tolist())


@pytest.mark.parametrize("scope", list(Scope))
def test_raw_scores_are_final_where_nobody_normalises(scope: Scope) -> None:
    assert totals(variant(Cores, scope), Cores=2) == [2, 4, 8]


@pytest.mark.parametrize("scope", list(Scope))
def test_normalised_scores_are_weighted_after_normalising(scope: Scope) -> None:
    assert totals(variant(Normalized, scope), Cores=3) == [75, 150, 300]


def test_the_total_is_the_sum_over_plugins() -> None:
    other = variant(Normalized, Scope.NODE, name="Other")
    assert totals(variant(Cores, Scope.ROW), other, Cores=2, Other=1) == [27, 54, 108]


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize(
    ("base", "factor", "text"),
    [
        pytest.param(Cores, 50.0, 'plugin "Cores" gave a node the score 200, it must be 0 to 100', id="above 100"),
        pytest.param(Cores, -1.0, 'plugin "Cores" gave a node the score -1, it must be 0 to 100', id="below 0"),
        pytest.param(
            Cores, float("nan"), 'plugin "Cores" gave a node the score nan, it must be 0 to 100', id="not a number"
        ),
    ],
)
def test_a_final_score_out_of_range_is_an_error(scope: Scope, base: type[Any], factor: float, text: str) -> None:
    attempt = Cluster(variant(base, scope, factor=factor), nodes=NODES).attempt(make_pod("web"))
    assert attempt.message() == text
    assert attempt.node_name == ""


@pytest.mark.parametrize("scope", list(Scope))
def test_raw_scores_may_be_anything_if_normalising_brings_them_into_range(scope: Scope) -> None:
    assert totals(variant(Normalized, scope, factor=1e6)) == [25, 50, 100]


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize(
    ("point", "text"),
    [("pre_score", 'running PreScore plugin "Broken": no'), ("score", 'running Score plugin "Broken": no')],
)
def test_an_error_ends_the_attempt_and_names_plugin_and_point(scope: Scope, point: str, text: str) -> None:
    class Broken(PreScorePlugin, ScorePlugin):
        name = "Broken"

        def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
            return error("no") if point == "pre_score" else None

        def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
            return error("no")

    Broken.scope = scope
    assert Cluster(Broken, nodes=NODES).attempt(make_pod("web")).message() == text


@pytest.mark.parametrize("scope", list(Scope))
def test_a_plugin_that_skips_pre_score_is_not_asked_for_scores(scope: Scope) -> None:
    class Skips(PreScorePlugin, Cores):
        name = "Skips"

        def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
            return SKIP

    cluster = Cluster(variant(Skips, scope), variant(Cores, scope), nodes=NODES)
    for _ in range(2):
        scores = cluster.attempt(make_pod("web")).scores
        assert scores is not None
        assert set(scores.by_plugin()) == {"Cores"}


def test_one_feasible_node_is_taken_without_scoring() -> None:
    class Never(ScorePlugin):
        name = "Never"

        def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
            raise AssertionError("asked although there is no choice")

    assert Cluster(Never, nodes=NODES[:1]).attempt(make_pod("web")).node_name == "n1"


def test_without_any_score_plugin_every_node_is_as_good() -> None:
    cluster = Cluster(nodes=NODES)
    assert {cluster.attempt(make_pod("web")).node_name for _ in range(50)} == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("raw", "reverse", "final"),
    [
        ([0, 10, 50], False, [0, 20, 100]),
        ([0, 1, 2, 3], True, [100, 67, 34, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([], False, []),
    ],
)
def test_default_normalisation(raw: list[float], reverse: bool, final: list[float]) -> None:
    assert max_normalize(np.array(raw, float), reverse=reverse).tolist() == final
