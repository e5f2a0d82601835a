"""InterPodAffinity's scores, by example."""

from typing import Any

import pytest

from config.types import InterPodAffinityArgs
from kube.api.core import Pod
from plugins.inter_pod_affinity import InterPodAffinity
from tests.builders import HOSTNAME, ZONE, affinity, make_node, make_pod, pod_term
from tests.plugins.harness import Bench

WEB, DB = {"app": "web"}, {"app": "db"}


def bench(*pods: Pod, args: Any = None) -> Bench:
    nodes = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"), make_node("far")]
    return Bench(InterPodAffinity, nodes=nodes, pods=pods, args=args)


def wishing(name: str = "new", **fields: Any) -> Pod:
    kinds = ("pod_required", "pod_preferred", "anti_preferred", "anti_required")
    return make_pod(name, affinity=affinity(**{k: fields.pop(k) for k in kinds if k in fields}), **fields)


def test_nothing_that_concerns_the_pod_is_skipped() -> None:
    other = wishing("other", pod_preferred=[(5, pod_term(ZONE, DB))], node_name="a1")

    assert bench(other).score(make_pod("new", labels=WEB)) is None


def test_a_wish_on_a_node_without_the_key_is_none() -> None:
    assert (
        bench(make_pod("db", labels=DB, node_name="far")).score(wishing(pod_preferred=[(5, pod_term(ZONE, DB))]))
        is None
    )


def test_wishes_that_add_up_to_nothing_are_scored_all_the_same() -> None:
    pod = wishing(pod_preferred=[(5, pod_term(ZONE, DB))], anti_preferred=[(5, pod_term(ZONE, DB))])

    assert bench(make_pod("db", labels=DB, node_name="a1")).score(pod) == {"a1": 0, "a2": 0, "b1": 0, "far": 0}


def test_wishes_of_running_pods_that_cancel_out_are_scored_all_the_same() -> None:
    owners = [
        wishing("likes", pod_preferred=[(5, pod_term(ZONE, WEB))], node_name="a1"),
        wishing("dislikes", anti_preferred=[(5, pod_term(ZONE, WEB))], node_name="a2"),
    ]

    assert bench(*owners).score(make_pod("new", labels=WEB)) == {"a1": 0, "a2": 0, "b1": 0, "far": 0}


def test_own_preferences_count_each_matching_pod() -> None:
    cluster = bench(
        make_pod("db-1", labels=DB, node_name="a1"),
        make_pod("db-2", labels=DB, node_name="a2"),
        make_pod("web", labels=WEB, node_name="b1"),
    )
    pod = wishing(pod_preferred=[(10, pod_term(ZONE, DB))], anti_preferred=[(10, pod_term(HOSTNAME, WEB))])

    # a: 2·10, b1: -10, far: 0
    assert cluster.score(pod, normalized=False) == {"a1": 20, "a2": 20, "b1": -10, "far": 0}
    assert cluster.score(pod) == {"a1": 100, "a2": 100, "b1": 0, "far": 33}


def test_preferences_of_running_pods_count_both_ways() -> None:
    owners = [
        wishing("likes", pod_preferred=[(3, pod_term(ZONE, WEB))], node_name="a1"),
        wishing("dislikes", anti_preferred=[(4, pod_term(HOSTNAME, WEB))], node_name="a2"),
    ]

    assert bench(*owners).score(make_pod("new", labels=WEB), normalized=False) == {"a1": 3, "a2": -1, "b1": 0, "far": 0}


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        pytest.param(1, {"a1": 1, "a2": 1, "b1": 0, "far": 0}, id="required affinity of a running pod counts 1"),
        pytest.param(50, {"a1": 50, "a2": 50, "b1": 0, "far": 0}, id="or what hardPodAffinityWeight says"),
        pytest.param(0, None, id="or nothing"),
    ],
)
def test_hard_pod_affinity_weight(weight: int, expected: dict[str, int] | None) -> None:
    owner = wishing("owner", pod_required=[pod_term(ZONE, WEB)], node_name="a1")
    cluster = bench(owner, args=InterPodAffinityArgs(hard_pod_affinity_weight=weight))

    assert cluster.score(make_pod("new", labels=WEB), normalized=weight == 0) == expected


def test_preferences_of_running_pods_can_be_ignored_for_pods_without_any() -> None:
    owner = wishing("owner", pod_preferred=[(3, pod_term(ZONE, WEB))], node_name="a1")
    cluster = bench(owner, args=InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True))

    assert cluster.score(make_pod("new", labels=WEB)) is None
    assert cluster.score(wishing(labels=WEB, pod_preferred=[(1, pod_term(ZONE, DB))])) == {
        "a1": 100, "a2": 100, "b1": 0, "far": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        pytest.param([-100, 0, 50], [0, 66, 100], id="the fraction is truncated"),
        pytest.param([5, 5], [0, 0], id="all equal is all 0"),
        pytest.param([0, 29, 50], [0, 57, 100], id="upstream's float gives 57 for 29 of 50, integers would give 58"),
    ],
)
def test_normalising(sums: list[int], expected: list[int]) -> None:
    """Sums of −100..50 are made from preferences of that weight on hosts of their own."""
    nodes = [make_node(f"n{i}") for i in range(len(sums))]
    terms = [(abs(s), pod_term(HOSTNAME, {"is": f"p{i}"})) for i, s in enumerate(sums)]
    pods = [make_pod(f"p{i}", labels={"is": f"p{i}"}, node_name=f"n{i}") for i in range(len(sums))]
    pod = wishing(
        pod_preferred=[terms[i] for i, s in enumerate(sums) if s > 0],
        anti_preferred=[terms[i] for i, s in enumerate(sums) if s < 0],
    )

    scores = Bench(InterPodAffinity, nodes=nodes, pods=pods).score(pod)

    assert scores == {f"n{i}": score for i, score in enumerate(expected)}
