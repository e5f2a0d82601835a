"""The hollow kubelet and the cluster around it, in virtual time."""

import asyncio
import json

import aiohttp
import pytest

from simulator.apiserver import ApiServer
from simulator.cluster import Cluster, make_node_template
from simulator.kubelet.hollow import HollowKubelet
from tests.fixtures_apiserver import node, pod

pytestmark = pytest.mark.looptime


@pytest.fixture
def server():
    """A server that nobody listens on: the kubelet follows its store in process."""
    server = ApiServer()
    server.create(node("n1"))
    return server


@pytest.fixture
async def kubelet(server):
    kubelet = HollowKubelet(server, start_delay=2.0, stop_delay=5.0)
    kubelet.start()
    yield kubelet
    kubelet.stop()


def phase(server, name="p"):
    return server.get("pods", name)["status"]["phase"]


async def test_a_bound_pod_runs_after_the_delay(server, kubelet):
    server.create(pod("p"))
    await asyncio.sleep(10)
    assert phase(server) == "Pending"
    server.bind("p", "n1")
    await asyncio.sleep(1.9)
    assert phase(server) == "Pending"
    await asyncio.sleep(0.2)
    status = server.get("pods", "p")["status"]
    assert status["phase"] == "Running"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "PodScheduled": "True",
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
    }
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], list(container["state"])) == ("main", True, ["running"])
    assert status["podIP"].startswith("10.")
    assert status["hostIP"]
    assert status["startTime"]


async def test_a_deleted_pod_goes_after_the_delay(server, kubelet):
    server.create(pod("p", nodeName="n1"))
    await asyncio.sleep(3)
    assert server.delete("pods", "p") is False
    await asyncio.sleep(4.9)
    assert [obj["metadata"]["name"] for obj in server.list("pods")] == ["p"]
    await asyncio.sleep(0.2)
    assert server.list("pods") == []


async def test_a_pod_deleted_before_it_runs_never_runs(server, kubelet):
    server.create(pod("p", nodeName="n1"))
    phases = [phase(server)]
    server.store.listen("pods", lambda event: phases.append(event.revision.obj["status"]["phase"]))
    server.delete("pods", "p")
    await asyncio.sleep(10)
    assert "Running" not in phases
    assert server.list("pods") == []


async def test_a_successor_of_the_same_name_is_another_pod(server, kubelet):
    server.create(pod("p", nodeName="n1"))
    await asyncio.sleep(1)
    server.delete("pods", "p", grace_seconds=0)
    server.create(pod("p", nodeName="n1"))
    await asyncio.sleep(1.5)
    assert phase(server) == "Pending"
    await asyncio.sleep(1)
    assert phase(server) == "Running"


async def test_a_pod_waits_for_its_node(server, kubelet):
    server.create(pod("p", nodeName="late"))
    await asyncio.sleep(10)
    assert phase(server) == "Pending"
    server.create(node("late"))
    await asyncio.sleep(3)
    assert phase(server) == "Running"


async def test_pods_from_before_the_start_run_too(server):
    server.create(pod("p", nodeName="n1"))
    kubelet = HollowKubelet(server)
    kubelet.start()
    await asyncio.sleep(0.1)
    assert phase(server) == "Running"
    kubelet.stop()


async def test_a_stopped_kubelet_does_nothing(server, kubelet):
    server.create(pod("p", nodeName="n1"))
    kubelet.stop()
    server.create(pod("q", nodeName="n1"))
    await asyncio.sleep(10)
    assert (phase(server), phase(server, "q")) == ("Pending", "Pending")


async def test_a_finalizer_holds_a_stopped_pod(server, kubelet):
    obj = pod("p", nodeName="n1")
    obj["metadata"]["finalizers"] = ["example.com/hold"]
    server.create(obj)
    server.delete("pods", "p")
    await asyncio.sleep(10)
    assert server.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 0
    server.patch("pods", "p", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}})
    assert server.list("pods") == []


async def test_thousands_of_pods_get_an_address_each(server):
    server.create(node("big", cpu="1000", pods="2000"))
    for i in range(1500):
        server.create(pod(f"p{i}", nodeName="big"))
    kubelet = HollowKubelet(server, jitter=1.0)
    kubelet.start()
    await asyncio.sleep(2)
    addresses = {obj["status"].get("podIP") for obj in server.list("pods")}
    assert len(addresses - {None}) == 1500
    kubelet.stop()


async def test_a_cluster_s_nodes_are_ready_and_different():
    cluster = Cluster()
    template = make_node_template(cpu="16", labels={"zone": "a"}, ephemeral_storage="100Gi")
    assert cluster.add_nodes(template, 2) == ["node-0001", "node-0002"]
    assert cluster.add_nodes(template, 1, prefix="gpu-") == ["gpu-0003"]
    nodes = cluster.server.list("nodes")
    addresses = {node["status"]["addresses"][0]["address"] for node in nodes}
    assert len(addresses) == 3
    second = cluster.server.get("nodes", "node-0002")
    assert second["metadata"]["labels"] == {
        "zone": "a",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "node-0002",
    }
    expected = {"cpu": "16", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    assert second["status"]["allocatable"] == expected
    conditions = {c["type"]: c["status"] for c in second["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert template["metadata"] == {"labels": {"zone": "a"}}


@pytest.mark.looptime(False)
async def test_over_http_a_pod_is_created_bound_and_runs():
    async with Cluster() as cluster, aiohttp.ClientSession(cluster.url) as session:
        cluster.add_nodes(make_node_template(), 1)
        path = "/api/v1/namespaces/default/pods"
        async with session.get(path, params={"watch": "true"}) as watch:
            async with session.post(path, json=pod("p")) as created:
                assert created.status == 201
            binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-0001"}}
            async with session.post(path + "/p/binding", json=binding) as bound:
                assert bound.status == 201
            events = [json.loads(await watch.content.readline()) for _ in range(3)]
    seen = [(e["type"], e["object"]["spec"].get("nodeName"), e["object"]["status"]["phase"]) for e in events]
    assert seen == [
        ("ADDED", None, "Pending"),
        ("MODIFIED", "node-0001", "Pending"),
        ("MODIFIED", "node-0001", "Running"),
    ]
