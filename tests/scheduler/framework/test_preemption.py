"""Preemption, decided: who may, where, whom, and what is said where nothing can be done (facts 2.8)."""

import pytest

from config.types import DefaultPreemptionArgs
from kube.api.meta import Condition
from plugins.inter_pod_affinity import InterPodAffinity
from plugins.node_resources_fit import NodeResourcesFit
from plugins.node_volume_limits import NodeVolumeLimits
from scheduler.framework.preemption.candidates import number_of_candidates
from scheduler.framework.preemption.choice import badness, choose
from scheduler.framework.preemption.dry_run import Candidate, by_importance
from scheduler.framework.preemption.prospects import filters_to_ask
from scheduler.snapshot.pod_info import ShapeTable
from tests.builders import HOSTNAME, affinity, make_node, make_pod, pod_term, taint
from tests.plugins.harness import ListedObjects
from tests.plugins.volumes.builders import DRIVER, attachment, claim, csi_node, volume
from tests.scheduler.framework.preempting import FILTERS, ONE_BY_ONE, Cluster, asked_in_full, budget, on

VIP = make_pod("vip", cpu="2", priority=1000, uid="vip")
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"

both_ways = pytest.mark.parametrize(
    "filters", [pytest.param(FILTERS, id="by arithmetic"), pytest.param(ONE_BY_ONE, id="by dry run")]
)


# --- one node ----------------------------------------------------------------------------------------------------


def pods(*described):
    """`pods(("a", 10, "1", EARLY), …)`: name, priority, cpu, start time, labels."""
    return [
        on("n", name, priority=priority, cpu=cpu, start_time=start, labels={"app": name} if not labels else labels[0])
        for name, priority, cpu, start, *labels in described
    ]


VICTIMS = [
    pytest.param(pods(("a", 10, "2", EARLY), ("b", 20, "2", EARLY)), [], ["a"], id="the lower priority goes"),
    pytest.param(pods(("a", 10, "2", EARLY), ("b", 10, "2", LATE)), [], ["b"], id="of equal priority the younger goes"),
    pytest.param(pods(("a", 10, "2", ""), ("b", 10, "2", LATE)), [], ["a"], id="one that has not started is youngest"),
    pytest.param(
        pods(("a", 10, "2", ""), ("b", 10, "2", "")), [], ["a"], id="of two that have not started the first listed goes"
    ),
    pytest.param(
        pods(("a", 10, "1", EARLY), ("b", 20, "2", EARLY), ("c", 30, "1", EARLY)),
        [],
        ["b"],
        id="a less important pod that still fits is put back after a more important one that does not",
    ),
    pytest.param(
        pods(("a", 10, "2", EARLY), ("b", 20, "2", EARLY)),
        [budget("keep", {"app": "a"})],
        ["b"],
        id="a protected pod is put back before a more important one",
    ),
    pytest.param(
        pods(("a", 10, "2", EARLY), ("b", 20, "2", EARLY)),
        [budget("keep", {"app": "a"}, allowed=1)],
        ["a"],
        id="a budget that allows the eviction protects nothing",
    ),
    pytest.param(
        pods(("a", 10, "2", EARLY), ("b", 20, "2", EARLY)),
        [budget("keep", {"app": "a"}, namespace="elsewhere")],
        ["a"],
        id="a budget of another namespace protects nothing",
    ),
    pytest.param(
        pods(("a", 10, "2", EARLY), ("b", 20, "2", EARLY)),
        [budget("keep", {"app": "a"}, disrupted=["a"])],
        ["a"],
        id="a pod whose eviction was granted already is not charged again",
    ),
    pytest.param(
        pods(("a", 10, "1", EARLY, {"x": "y"}), ("b", 20, "1", EARLY, {"x": "y"}), ("c", 5, "2", EARLY)),
        [budget("keep", {"x": "y"}, allowed=1)],
        ["c"],
        id="a budget is spent on the most important pod first",
    ),
    pytest.param(
        pods(("a", 10, "2", EARLY), ("b", 2000, "2", EARLY)), [], ["a"], id="a pod of higher priority is no victim"
    ),
]


@both_ways
@pytest.mark.parametrize(("running", "budgets", "victims"), VICTIMS)
def test_the_victims_on_a_full_node(filters, running, budgets, victims):
    cluster = Cluster([make_node("n", cpu="4")], running, budgets, filters=filters)
    assert cluster.outcome(VIP) == ("n", victims)


