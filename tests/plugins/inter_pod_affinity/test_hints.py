"""What makes a pod that InterPodAffinity refused worth another try."""

from typing import Any

import pytest

from plugins.inter_pod_affinity import InterPodAffinity
from scheduler.framework.cluster_event import QueueingHint
from tests.builders import HOSTNAME, ZONE, affinity, make_namespace, make_node, make_pod, pod_term, selector
from tests.plugins.harness import Bench

WEB, DB = {"app": "web"}, {"app": "db"}
QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
NEAR = make_pod("near", uid="u", labels=WEB, affinity=affinity(pod_required=[pod_term(ZONE, DB)]))
NEAR_BOTH = make_pod(
    "near", uid="u", affinity=affinity(pod_required=[pod_term(ZONE, DB), pod_term(ZONE, {"tier": "x"})])
)
AWAY = make_pod("away", uid="u", labels=WEB, affinity=affinity(anti_required=[pod_term(ZONE, DB)]))
PLAIN = make_pod("plain", uid="u", labels=WEB)
GUARD = make_pod("guard", affinity=affinity(anti_required=[pod_term(HOSTNAME, WEB)]), node_name="n1")
FAR = make_pod(
    "far", uid="u", affinity=affinity(anti_required=[pod_term(ZONE, DB, namespace_selector=selector({"team": "x"}))])
)
GREEN_DB = make_pod("green", namespace="green", labels=DB, node_name="n1")


def db(**fields: Any) -> Any:
    return make_pod("db", uid="db", **{"labels": DB, "node_name": "n1"} | fields)


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(PLAIN, PLAIN, PLAIN, QUEUE, id="its own labels changed"),
        pytest.param(NEAR, None, db(), QUEUE, id="a pod came that matches its affinity"),
        pytest.param(NEAR, None, db(labels=WEB), SKIP, id="a pod came that does not"),
        pytest.param(NEAR, None, db(node_name=""), SKIP, id="a pod came that runs nowhere"),
        pytest.param(NEAR_BOTH, None, db(), SKIP, id="a pod came that matches one of two terms"),
        pytest.param(NEAR_BOTH, None, db(labels=DB | {"tier": "x"}), QUEUE, id="a pod came that matches both"),
        pytest.param(NEAR, db(labels={}), db(), QUEUE, id="a pod was relabelled to match its affinity"),
        pytest.param(NEAR, db(), db(labels=DB | {"a": "b"}), SKIP, id="a pod was relabelled and still matches"),
        pytest.param(NEAR, db(), None, SKIP, id="a pod went that matched its affinity"),
        pytest.param(AWAY, db(), db(labels={}), QUEUE, id="a pod was relabelled not to match its anti-affinity"),
        pytest.param(AWAY, db(), None, QUEUE, id="a pod went that matched its anti-affinity"),
        pytest.param(AWAY, db(labels={}), None, SKIP, id="a pod went that did not"),
        pytest.param(AWAY, None, db(), SKIP, id="a pod came that matches its anti-affinity"),
        pytest.param(PLAIN, GUARD, None, QUEUE, id="a pod went whose anti-affinity meant it"),
        pytest.param(NEAR_BOTH, GUARD, None, SKIP, id="a pod went whose anti-affinity meant others"),
        pytest.param(FAR, GREEN_DB, None, QUEUE, id="a pod went from a namespace that its anti-affinity selects"),
        pytest.param(FAR, db(), None, SKIP, id="a pod went from a namespace that it does not select"),
    ],
)
def test_pod_events(pod: Any, old: Any, new: Any, expected: QueueingHint) -> None:
    namespaces = [make_namespace("default"), make_namespace("green", labels={"team": "x"})]
    plugin = Bench(InterPodAffinity, objects=namespaces).plugin

    assert plugin.after_pod_change(pod, old, new) is expected


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(NEAR, None, make_node("n", zone="a"), QUEUE, id="affinity: a node came with the key"),
        pytest.param(NEAR, None, make_node("n"), SKIP, id="affinity: a node came without the key"),
        pytest.param(NEAR, make_node("n"), make_node("n", zone="a"), QUEUE, id="affinity: a node gained the key"),
        pytest.param(NEAR, make_node("n", zone="b"), make_node("n", zone="a"), QUEUE, id="affinity: another value"),
        pytest.param(NEAR, make_node("n", zone="a"), make_node("n"), SKIP, id="affinity: a node lost the key"),
        pytest.param(AWAY, None, make_node("n"), QUEUE, id="anti-affinity: any node came"),
        pytest.param(AWAY, make_node("n", zone="a"), make_node("n"), QUEUE, id="anti-affinity: a node lost the key"),
        pytest.param(
            AWAY, make_node("n", zone="a"), make_node("n", zone="b"), QUEUE, id="anti-affinity: another value"
        ),
        pytest.param(AWAY, make_node("n"), make_node("n", zone="a"), SKIP, id="anti-affinity: a node gained the key"),
        pytest.param(
            AWAY,
            make_node("n", zone="a"),
            make_node("n", zone="a", labels={"x": "y"}),
            SKIP,
            id="another label changed",
        ),
        pytest.param(PLAIN, None, make_node("n"), QUEUE, id="no terms: only a new node is free of running pods"),
        pytest.param(PLAIN, make_node("n", zone="a"), make_node("n"), SKIP, id="no terms: labels do not matter"),
    ],
)
def test_node_events(pod: Any, old: Any, new: Any, expected: QueueingHint) -> None:
    assert Bench(InterPodAffinity).plugin.after_node_change(pod, old, new) is expected
