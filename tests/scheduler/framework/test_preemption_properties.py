"""Preemption on random clusters: arithmetic equals dry run, and no pod is ever evicted without need (facts 2.8)."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.inter_pod_affinity import InterPodAffinity
from plugins.pod_topology_spread import PodTopologySpread
from scheduler.cache import SchedulerCache
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.preemption.candidates import spell_out
from scheduler.framework.preemption.choice import badness
from scheduler.framework.preemption.room import AMOUNTS, PODS, LowerPods
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import HOSTNAME, ZONE, affinity, make_node, make_pod, pod_term, spread, taint
from tests.scheduler.framework.preempting import FILTERS, Cluster, asked_in_full, budget, on

WITH_NEIGHBOURS = (*FILTERS, PodTopologySpread, InterPodAffinity)
KINDS = [
    pytest.param(FILTERS, 0.0, id="full nodes"),
    pytest.param(WITH_NEIGHBOURS, 0.0, id="full nodes and indifferent neighbours"),
    pytest.param(WITH_NEIGHBOURS, 0.1, id="half empty nodes and pods that care for their neighbours"),
]
PRIORITIES = (-10, 0, 0, 5, 100, 1000)
SEEDS = range(60)


def every_cluster(test):
    """All seeds of every kind."""
    return pytest.mark.parametrize("seed", SEEDS)(pytest.mark.parametrize(("filters", "sociable"), KINDS)(test))


def random_cluster(seed, filters, *, sociable=0.0):
    """A few nodes, some tainted, with budgets, host ports, an extended resource and nominated pods."""
    rng = random.Random(seed)
    nodes = [
        make_node(
            f"n{i}",
            cpu=str(rng.randint(2, 6)),
            memory=f"{rng.randint(2, 8)}Gi",
            pods=str(rng.choice((7, 110, 110) if sociable else (3, 5, 110))),
            extra={"example.com/gpu": "2"} if rng.random() < 0.3 else {},
            taints=[taint("t")] if rng.random() < 0.15 else [],
            zone=rng.choice("xyz"),
        )
        for i in range(rng.randint(1, 3 if sociable else 9))
    ]
    running = [
        random_pod(rng, f"p{i}", sociable=sociable, node_name=f"n{rng.randrange(len(nodes))}")
        for i in range(6 * len(nodes))
    ]
    budgets = [
        budget(f"b{i}", {"app": rng.choice("abc")}, allowed=rng.randint(0, 2), disrupted=rng.sample(["p1", "p2"], 1))
        for i in range(rng.randint(1, 4))
    ]
    cluster = Cluster(nodes, running, budgets, seed=seed, filters=filters)
    for i in range(rng.randint(0, 2)):
        cluster.nominate(random_pod(rng, f"promised{i}", sociable=sociable), f"n{rng.randrange(len(nodes))}")
    return cluster, [random_pod(rng, f"new{i}", sociable=sociable) for i in range(4)]


def random_pod(rng, name, *, sociable=0.0, **fields):
    """`sociable`: how likely it cares for its neighbours; it is small then, so that these decide."""
    sizes = (0, 50, 100) if sociable else (0, 250, 500, 1000, 3000)
    requests = {"cpu": f"{rng.choice(sizes)}m", "memory": f"{rng.choice((0, 256, 1024))}Mi"}
    if rng.random() < 0.1:
        requests["example.com/gpu"] = "1"
    return make_pod(
        name,
        uid=name,
        requests=requests,
        priority=rng.choice(PRIORITIES),
        start_time=rng.choice(("", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")),
        labels={"app": rng.choice("abc")} if rng.random() < 0.7 else {},
        host_ports=[80] if rng.random() < 0.1 else [],
        affinity=affinity(
            pod_required=[random_term(rng)] if rng.random() < sociable else [],
            anti_required=[random_term(rng)] if rng.random() < 2 * sociable else [],
        ),
        spread=[spread(rng.choice((ZONE, HOSTNAME)), {"app": rng.choice("abc")})]
        if rng.random() < 2 * sociable
        else [],
        **fields,
    )


def random_term(rng):
    return pod_term(rng.choice((ZONE, HOSTNAME)), {"app": rng.choice("abc")})


def spelled(candidates):
    """The two clusters hold different objects for the same pods."""
    return {name: ([victim.uid for victim in each.victims], each.violations) for name, each in candidates.items()}


def unschedulable(cluster, pending):
    return [pod for pod in pending if not cluster.attempt(pod).node_name]


@every_cluster
def test_what_is_known_beforehand_is_what_a_dry_run_of_all_filters_says(seed, filters, sociable):
    clever, pending = random_cluster(seed, filters, sociable=sociable)
    in_full, _ = random_cluster(seed, asked_in_full(filters), sociable=sociable)
    for pod in unschedulable(clever, pending):
        assert all(each[0] == badness(spell_out(each)) for each in clever.found(pod))
        assert spelled(clever.candidates(pod)) == spelled(in_full.candidates(pod))
        assert clever.attempt(pod).message() == in_full.attempt(pod).message()


def fits_without(cluster, pod, node_name, victims):
    """Whether the pod fits on the node once these pods are gone, asked of every filter."""
    framework, snapshot = cluster.framework, cluster.snapshot
    state = CycleState(snapshot.shapes.pod_info(pod))
    framework.find_feasible(state)
    node = snapshot.info(node_name).clone()
    state = state.clone()
    for victim in victims:
        framework.remove_pod(state, state.pod_info, victim, node)
    return framework.filter_with_nominated_pods(state, state.pod_info, node) is None


@every_cluster
def test_nobody_is_evicted_without_need(seed, filters, sociable):
    cluster, pending = random_cluster(seed, filters, sociable=sociable)
    for pod in unschedulable(cluster, pending):
        for name, candidate in cluster.candidates(pod).items():
            victims = candidate.victims
            assert victims
            assert all(victim.priority < pod.spec.priority for victim in victims)
            assert fits_without(cluster, pod, name, victims), "the eviction does not help"
            for spared in victims:
                rest = [victim for victim in victims if victim is not spared]
                assert not fits_without(cluster, pod, name, rest), f"{spared.key} could stay"


@pytest.mark.parametrize(("filters", "sociable"), KINDS)
def test_the_random_clusters_are_worth_it(filters, sociable):
    """They hold enough preemptions, with and without violations, and enough pods that cannot be helped."""
    helped = violating = helpless = 0
    refusing = set()
    for seed in SEEDS:
        cluster, pending = random_cluster(seed, filters, sociable=sociable)
        for pod in unschedulable(cluster, pending):
            candidates = cluster.candidates(pod)
            refusing |= cluster.attempt(pod).diagnosis.unschedulable_plugins
            helped += bool(candidates)
            helpless += not candidates
            violating += any(each.violations for each in candidates.values())
    assert min(helped, helpless) > 15
    assert violating > 5
    assert not sociable or {"PodTopologySpread", "InterPodAffinity"} <= refusing


# --- the index ---------------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(st.sampled_from(("add", "add", "remove", "node", "no node")), st.integers(0, 5), st.integers(0, 3)),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(changes=CHANGES, thresholds=st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_sums_of_lower_pods_follow_every_change(changes, thresholds):
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    index = snapshot.index(LowerPods)
    for step, (what, where, size) in enumerate(changes):
        name = f"n{where}"
        if what == "node":
            cache.add_node(make_node(name))
        elif what == "no node":
            cache.remove_node(name)
        elif what == "add":
            cache.add_pod(
                on(
                    name,
                    f"p{step}",
                    cpu=f"{size}",
                    requests={"example.com/gpu": "1"} if size == 3 else {},
                    priority=size,
                )
            )
        elif cache.pods:
            cache.remove_pod(next(iter(cache.pods)))
        snapshot.refresh()
        threshold = thresholds[step % len(thresholds)]
        sums = index.below(threshold)
        for node in snapshot.node_infos():
            lower = [pod for pod in node.pods.values() if pod.priority < threshold]
            assert sums[PODS][node.row] == len(lower)
            for resource in ("cpu", "example.com/gpu"):
                expected = sum(pod.requests.get(resource, 0) for pod in lower)
                assert (sums[resource][node.row] if resource in sums else 0) == expected
        rows = np.array([node.row for node in snapshot.node_infos()], np.intp)
        for node, ranked in zip(snapshot.node_infos(), index.ranked(rows), strict=True):
            assert sorted(pod.uid for pod in ranked.pods) == sorted(node.pods)
            assert ranked.name == node.name


def test_what_pods_take_is_found_where_it_is_after_the_snapshot_has_forgotten_resources():
    """Each pod requests a device that nobody else has; the places of the others change when old ones are forgotten."""
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    index = snapshot.index(LowerPods)
    cache.add_node(make_node("n"))
    cache.add_pod(on("n", "stays", requests={"example.com/odd": "7"}, priority=1))
    for step in range(200):
        device = f"example.com/device-{step}"
        pod = on("n", f"p{step}", requests={device: "3"}, priority=0)
        cache.add_pod(pod)
        snapshot.refresh()
        sums = index.below(5)
        assert (sums["example.com/odd"][0], sums[device][0]) == (7, 3)
        ranked = index.ranked(np.array([0]))[0]
        amounts = {name: ranked.columns[AMOUNTS + i].tolist() for name, i in snapshot.resource_index.items()}
        assert (amounts["example.com/odd"], amounts[device]) == ([7, 0], [0, 3])
        cache.remove_pod(pod.metadata.uid)
        assert len(index.below(5)) < 100