@both_ways
def test_victims_of_both_groups_are_listed_by_importance(filters):
    running = pods(("protected", 10, "2", EARLY), ("free", 20, "2", EARLY))
    cluster = Cluster([make_node("n", cpu="4")], running, [budget("keep", {"app": "protected"})], filters=filters)
    candidate = cluster.candidates(make_pod("all", cpu="4", priority=1000))["n"]
    assert [victim.uid for victim in candidate.victims] == ["free", "protected"]
    assert candidate.violations == 1


@both_ways
@pytest.mark.parametrize(
    ("what", "violations"),
    [
        pytest.param(budget("b", {"app": "low"}), 1, id="a budget that allows nothing"),
        pytest.param(budget("b", {"app": "low"}, allowed=1), 0, id="one that allows it"),
        pytest.param(budget("b", {}), 0, id="an empty selector selects nothing"),
        pytest.param(budget("b", None), 0, id="a missing selector selects nothing"),
        pytest.param(budget("b", {"not a key": "low"}), 0, id="an invalid selector selects nothing"),
    ],
)
def test_budgets_that_the_eviction_violates(filters, what, violations):
    cluster = Cluster([make_node("n", cpu="4")], pods(("low", 10, "4", EARLY)), [what], filters=filters)
    assert cluster.candidates(VIP)["n"].violations == violations


@both_ways
def test_budgets_are_read_anew_for_each_search(filters):
    cluster = Cluster([make_node("n", cpu="4")], pods(("low", 10, "4", EARLY)), filters=filters)
    seen = []
    for listed in (
        [],
        [budget("b", {"app": "low"})],
        [budget("b", {"app": "low"}, allowed=1)],
        [budget("b", {"app": "other"})],
        [budget("b", {"app": "other"}), budget("c", {"app": "low"})],
        [],
    ):
        cluster.listed["PodDisruptionBudget"].objects = {b.key: b for b in listed}
        seen.append(cluster.candidates(VIP)["n"].violations)
    assert seen == [0, 1, 0, 0, 1, 0]


def test_pods_that_have_not_started_are_taken_in_reverse_order():
    table = ShapeTable()
    infos = [
        table.pod_info(on("n", name, priority=priority, start_time=start))
        for name, priority, start in [("a", 1, ""), ("b", 1, EARLY), ("c", 1, ""), ("d", 2, ""), ("e", 1, LATE)]
    ]
    assert [info.uid for info in by_importance(infos)] == ["d", "b", "e", "c", "a"]


@both_ways
def test_a_victim_that_is_leaving_already_is_not_evicted_again(filters):
    running = [
        on("n", "leaving", cpu="2", priority=1, deletion_timestamp=LATE),
        on("n", "staying", cpu="2", priority=2),
    ]
    cluster = Cluster([make_node("n", cpu="4")], running, filters=filters)
    assert cluster.outcome(VIP) == ("n", [])
    assert cluster.outcome(make_pod("all", cpu="4", priority=9)) == ("n", ["staying"])


def test_a_host_port_is_freed_by_evicting_its_holder():
    running = [on("n", "holder", host_ports=[80], priority=1), on("n", "bystander", priority=0)]
    cluster = Cluster([make_node("n")], running)
    assert cluster.outcome(make_pod("web", host_ports=[80], priority=5)) == ("n", ["holder"])


# --- choosing a node ---------------------------------------------------------------------------------------------


def candidate(node, *victims, violations=0):
    table = ShapeTable()
    infos = [
        table.pod_info(on(node, f"{node}-{i}", priority=priority, start_time=start))
        for i, (priority, start) in enumerate(victims)
    ]
    return Candidate(node, tuple(infos), violations)


