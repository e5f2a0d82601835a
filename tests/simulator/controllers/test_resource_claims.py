"""Claims on devices in virtual time: made, named, cleared and deleted with the pods that use them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.apiserver import ApiServer
from simulator.cluster import Cluster, make_node_template
from simulator.controllers.api import Api
from simulator.controllers.controller import Context
from simulator.controllers.device_driver import DEVICES, DeviceDriver, parse_devices
from simulator.controllers.informer import Informers
from simulator.controllers.manager import Settings
from simulator.controllers.resource_claims import FINALIZER, generated_base
from simulator.kubelet.claims import ClaimManager
from tests.fixtures_apiserver import pod

pytestmark = pytest.mark.looptime
Object = dict[str, Any]
CLAIMS = "resourceclaims.resource.k8s.io"
GROUP = {"apiVersion": "resource.k8s.io/v1"}
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
GATED = {"schedulingGates": [{"name": "example.com/wait"}]}
DRIVER = "gpu.example.com"


@pytest.fixture
def settings() -> Settings:
    """With events, and a driver that takes its time."""
    return Settings(device_delay=5.0)


def template(name: str = "one") -> Object:
    metadata = {"name": name, "namespace": "default"}
    inner = {"metadata": {"labels": {"team": "a"}}, "spec": SPEC}
    return {**GROUP, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": inner}


def user(name: str, **spec: Any) -> Object:
    """A pod with a claim from the template."""
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}], **spec)


def claims(cluster: Cluster) -> list[Object]:
    return cluster.server.list(CLAIMS)


def allocate(cluster: Cluster, claim: Object, *users: Object, device: str = "gpu-0", driver: str = DRIVER) -> None:
    """What a scheduler writes: its finalizer, then devices and users."""
    name = claim["metadata"]["name"]
    cluster.server.patch(CLAIMS, name, {"metadata": {"finalizers": [FINALIZER]}})
    result = {"request": "gpu", "driver": driver, "pool": "n1", "device": device}
    reserved = [{"resource": "pods", "name": u["metadata"]["name"], "uid": u["metadata"]["uid"]} for u in users]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    cluster.server.patch(CLAIMS, name, {"status": status}, status=True)


async def test_a_claim_is_made_for_the_pod_and_its_name_told(cluster: Cluster) -> None:
    cluster.server.create(template())
    made = cluster.server.create(user("p", **GATED))
    await asyncio.sleep(1)
    (claim,) = claims(cluster)
    metadata = claim["metadata"]
    assert metadata["generateName"] == "p-gpu-"
    assert metadata["labels"] == {"team": "a"}
    assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert metadata["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    statuses = cluster.server.get("pods", "p")["status"]["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": metadata["name"]}]


async def test_a_missing_template_is_told_and_used_once_it_comes(cluster: Cluster) -> None:
    cluster.server.create(user("p", **GATED))
    await asyncio.sleep(1)
    events = [one for one in cluster.server.list("events") if one["reason"] == "FailedResourceClaimCreation"]
    assert 'resourceclaimtemplate.resource.k8s.io "one" not found' in events[0]["message"]
    cluster.server.create(template())
    await asyncio.sleep(1)
    assert len(claims(cluster)) == 1


@pytest.mark.parametrize(
    ("name", "entry", "base"),
    [
        pytest.param("p", "gpu", "p-gpu-", id="short names as they are"),
        pytest.param("p" * 60, "gpu", "p" * 52 + "-gpu-", id="a long pod's name gives way"),
        pytest.param("p" * 60, "g" * 30, "p" * 36 + "-" + "g" * 19 + "-", id="both in proportion"),
    ],
)
async def test_generated_names_leave_room_for_five_characters(name: str, entry: str, base: str) -> None:
    assert generated_base(name, entry) == base
    assert len(base) <= 57


async def test_the_last_user_takes_the_allocation_and_the_finalizer_along(cluster: Cluster) -> None:
    shared = {**GROUP, "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": SPEC}
    claim = cluster.server.create(shared)
    source = [{"name": "gpu", "resourceClaimName": "shared"}]
    first, second = (cluster.server.create(pod(n, resourceClaims=source, nodeName="gone")) for n in ("a", "b"))
    allocate(cluster, claim, first, second)
    cluster.server.delete("pods", "a", grace_seconds=0)
    await asyncio.sleep(1)
    left = cluster.server.get(CLAIMS, "shared")
    assert [one["name"] for one in left["status"]["reservedFor"]] == ["b"]
    assert left["metadata"]["finalizers"] == [FINALIZER]
    cluster.server.delete("pods", "b", grace_seconds=0)
    await asyncio.sleep(1)
    left = cluster.server.get(CLAIMS, "shared")
    assert left.get("status", {}) == {}
    assert "finalizers" not in left["metadata"]


async def test_an_allocation_that_nobody_has_used_yet_stays(cluster: Cluster) -> None:
    claim = cluster.server.create({**GROUP, "kind": "ResourceClaim", "metadata": {"name": "early"}, "spec": SPEC})
    allocate(cluster, claim)
    await asyncio.sleep(60)
    assert "allocation" in cluster.server.get(CLAIMS, "early")["status"]
    cluster.server.delete(CLAIMS, "early")
    await asyncio.sleep(1)
    assert claims(cluster) == []


async def test_a_pod_deleted_before_it_had_a_node_gives_up_its_place(cluster: Cluster) -> None:
    cluster.server.create(template())
    waiting = cluster.server.create({**user("p", **GATED), "metadata": {"name": "p", "finalizers": ["example.com/x"]}})
    await asyncio.sleep(1)
    (claim,) = claims(cluster)
    allocate(cluster, claim, waiting)
    cluster.server.delete("pods", "p")
    await asyncio.sleep(1)
    assert claims(cluster) == []


async def test_a_pod_bound_by_hand_is_added_to_a_claim_that_is_allocated(cluster: Cluster) -> None:
    claim = cluster.server.create({**GROUP, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": SPEC})
    allocate(cluster, claim)
    cluster.server.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}], nodeName="n1"))
    await asyncio.sleep(1)
    assert [one["name"] for one in cluster.server.get(CLAIMS, "c")["status"]["reservedFor"]] == ["p"]


async def test_the_kubelet_starts_a_pod_once_its_claim_is_prepared(cluster: Cluster) -> None:
    cluster.add_node({**make_node_template(), "metadata": {"annotations": {DEVICES: "h100*1"}}}, "n1")
    cluster.server.create(template())
    cluster.server.create(user("p", nodeName="n1"))
    await asyncio.sleep(30)
    assert cluster.server.get("pods", "p")["status"]["phase"] == "Pending"
    (claim,) = claims(cluster)
    allocate(cluster, claim, cluster.server.get("pods", "p"))
    await asyncio.sleep(4)
    assert "devices" not in cluster.server.get(CLAIMS, claim["metadata"]["name"])["status"]
    await asyncio.sleep(6)
    assert cluster.server.get("pods", "p")["status"]["phase"] == "Running"
    (device,) = cluster.server.get(CLAIMS, claim["metadata"]["name"])["status"]["devices"]
    assert (device["device"], device["conditions"][0]["reason"]) == ("gpu-0", "Prepared")


async def test_a_driver_that_nobody_has_installed_is_waited_for(cluster: Cluster) -> None:
    cluster.add_node(make_node_template(), "n1")
    cluster.server.create(template())
    cluster.server.create(user("p", nodeName="n1"))
    await asyncio.sleep(1)
    allocate(cluster, claims(cluster)[0], cluster.server.get("pods", "p"), driver="other.example.com")
    await asyncio.sleep(60)
    assert cluster.server.get("pods", "p")["status"]["phase"] == "Pending"


# --- the driver ----------------------------------------------------------------------------------------------------


async def test_the_devices_of_a_node_are_published_and_go_with_it(cluster: Cluster) -> None:
    cluster.add_node({**make_node_template(), "metadata": {"annotations": {DEVICES: "h100*2:memory=80Gi"}}}, "n1")
    await asyncio.sleep(1)
    (published,) = cluster.server.list("resourceslices.resource.k8s.io")
    assert published["spec"]["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    assert [device["name"] for device in published["spec"]["devices"]] == ["gpu-0", "gpu-1"]
    assert published["spec"]["devices"][1]["attributes"]["model"] == {"string": "h100"}
    cluster.server.patch("nodes", "n1", {"metadata": {"annotations": {DEVICES: "h100*200"}}})
    await asyncio.sleep(1)
    found = cluster.server.list("resourceslices.resource.k8s.io")
    assert [len(one["spec"]["devices"]) for one in found] == [128, 72]
    assert {one["spec"]["pool"]["generation"] for one in found} == {2}
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in found} == {2}
    cluster.server.delete("nodes", "n1")
    await asyncio.sleep(5)
    assert cluster.server.list("resourceslices.resource.k8s.io") == []


async def test_what_no_device_can_be_made_of_is_told_on_the_node(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match=r"MODEL\*COUNT .* is expected, got 'four'"):
        parse_devices("h100*1, four")
    cluster.add_node({**make_node_template(), "metadata": {"annotations": {DEVICES: "four"}}}, "n1")
    await asyncio.sleep(1)
    assert [one["reason"] for one in cluster.server.list("events")] == ["InvalidDevices"]


async def test_a_claim_that_is_reserved_for_others_is_not_used(cluster: Cluster) -> None:
    """No controller comes to the pod's help here: a server of its own, and only the kubelet's part."""
    server = ApiServer()
    claim = server.create({**GROUP, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": SPEC})
    uses = [{"name": "gpu", "resourceClaimName": "c"}]
    mine, other = (server.create(pod(name, resourceClaims=uses, nodeName="n1")) for name in ("mine", "other"))
    manager = ClaimManager(Api(server), {DRIVER: DeviceDriver(Context(Api(server), Informers(server)))})
    assert manager.seconds_to_wait(mine) > 0, "not allocated"
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
    reserved = [{"resource": "pods", "name": "other", "uid": other["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    server.update({**claim, "status": status}, status=True)
    assert manager.seconds_to_wait(mine) > 0, "reserved for another"
    assert manager.seconds_to_wait(other) == 0
