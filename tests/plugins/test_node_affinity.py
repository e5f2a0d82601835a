"""NodeAffinity: node selector, required and preferred terms, and what the profile adds."""

import pytest

from config.types import NodeAffinityArgs
from plugins.node_affinity import NodeAffinity
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.plugin import PreFilterResult
from scheduler.framework.status import SKIP, Code
from tests.builders import (
    ZONE,
    DoesNotExist,
    Exists,
    Gt,
    In,
    Lt,
    NotIn,
    affinity,
    make_node,
    make_pod,
    node_term,
    requires,
)
from tests.plugins.harness import Bench

QUEUE, LEAVE = QueueingHint.QUEUE, QueueingHint.SKIP
NAME = "metadata.name"

NODES = [
    make_node("a1", zone="a", labels={"disk": "ssd", "gen": "3"}),
    make_node("a2", zone="a", labels={"disk": "hdd", "gen": "10"}),
    make_node("b1", zone="b", labels={"disk": "ssd", "gen": "new"}),
    make_node("c1", zone="c"),
]
ALL = {"a1", "a2", "b1", "c1"}


def wants(*terms, **fields):
    return make_pod("web", affinity=affinity(node_required=terms), **fields)


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        pytest.param(make_pod("web", node_selector={"disk": "ssd"}), {"a1", "b1"}, id="a node selector"),
        pytest.param(make_pod("web", node_selector={"disk": "nvme"}), set(), id="a value that no node has"),
        pytest.param(make_pod("web", node_selector={"cpu": "fast"}), set(), id="a label that no node has"),
        pytest.param(
            make_pod("web", node_selector={"disk": "ssd", ZONE: "a"}), {"a1"}, id="all pairs of a selector hold"
        ),
        pytest.param(wants(requires(ZONE, In, "a", "c")), {"a1", "a2", "c1"}, id="In"),
        pytest.param(wants(requires(ZONE, NotIn, "a")), {"b1", "c1"}, id="NotIn"),
        pytest.param(wants(requires("disk", NotIn, "ssd")), {"a2", "c1"}, id="NotIn holds where the label is absent"),
        pytest.param(wants(requires("disk", Exists)), {"a1", "a2", "b1"}, id="Exists"),
        pytest.param(wants(requires("disk", DoesNotExist)), {"c1"}, id="DoesNotExist"),
        pytest.param(wants(requires("gen", Gt, "3")), {"a2"}, id="Gt compares integers, not text"),
        pytest.param(wants(requires("gen", Lt, "10")), {"a1"}, id="Lt compares integers"),
        pytest.param(wants(requires("gen", Gt, "x")), set(), id="Gt with a word matches nothing"),
        pytest.param(wants(requires(ZONE, "Near", "a")), set(), id="an unknown operator matches nothing"),
        pytest.param(wants(requires("disk", NotIn, "h d")), set(), id="NotIn with what cannot be a label's value"),
        pytest.param(wants(requires("gen", Gt, "-5")), set(), id="Gt with a sign, as no label's value has"),
        pytest.param(
            wants(requires("di sk", DoesNotExist)), set(), id="DoesNotExist with what cannot be a label's key"
        ),
        pytest.param(wants(requires(ZONE, In, "b"), requires(ZONE, In, "c")), {"b1", "c1"}, id="terms are ORed"),
        pytest.param(
            wants(node_term(requires(ZONE, In, "a"), requires("disk", In, "ssd"))), {"a1"}, id="expressions are ANDed"
        ),
        pytest.param(wants(node_term()), set(), id="an empty term matches nothing"),
        pytest.param(wants(), set(), id="no term matches nothing"),
        pytest.param(wants(node_term(fields=[requires(NAME, In, "a1")])), {"a1"}, id="a node by name"),
        pytest.param(wants(node_term(fields=[requires(NAME, NotIn, "a1")])), ALL - {"a1"}, id="all nodes but one"),
        pytest.param(wants(node_term(fields=[requires(NAME, In, "gone")])), set(), id="a node that does not exist"),
        pytest.param(
            wants(node_term(requires("disk", In, "hdd"), fields=[requires(NAME, In, "a1")])),
            set(),
            id="name and labels must both match",
        ),
        pytest.param(
            wants(requires(ZONE, In, "a"), node_selector={"disk": "ssd"}),
            {"a1"},
            id="selector and terms must both match",
        ),
    ],
)
def test_a_pod_goes_to_the_nodes_that_it_selects(pod, fits):
    bench = Bench(NodeAffinity, nodes=NODES)
    assert bench.fits(pod) == fits
    for status in (s for s in bench.filter(pod).values() if not s.ok):
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) didn't match Pod's node affinity/selector",)