CHOICES = [
    pytest.param(
        candidate("worse", (1, EARLY), violations=1), candidate("better", (900, EARLY)), id="fewest budget violations"
    ),
    pytest.param(
        candidate("worse", (500, EARLY)),
        candidate("better", (400, EARLY), (400, EARLY), (300, EARLY)),
        id="then the lowest of the highest priorities",
    ),
    pytest.param(
        candidate("worse", (400, EARLY), (300, EARLY)),
        candidate("better", (400, EARLY), (200, EARLY)),
        id="then the lowest sum of priorities",
    ),
    pytest.param(
        candidate("worse", (0, LATE), (-(2**31), LATE)),
        candidate("better", (0, EARLY)),
        id="a victim of the lowest possible priority adds nothing to the sum, then fewest victims",
    ),
    pytest.param(
        candidate("worse", (-5, EARLY), (-5, EARLY)),
        candidate("better", (-5, EARLY)),
        id="negative priorities do not make more victims cheaper",
    ),
    pytest.param(
        candidate("worse", (9, EARLY), (9, "2026-01-09T00:00:00Z"), (1, LATE)),
        candidate("better", (9, LATE), (9, LATE), (1, EARLY)),
        id="then the latest start of the longest running one among the highest",
    ),
    pytest.param(
        candidate("worse", (9, LATE)), candidate("better", (9, "")), id="one that has not started loses least work"
    ),
    pytest.param(
        candidate("worse", (9, "2026-01-01T12:00:00+00:00")),
        candidate("better", (9, "2026-01-01T12:00:00.5Z")),
        id="start times are compared as moments, not as texts",
    ),
]


@pytest.mark.parametrize(("worse", "better"), CHOICES)
def test_the_choice_between_two_nodes(worse, better):
    for order in ([worse, better], [better, worse]):
        assert choose([(badness(each), each, 0) for each in order])[1] is better


def test_of_equals_the_first_is_taken():
    left, right = candidate("left", (1, EARLY)), candidate("right", (1, EARLY))
    assert choose([(badness(each), each, 0) for each in (right, left)])[1] is right


# --- how many nodes are tried ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        pytest.param(50, 50, id="never more than there are"),
        pytest.param(500, 100, id="at least a hundred"),
        pytest.param(5000, 500, id="a tenth of many"),
        pytest.param(1019, 101, id="rounded down"),
    ],
)
def test_the_number_of_candidates(nodes, wanted):
    assert number_of_candidates(nodes, 10, 100) == wanted


@both_ways
@pytest.mark.parametrize("seed", range(8))
def test_the_walk_goes_on_until_a_candidate_violates_no_budget(filters, seed):
    """One candidate is enough, but only the one without violations ends the walk, wherever it starts."""
    nodes = [make_node(f"n{i}", cpu="2") for i in range(5)]
    running = [on(f"n{i}", f"p{i}", cpu="2", priority=1, labels={"app": "db"} if i else {}) for i in range(5)]
    few = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=1)
    cluster = Cluster(nodes, running, [budget("db", {"app": "db"})], filters=filters, args=few, seed=seed)
    assert cluster.outcome(VIP) == ("n0", ["p0"])


@both_ways
def test_the_walk_ends_as_soon_as_there_are_enough(filters):
    nodes = [make_node(f"n{i}", cpu="2") for i in range(20)]
    running = [on(f"n{i}", f"p{i}", cpu="2", priority=i) for i in range(20)]
    few = DefaultPreemptionArgs(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=1)
    cluster = Cluster(nodes, running, filters=filters, args=few)
    found = sorted(int(name[1:]) for name in cluster.candidates(VIP))
    assert len(found) == 2
    assert found[1] - found[0] in {1, 19}


# --- which filters a dry run asks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused_by", "asked"),
    [
        pytest.param("TaintToleration", ["TaintToleration", "NodePorts", "NodeResourcesFit"], id="the first: all"),
        pytest.param("NodePorts", ["NodePorts", "NodeResourcesFit"], id="taints do not change with the pods"),
        pytest.param("NodeResourcesFit", ["NodeResourcesFit"], id="ports that were free stay free"),
        pytest.param("extender", [], id="no filter refused: whoever leaves, they pass as before"),
    ],
)
def test_the_filters_a_dry_run_asks(refused_by, asked):
    cluster = Cluster([make_node("n")])
    assert [plugin.name for plugin in filters_to_ask(cluster.framework.filters, refused_by)] == asked


# --- who may preempt ---------------------------------------------------------------------------------------------

BY_PREEMPTION = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
BY_EVICTION = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")


def leaving(priority, condition):
    from kube.api.core import PodStatus

    status = PodStatus(conditions=(condition,) if condition else ())
    return on("na", "leaving", cpu="2", priority=priority, deletion_timestamp=LATE, status=status)


