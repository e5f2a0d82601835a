"""What is written for a pod's claims, in which order, and what happens when the world has moved on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kube.api.core import Container, Pod, ResourceRequirements
from kube.api.resource import FINALIZER
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Status
from tests.builders import make_pod
from tests.plugins.dynamic_resources.builders import (
    DRIVER,
    Cluster,
    a_claim,
    a_class,
    a_pod,
    a_slice,
    exactly,
    held,
)

pytestmark = pytest.mark.looptime

GPU = a_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName="vendor.example/gpu")


def one_node(*objects: Any, **more: Any) -> Cluster:
    return Cluster(GPU, a_slice("s1", ["d1", "d2"], node="n1"), *objects, now=1767225600.0, **more)


def reserved(cluster: Cluster, pod: Pod) -> CycleState:
    state, _ = cluster.cycle(pod)
    assert cluster.plugin.reserve(state, pod, "n1") is None
    assert cluster.plugin.pre_bind_pre_flight(state, pod, "n1") is None
    return state


async def bound(cluster: Cluster, pod: Pod) -> Status | None:
    status: Status | None = await cluster.plugin.pre_bind(reserved(cluster, pod), pod, "n1")
    return status


async def test_a_claim_gets_its_finalizer_then_its_allocation_and_its_user() -> None:
    cluster = one_node(a_claim("c", exactly("r")))
    assert await bound(cluster, a_pod("p", "c")) is None
    (_, first, finalizer), (_, second, status) = cluster.client.calls
    assert (first, second) == ("ResourceClaim/c", "ResourceClaim/c/status")
    assert finalizer == {"metadata": {"uid": "uid-c", "finalizers": [FINALIZER], "resourceVersion": "1"}}
    assert status["metadata"] == {"uid": "uid-c", "resourceVersion": "2"}
    assert status["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    assert status["status"]["allocation"] == {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": "s1", "device": "d1"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }


async def test_claims_are_written_in_the_order_of_the_pod() -> None:
    cluster = one_node(a_claim("b", exactly("r")), a_claim("a", exactly("r")))
    assert await bound(cluster, a_pod("p", "b", "a")) is None
    assert [where for _, where, _ in cluster.client.calls if where.endswith("status")] == [
        "ResourceClaim/b/status",
        "ResourceClaim/a/status",
    ]


async def test_a_claim_that_was_allocated_before_only_gets_its_user() -> None:
    status = held(f"{DRIVER}/s1/d1", by="uid-other")
    status["allocation"]["allocationTimestamp"] = "2025-01-01T00:00:00Z"
    cluster = one_node(a_claim("c", exactly("r"), status=status))
    pod = a_pod("p", "c")
    assert await bound(cluster, pod) is None
    [(_, where, patch)] = cluster.client.calls
    assert where == "ResourceClaim/c/status"
    assert [user["uid"] for user in patch["status"]["reservedFor"]] == ["uid-other", "uid-p"]
    assert "allocation" not in patch["status"]
    state, _ = cluster.cycle(pod)
    again = cluster.plugin.pre_bind_pre_flight(state, pod, "n1")
    assert again is not None
    assert again.skip


async def test_after_the_write_the_device_stays_taken_whatever_the_informer_still_shows() -> None:
    cluster = one_node(a_claim("c", exactly("r")), a_claim("next", exactly("r")))
    stale = cluster.claim("c")
    assert await bound(cluster, a_pod("p", "c")) is None
    cluster.put(stale)
    assert cluster.devices(a_pod("q", "next")) == {"n1": ["r=d2"]}


async def test_a_conflict_is_answered_by_reading_again() -> None:
    cluster = one_node(a_claim("c", exactly("r")))
    cluster.client.conflicts = 1
    assert await bound(cluster, a_pod("p", "c")) is None
    assert len(cluster.client.calls) == 3
    assert cluster.claim("c").status.allocation is not None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            {"status": held(f"{DRIVER}/s1/d2")},
            "claim default/c got allocated elsewhere in the meantime",
            id="allocated by somebody else",
        ),
        pytest.param({"deleted": True}, "claim default/c got deleted in the meantime", id="being deleted"),
    ],
)
async def test_a_conflict_that_is_none_of_these(change: dict[str, Any], text: str) -> None:
    cluster = one_node(a_claim("c", exactly("r")))

    def meanwhile(obj: Any) -> None:
        claim = a_claim("c", exactly("r"), status=change.get("status"))
        if change.get("deleted"):
            meta = msgspec.structs.replace(claim.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
            claim = msgspec.structs.replace(claim, metadata=meta)
        cluster.put(claim)

    cluster.client.before = meanwhile
    cluster.client.conflicts = 1
    status = await bound(cluster, a_pod("p", "c"))
    assert status is not None
    assert (status.code.text, status.message) == ("Error", text)


async def test_a_failed_write_leaves_nothing_in_flight() -> None:
    cluster = one_node(a_claim("c", exactly("r")))
    cluster.client.conflicts = 99
    pod = a_pod("p", "c")
    status = await bound(cluster, pod)
    assert status is not None
    assert set(cluster.devices(pod)) == {"n1"}


async def test_unreserve_takes_the_pod_off_what_was_written() -> None:
    cluster = one_node(a_claim("c", exactly("r")))
    pod = a_pod("p", "c")
    state = reserved(cluster, pod)
    await cluster.plugin.pre_bind(state, pod, "n1")
    cluster.client.calls.clear()
    cluster.plugin.unreserve(state, pod, "n1")
    for work in cluster.spawned:
        await work
    assert cluster.client.calls == [
        (
            "patch strategic",
            "ResourceClaim/c/status",
            {"metadata": {"uid": "uid-c"}, "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]}},
        )
    ]
    assert cluster.claim("c").status.allocation is not None


# --- extended resources ------------------------------------------------------------------------------------------


def container(name: str, amount: str, restart: str = "") -> Container:
    wanted = {"vendor.example/gpu": amount}
    return Container(name=name, resources=ResourceRequirements(requests=wanted), restart_policy=restart)


async def test_the_claim_for_extended_resources_is_made_allocated_and_reported() -> None:
    cluster = one_node()
    pod = make_pod("p", uid="uid-p", containers=[container("main", "1")])
    state = reserved(cluster, pod)
    assert await cluster.plugin.pre_bind(state, pod, "n1") is None
    assert [where for _, where, _ in cluster.client.calls] == [
        "ResourceClaim",
        "ResourceClaim/p-extended-resources-x",
        "ResourceClaim/p-extended-resources-x/status",
        "Pod/p/status",
    ]
    created, status = cluster.client.calls[0][2], cluster.client.calls[-1][2]["status"]
    assert cluster.registry.get_sample_value("scheduler_resourceclaim_creates_total", {"status": "success"}) == 1
    assert created["metadata"]["generateName"] == "p-extended-resources-"
    assert "name" not in created["metadata"]
    assert created["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert status["extendedResourceClaimStatus"] == {
        "resourceClaimName": "p-extended-resources-x",
        "requestMappings": [
            {"containerName": "main", "resourceName": "vendor.example/gpu", "requestName": "container-0-request-0"}
        ],
    }
    cluster.plugin.unreserve(state, pod, "n1")
    for work in cluster.spawned:
        await work
    assert cluster.client.calls[-1] == ("delete", "ResourceClaim/p-extended-resources-x", {"uid": "uid-created"})


def test_init_containers_reuse_what_later_containers_hold() -> None:
    """Init 3, sidecar 1, init 2, main 1: facts that were checked by running 1.36.3."""
    cluster = Cluster(GPU, a_slice("s", [f"d{i}" for i in range(9)]))
    pod = make_pod(
        "p",
        uid="uid-p",
        init_containers=[container("i0", "3"), container("side", "1", "Always"), container("i2", "2")],
        containers=[container("main", "1")],
    )
    state, _ = cluster.cycle(pod)
    [claim] = cluster.found(state)["n1"]
    assert claim["requests"] == [f"container-{i}-request-0=1 x gpu" for i in (0, 1, 3)]
    assert [(m["containerName"], m["requestName"][10]) for m in claim["requestMappings"]] == [
        ("side", "1"),
        ("main", "3"),
        ("i0", "1"),
        ("i0", "3"),
        ("i0", "0"),
        ("i2", "3"),
        ("i2", "0"),
    ]


async def test_a_claim_that_an_earlier_attempt_left_behind_is_deleted() -> None:
    cluster = one_node()
    pod = make_pod("p", uid="uid-p", containers=[container("main", "1")])
    await cluster.plugin.pre_bind(reserved(cluster, pod), pod, "n1")
    state, _ = cluster.cycle(pod)
    assert cluster.refusals(pod) == {"n1": "cannot schedule extended resource claim"}
    _, status = cluster.post_filter(state, pod)
    assert status.message == "deletion of ResourceClaim completed"
    cluster.client.calls.clear()
    for work in cluster.spawned:
        await work
    assert [(verb, where) for verb, where, _ in cluster.client.calls] == [
        ("patch merge", "ResourceClaim/p-extended-resources-x"),
        ("delete", "ResourceClaim/p-extended-resources-x"),
    ]


# --- binding conditions ------------------------------------------------------------------------------------------


def waiting_cluster() -> Cluster:
    device = {"name": "d", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    return Cluster(GPU, a_slice("s", [device]), a_claim("c", exactly("r")), now=1767225600.0)


def report(cluster: Cluster, condition: str) -> None:
    """The driver reports on the device."""
    status = cluster.claim("c").status
    conditions = [{"type": condition, "status": "True", "reason": "R", "message": "m"}]
    about = {"driver": DRIVER, "pool": "s", "device": "d", "conditions": conditions}
    claim = a_claim("c", exactly("r"), status={"devices": [about]})
    merged = msgspec.structs.replace(status, devices=claim.status.devices)
    meta = msgspec.structs.replace(claim.metadata, resource_version="9")
    cluster.put(msgspec.structs.replace(claim, metadata=meta, status=merged))


@pytest.mark.parametrize(
    ("condition", "message", "outcome"),
    [
        pytest.param("ready", "", "success", id="the device becomes ready"),
        pytest.param(
            "broken", "device binding failed: claim c binding failed: reason=R, message=m", "failed", id="it fails"
        ),
        pytest.param("", "device binding timeout", "timeout", id="nobody says anything for ten minutes"),
    ],
)
async def test_the_bind_waits_until_devices_are_ready(condition: str, message: str, outcome: str) -> None:
    cluster = waiting_cluster()
    pod = a_pod("p", "c")
    loop = asyncio.get_running_loop()
    started = loop.time()
    if condition:
        loop.call_later(12, report, cluster, condition)
    status = await bound(cluster, pod)
    assert (status.message if status else "") == message
    assert round(loop.time() - started) == (15 if condition else 600)
    assert cluster.events == ["BindingConditionsPending: waiting for binding conditions for device on node n1"]
    labels = {"profile": "podium", "driver": DRIVER, "status": outcome}
    series = "scheduler_dra_bindingconditions_"
    assert cluster.registry.get_sample_value(f"{series}allocations_total", labels) == 1
    waited = cluster.registry.get_sample_value(f"{series}wait_duration_seconds_sum", labels)
    assert round(waited or 0) == (15 if condition else 600)
