"""The status of disruption budgets, and evictions that go by it."""

import asyncio

import pytest

from simulator.apiserver.errors import ApiError
from simulator.apiserver.eviction import evict
from simulator.cluster import Cluster, make_node_template
from tests.simulator.virtual import names, workload

pytestmark = pytest.mark.looptime


def budget(**spec):
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "web", "namespace": "default"}
    spec = {"selector": selector, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        pytest.param({"minAvailable": 2}, 2, 2, id="two of four must stay"),
        pytest.param({"maxUnavailable": 1}, 3, 1, id="one of four may go"),
        pytest.param({"minAvailable": "60%"}, 3, 1, id="a percentage of those that must stay rounds up"),
        pytest.param({"maxUnavailable": "30%"}, 2, 2, id="and of those that may go rounds up too"),
        pytest.param({"minAvailable": 9}, 9, 0, id="more must stay than there are"),
    ],
)
async def test_what_a_budget_says(cluster: Cluster, spec, desired, allowed):
    cluster.add_nodes(make_node_template(), 2)
    cluster.server.create(workload("Deployment", "web", replicas=4))
    cluster.server.create(budget(**spec))
    await asyncio.sleep(10)
    status = cluster.server.get("poddisruptionbudgets.policy", "web")["status"]
    assert (status["expectedPods"], status["currentHealthy"]) == (4, 4)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)
    assert status["conditions"][0]["status"] == ("True" if allowed else "False")


async def test_a_pod_that_was_evicted_counts_until_its_successor_is_up(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 2)
    cluster.server.create(workload("Deployment", "web", replicas=4))
    cluster.server.create(budget(maxUnavailable=1))
    await asyncio.sleep(10)
    pods = cluster.server.resource("pods")
    first, second, *_ = names(cluster.server)
    evict(cluster.server.verbs, pods, "default", first, {})
    for seconds in (0, 1.5):
        await asyncio.sleep(seconds)
        with pytest.raises(ApiError) as refused:
            evict(cluster.server.verbs, pods, "default", second, {})
        assert refused.value.code == 429
    await asyncio.sleep(10)
    evict(cluster.server.verbs, pods, "default", second, {})


async def test_pods_that_their_controller_has_not_made_yet_are_missing(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 2)
    cluster.server.create(workload("Deployment", "web", replicas=4))
    cluster.server.create(budget(maxUnavailable=1))
    await asyncio.sleep(10)
    cluster.controllers.stop()  # so that nobody makes the pods that will be missing
    cluster.server.patch("deployments.apps", "web", {"spec": {"replicas": 6}})
    with pytest.raises(ApiError):
        evict(cluster.server.verbs, cluster.server.resource("pods"), "default", names(cluster.server)[0], {})
