"""The ReplicaSet controller's rules, one by one, in virtual time."""

import asyncio

import pytest

from simulator.apiserver import ApiServer
from simulator.apiserver.errors import forbidden
from simulator.cluster import Cluster, make_node_template
from simulator.controllers.manager import ControllerManager, Settings
from simulator.controllers.pods import DELETION_COST, slow_start, to_delete
from tests.fixtures_apiserver import pod
from tests.simulator.virtual import names, template, workload

pytestmark = pytest.mark.looptime
NOW = 1_800_000_000.0


def at(seconds_ago):
    from datetime import UTC, datetime

    return datetime.fromtimestamp(NOW - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_pod(name, *, node="n1", phase="Running", ready=True, cost=None, age=1000, ready_for=1000, restarts=0):
    """A pod as the deletion order sees it."""
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": at(ready_for)}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": at(age),
            "annotations": {DELETION_COST: cost} if cost is not None else {},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": [condition], "containerStatuses": [{"restartCount": restarts}]},
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(a_pod("z", node=""), a_pod("a"), id="a pod without a node goes before one with a node"),
        pytest.param(a_pod("z", phase="Pending"), a_pod("a"), id="a pending pod goes before a running one"),
        pytest.param(a_pod("z", ready=False), a_pod("a"), id="a pod that is not ready goes before a ready one"),
        pytest.param(a_pod("z", cost="-5"), a_pod("a"), id="a lower deletion cost goes first"),
        pytest.param(
            a_pod("z", cost="no number"), a_pod("a", cost="1"), id="a deletion cost that is no number is zero"
        ),
        pytest.param(a_pod("z", ready_for=10), a_pod("a"), id="a pod that became ready lately goes first"),
        pytest.param(a_pod("z", restarts=3), a_pod("a"), id="a pod with more restarts goes first"),
        pytest.param(a_pod("z", age=5), a_pod("a", age=5000), id="a younger pod goes first"),
        pytest.param(a_pod("a", age=5000), a_pod("z", age=5001), id="of about the same age the UID decides"),
    ],
)
def test_who_goes_first(first, second):
    assert to_delete([second, first], [], 1, NOW) == [first]


def test_of_two_on_one_node_one_goes_first():
    alone, together = a_pod("a", node="n1"), a_pod("z", node="n2")
    sibling = a_pod("other", node="n2")
    assert to_delete([alone, together], [alone, together, sibling], 1, NOW) == [together]


@pytest.mark.parametrize(
    ("count", "allowed", "attempts"),
    [
        pytest.param(10, 10, 10, id="all are created in batches of 1, 2, 4 and 3"),
        pytest.param(100, 0, 1, id="a refusal of the first is the only attempt"),
        pytest.param(100, 2, 3, id="a refusal in the second batch ends with it"),
        pytest.param(100, 5, 7, id="a refusal in the third batch lets the batch end"),
    ],
)
def test_slow_start(count, allowed, attempts):
    tried = []

    def create():
        tried.append(1)
        if len(tried) > allowed:
            raise forbidden("", "pods", "p", "exceeded quota")

    created, refusal = slow_start(count, create)
    assert (len(tried), created) == (attempts, min(count, allowed))
    assert (refusal is None) is (allowed >= count)


async def test_a_replica_set_gets_its_pods_and_says_so(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 2)
    cluster.server.create(workload("ReplicaSet", "web", replicas=3))
    await asyncio.sleep(1)
    status = cluster.server.get("replicasets.apps", "web")["status"]
    assert (status["replicas"], status["readyReplicas"], status["fullyLabeledReplicas"]) == (3, 0, 3)
    await asyncio.sleep(3)
    status = cluster.server.get("replicasets.apps", "web")["status"]
    assert status == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }


async def test_available_comes_after_min_ready_seconds(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("ReplicaSet", "web", replicas=1, minReadySeconds=60))
    await asyncio.sleep(30)
    status = cluster.server.get("replicasets.apps", "web")["status"]
    assert (status["readyReplicas"], status["availableReplicas"]) == (1, 0)
    await asyncio.sleep(40)
    assert cluster.server.get("replicasets.apps", "web")["status"]["availableReplicas"] == 1


async def test_a_deleted_and_a_failed_pod_are_replaced(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("ReplicaSet", "web", replicas=2))
    await asyncio.sleep(5)
    deleted, failed = names(cluster.server)
    cluster.server.delete("pods", deleted)
    cluster.server.patch("pods", failed, {"status": {"phase": "Failed"}}, status=True)
    await asyncio.sleep(5)
    assert deleted not in names(cluster.server)
    phases = [obj["status"]["phase"] for obj in cluster.server.list("pods")]
    assert sorted(phases) == ["Failed", "Running", "Running"]


async def test_an_orphan_is_adopted_and_a_relabelled_pod_released(cluster: Cluster):
    cluster.server.create(pod("mine", labels={"app": "web"}))
    cluster.server.create(workload("ReplicaSet", "web", replicas=2))
    await asyncio.sleep(1)
    adopted = cluster.server.get("pods", "mine")["metadata"]
    assert [owner["name"] for owner in adopted["ownerReferences"]] == ["web"]
    assert len(names(cluster.server)) == 2
    cluster.server.patch("pods", "mine", {"metadata": {"labels": {"app": "debug"}}})
    await asyncio.sleep(1)
    assert "ownerReferences" not in cluster.server.get("pods", "mine")["metadata"]
    assert len(names(cluster.server)) == 3


async def test_no_more_than_500_at_once_but_all_in_the_end(cluster: Cluster):
    creations = []
    sync = cluster.controllers.controllers[1].sync

    def counting(key):
        before = len(names(cluster.server))
        sync(key)
        creations.append(len(names(cluster.server)) - before)

    cluster.controllers.controllers[1].sync = counting
    cluster.server.create(workload("ReplicaSet", "web", replicas=1200))
    await asyncio.sleep(5)
    assert len(names(cluster.server)) == 1200
    assert max(creations) == 500


@pytest.mark.parametrize("lag", [0.0, 0.5, 3.0], ids=lambda lag: f"news arrive {lag} s late")
async def test_expectations_keep_a_controller_that_hears_late_from_creating_twice(lag):
    server = ApiServer()
    manager = ControllerManager(server, Settings(lag=lag, events=False))
    manager.start()
    created = []
    server.store.listen("pods", lambda event: created.append(event.type))
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run())
        server.create(workload("ReplicaSet", "web", replicas=5))
        # Each annotation brings the controller back, some of them before its informer knows of the pods just made.
        for number in range(8):
            server.patch("replicasets.apps", "web", {"metadata": {"annotations": {"n": str(number)}}})
            await asyncio.sleep(lag / 4)
        await asyncio.sleep(20)
        server.patch("replicasets.apps", "web", {"spec": {"replicas": 8}})
        await asyncio.sleep(20)
        server.patch("replicasets.apps", "web", {"spec": {"replicas": 2}})
        await asyncio.sleep(20)
        manager.stop()
    assert created.count("ADDED") == 8
    assert len(names(server)) == 2


async def test_a_refused_creation_becomes_a_condition_and_is_tried_again(cluster: Cluster):
    refused = template("web", priorityClassName="urgent")
    cluster.server.create(workload("ReplicaSet", "web", refused, replicas=2))
    await asyncio.sleep(1)
    (condition,) = cluster.server.get("replicasets.apps", "web")["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert "no PriorityClass with name urgent was found" in condition["message"]
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    cluster.server.create({**priority, "value": 10})
    await asyncio.sleep(60)
    assert len(names(cluster.server)) == 2
    assert "conditions" not in cluster.server.get("replicasets.apps", "web")["status"]