NOT_YET = "preemption: not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    ("victim", "waits"),
    [
        pytest.param(leaving(1, BY_PREEMPTION), True, id="a victim of preemption is still leaving"),
        pytest.param(leaving(1, BY_EVICTION), False, id="evicted by somebody else"),
        pytest.param(leaving(1, None), False, id="deleted by somebody"),
        pytest.param(leaving(1000, BY_PREEMPTION), False, id="it was no victim of this pod"),
    ],
)
def test_a_pod_with_a_nomination_waits_for_its_victims(victim, waits):
    nodes = [make_node("na", cpu="2"), make_node("nb", cpu="2")]
    cluster = Cluster(nodes, [victim, on("nb", "other", cpu="2", priority=1)])
    boss = make_pod("boss", cpu="2", priority=1000, nominated_node_name="na")
    assert (cluster.message(boss) == NOT_YET) is waits


def test_a_nomination_known_only_in_memory_counts_too():
    cluster = Cluster([make_node("na", cpu="2")], [leaving(1, BY_PREEMPTION)])
    cluster.nominate(VIP, "na")
    assert cluster.message(VIP) == NOT_YET


def test_a_nominated_node_that_became_impossible_is_given_up():
    nodes = [make_node("na", cpu="2", taints=[taint("pressure")]), make_node("nb", cpu="2")]
    cluster = Cluster(nodes, [leaving(1, BY_PREEMPTION), on("nb", "other", cpu="2", priority=1)])
    boss = make_pod("boss", cpu="2", priority=1000, nominated_node_name="na")
    assert cluster.outcome(boss) == ("nb", ["other"])


# --- what is said ------------------------------------------------------------------------------------------------

FULL = [on("n1", "equal", cpu="4", priority=1000), on("n2", "low", cpu="1", priority=1)]
MESSAGES = [
    pytest.param(
        [make_node("n1"), make_node("n3", taints=[taint("t")])],
        FULL[:1],
        VIP,
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
        id="nobody of lower priority, and a node that cannot be helped",
    ),
    pytest.param(
        [make_node("n1"), make_node("n2", cpu="2"), make_node("n4", cpu="2"), make_node("n5", cpu="2", memory="1Gi")],
        [
            *FULL,
            on("n2", "high", cpu="1", priority=1000),
            on("n4", "a", cpu="1", priority=2000),
            on("n4", "b", cpu="1", priority=0),
            on("n5", "c", cpu="1", memory="1Gi", priority=2000),
            on("n5", "d", cpu="1", priority=0),
        ],
        make_pod("vip", cpu="2", memory="500Mi", priority=1000),
        "preemption: 0/4 nodes are available: 1 Insufficient memory, 1 No preemption victims found for incoming pod, "
        "3 Insufficient cpu.",
        id="what still lacks when all lower pods are gone, by kind",
    ),
    pytest.param(
        [make_node("n1", pods="1")],
        [on("n1", "high", priority=1000)],
        make_pod("empty", priority=1000),
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        id="a pod without requests still needs a place",
    ),
    pytest.param(
        [make_node("n1")],
        FULL[:1],
        make_pod("never", cpu="2", priority=9000, preemption_policy="Never"),
        "preemption: not eligible due to preemptionPolicy=Never.",
        id="preemptionPolicy Never",
    ),
    pytest.param(
        [make_node("n1", taints=[taint("t")]), make_node("n2", taints=[taint("t")])],
        [],
        VIP,
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        id="no node to look at",
    ),
]


@both_ways
@pytest.mark.parametrize(("nodes", "running", "pod", "message"), MESSAGES)
def test_the_message_where_nothing_can_be_done(filters, nodes, running, pod, message):
    cluster = Cluster(nodes, running, filters=filters)
    assert cluster.message(pod) == message


def test_a_nomination_is_cleared_where_nothing_can_be_done_but_not_where_the_pod_may_not_preempt():
    cluster = Cluster([make_node("n1")], FULL[:1])
    nothing = cluster.attempt(VIP).post_filter
    assert nothing is not None
    assert nothing.nominated_node_name == ""
    assert cluster.attempt(make_pod("never", cpu="2", priority=9000, preemption_policy="Never")).post_filter is None


# --- nominated pods ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "outcome"),
    [
        pytest.param(2000, (None, []), id="of higher priority: its room is spoken for"),
        pytest.param(1000, (None, []), id="of equal priority: likewise"),
        pytest.param(999, ("n", ["low"]), id="of lower priority: it does not count"),
    ],
)
def test_room_promised_to_a_nominated_pod(priority, outcome):
    cluster = Cluster([make_node("n", cpu="2")], [on("n", "low", cpu="2", priority=1)])
    cluster.nominate(make_pod("promised", cpu="1", priority=priority), "n")
    assert cluster.outcome(VIP) == outcome


