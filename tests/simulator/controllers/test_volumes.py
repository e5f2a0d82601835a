"""Claims and volumes in virtual time: binding, provisioning at once and on demand, failing, reclaiming."""

import asyncio

import pytest

from kube.api.volumes import BIND_COMPLETED, SELECTED_NODE
from simulator.cluster import Cluster, make_node_template
from simulator.controllers.manager import Settings
from tests.fixtures_apiserver import pod
from tests.simulator.virtual import names

pytestmark = pytest.mark.looptime


@pytest.fixture
def settings():
    return Settings(events=False, provisioning_delay=10.0)


def claim(name, class_name="slow", size="5Gi", modes=("ReadWriteOnce",), **spec):
    resources = {"requests": {"storage": size}}
    body = {"accessModes": list(modes), "resources": resources, "storageClassName": class_name, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body}


def volume(name, size="10Gi", class_name="", modes=("ReadWriteOnce",), **spec):
    body = {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": class_name, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def storage_class(name="slow", mode="Immediate", **fields):
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**kind, "provisioner": "example.com/disks", "volumeBindingMode": mode, **fields}


def get_claim(cluster, name="data"):
    return cluster.server.get("persistentvolumeclaims", name)


def choose(cluster, node, name="data"):
    """What the scheduler's PreBind does."""
    cluster.server.patch("persistentvolumeclaims", name, {"metadata": {"annotations": {SELECTED_NODE: node}}})


@pytest.mark.parametrize(
    ("volumes", "chosen"),
    [
        pytest.param([volume("large", "50Gi"), volume("small", "6Gi")], "small", id="the smallest large enough"),
        pytest.param([volume("tiny", "1Gi")], None, id="none is large enough"),
        pytest.param([volume("many", modes=["ReadWriteMany"])], None, id="none has the access mode"),
        pytest.param([volume("other", class_name="fast")], None, id="none is of the class"),
        pytest.param([volume("taken", claimRef={"namespace": "default", "name": "else"}), volume("z")], "z",
                     id="one that is promised to another claim is not taken"),
        pytest.param([volume("a"), volume("mine", "90Gi", claimRef={"namespace": "default", "name": "data"})], "mine",
                     id="one that was promised to this claim comes first"),
    ],
)  # fmt: skip
async def test_a_claim_without_provisioner_gets_a_volume_that_suits(cluster: Cluster, volumes, chosen):
    for one in volumes:
        cluster.server.create(one)
    await asyncio.sleep(1)
    cluster.server.create(claim("data", ""))
    await asyncio.sleep(1)
    found = get_claim(cluster)
    assert found["spec"].get("volumeName") == chosen
    if chosen:
        assert BIND_COMPLETED in found["metadata"]["annotations"]
        assert found["status"]["phase"] == "Bound"
        assert cluster.server.get("persistentvolumes", chosen)["status"]["phase"] == "Bound"
    else:
        assert found["status"]["phase"] == "Pending"


async def test_an_immediate_claim_is_provisioned_after_a_while(cluster: Cluster):
    cluster.server.create(storage_class())
    cluster.server.create(claim("data"))
    await asyncio.sleep(9)
    assert get_claim(cluster)["status"]["phase"] == "Pending"
    await asyncio.sleep(2)
    assert get_claim(cluster)["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "5Gi"},
    }


