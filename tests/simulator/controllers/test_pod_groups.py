"""The status of groups of the scheduler-plugins project in the embedded cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.cluster import Cluster
from simulator.controllers.pod_groups import LABEL

pytestmark = pytest.mark.looptime


def group(min_member: int) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "default"}
    spec = {"minMember": min_member}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def member(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "train", "uid": owner["metadata"]["uid"]}
    metadata = {"name": name, "namespace": "default", "labels": {LABEL: "g"}, "ownerReferences": [reference]}
    spec = {"containers": [{"name": "c", "image": "app:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def owner(cluster: Cluster) -> dict[str, Any]:
    """Whose the members are; it does nothing."""
    made: dict[str, Any] = cluster.server.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "train", "namespace": "default"}}
    )
    return made


def set_phase(cluster: Cluster, name: str, phase: str) -> None:
    pod = cluster.server.get("pods", name)
    cluster.server.update({**pod, "status": {"phase": phase}}, status=True)


async def test_a_group_goes_from_pending_to_finished(cluster: Cluster) -> None:
    def status() -> dict[str, Any]:
        found: dict[str, Any] = cluster.server.get("podgroups.scheduling.x-k8s.io", "g").get("status", {})
        return found

    job = owner(cluster)
    cluster.server.create(group(2))
    await asyncio.sleep(1)
    assert status() == {"phase": "Pending"}
    cluster.server.create(member("a", job))
    await asyncio.sleep(1)
    assert status() == {"phase": "Pending"}
    cluster.server.create(member("b", job))
    await asyncio.sleep(1)
    assert status() == {"phase": "Scheduling", "occupiedBy": "default/train"}
    set_phase(cluster, "a", "Running")
    await asyncio.sleep(1)
    assert status() == {"phase": "Scheduling", "occupiedBy": "default/train", "running": 1}
    set_phase(cluster, "b", "Running")
    await asyncio.sleep(1)
    assert status() == {"phase": "Running", "occupiedBy": "default/train", "running": 2}
    for name in ("a", "b"):
        set_phase(cluster, name, "Succeeded")
    await asyncio.sleep(1)
    assert status() == {"phase": "Finished", "occupiedBy": "default/train", "running": 0, "succeeded": 2}


async def test_one_failed_member_fails_a_group_that_was_complete(cluster: Cluster) -> None:
    job = owner(cluster)
    cluster.server.create(group(2))
    for name in ("a", "b"):
        cluster.server.create(member(name, job))
    await asyncio.sleep(1)
    set_phase(cluster, "a", "Running")
    set_phase(cluster, "b", "Failed")
    await asyncio.sleep(1)
    status = cluster.server.get("podgroups.scheduling.x-k8s.io", "g")["status"]
    assert (status["phase"], status["running"], status["failed"]) == ("Failed", 1, 1)
