"""InterPodAffinity's required rules, by example: which node refuses a pod, with which code, and why."""

from typing import Any

import pytest

from kube.api.core import Pod
from plugins.inter_pod_affinity import InterPodAffinity
from scheduler.framework.status import SKIP, Code
from tests.builders import HOSTNAME, ZONE, affinity, make_namespace, make_node, make_pod, pod_term, selector
from tests.plugins.harness import Bench
from tests.plugins.inter_pod_affinity.definition import AFFINITY, ANTI_AFFINITY, EXISTING

WEB, DB = {"app": "web"}, {"app": "db"}


def bench(*pods: Pod, **more: Any) -> Bench:
    """a1 and a2 in zone a, b1 in zone b, far without a zone."""
    nodes = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"), make_node("far")]
    return Bench(InterPodAffinity, nodes=nodes, pods=pods, **more)


def near(*terms: Any, **fields: Any) -> Pod:
    return make_pod("new", affinity=affinity(pod_required=terms), **fields)


def away(*terms: Any, **fields: Any) -> Pod:
    return make_pod("new", affinity=affinity(anti_required=terms), **fields)


def test_nothing_required_by_anybody_is_skipped() -> None:
    assert bench(make_pod("other", labels=WEB, node_name="a1")).pre_filter(make_pod("new", labels=WEB)) == SKIP


def test_anti_affinity_of_running_pods_that_means_others_is_skipped() -> None:
    other = make_pod("other", affinity=affinity(anti_required=[pod_term(HOSTNAME, DB)]), node_name="a1")

    assert bench(other).pre_filter(make_pod("new", labels=WEB)) == SKIP


def test_affinity_asks_for_a_matching_pod_in_the_domain_and_for_the_key() -> None:
    cluster = bench(make_pod("db", labels=DB, node_name="a1"))

    assert cluster.fits(near(pod_term(ZONE, DB))) == {"a1", "a2"}
    assert cluster.reasons(near(pod_term(ZONE, DB))) == {"b1": (AFFINITY,), "far": (AFFINITY,)}
    assert cluster.codes(near(pod_term(ZONE, DB)))["b1"] is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_one_pod_must_match_all_affinity_terms() -> None:
    """db matches the first term and web the second: no pod matches both."""
    cluster = bench(make_pod("db", labels=DB, node_name="a1"), make_pod("web", labels=WEB, node_name="a1"))

    assert cluster.fits(near(pod_term(ZONE, DB), pod_term(HOSTNAME, WEB))) == set()


def test_the_first_pod_of_a_group_needs_no_other_but_the_keys() -> None:
    """k/k#62232: a pod that matches only one of two terms does not stand in the way."""
    half = make_pod("half", labels={"crew": "red"}, node_name="a1")
    first = near(
        pod_term(ZONE, {"crew": "red"}), pod_term(HOSTNAME, {"ship": "owl"}), labels={"crew": "red", "ship": "owl"}
    )

    assert bench(half).fits(first) == {"a1", "a2", "b1"}


def test_a_second_pod_of_a_group_goes_to_the_first() -> None:
    assert bench(make_pod("first", labels=WEB, node_name="b1")).fits(near(pod_term(ZONE, WEB), labels=WEB)) == {"b1"}


def test_a_matching_pod_on_a_node_without_the_key_does_not_count_as_first() -> None:
    assert bench(make_pod("first", labels=WEB, node_name="far")).fits(near(pod_term(ZONE, WEB), labels=WEB)) == {
        "a1", "a2", "b1",
    }  # fmt: skip


def test_a_pod_that_does_not_match_itself_is_never_the_first() -> None:
    assert bench().fits(near(pod_term(ZONE, DB), labels=WEB)) == set()


def test_anti_affinity_refuses_domains_with_any_match_and_eviction_helps() -> None:
    cluster = bench(make_pod("db", labels=DB, node_name="a1"), make_pod("web", labels=WEB, node_name="b1"))
    pod = away(pod_term(ZONE, DB), pod_term(HOSTNAME, WEB))

    assert cluster.reasons(pod) == {"a1": (ANTI_AFFINITY,), "a2": (ANTI_AFFINITY,), "b1": (ANTI_AFFINITY,)}
    assert cluster.codes(pod)["b1"] is Code.UNSCHEDULABLE


def test_a_node_without_the_key_is_in_nobodys_way() -> None:
    assert bench(make_pod("db", labels=DB, node_name="far")).fits(away(pod_term(ZONE, DB))) == {"a1", "a2", "b1", "far"}


def test_anti_affinity_of_running_pods_keeps_newcomers_away() -> None:
    other = make_pod("db", affinity=affinity(anti_required=[pod_term(ZONE, WEB)]), node_name="a1")

    assert bench(other).reasons(make_pod("new", labels=WEB)) == {"a1": (EXISTING,), "a2": (EXISTING,)}


