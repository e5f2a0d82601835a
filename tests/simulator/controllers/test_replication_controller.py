"""ReplicationControllers: the ReplicaSet's rules under another kind."""

import asyncio

import pytest

from simulator.cluster import Cluster, make_node_template
from tests.simulator.virtual import names, template

pytestmark = pytest.mark.looptime


async def test_it_keeps_its_number_of_pods_by_the_labels_of_its_template(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 2)
    body = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}}
    cluster.server.create({**body, "spec": {"replicas": 3, "template": template("old")}})
    await asyncio.sleep(5)
    assert cluster.server.get("replicationcontrollers", "old")["spec"]["selector"] == {"app": "old"}
    assert cluster.server.get("replicationcontrollers", "old")["status"]["readyReplicas"] == 3
    first = cluster.server.list("pods")[0]
    assert first["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
    cluster.server.delete("pods", first["metadata"]["name"])
    cluster.server.patch("replicationcontrollers", "old", {"spec": {"replicas": 2}})
    await asyncio.sleep(5)
    assert len(names(cluster.server)) == 2
    cluster.server.delete("replicationcontrollers", "old")
    await asyncio.sleep(5)
    assert names(cluster.server) == []
