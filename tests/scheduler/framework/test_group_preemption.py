"""Group preemption against its definition: take all away, then put back one by one as long as the group fits."""

import random

import pytest

from kube.api.core import PodSchedulingGroup
from kube.api.workload import PodGroup
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import GroupPreemption
from scheduler.framework.pod_groups import Group
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.group import NO_VICTIMS, GroupSearch, Unit
from scheduler.framework.status import Status, unschedulable
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.nominator import Nominator
from simulator.listers import ObjectListers
from simulator.load import ClusterObjects
from tests.builders import make_node, make_pod
from tests.scheduler.harness import SchedulerCache, Snapshot

GROUP = Group("default/g", "g", min_count=1, priority=1000)
NO_ROOM = unschedulable("pod group is unschedulable")


class Ground:
    """Nodes of one size; the group needs so many of them empty."""

    def __init__(self, cache, needs):
        self.cache, self.needs = cache, needs
        self.gone = {}
        self.tries = 0

    def lift(self, pods):
        for pod in pods:
            self.gone[pod.uid] = self.cache.lift_pod(pod.uid)

    def put_back(self, pods):
        for pod in pods:
            self.cache.put_back(self.gone.pop(pod.uid))

    def place(self):
        self.tries += 1
        empty = [info.name for info in self.cache.nodes.values() if not info.pods]
        return {f"m-{i}": empty[i] for i in range(self.needs)} if len(empty) >= self.needs else NO_ROOM


def cluster(rng, nodes, pods):
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    for i in range(nodes):
        cache.add_node(make_node(f"n{i}"))
    for i in range(pods):
        cache.add_pod(make_pod(f"p{i}", priority=rng.randrange(1200), node_name=f"n{rng.randrange(nodes)}"))
    handle = Handle(snapshot, "podium", ObjectListers(ClusterObjects()), Nominator(), WaitingPods())
    return cache, handle


def one_after_the_other(units, ground):
    """The definition."""
    for unit in units:
        ground.lift(unit.pods)
    if isinstance(ground.place(), Status):
        return None
    gone = []
    for unit in units:
        ground.put_back(unit.pods)
        if isinstance(ground.place(), Status):
            ground.lift(unit.pods)
            gone.append(unit)
    return [pod.uid for unit in gone for pod in unit.pods]


@pytest.mark.parametrize("seed", range(40))
def test_the_search_finds_the_victims_of_the_definition(seed):
    rng = random.Random(seed)
    nodes, pods, needs = rng.randrange(2, 12), rng.randrange(1, 40), rng.randrange(1, 4)
    cache, handle = cluster(rng, nodes, pods)
    before = {name: set(info.pods) for name, info in cache.nodes.items()}
    ground = Ground(cache, needs)
    search = GroupSearch(handle, GROUP, Budgets(), ground)
    units = sorted(search._units(), key=Unit.importance)
    expected = one_after_the_other(units, ground) if units else None
    ground.put_back([unit_pod for unit in units for unit_pod in unit.pods if unit_pod.uid in ground.gone])
    answer = search.run([])
    if expected is None:
        assert isinstance(answer, Status)
    else:
        assert isinstance(answer, GroupPreemption)
        assert [pod.uid for pod in answer.victims] == expected
    ground.put_back([unit_pod for unit in units for unit_pod in unit.pods if unit_pod.uid in ground.gone])
    assert {name: set(info.pods) for name, info in cache.nodes.items()} == before


def test_a_large_cluster_costs_few_tries():
    cache, handle = cluster(random.Random(0), 200, 2000)
    ground = Ground(cache, 2)
    answer = GroupSearch(handle, GROUP, Budgets(), ground).run([])
    assert isinstance(answer, GroupPreemption)
    assert ground.tries < 200


def test_a_large_group_is_tried_a_few_times_only_and_spares_what_is_not_in_its_way():
    cache, handle = cluster(random.Random(0), 50, 400)
    everybody = [pod for info in cache.nodes.values() for pod in info.pods.values()]
    ground = Ground(cache, 2)
    answer = GroupSearch(handle, GROUP, Budgets(), ground).run(everybody * 10)
    assert isinstance(answer, GroupPreemption)
    assert ground.tries <= 1 + 8
    assert {pod.pod.spec.node_name for pod in answer.victims} == set(answer.nodes.values())


def test_nobody_is_below_a_group_without_priority():
    cache, handle = cluster(random.Random(0), 3, 9)
    assert GroupSearch(handle, Group("default/g", "g", 1), Budgets(), Ground(cache, 1)).run([]) == NO_VICTIMS


def test_a_group_that_is_disrupted_whole_is_one_unit_by_its_own_priority():
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    cache.add_node(make_node("n"))
    victims = PodGroup(
        metadata=make_pod("v").metadata, spec=PodGroup().spec.__class__(disruption_mode="PodGroup", priority=5)
    )
    for i in range(2):
        member = PodSchedulingGroup(pod_group_name="v")
        cache.add_pod(make_pod(f"v-{i}", priority=2000, node_name="n", scheduling_group=member))
    listers = ObjectListers(ClusterObjects(others={"PodGroup": (victims,)}))
    handle = Handle(snapshot, "podium", listers, Nominator(), WaitingPods())
    (unit,) = GroupSearch(handle, GROUP, Budgets(), Ground(cache, 1))._units()
    assert (unit.priority, unit.is_group, len(unit.pods)) == (5, True, 2)