def test_a_nominated_pod_that_wants_nobody_near_it_is_asked_about_too():
    """The pods that run on the node do not tell of it."""
    loner = affinity(anti_required=[pod_term(HOSTNAME, {"app": "vip"})])
    running = [
        on("n", "low", cpu="4", priority=1),
        on("elsewhere", "loner", cpu="4", priority=2000, affinity=loner),
    ]
    nodes = [make_node("n", cpu="4"), make_node("elsewhere", cpu="4")]
    cluster = Cluster(nodes, running, filters=(*FILTERS, InterPodAffinity))
    cluster.nominate(make_pod("promised", cpu="1", priority=2000, affinity=loner), "n")
    assert cluster.outcome(make_pod("vip", cpu="2", priority=1000, labels={"app": "vip"})) == (None, [])
    assert cluster.outcome(make_pod("other", cpu="2", priority=1000, labels={"app": "other"})) == ("n", ["low"])


# --- filters beyond amounts --------------------------------------------------------------------------------------

VIP_NEEDS_DISTANCE = make_pod(
    "vip",
    cpu="1",
    priority=1000,
    labels={"app": "vip"},
    affinity=affinity(anti_required=[pod_term(HOSTNAME, {"app": "noisy"})]),
)


@pytest.mark.parametrize(
    ("running", "outcome"),
    [
        pytest.param(
            [on("n", "noisy", labels={"app": "noisy"}, priority=1), on("n", "quiet", cpu="1", priority=0)],
            ("n", ["noisy"]),
            id="the neighbour it cannot stand has to go, and nobody else",
        ),
        pytest.param(
            [on("n", "noisy", labels={"app": "noisy"}, priority=2000), on("n", "quiet", cpu="1", priority=0)],
            (None, []),
            id="a neighbour of higher priority stays, so evicting others does not help",
        ),
        pytest.param(
            [on("n", "noisy", cpu="3", labels={"app": "noisy"}, priority=9), on("n", "quiet", cpu="1", priority=0)],
            ("n", ["noisy"]),
            id="amounts refuse the node first, the neighbour has to go all the same",
        ),
    ],
)
def test_anti_affinity_is_heeded(running, outcome):
    cluster = Cluster([make_node("n", cpu="4")], running, filters=(*FILTERS, InterPodAffinity))
    assert cluster.outcome(VIP_NEEDS_DISTANCE) == outcome


def test_a_refusal_that_stands_is_repeated_in_the_message():
    running = [on("n", "noisy", labels={"app": "noisy"}, priority=2000), on("n", "quiet", priority=0)]
    cluster = Cluster([make_node("n", cpu="4")], running, filters=(*FILTERS, InterPodAffinity))
    assert cluster.message(VIP_NEEDS_DISTANCE) == (
        "preemption: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    )


@pytest.mark.parametrize("clever", [True, False], ids=["asked what is needed", "asked in full"])
def test_a_pod_that_keeps_a_shared_volume_attached_is_no_victim_where_more_are_attached_than_may_be(clever):
    """The limit sank, so nothing more can be attached; what is attached can be shared, but not attached again."""
    filters = (NodeVolumeLimits, NodeResourcesFit)
    cluster = Cluster(
        [make_node("n", cpu="1")],
        [on("n", "sharing", cpu="1", priority=0, claims=["shared"])],
        filters=filters if clever else asked_in_full(filters),
    )
    listed = {
        "PersistentVolumeClaim": [claim("shared", volume="v")],
        "PersistentVolume": [volume("v", bound_to="default/shared"), volume("w", bound_to="default/other")],
        "CSINode": [csi_node("n", {DRIVER: 1})],
        "VolumeAttachment": [attachment("a", "n", "w")],
    }
    for kind, objects in listed.items():
        lister = cluster.listed.setdefault(kind, ListedObjects())
        for obj in objects:
            lister.put(obj)
    assert cluster.outcome(make_pod("new", cpu="1", priority=9, claims=["shared"])) == (None, [])
    assert cluster.message(make_pod("new", cpu="1", priority=9, claims=["shared"])) == (
        "preemption: 0/1 nodes are available: 1 node(s) exceed max volume count."
    )
