"""Pods that their kubelet refuses: whoever replaces them waits longer each time, and does not flood the cluster."""

from __future__ import annotations

import asyncio

import pytest

from simulator.cluster import Cluster, make_node_template
from simulator.controllers.backoff import MAX, Backoff
from tests.simulator.virtual import template, workload

pytestmark = pytest.mark.looptime
HOUR = 3600.0


def too_big(app: str):
    """A template that no node of one CPU has room for; the tests' scheduler binds it all the same."""
    made = template(app)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    return made


async def test_the_wait_doubles_up_to_a_quarter_of_an_hour_and_begins_anew_after_peace() -> None:
    backoff, waits = Backoff(), []
    for _ in range(12):
        backoff.failed("a")
        backoff.failed("a")  # while it waits this is the same failure
        waits.append(backoff.left("a"))
        await asyncio.sleep(waits[-1])
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900])
    assert backoff.left("a") == backoff.left("another") == 0
    await asyncio.sleep(2 * MAX)
    backoff.failed("a")
    assert backoff.left("a") == pytest.approx(1)


@pytest.mark.parametrize("kind", ["ReplicaSet", "DaemonSet", "StatefulSet"])
async def test_a_workload_whose_pods_are_refused_does_not_flood_the_cluster(cluster: Cluster, kind: str) -> None:
    cluster.add_node(make_node_template(cpu="1"), "small")
    made = 0

    def count(event) -> None:
        nonlocal made
        made += event.type == "ADDED"

    unfollow = cluster.server.store.listen("pods", count)
    cluster.server.create(workload(kind, "big", too_big("big")))
    await asyncio.sleep(HOUR)
    unfollow()
    assert 10 <= made <= 16
    (last, *_) = cluster.server.list("pods")
    assert last["status"]["reason"] == "OutOfcpu"


async def test_room_that_comes_is_used_after_the_wait(cluster: Cluster) -> None:
    cluster.add_node(make_node_template(cpu="1"), "small")
    cluster.server.create(workload("ReplicaSet", "big", too_big("big")))
    await asyncio.sleep(60)
    cluster.server.delete("nodes", "small")
    cluster.add_node(make_node_template(cpu="4"), "large")
    await asyncio.sleep(180)
    status = cluster.server.get("replicasets.apps", "big")["status"]
    assert status["readyReplicas"] == 1
