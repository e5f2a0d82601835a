"""PodTopologySpread's hard constraints, by example: which node refuses a pod, with which code, and why."""

from collections.abc import Mapping
from typing import Any

import pytest

from kube.api.core import Pod
from plugins.pod_topology_spread import PodTopologySpread
from scheduler.framework.status import SKIP, Code
from tests.builders import HOSTNAME, ZONE, exists, make_node, make_pod, selector, spread, taint
from tests.plugins.harness import Bench
from tests.plugins.pod_topology_spread.definition import MISSING_KEY, SKEWED
from tests.plugins.random_clusters import EVICTED

APP = {"app": "s"}


def zones(*pods: Pod, gates: Mapping[str, bool] | None = None, **counts: int) -> Bench:
    """Node a in zone a and so on, with so many pods of the app each; c has none unless named."""
    counts = {"a": 0, "b": 0, "c": 0} | counts
    running = [make_pod(f"{z}{i}", labels=APP, node_name=z) for z, n in counts.items() for i in range(n)]
    nodes = [make_node(zone, zone=zone) for zone in counts]
    return Bench(PodTopologySpread, nodes=nodes, pods=[*running, *pods], gates=gates)


def new(*constraints: Any, **fields: Any) -> Pod:
    return make_pod("new", **{"labels": APP} | fields, spread=constraints)


def test_no_hard_constraint_is_skipped() -> None:
    assert zones(a=3).pre_filter(new(spread(ZONE, APP, soft=True))) == SKIP


@pytest.mark.parametrize(
    ("counts", "constraint", "fits"),
    [
        pytest.param({"a": 2, "b": 1, "c": 1}, spread(ZONE, APP), {"b", "c"}, id="one more keeps the skew at 1"),
        pytest.param({"a": 2, "b": 1, "c": 0}, spread(ZONE, APP), {"c"}, id="only the emptiest domain"),
        pytest.param({"a": 2, "b": 1}, spread(ZONE, APP, max_skew=2), {"b", "c"}, id="a larger skew allows more"),
        pytest.param(
            {"a": 1, "b": 1, "c": 1}, spread(ZONE, APP, min_domains=4), set(), id="too few domains: the minimum is 0"
        ),
        pytest.param(
            {"a": 1, "b": 1, "c": 1}, spread(ZONE, APP, min_domains=3), {"a", "b", "c"}, id="just enough domains"
        ),
        pytest.param({"a": 9}, spread(ZONE, {}), {"a", "b", "c"}, id="an empty selector counts no pods"),
        pytest.param({"a": 9}, spread(ZONE), {"a", "b", "c"}, id="a nil selector matches no pods"),
    ],
)
def test_skew(counts: dict[str, int], constraint: Any, fits: set[str]) -> None:
    cluster = zones(**counts)

    assert cluster.fits(new(constraint)) == fits
    assert set(cluster.reasons(new(constraint)).values()) <= {(SKEWED,)}
    assert set(cluster.codes(new(constraint)).values()) <= {Code.SUCCESS, Code.UNSCHEDULABLE}


def test_a_pod_that_does_not_match_itself_adds_nothing_to_the_skew() -> None:
    assert zones(a=1).fits(new(spread(ZONE, APP), labels={})) == {"a", "b", "c"}


def test_a_missing_key_cannot_be_mended_by_eviction() -> None:
    cluster = Bench(PodTopologySpread, nodes=[make_node("a", zone="a"), make_node("nowhere")])

    assert cluster.reasons(new(spread(ZONE, APP))) == {"nowhere": (MISSING_KEY,)}
    assert cluster.codes(new(spread(ZONE, APP)))["nowhere"] is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_the_first_broken_constraint_gives_the_reason() -> None:
    nodes = [make_node("a", zone="a"), make_node("b"), make_node("c", zone="c")]
    on_b = [make_pod(f"p{i}", labels=APP, node_name="b") for i in range(3)]
    cluster = Bench(PodTopologySpread, nodes=nodes, pods=on_b)

    # b lacks the zone and so forms no domain: its three pods do not count.
    assert cluster.reasons(new(spread(HOSTNAME, APP, max_skew=1), spread(ZONE, APP))) == {"b": (MISSING_KEY,)}
    skewed = new(spread(HOSTNAME, APP, max_skew=0), spread(ZONE, APP))
    assert cluster.reasons(skewed) == {"a": (SKEWED,), "b": (SKEWED,), "c": (SKEWED,)}


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    cluster = zones(
        make_pod("going", labels=APP, node_name="a", deletion_timestamp=EVICTED),
        make_pod("alien", namespace="other", labels=APP, node_name="a"),
        b=1, c=1,
    )  # fmt: skip

    assert cluster.fits(new(spread(ZONE, APP))) == {"a"}


