"""Which members of a group are known and which have a node, whatever the order in which that is learned."""

import random

import pytest

from kube.api.core import PodSchedulingGroup, WorkloadReference
from scheduler.cache import SchedulerCache
from scheduler.framework.pod_groups import PodGroups, group_key
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_node, make_pod


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        pytest.param({}, "", id="no group"),
        pytest.param({"scheduling_group": PodSchedulingGroup(pod_group_name="g")}, "default/g", id="since 1.36"),
        pytest.param(
            {"workload_ref": WorkloadReference(name="job", pod_group="workers", pod_group_replica_key="1")},
            "default/job/workers/1",
            id="in 1.35 a replica is a group",
        ),
    ],
)
def test_a_pod_says_which_group_it_belongs_to(spec, key):
    assert group_key(make_pod("p", **spec)) == key


@pytest.mark.parametrize("seed", range(5))
def test_each_member_counts_once_whatever_is_heard_of_it_and_when(seed):
    rng = random.Random(seed)
    snapshot = Snapshot()
    cache, groups = SchedulerCache(snapshot), snapshot.index(PodGroups)
    cache.add_node(make_node("a"))
    infos = [
        snapshot.shapes.pod_info(make_pod(f"p-{i}", scheduling_group=PodSchedulingGroup(pod_group_name=f"g{i % 2}")))
        for i in range(8)
    ]
    waiting, placed = set(), set()
    for _ in range(300):
        info = rng.choice(infos)
        if rng.random() < 0.5:
            if info.uid in waiting:
                groups.wait_no_more(info.uid)
            else:
                groups.wait(info)
            waiting ^= {info.uid}
        else:
            if info.uid in placed:
                cache.forget_pod(info)
            else:
                cache.assume_pod(info.on_node("a"), "a")
            placed ^= {info.uid}
        for number in range(2):
            members = groups.of(f"default/g{number}")
            mine = {info.uid for info in infos[number::2]}
            assert set(members.scheduled) == placed & mine
            assert set(members.pending) == waiting & mine
            assert members.count == len((placed | waiting) & mine)


def test_a_lifted_pod_is_put_back_as_it_was():
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    cache.add_node(make_node("a"))
    assumed = snapshot.shapes.pod_info(make_pod("assumed", cpu="1")).on_node("a")
    cache.assume_pod(assumed, "a")
    cache.add_pod(make_pod("running", cpu="1", node_name="a", uid="running"))
    for uid in (assumed.uid, "running"):
        state = cache.lift_pod(uid)
        assert uid not in cache.pods
        cache.put_back(state)
    assert cache.is_assumed(assumed.uid)
    assert not cache.is_assumed("running")
    assert cache.validate() == []