def test_the_first_rule_that_refuses_gives_the_reason() -> None:
    db = make_pod("db", labels=DB, affinity=affinity(anti_required=[pod_term(HOSTNAME, WEB)]), node_name="a1")
    both = affinity(pod_required=[pod_term(ZONE, DB)], anti_required=[pod_term(HOSTNAME, DB)])

    assert bench(db).reasons(make_pod("new", labels=WEB, affinity=both)) == {
        "a1": (ANTI_AFFINITY,), "b1": (AFFINITY,), "far": (AFFINITY,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("term", "refused"),
    [
        pytest.param(pod_term(HOSTNAME, WEB), {"a1"}, id="a missing namespaceSelector means the own namespace"),
        pytest.param(
            pod_term(HOSTNAME, WEB, namespace_selector=selector()),
            {"a1", "a2", "b1"},
            id="an empty namespaceSelector means all namespaces, also one without an object",
        ),
        pytest.param(
            pod_term(HOSTNAME, WEB, namespace_selector=selector({"team": "x"})), {"a2"}, id="a set one means its choice"
        ),
        pytest.param(pod_term(HOSTNAME, WEB, namespaces=["lost"]), {"b1"}, id="a listed namespace needs no object"),
    ],
)
def test_namespaces_of_a_term(term: Any, refused: set[str]) -> None:
    cluster = bench(
        make_pod("own", labels=WEB, node_name="a1"),
        make_pod("green", namespace="green", labels=WEB, node_name="a2"),
        make_pod("lost", namespace="lost", labels=WEB, node_name="b1"),
        objects=[make_namespace("default"), make_namespace("green", labels={"team": "x"})],
    )

    assert set(cluster.reasons(away(term))) == refused


def test_a_namespace_that_is_relabelled_counts_from_the_next_cycle() -> None:
    cluster = bench(make_pod("green", namespace="green", labels=WEB, node_name="a1"), objects=[make_namespace("green")])
    pod = away(pod_term(HOSTNAME, WEB, namespace_selector=selector({"team": "x"})))
    assert set(cluster.reasons(pod)) == set()

    cluster.lister("Namespace").put(make_namespace("green", labels={"team": "x"}))

    assert set(cluster.reasons(pod)) == {"a1"}


def test_the_labels_of_the_newcomers_namespace_decide_what_running_pods_mean() -> None:
    term = pod_term(HOSTNAME, WEB, namespace_selector=selector({"team": "x"}))
    owner = make_pod("owner", namespace="blue", affinity=affinity(anti_required=[term]), node_name="a1")
    cluster = bench(owner, objects=[make_namespace("green", labels={"team": "x"}), make_namespace("default")])

    assert set(cluster.reasons(make_pod("new", namespace="green", labels=WEB))) == {"a1"}
    assert set(cluster.reasons(make_pod("new", namespace="default", labels=WEB))) == set()


def test_a_dry_run_takes_a_pod_away_and_the_snapshot_stays() -> None:
    blocker = make_pod("blocker", labels=WEB, node_name="a1")
    cluster = bench(blocker)
    pod = away(pod_term(ZONE, WEB))
    state = cluster.state(pod)
    cluster.pre_filter(pod, state)
    node, trial = cluster.snapshot.info("a1").clone(), state.clone()
    victim = node.pods[blocker.metadata.uid]
    node.remove_pod(victim)
    cluster.plugin.remove_pod(trial, pod, victim, node)

    assert cluster.plugin.filter_node(trial, pod, node) is None
    assert cluster.plugin.filter_node(state, pod, cluster.snapshot.info("a1")).reasons == (ANTI_AFFINITY,)

    cluster.plugin.add_pod(trial, pod, victim, node)
    assert cluster.plugin.filter_node(trial, pod, node).reasons == (ANTI_AFFINITY,)


def test_a_dry_run_that_takes_the_last_of_a_group_away_makes_the_pod_the_first() -> None:
    cluster = bench(make_pod("last", labels=WEB, node_name="a1"))
    pod = near(pod_term(HOSTNAME, WEB), labels=WEB)
    state = cluster.state(pod)
    cluster.pre_filter(pod, state)
    node, trial = cluster.snapshot.info("a1").clone(), state.clone()
    (victim,) = node.pods.values()
    node.remove_pod(victim)
    cluster.plugin.remove_pod(trial, pod, victim, node)

    assert cluster.plugin.filter_node(trial, pod, node) is None
    assert cluster.plugin.filter_node(state, pod, cluster.snapshot.info("b1")).reasons == (AFFINITY,)
