"""What a search for victims finds, in the words that a person reads."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kube.api.core import Pod, PodStatus
from kube.api.meta import Condition
from tests.builders import ZONE, make_node, make_pod
from tests.podium.explain.asking import explained

N1 = make_node("n1", cpu="4", labels={ZONE: "a"})
LOW = make_pod("low", cpu="3", node_name="n1", priority=1)
LEAVING = make_pod(
    "leaving",
    cpu="3",
    node_name="n1",
    priority=1,
    deletion_timestamp="2026-01-01T00:00:00Z",
    status=PodStatus(conditions=(Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler"),)),
)


@pytest.mark.parametrize(
    ("pod", "pods", "text"),
    [
        pytest.param(
            make_pod("x", cpu="2", priority=5),
            [LOW],
            "evicting default/low (priority 1) makes room on n1",
            id="whom it would evict, and where",
        ),
        pytest.param(
            make_pod("x", cpu="2", priority=1),
            [LOW],
            "no node has pods of lower priority (below 1) whose eviction would help",
            id="nobody is less important",
        ),
        pytest.param(
            make_pod("x", cpu="9", priority=5),
            [LOW],
            "evicting pods (of priority below 5) does not help on any node",
            id="too large whoever goes",
        ),
        pytest.param(
            make_pod("x", cpu="2", priority=5, node_selector={ZONE: "b"}),
            [LOW],
            "evicting pods (of priority below 5) does not help on any node",
            id="no eviction mends a label",
        ),
        pytest.param(
            make_pod("x", cpu="2", priority=5, preemption_policy="Never"),
            [LOW],
            "it may not preempt: its preemptionPolicy is Never",
            id="it may not",
        ),
        pytest.param(
            make_pod("x", cpu="2", priority=5, nominated_node_name="n1"),
            [LEAVING],
            "it waits: pods that it preempted on its nominated node are still terminating",
            id="its victims are still leaving",
        ),
    ],
)
def test_what_preemption_finds(pod: Pod, pods: Iterable[Pod], text: str) -> None:
    found = explained(pod, [N1], pods)
    assert found.preemption is not None
    assert found.preemption.text == text


def test_victims_are_named_with_their_priorities() -> None:
    found = explained(make_pod("x", cpu="2", priority=5), [N1], [LOW])
    assert found.preemption is not None
    assert found.preemption.node == "n1"
    assert [(victim.pod, victim.priority) for victim in found.preemption.victims] == [("default/low", 1)]
