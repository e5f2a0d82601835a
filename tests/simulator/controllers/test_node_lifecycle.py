"""Nodes that fall silent and come back, and what becomes of their pods, in virtual time."""

import asyncio

import pytest

from simulator.cluster import Cluster, make_node_template
from tests.fixtures_apiserver import pod
from tests.simulator.virtual import names, workload

pytestmark = pytest.mark.looptime
UNREACHABLE = "node.kubernetes.io/unreachable"


def ready(cluster, node):
    conditions = cluster.server.get("nodes", node)["status"]["conditions"]
    return next(c["status"] for c in conditions if c["type"] == "Ready")


def taints(cluster, node):
    return sorted((t["key"], t["effect"]) for t in cluster.server.get("nodes", node)["spec"].get("taints") or ())


async def test_a_silent_node_is_unknown_and_tainted_and_well_again_when_it_is_back(cluster: Cluster):
    cluster.add_node(make_node_template(), "n1")
    await asyncio.sleep(300)
    assert (ready(cluster, "n1"), taints(cluster, "n1")) == ("True", [])
    cluster.kubelet.fail("n1")
    await asyncio.sleep(40)
    assert ready(cluster, "n1") == "True"
    await asyncio.sleep(25)
    assert ready(cluster, "n1") == "Unknown"
    assert taints(cluster, "n1") == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]
    cluster.kubelet.recover("n1")
    await asyncio.sleep(1)
    assert (ready(cluster, "n1"), taints(cluster, "n1")) == ("True", [])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param(("Ready", "False"), [("not-ready", "NoExecute"), ("not-ready", "NoSchedule")], id="not ready"),
        pytest.param(("MemoryPressure", "True"), [("memory-pressure", "NoSchedule")], id="short of memory"),
        pytest.param(("DiskPressure", "True"), [("disk-pressure", "NoSchedule")], id="short of disk"),
        pytest.param(("PIDPressure", "False"), [], id="no pressure"),
    ],
)
async def test_conditions_become_taints(cluster: Cluster, condition, expected):
    cluster.add_node(make_node_template(), "n1")
    kind, status = condition
    cluster.server.patch("nodes", "n1", {"status": {"conditions": [{"type": kind, "status": status}]}}, status=True)
    await asyncio.sleep(1)
    assert taints(cluster, "n1") == [(f"node.kubernetes.io/{key}", effect) for key, effect in expected]


def tolerating(*tolerations):
    return [{"key": UNREACHABLE, "effect": "NoExecute", **toleration} for toleration in tolerations]


@pytest.mark.parametrize(
    ("tolerations", "after"),
    [
        pytest.param([], 300, id="by default a pod stays for five minutes"),
        pytest.param(tolerating({"operator": "Exists", "tolerationSeconds": 20}), 20, id="as long as it tolerates"),
        pytest.param(tolerating({"operator": "Exists", "tolerationSeconds": 0}), 0, id="not at all"),
        pytest.param(tolerating({"operator": "Exists"}), None, id="for ever"),
        pytest.param(tolerating({"operator": "Exists", "tolerationSeconds": 90},
                                {"operator": "Exists", "tolerationSeconds": 30}), 30, id="the shortest counts"),
    ],
)  # fmt: skip
async def test_how_long_a_pod_stays_on_an_unreachable_node(cluster: Cluster, tolerations, after):
    cluster.add_node(make_node_template(), "n1")
    cluster.server.create(pod("p", nodeName="n1", tolerations=tolerations))
    await asyncio.sleep(1)
    cluster.kubelet.fail("n1")
    while not taints(cluster, "n1"):
        await asyncio.sleep(0.5)
    gone_after, started = None, asyncio.get_running_loop().time()
    for _ in range(2000):
        if "deletionTimestamp" in cluster.server.get("pods", "p")["metadata"]:
            gone_after = asyncio.get_running_loop().time() - started
            break
        await asyncio.sleep(0.5)
    assert gone_after is None if after is None else abs(gone_after - after) <= 1


async def test_a_deployment_moves_away_from_a_dead_node_and_the_old_pods_go_when_it_is_back(cluster: Cluster):
    for name in ("n1", "n2"):
        cluster.add_node(make_node_template(), name)
    cluster.server.create(workload("Deployment", "web", replicas=4))
    await asyncio.sleep(10)
    cluster.kubelet.fail("n2")
    await asyncio.sleep(400)
    pods = cluster.server.list("pods")
    staying = [p["spec"]["nodeName"] for p in pods if "deletionTimestamp" not in p["metadata"]]
    assert (sorted(staying), len(pods)) == (["n1"] * 4, 6)
    assert cluster.server.get("deployments.apps", "web")["status"]["availableReplicas"] == 4
    cluster.kubelet.recover("n2")
    await asyncio.sleep(10)
    assert len(names(cluster.server)) == 4


async def test_pods_of_a_node_that_was_removed_go_after_a_quarantine(cluster: Cluster):
    cluster.add_node(make_node_template(), "n1")
    cluster.server.create(pod("p", nodeName="n1"))
    await asyncio.sleep(5)
    cluster.server.delete("nodes", "n1")
    await asyncio.sleep(35)
    assert names(cluster.server) == ["p"]
    await asyncio.sleep(10)
    assert names(cluster.server) == []
