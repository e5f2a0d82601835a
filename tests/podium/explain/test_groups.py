"""A pod that waits for its group is told what the group waits for."""

from __future__ import annotations

from typing import Any

import pytest

from config.defaults import default_configuration
from config.feature_gates import parse
from config.load import loads
from kube.api.core import Node, Pod, PodSchedulingGroup
from kube.api.meta import ObjectMeta
from kube.api.workload import (
    BasicSchedulingPolicy,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from plugins.registry import Registry
from podium.explain.documents import Explanation
from podium.explain.explain import explain
from podium.explain.sources import cluster_of
from simulator.load import ClusterObjects
from simulator.offline import Simulation
from tests.builders import make_node, make_pod

GATES, _ = parse("GenericWorkload=true,GangScheduling=true")
COSCHEDULING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
"""


def told(pod: Pod, nodes: list[Node], pods: list[Pod], **others: Any) -> Explanation:
    cluster = ClusterObjects(nodes=tuple(nodes), pods=(*pods, pod), others={k: (v,) for k, v in others.items()})
    simulation = Simulation(cluster, default_configuration(GATES), Registry(), GATES.as_dict())
    explanation = explain(cluster_of(simulation), pod)
    assert simulation.cache.validate() == []
    assert sum(len(info.pods) for info in simulation.cache.nodes.values()) == sum(bool(p.spec.node_name) for p in pods)
    return explanation


def member(name: str, cpu: str = "2", **spec: Any) -> Pod:
    return make_pod(name, cpu=cpu, scheduling_group=PodSchedulingGroup(pod_group_name="g"), **spec)


def gang(min_count: int) -> PodGroup:
    policy = PodGroupSchedulingPolicy(
        gang=GangSchedulingPolicy(min_count=min_count) if min_count else None,
        basic=None if min_count else BasicSchedulingPolicy(),
    )
    return PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(scheduling_policy=policy))


@pytest.mark.parametrize(
    ("min_count", "siblings", "sentence"),
    [
        pytest.param(
            3,
            [member("p-1")],
            'Its pod group "g" needs 3 members, 2 exist: it waits for 1 member more to be created.',
            id="a member is missing",
        ),
        pytest.param(
            3,
            [member("p-1"), member("p-2")],
            'Its pod group "g" needs 3 members together, and only 2 of 3 fit: p-2 does not fit; '
            "by itself it fits on a, the only node.",
            id="a member does not fit",
        ),
        pytest.param(
            2,
            [member("p-1", scheduling_gates=["example.com/hold"])],
            'Its pod group "g" needs 2 members together, and only 1 of 2 fits: 1 member is gated; '
            "by itself it fits on a, the only node.",
            id="a member is gated",
        ),
        pytest.param(
            2,
            [member("p-1", node_name="a")],
            'Its pod group "g" needs 2 members together, and 2 of 2 fit; by itself it fits on a, the only node.',
            id="a member runs already, and with this one there are enough",
        ),
        pytest.param(
            0,
            [member("p-1"), member("p-2")],
            'Its pod group "g" is a basic one, whose members start one by one (2 of 3 fit or run); '
            "by itself it fits on a, the only node.",
            id="a basic group waits for nobody",
        ),
    ],
)
def test_the_verdict_begins_with_the_group(min_count: int, siblings: list[Pod], sentence: str) -> None:
    answer = told(member("p-0", priority=9), [make_node("a", cpu="4")], siblings, PodGroup=gang(min_count))
    assert answer.verdict == sentence


def test_a_group_that_does_not_exist_is_what_the_pod_waits_for() -> None:
    answer = told(member("p-0"), [make_node("a")], [])
    assert (answer.state, answer.verdict) == ("gated", 'It waits for its pod group "g", which does not exist.')


def test_each_member_that_does_not_run_is_listed_with_its_reason() -> None:
    siblings = [member("p-1"), member("p-2", cpu="8"), member("p-3", scheduling_gates=["example.com/hold"])]
    answer = told(member("p-0", priority=9), [make_node("a", cpu="4")], siblings, PodGroup=gang(3))
    assert answer.group is not None
    assert [(each.name, each.state, each.text) for each in answer.group.members] == [
        ("p-2", "unschedulable", "0/1 nodes are available: 1 Insufficient cpu."),
        ("p-3", "gated", "waiting for scheduling gates: [example.com/hold]"),
        ("p-0", "fits", ""),
        ("p-1", "fits", ""),
    ]
    assert (answer.group.known, answer.group.running, answer.group.fitting) == (4, 0, 2)


def test_a_group_by_label_says_how_many_of_its_members_there_are() -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    group = CoschedulingPodGroup(
        metadata=ObjectMeta(name="g", namespace="default"), spec=CoschedulingPodGroupSpec(min_member=3)
    )
    pod, running = make_pod("p-0", labels=labels), make_pod("p-1", labels=labels, node_name="a")
    cluster = ClusterObjects(
        nodes=(make_node("a"),), pods=(pod, running), others={"podgroups.v1alpha1.scheduling.x-k8s.io": (group,)}
    )
    configuration = loads(COSCHEDULING).configuration
    simulation = Simulation(cluster, configuration, Registry(), {})
    verdict = explain(cluster_of(simulation), pod).verdict
    assert verdict == (
        'Its PodGroup "g" needs 3 members together: 2 exist, 1 of them on a node; 1 member is missing; '
        "by itself it does not fit on the only node: pre-filter pod p-0 cannot find enough sibling pods, "
        "current pods number: 2, minMember of group: 3."
    )


def test_members_by_label_are_tried_together() -> None:
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    group = CoschedulingPodGroup(
        metadata=ObjectMeta(name="g", namespace="default"), spec=CoschedulingPodGroupSpec(min_member=3)
    )
    pods = tuple(make_pod(f"p-{i}", cpu="1", labels=labels) for i in range(3))
    cluster = ClusterObjects(
        nodes=(make_node("a", cpu="2"),), pods=pods, others={"podgroups.v1alpha1.scheduling.x-k8s.io": (group,)}
    )
    simulation = Simulation(cluster, loads(COSCHEDULING).configuration, Registry(), {})
    answer = explain(cluster_of(simulation), pods[0])
    assert answer.verdict.startswith(
        'Its PodGroup "g" needs 3 members together, and only 2 of 3 fit: p-2 does not fit; by itself it fits on a'
    )
    assert answer.group is not None
    assert [(each.name, each.state) for each in answer.group.members] == [
        ("p-2", "unschedulable"),
        ("p-0", "fits"),
        ("p-1", "fits"),
    ]
    assert sum(node.pods for node in simulation.nodes()) == 0
