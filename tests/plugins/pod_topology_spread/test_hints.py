"""What makes a pod that PodTopologySpread refused worth another try."""

from typing import Any

import pytest

from plugins.pod_topology_spread import PodTopologySpread
from scheduler.framework.cluster_event import QueueingHint
from tests.builders import HOSTNAME, ZONE, exists, make_node, make_pod, spread, taint
from tests.plugins.harness import Bench

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
APP, OTHER = {"app": "s"}, {"app": "t"}


def waiting(*constraints: Any, **fields: Any) -> Any:
    return make_pod("waiting", uid="u", **{"labels": APP, "spread": constraints or [spread(ZONE, APP)]} | fields)


HONORING = spread(ZONE, APP, node_taints_policy="Honor")


def other(**fields: Any) -> Any:
    return make_pod("other", uid="o", **{"labels": APP, "node_name": "n1"} | fields)


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(waiting(), None, other(), QUEUE, id="a matching pod came"),
        pytest.param(waiting(), other(), None, QUEUE, id="a matching pod went"),
        pytest.param(waiting(), None, other(labels=OTHER), SKIP, id="a pod came that does not match"),
        pytest.param(waiting(), None, other(namespace="far"), SKIP, id="a pod of another namespace came"),
        pytest.param(waiting(), None, other(node_name=""), SKIP, id="a pod came that runs nowhere"),
        pytest.param(waiting(), other(), other(labels=OTHER), QUEUE, id="a pod was relabelled out of the selector"),
        pytest.param(waiting(), other(labels=OTHER), other(), QUEUE, id="a pod was relabelled into the selector"),
        pytest.param(
            waiting(), other(), other(labels=APP | {"x": "y"}), SKIP, id="a pod was relabelled and still matches"
        ),
        pytest.param(waiting(), waiting(labels=OTHER), waiting(), QUEUE, id="its own labels come to match"),
        pytest.param(
            waiting(HONORING),
            waiting(HONORING),
            waiting(HONORING, tolerations=[exists()]),
            QUEUE,
            id="it tolerates more and taints are honored",
        ),
        pytest.param(
            waiting(), waiting(), waiting(tolerations=[exists()]), SKIP, id="it tolerates more and taints do not matter"
        ),
        pytest.param(waiting(spread(ZONE, APP, soft=True)), None, other(), SKIP, id="it has no hard constraint"),
    ],
)
def test_pod_events(pod: Any, old: Any, new: Any, expected: QueueingHint) -> None:
    assert Bench(PodTopologySpread).plugin.after_pod_change(pod, old, new) is expected


BOTH = waiting(spread(ZONE, APP), spread(HOSTNAME, APP))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, make_node("n", zone="a"), QUEUE, id="a node with all keys came"),
        pytest.param(make_node("n", zone="a"), None, QUEUE, id="a node with all keys went"),
        pytest.param(None, make_node("n"), SKIP, id="a node came that lacks a key"),
        pytest.param(make_node("n"), None, SKIP, id="a node went that lacked a key"),
        pytest.param(make_node("n"), make_node("n", zone="a"), QUEUE, id="a node gained the key"),
        pytest.param(make_node("n", zone="a"), make_node("n"), QUEUE, id="a node lost a key"),
        pytest.param(make_node("n", zone="a"), make_node("n", zone="b"), QUEUE, id="a node moved"),
        pytest.param(
            make_node("n", zone="a", taints=[taint("x")]), make_node("n", zone="a"), QUEUE, id="a node lost a taint"
        ),
        pytest.param(make_node("n", taints=[taint("x")]), make_node("n"), SKIP, id="a node without keys lost a taint"),
        pytest.param(
            make_node("n", zone="a"), make_node("n", zone="a", labels={"x": "y"}), SKIP, id="another label changed"
        ),
    ],
)
def test_node_events(old: Any, new: Any, expected: QueueingHint) -> None:
    assert Bench(PodTopologySpread).plugin.after_node_change(BOTH, old, new) is expected