@pytest.mark.parametrize(
    ("policy", "fields", "fits"),
    [
        pytest.param(
            {}, {"node_selector": {"disk": "ssd"}}, {"ssd"}, id="nodes outside the node selector do not count"
        ),
        pytest.param(
            {"node_affinity_policy": "Ignore"},
            {"node_selector": {"disk": "ssd"}},
            {"hdd"},
            id="unless affinity is ignored",
        ),
        pytest.param({}, {}, {"hdd"}, id="tainted nodes count"),
        pytest.param({"node_taints_policy": "Honor"}, {}, {"ssd", "hdd"}, id="unless taints are honored"),
        pytest.param(
            {"node_taints_policy": "Honor"},
            {"tolerations": [exists("gone")]},
            {"hdd"},
            id="and the pod does not tolerate",
        ),
    ],
)
def test_inclusion_policies(policy: Any, fields: Any, fits: set[str]) -> None:
    """One pod on ssd, none on the tainted hdd. An excluded node's domain counts 0, and is judged all the same."""
    nodes = [make_node("ssd", labels={"disk": "ssd"}), make_node("hdd", labels={"disk": "hdd"}, taints=[taint("gone")])]
    cluster = Bench(PodTopologySpread, nodes=nodes, pods=[make_pod("e", labels=APP, node_name="ssd")])
    allowed = cluster.fits(new(spread(HOSTNAME, APP, **policy), **fields))

    assert allowed - ({"hdd"} if fields.get("node_selector") and not policy else set()) == fits


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        pytest.param(APP | {"hash": "v2"}, {"a", "c"}, id="only pods of the same revision count"),
        pytest.param(APP, {"c"}, id="a key that the pod lacks is ignored"),
    ],
)
def test_match_label_keys(labels: dict[str, str], fits: set[str]) -> None:
    running = [make_pod(f"old{i}", labels=APP | {"hash": "v1"}, node_name="a") for i in range(2)]
    cluster = zones(*running, make_pod("new1", labels=APP | {"hash": "v2"}, node_name="b"))

    assert cluster.fits(new(spread(ZONE, APP, match_label_keys=("hash",)), labels=labels)) == fits


def test_match_label_keys_are_not_looked_at_with_their_gate_off() -> None:
    running = [make_pod(f"old{i}", labels=APP | {"hash": "v1"}, node_name="a") for i in range(2)]
    cluster = zones(*running, gates={"MatchLabelKeysInPodTopologySpread": False})

    pod = new(spread(ZONE, APP, match_label_keys=("hash",)), labels=APP | {"hash": "v2"})
    assert cluster.fits(pod) == {"b", "c"}


def test_keys_that_the_api_server_merged_into_the_selector_change_nothing() -> None:
    merged = spread(ZONE, APP | {"hash": "v2"}, match_label_keys=("hash",))
    cluster = zones(make_pod("old", labels=APP | {"hash": "v1"}, node_name="a"))

    assert cluster.fits(new(merged, labels=APP | {"hash": "v2"})) == {"a", "b", "c"}


def test_a_selector_that_cannot_be_read_ends_the_attempt() -> None:
    status = zones().pre_filter(new(spread(ZONE, selector({"not a key": "x"}))))

    assert status.code is Code.ERROR
    assert "'not a key' is not a valid label key" in status.message


def test_what_is_kept_of_a_shape_follows_labels_and_taints_of_nodes() -> None:
    cluster = zones(a=1)
    pod = new(spread(ZONE, APP, node_taints_policy="Honor"))
    assert cluster.fits(pod) == {"b", "c"}

    cluster.cache.update_node(make_node("b", zone="b", taints=[taint("gone")]))
    cluster.cache.update_node(make_node("c", zone="b", taints=[taint("gone")]))
    assert cluster.fits(pod) == {"a", "b", "c"}

    cluster.cache.update_node(make_node("c", zone="c"))
    assert cluster.fits(pod) == {"b", "c"}


def dry_run(cluster: Bench, pod: Pod, node: str, *, remove: Any = (), add: Any = ()) -> str:
    """The verdict on a node after these pods went and came."""
    state = cluster.state(pod)
    cluster.pre_filter(pod, state)
    clone, trial = cluster.snapshot.info(node).clone(), state.clone()
    for other in list(clone.pods.values()):
        if other.pod.metadata.name in remove:
            clone.remove_pod(other)
            cluster.plugin.remove_pod(trial, pod, other, clone)
    for other in add:
        info = cluster.snapshot.shapes.pod_info(other)
        clone.add_pod(info)
        cluster.plugin.add_pod(trial, pod, info, clone)
    status = cluster.plugin.filter_node(trial, pod, clone)
    return status.message if status else ""


def test_a_dry_run_counts_pods_that_went_and_came() -> None:
    cluster = zones(a=2, b=1, c=1)
    pod = new(spread(ZONE, APP))

    assert dry_run(cluster, pod, "a") == SKEWED
    assert dry_run(cluster, pod, "a", remove=["a0"]) == ""
    assert dry_run(cluster, pod, "a", remove=["a0", "a1"]) == ""
    assert dry_run(cluster, pod, "b", add=[make_pod("x", labels=APP)]) == SKEWED
    assert dry_run(cluster, pod, "b", add=[make_pod("x", labels={})]) == ""
    assert dry_run(cluster, pod, "b", add=[make_pod("x", namespace="other", labels=APP)]) == ""


def test_a_dry_run_that_empties_a_domain_lowers_the_minimum() -> None:
    """With b emptied the minimum is 0, and the pod still fits there: 0 + 1 - 0."""
    cluster = zones(a=2, b=1, c=2)

    assert dry_run(cluster, new(spread(ZONE, APP)), "b", remove=["b0"]) == ""
    assert dry_run(cluster, new(spread(ZONE, APP)), "a", remove=["a0"]) == ""
    assert dry_run(cluster, new(spread(ZONE, APP)), "c", remove=[]) == SKEWED


def test_a_dry_run_takes_off_a_terminating_pod_though_it_was_not_counted() -> None:
    """As upstream: the count falls below what is there, so the node is allowed one pod too many."""
    going = make_pod("going", labels=APP, node_name="a", deletion_timestamp=EVICTED)
    cluster = zones(going, a=1)

    assert dry_run(cluster, new(spread(ZONE, APP)), "a") == SKEWED
    assert dry_run(cluster, new(spread(ZONE, APP)), "a", remove=["going"]) == ""
