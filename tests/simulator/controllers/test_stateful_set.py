"""StatefulSets in virtual time: order, names, claims, updates."""

import asyncio

import pytest

from simulator.cluster import Cluster, make_node_template
from tests.simulator.virtual import images, names, set_image, workload

pytestmark = pytest.mark.looptime


def stateful(**spec):
    return workload("StatefulSet", "db", serviceName="db", **spec)


def created_and_gone(cluster):
    """The pods' names as they come (+) and go (-), from now on."""
    seen = []

    def on_pod(event):
        if event.type != "MODIFIED":
            seen.append(("+" if event.type == "ADDED" else "-") + event.revision.key[1])

    cluster.server.store.listen("pods", on_pod)
    return seen


async def test_pods_come_one_by_one_each_once_the_one_before_is_ready(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    seen = created_and_gone(cluster)
    cluster.server.create(stateful(replicas=3))
    await asyncio.sleep(1)
    assert seen == ["+db-0"]
    await asyncio.sleep(2)
    assert seen == ["+db-0", "+db-1"]
    await asyncio.sleep(5)
    assert seen == ["+db-0", "+db-1", "+db-2"]
    cluster.server.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
    await asyncio.sleep(5)
    assert seen[3:] == ["-db-2", "-db-1"]


async def test_parallel_pods_come_all_at_once(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    seen = created_and_gone(cluster)
    cluster.server.create(stateful(replicas=3, podManagementPolicy="Parallel"))
    await asyncio.sleep(1)
    assert seen == ["+db-0", "+db-1", "+db-2"]


async def test_each_pod_has_its_identity_and_its_claims_which_stay(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "now"}}
    cluster.server.create({**storage_class, "provisioner": "example.com/now"})
    size = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "now", "resources": size}
    cluster.server.create(stateful(replicas=2, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim}]))
    await asyncio.sleep(10)
    pod = cluster.server.get("pods", "db-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    assert pod["status"]["phase"] == "Running"
    cluster.server.delete("statefulsets.apps", "db")
    await asyncio.sleep(10)
    assert names(cluster.server) == []
    assert names(cluster.server, "persistentvolumeclaims") == ["data-db-0", "data-db-1"]


async def test_an_update_goes_from_the_last_to_the_partition(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.server.create(stateful(replicas=3, updateStrategy=rolling))
    await asyncio.sleep(15)
    seen = created_and_gone(cluster)
    set_image(cluster.server, "statefulsets.apps", "db", "app:2")
    await asyncio.sleep(30)
    assert seen == ["-db-2", "+db-2", "-db-1", "+db-1"]
    assert images(cluster.server) == ["app:1", "app:2", "app:2"]
    cluster.server.delete("pods", "db-0")
    await asyncio.sleep(10)
    assert images(cluster.server) == ["app:1", "app:2", "app:2"], "below the partition the old template is kept"
    status = cluster.server.get("statefulsets.apps", "db")["status"]
    assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
    assert status["currentRevision"] != status["updateRevision"]
    cluster.server.patch("statefulsets.apps", "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await asyncio.sleep(20)
    status = cluster.server.get("statefulsets.apps", "db")["status"]
    assert images(cluster.server) == ["app:2"] * 3
    assert status["currentRevision"] == status["updateRevision"]


async def test_a_failed_pod_is_replaced_under_its_name(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(stateful(replicas=1))
    await asyncio.sleep(5)
    uid = cluster.server.get("pods", "db-0")["metadata"]["uid"]
    cluster.server.patch("pods", "db-0", {"status": {"phase": "Failed"}}, status=True)
    await asyncio.sleep(5)
    again = cluster.server.get("pods", "db-0")
    assert again["metadata"]["uid"] != uid
    assert again["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("policy", "after_scaling", "after_deleting"),
    [
        pytest.param({}, ["data-db-0", "data-db-1"], ["data-db-0", "data-db-1"], id="by default they stay"),
        pytest.param({"whenScaled": "Delete"}, ["data-db-0"], ["data-db-0"], id="with a pod that is scaled away"),
        pytest.param({"whenDeleted": "Delete"}, ["data-db-0", "data-db-1"], [], id="with the set"),
        pytest.param({"whenScaled": "Delete", "whenDeleted": "Delete"}, ["data-db-0"], [], id="with either"),
    ],
)
async def test_claims_go_or_stay_as_the_policy_says(cluster: Cluster, policy, after_scaling, after_deleting):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"}, "provisioner": "x"}
    )
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "disks",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    cluster.server.create(
        stateful(replicas=2, volumeClaimTemplates=[template], persistentVolumeClaimRetentionPolicy=policy)
    )
    await asyncio.sleep(20)
    assert names(cluster.server, "persistentvolumeclaims") == ["data-db-0", "data-db-1"]
    cluster.server.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}})
    await asyncio.sleep(20)
    assert names(cluster.server, "persistentvolumeclaims") == after_scaling
    cluster.server.delete("statefulsets.apps", "db")
    await asyncio.sleep(20)
    assert names(cluster.server, "persistentvolumeclaims") == after_deleting
