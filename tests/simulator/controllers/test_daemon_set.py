"""DaemonSets in virtual time: which nodes, and what happens when nodes or the template change."""

import asyncio

import pytest

from simulator.cluster import Cluster, make_node_template
from tests.simulator.virtual import images, names, set_image, template, workload

pytestmark = pytest.mark.looptime
TAINT = {"key": "example.com/dedicated", "effect": "NoSchedule"}


def nodes_of(cluster):
    pods = (pod for pod in cluster.server.list("pods") if "deletionTimestamp" not in pod["metadata"])
    return sorted(pod["spec"].get("nodeName", "") for pod in pods)


def tainted(cluster, name, **taint):
    cluster.add_node(make_node_template(), name)
    cluster.server.patch("nodes", name, {"spec": {"taints": [{**TAINT, **taint}]}})


async def test_a_pod_for_each_node_that_suits_pinned_there(cluster: Cluster):
    cluster.add_nodes(make_node_template(labels={"pool": "a"}), 2)
    cluster.add_node(make_node_template(labels={"pool": "b"}), "other")
    cluster.server.create(workload("DaemonSet", "agent", template("agent", nodeSelector={"pool": "a"})))
    await asyncio.sleep(5)
    assert nodes_of(cluster) == ["node-0001", "node-0002"]
    pod = cluster.server.list("pods")[0]
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]}
    status = cluster.server.get("daemonsets.apps", "agent")["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberMisscheduled"]) == (2, 2, 0)


@pytest.mark.parametrize(
    ("effect", "where"),
    [
        pytest.param("NoSchedule", ["n1", "n2"], id="a NoSchedule taint leaves a running daemon alone"),
        pytest.param("NoExecute", ["n1"], id="a NoExecute taint drives it away"),
    ],
)
async def test_a_taint_that_comes_later(cluster: Cluster, effect, where):
    for name in ("n1", "n2"):
        cluster.add_node(make_node_template(), name)
    cluster.server.create(workload("DaemonSet", "agent"))
    await asyncio.sleep(5)
    cluster.server.patch("nodes", "n2", {"spec": {"taints": [{**TAINT, "effect": effect}]}})
    await asyncio.sleep(5)
    assert nodes_of(cluster) == where


async def test_a_new_node_gets_its_pod_and_a_cordoned_one_keeps_it(cluster: Cluster):
    cluster.add_node(make_node_template(), "n1")
    cluster.server.create(workload("DaemonSet", "agent"))
    await asyncio.sleep(5)
    cluster.server.patch("nodes", "n1", {"spec": {"unschedulable": True}})
    cluster.add_node(make_node_template(), "n2")
    await asyncio.sleep(5)
    assert nodes_of(cluster) == ["n1", "n2"]
    keys = {taint["key"] for taint in cluster.server.get("nodes", "n1")["spec"]["taints"]}
    assert keys == {"node.kubernetes.io/unschedulable"}


async def test_an_update_replaces_no_more_than_allowed_at_once(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 5)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    cluster.server.create(workload("DaemonSet", "agent", updateStrategy=strategy))
    await asyncio.sleep(5)
    set_image(cluster.server, "daemonsets.apps", "agent", "app:2")
    fewest = 5
    for _ in range(100):
        await asyncio.sleep(0.2)
        pods = [pod for pod in cluster.server.list("pods") if "deletionTimestamp" not in pod["metadata"]]
        up = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        fewest = min(fewest, len(up))
    assert (fewest, images(cluster.server)) == (3, ["app:2"] * 5)
    assert len(names(cluster.server, "controllerrevisions.apps")) == 2


async def test_a_failed_daemon_is_made_anew(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("DaemonSet", "agent"))
    await asyncio.sleep(5)
    (name,) = names(cluster.server)
    cluster.server.patch("pods", name, {"status": {"phase": "Failed"}}, status=True)
    await asyncio.sleep(5)
    (again,) = cluster.server.list("pods")
    assert (again["metadata"]["name"] != name, again["status"]["phase"]) == (True, "Running")


async def test_a_surging_update_keeps_every_node_served(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 5)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}}
    cluster.server.create(workload("DaemonSet", "agent", updateStrategy=strategy))
    await asyncio.sleep(5)
    set_image(cluster.server, "daemonsets.apps", "agent", "app:2")
    fewest, most = 5, 5
    for _ in range(100):
        await asyncio.sleep(0.2)
        pods = [pod for pod in cluster.server.list("pods") if "deletionTimestamp" not in pod["metadata"]]
        most = max(most, len(pods))
        up = {pod["spec"].get("nodeName") for pod in pods if pod["status"]["phase"] == "Running"}
        fewest = min(fewest, len(up))
    assert (fewest, most, images(cluster.server)) == (5, 7, ["app:2"] * 5)


async def test_what_an_update_would_drop_is_dropped_when_it_stops_surging(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 2)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "100%"}}
    cluster.server.create(workload("DaemonSet", "agent", updateStrategy=strategy))
    await asyncio.sleep(5)
    set_image(cluster.server, "daemonsets.apps", "agent", "app:2")
    await asyncio.sleep(1)
    assert images(cluster.server) == ["app:1", "app:1", "app:2", "app:2"]
    cluster.server.patch("daemonsets.apps", "agent", {"spec": {"updateStrategy": {"type": "OnDelete"}}})
    await asyncio.sleep(5)
    assert len(images(cluster.server)) == 2