async def test_a_waiting_claim_is_provisioned_where_its_consumer_goes(cluster: Cluster):
    cluster.add_node(make_node_template(labels={"topology.kubernetes.io/zone": "b"}), "n1")
    cluster.server.create(storage_class(mode="WaitForFirstConsumer"))
    cluster.server.create(claim("data"))
    await asyncio.sleep(100)
    assert names(cluster.server, "persistentvolumes") == []
    choose(cluster, "n1")
    await asyncio.sleep(11)
    bound = get_claim(cluster)
    made = cluster.server.get("persistentvolumes", bound["spec"]["volumeName"])
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]
    assert made["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]


async def test_a_provisioner_that_fails_takes_the_selected_node_away_and_another_choice_is_tried(cluster: Cluster):
    for name in ("n1", "n2"):
        cluster.add_node(make_node_template(), name)
    cluster.server.create(storage_class(mode="WaitForFirstConsumer"))
    cluster.server.create(claim("data"))
    cluster.controllers.provisioner.fail(lambda claim, node: node == "n1")
    choose(cluster, "n1")
    await asyncio.sleep(11)
    assert SELECTED_NODE not in get_claim(cluster)["metadata"].get("annotations", {})
    choose(cluster, "n2")
    await asyncio.sleep(11)
    assert get_claim(cluster)["status"]["phase"] == "Bound"
    assert (cluster.controllers.provisioner.refused, cluster.controllers.provisioner.provisioned) == (1, 1)


async def test_a_topology_that_the_class_does_not_allow_is_refused(cluster: Cluster):
    cluster.add_node(make_node_template(labels={"topology.kubernetes.io/zone": "b"}), "n1")
    allowed = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}]}]
    cluster.server.create(storage_class(mode="WaitForFirstConsumer", allowedTopologies=allowed))
    cluster.server.create(claim("data"))
    choose(cluster, "n1")
    await asyncio.sleep(11)
    assert SELECTED_NODE not in get_claim(cluster)["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("policy", "phase"),
    [
        pytest.param("Delete", None, id="Delete: the volume goes with its claim"),
        pytest.param("Retain", "Released", id="Retain: the volume stays, and is nobody's"),
    ],
)
async def test_what_becomes_of_a_volume_without_its_claim(cluster: Cluster, policy, phase):
    cluster.server.create(storage_class(reclaimPolicy=policy))
    cluster.server.create(claim("data"))
    await asyncio.sleep(11)
    cluster.server.delete("persistentvolumeclaims", "data")
    await asyncio.sleep(1)
    assert [one["status"]["phase"] for one in cluster.server.list("persistentvolumes")] == ([phase] if phase else [])


async def test_an_ephemeral_volume_lives_as_long_as_its_pod(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(storage_class())
    ephemeral = {"volumeClaimTemplate": {"spec": claim("-")["spec"]}}
    cluster.server.create(pod("p", nodeName="node-0001", volumes=[{"name": "scratch", "ephemeral": ephemeral}]))
    await asyncio.sleep(5)
    assert names(cluster.server, "persistentvolumeclaims") == ["p-scratch"]
    assert cluster.server.get("pods", "p")["status"]["phase"] == "Pending", "it waits for its volume"
    await asyncio.sleep(15)
    assert cluster.server.get("pods", "p")["status"]["phase"] == "Running"
    cluster.server.delete("pods", "p")
    await asyncio.sleep(5)
    assert names(cluster.server, "persistentvolumeclaims") == names(cluster.server, "persistentvolumes") == []


# --- protection ----------------------------------------------------------------------------------------------------


async def test_a_claim_that_is_in_use_goes_with_its_last_pod(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(storage_class())
    cluster.server.create(claim("c", size="1Gi"))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    cluster.server.create(pod("p", volumes=volumes))
    await asyncio.sleep(15)
    assert cluster.server.get("persistentvolumeclaims", "c")["metadata"]["finalizers"] == [
        "kubernetes.io/pvc-protection"
    ]
    (volume,) = cluster.server.list("persistentvolumes")
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    cluster.server.delete("persistentvolumeclaims", "c")
    await asyncio.sleep(60)
    assert "deletionTimestamp" in cluster.server.get("persistentvolumeclaims", "c")["metadata"]
    cluster.server.delete("pods", "p")
    await asyncio.sleep(60)
    assert names(cluster.server, "persistentvolumeclaims") == names(cluster.server, "persistentvolumes") == []


async def test_a_volume_that_is_bound_does_not_go_before_its_claim(cluster: Cluster):
    cluster.server.create(storage_class())
    cluster.server.create(claim("c", size="1Gi"))
    await asyncio.sleep(15)
    (volume,) = names(cluster.server, "persistentvolumes")
    cluster.server.delete("persistentvolumes", volume)
    await asyncio.sleep(60)
    assert names(cluster.server, "persistentvolumes") == [volume]
    cluster.server.delete("persistentvolumeclaims", "c")
    await asyncio.sleep(60)
    assert names(cluster.server, "persistentvolumes") == []
