"""TaintToleration: NoSchedule and NoExecute taints refuse, PreferNoSchedule taints count against a node."""

import random

import pytest

from kube.api.core import Toleration
from plugins.taint_toleration import TaintToleration, own_tolerations_changed
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import Code
from tests.builders import equal, exists, make_node, make_pod, taint
from tests.plugins.harness import Bench
from tests.scheduler.harness import Cluster

QUEUE, LEAVE = QueueingHint.QUEUE, QueueingHint.SKIP
COMPARING = {"TaintTolerationComparisonOperators": True}


def compare(operator: str, value: str) -> Toleration:
    return Toleration(key="sla", operator=operator, value=value, effect="NoSchedule")


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        pytest.param([], [], True, id="no taint"),
        pytest.param([taint("gpu", "yes")], [], False, id="a taint and no toleration"),
        pytest.param([taint("gpu", "yes", "NoExecute")], [], False, id="NoExecute refuses too"),
        pytest.param([taint("gpu", "yes", "PreferNoSchedule")], [], True, id="PreferNoSchedule refuses nobody"),
        pytest.param([taint("gpu", "yes")], [equal("gpu", "yes")], True, id="the same value"),
        pytest.param([taint("gpu", "yes")], [equal("gpu", "no")], False, id="another value"),
        pytest.param([taint("gpu", "yes")], [Toleration(key="gpu", value="yes")], True, id="no operator is Equal"),
        pytest.param([taint("gpu", "yes")], [exists("gpu")], True, id="any value of the key"),
        pytest.param([taint("gpu", "yes")], [exists()], True, id="everything is tolerated"),
        pytest.param([taint("gpu", "yes")], [exists("gpu", "NoExecute")], False, id="a toleration of another effect"),
        pytest.param([taint("a"), taint("b")], [exists("a")], False, id="one of two taints is not tolerated"),
        pytest.param([taint("a"), taint("b")], [exists("a"), exists("b")], True, id="each taint has its toleration"),
    ],
)
def test_a_tainted_node_takes_only_pods_that_tolerate_it(taints, tolerations, fits):
    bench = Bench(TaintToleration, nodes=[make_node("n1", taints=taints), make_node("plain")])
    statuses = bench.filter(make_pod("web", tolerations=tolerations))
    assert statuses["plain"].ok
    assert statuses["n1"].ok is fits
    if not fits:
        assert statuses["n1"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert statuses["n1"].reasons == ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    ("operator", "value", "gates", "fits"),
    [
        pytest.param("Gt", "950", COMPARING, {"n1"}, id="the taint's value is greater"),
        pytest.param("Gt", "990", COMPARING, set(), id="the taint's value is not greater"),
        pytest.param("Lt", "1000", COMPARING, {"n1"}, id="the taint's value is less"),
        pytest.param("Gt", "many", COMPARING, set(), id="words are not compared"),
        pytest.param("Gt", "950", {}, set(), id="the gate is off"),
    ],
)
def test_comparison_operators_need_their_gate(operator, value, gates, fits):
    bench = Bench(TaintToleration, nodes=[make_node("n1", taints=[taint("sla", "990")])], gates=gates)
    assert bench.fits(make_pod("web", tolerations=[compare(operator, value)])) == fits


def prefer_not(count: int):
    return [taint(f"t{i}", effect="PreferNoSchedule") for i in range(count)]


def test_the_fewer_taints_are_left_the_better():
    bench = Bench(TaintToleration, nodes=[make_node(f"n{count}", taints=prefer_not(count)) for count in range(4)])
    assert bench.score(make_pod("web")) == {"n0": 100, "n1": 67, "n2": 34, "n3": 0}


def test_without_such_taints_all_nodes_are_equally_good():
    assert Bench(TaintToleration, nodes=[make_node("n1"), make_node("n2")]).score(make_pod("web")) == {
        "n1": 100,
        "n2": 100,
    }


@pytest.mark.parametrize(
    ("toleration", "count"),
    [
        pytest.param(exists("t0"), 1, id="a toleration of all effects"),
        pytest.param(exists("t0", "PreferNoSchedule"), 1, id="a toleration of PreferNoSchedule"),
        pytest.param(exists("t0", "NoSchedule"), 2, id="a toleration of NoSchedule does not count"),
        pytest.param(exists("", "NoExecute"), 2, id="a toleration of NoExecute does not count"),
    ],
)
def test_only_tolerations_of_prefer_no_schedule_count(toleration, count):
    bench = Bench(TaintToleration, nodes=[make_node("n1", taints=[*prefer_not(2), taint("x", effect="NoSchedule")])])
    assert bench.score(make_pod("web", tolerations=[toleration]), normalized=False) == {"n1": count}


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, [], QUEUE, id="a node without taints is added"),
        pytest.param(None, [taint("a")], LEAVE, id="a tainted node is added"),
        pytest.param([taint("a")], [], QUEUE, id="the taint is gone"),
        pytest.param([taint("a")], [taint("ok")], QUEUE, id="the taint became a tolerated one"),
        pytest.param([taint("a")], [taint("b")], LEAVE, id="the taint became another"),
        pytest.param([], [taint("ok")], LEAVE, id="it was tolerable all along"),
    ],
)
def test_a_node_that_becomes_tolerable_wakes_pods(before, after, hint):
    pod = make_pod("web", tolerations=[exists("ok")])
    old = None if before is None else make_node("n1", taints=before)
    assert Bench(TaintToleration).plugin.became_tolerable(pod, old, make_node("n1", taints=after)) is hint


@pytest.mark.parametrize(("uid", "hint"), [("web", QUEUE), ("db", LEAVE)], ids=["its own", "another pod's"])
def test_only_a_pods_own_tolerations_wake_it(uid, hint):
    assert own_tolerations_changed(make_pod("web", uid="web"), None, make_pod("x", uid=uid)) is hint


def test_answers_are_not_kept_beyond_a_new_numbering_of_the_taint_sets(monkeypatch):
    """Sets that no node has any more are forgotten, and the rest are numbered anew: often there are as many again."""
    monkeypatch.setattr("scheduler.snapshot.row_writer.SPARE_TAINT_SETS", 4)
    cluster = Cluster(TaintToleration, nodes=[make_node("n1")])
    tolerant = make_pod("web", tolerations=[equal("k", "7")])
    chance = random.Random(0)
    for _ in range(1000):
        value = str(chance.choice([7, chance.randrange(100)]))
        cluster.cache.update_node(make_node("n1", taints=[taint("k", value)]))
        cluster.snapshot.refresh()
        if chance.random() < 0.2:
            assert cluster.feasible(tolerant) == ({"n1"} if value == "7" else set())