@pytest.mark.parametrize(
    ("pod", "answer"),
    [
        pytest.param(make_pod("web"), SKIP, id="nothing is asked for"),
        pytest.param(
            make_pod("web", affinity=affinity(node_preferred=[(1, requires(ZONE, In, "a"))])), SKIP, id="only preferred"
        ),
        pytest.param(make_pod("web", node_selector={"disk": "ssd"}), None, id="labels name no nodes"),
        pytest.param(
            wants(node_term(fields=[requires(NAME, In, "a1")]), node_term(fields=[requires(NAME, In, "b1")])),
            PreFilterResult(frozenset({"a1", "b1"})),
            id="every term names a node: their union",
        ),
        pytest.param(
            wants(node_term(fields=[requires(NAME, In, "a1")]), requires(ZONE, In, "b")),
            None,
            id="a term without a name keeps all nodes",
        ),
        pytest.param(wants(node_term(fields=[requires(NAME, NotIn, "a1")])), None, id="NotIn names no nodes"),
        pytest.param(wants(), None, id="without terms there are no names either"),
    ],
)
def test_pre_filter_finds_the_nodes_that_a_pod_names(pod, answer):
    assert Bench(NodeAffinity, nodes=NODES).pre_filter(pod) == answer


def test_terms_that_name_different_nodes_at_once_conflict():
    pod = wants(node_term(fields=[requires(NAME, In, "a1"), requires(NAME, In, "b1")]))
    status = Bench(NodeAffinity, nodes=NODES).pre_filter(pod)
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "pod affinity terms conflict")


ENFORCED = NodeAffinityArgs(added_affinity=affinity(node_required=[requires(ZONE, In, "a")]).node_affinity)


def test_affinity_of_the_profile_is_enforced_on_every_pod():
    bench = Bench(NodeAffinity, nodes=NODES, args=ENFORCED)
    assert bench.fits(make_pod("web")) == {"a1", "a2"}
    assert bench.reasons(make_pod("web", node_selector={"disk": "ssd"})) == {
        "a2": ("node(s) didn't match Pod's node affinity/selector",),
        "b1": ("node(s) didn't match scheduler-enforced node affinity",),
        "c1": ("node(s) didn't match scheduler-enforced node affinity",),
    }


def prefers(*terms):
    return make_pod("web", affinity=affinity(node_preferred=terms))


def test_scores_are_sums_of_weights_scaled_to_the_highest():
    nodes = [make_node("n0"), make_node("n10", labels={"a": ""}), make_node("n50", labels={"a": "", "b": ""})]
    pod = prefers((10, requires("a", Exists)), (40, requires("b", Exists)))
    assert Bench(NodeAffinity, nodes=nodes).score(pod) == {"n0": 0, "n10": 20, "n50": 100}


def test_where_no_preferred_term_matches_all_scores_are_0():
    assert Bench(NodeAffinity, nodes=NODES[:2]).score(prefers((10, requires(ZONE, In, "z")))) == {"a1": 0, "a2": 0}


def test_an_empty_preferred_term_matches_nothing():
    bench = Bench(NodeAffinity, nodes=NODES[:2])
    assert bench.score(prefers((10, node_term())), normalized=False) == {"a1": 0, "a2": 0}


def test_preferences_of_the_profile_count_for_every_pod():
    args = NodeAffinityArgs(added_affinity=affinity(node_preferred=[(3, requires(ZONE, In, "b"))]).node_affinity)
    bench = Bench(NodeAffinity, nodes=NODES, args=args)
    assert bench.score(make_pod("web"), normalized=False) == {"a1": 0, "a2": 0, "b1": 3, "c1": 0}
    mixed = prefers((1, requires("disk", In, "ssd")))
    assert bench.score(mixed, normalized=False) == {"a1": 1, "a2": 0, "b1": 4, "c1": 0}


def test_pods_without_preferences_are_not_scored():
    assert Bench(NodeAffinity, nodes=NODES).score(make_pod("web", node_selector={"disk": "ssd"})) is None


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, {"disk": "ssd"}, QUEUE, id="a node that matches is added"),
        pytest.param(None, {"disk": "hdd"}, LEAVE, id="a node that does not match is added"),
        pytest.param({"disk": "hdd"}, {"disk": "ssd"}, QUEUE, id="the node came to match"),
        pytest.param({"disk": "ssd"}, {"disk": "ssd", "x": "y"}, LEAVE, id="it matched all along"),
        pytest.param({"disk": "ssd"}, {}, LEAVE, id="it stopped matching"),
    ],
)
def test_a_node_that_comes_to_match_wakes_pods(before, after, hint):
    old = None if before is None else make_node("n1", labels=before)
    pod = make_pod("web", node_selector={"disk": "ssd"})
    assert Bench(NodeAffinity).plugin.came_to_match(pod, old, make_node("n1", labels=after)) is hint


def test_a_node_outside_the_profiles_affinity_wakes_nobody():
    plugin = Bench(NodeAffinity, args=ENFORCED).plugin
    assert plugin.came_to_match(make_pod("web"), None, make_node("n1", zone="b")) is LEAVE
    assert plugin.came_to_match(make_pod("web"), None, make_node("n1", zone="a")) is QUEUE
