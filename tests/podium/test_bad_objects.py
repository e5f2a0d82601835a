"""Objects that no API server of today would let in, or that nobody would expect: each is treated as kube-scheduler does
or skipped, counted and told of; everybody else is scheduled as ever (virtual time, real HTTP)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podium.wiring import Service
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import condition, node_of, podium, until

pytestmark = pytest.mark.looptime


def ours(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def asking(**requests: Any) -> dict[str, Any]:
    made = ours("odd")
    made["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


def with_meta(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def with_status(obj: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**obj, "status": {**obj.get("status", {}), **status}}


def store(server: ApiServer, obj: dict[str, Any], name: str = "odd") -> None:
    """As it is, past all validation."""
    meta = {"uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **obj["metadata"]}
    server.restore({**obj, "metadata": meta})


def nulls(**fields: None) -> dict[str, Any]:
    return with_meta(ours("odd", **fields), labels=None, annotations=None, ownerReferences=None, finalizers=None)


def requiring(operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return ours("odd", affinity={"nodeAffinity": required})


def requiring_name(name: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def spreading(when: str, operator: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": when,
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": operator}]},
    }
    return ours("odd", topologySpreadConstraints=[constraint])


PODS = [
    pytest.param(nulls(tolerations=None, affinity=None, volumes=None, nodeSelector=None), "n1", id="nulls everywhere"),
    pytest.param(with_status(nulls(), conditions=None, phase=None), "n1", id="nulls in the status"),
    pytest.param(
        ours("odd", restartPolicy="Sometimes", dnsPolicy="Perhaps"), "n1", id="values nobody knows, of no use"
    ),
    pytest.param(ours("odd", preemptionPolicy="Perhaps"), "n1", id="a preemption policy nobody knows"),
    pytest.param(ours("odd", tolerations=[{"operator": "Resembles"}]), "n1", id="a toleration operator nobody knows"),
    pytest.param(requiring("Resembles", "n1"), "", id="an affinity operator nobody knows matches nothing"),
    pytest.param(requiring("Gt", "many"), "", id="a number that is none"),
    pytest.param(requiring("In"), "", id="In without values matches nothing"),
    pytest.param(with_meta(ours("odd"), annotations={"big": "x" * 2**21}), "n1", id="an annotation of two MiB"),
    pytest.param(
        with_meta(ours("odd"), labels={"größe": "中文", "": ""}), "n1", id="labels in any script, and empty ones"
    ),
    pytest.param(asking(cpu=1), "n1", id="a number as quantity"),
    pytest.param(asking(cpu="1e-9", memory="1m"), "n1", id="less than can be counted"),
    pytest.param(asking(cpu="99999999999999999999"), "", id="more CPU than an int64 holds"),
    pytest.param(asking(memory="100Ei"), "", id="more memory than an int64 holds"),
    pytest.param(asking(**{"example.com/widgets": "1e40"}), "", id="more of something else than an int64 holds"),
    pytest.param(asking(cpu="-1"), "n1", id="less than nothing"),
    pytest.param(spreading("Perhaps", "Resembles"), "n1", id="a spread constraint of a kind nobody knows is none"),
    pytest.param(spreading("DoNotSchedule", "Resembles"), "", id="a selector operator nobody knows is an error"),
]


async def others_are_scheduled(server: ApiServer, service: Service, place: str = "n1") -> None:
    """podium lives, and whoever is in order is served."""
    server.create(ours("good"))
    await until(lambda: bool(node_of(server, "good")), "the good one is bound", 60.0)
    assert not place or node_of(server, "good") == place
    await asyncio.sleep(120.0)
    assert service.debugger.mended == 0


@pytest.mark.parametrize(("odd", "place"), PODS)
async def test_an_odd_pod(api_server: ApiServer, odd: dict[str, Any], place: str) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        store(api_server, odd)
        await others_are_scheduled(api_server, service)
        assert node_of(api_server, "odd") == place
        if not place:
            assert condition(api_server, "odd")["message"]


def sized(**allocatable: Any) -> dict[str, Any]:
    made = node("odd")
    return with_status(made, allocatable={**made["status"]["allocatable"], **allocatable})


NODES = [
    pytest.param(with_meta(node("odd"), labels=None, annotations=None), True, id="nulls in the metadata"),
    pytest.param(with_status(node("odd", taints=None), conditions=None, images=None), True, id="nulls elsewhere"),
    pytest.param(with_status(node("odd"), allocatable=None), False, id="no allocatable at all"),
    pytest.param(with_status(node("odd"), images=[{"names": None}, {}]), True, id="images without names"),
    pytest.param(node("odd", taints=[{"key": "k", "effect": "Sometimes"}]), True, id="a taint's effect nobody knows"),
    pytest.param(with_meta(node("odd"), annotations={"big": "x" * 2**21}), True, id="an annotation of two MiB"),
    pytest.param(with_meta(node("odd"), labels={"größe": "中文"}), True, id="labels in any script"),
    pytest.param(sized(cpu="99999999999999999999"), True, id="more CPU than an int64 holds"),
    pytest.param(sized(**{"example.com/widgets": "1e40"}), True, id="more of something else than an int64 holds"),
    pytest.param(sized(cpu="-4"), False, id="less than nothing"),
    pytest.param(sized(cpu=16), True, id="a number as quantity"),
]


@pytest.mark.parametrize(("odd", "usable"), NODES)
async def test_an_odd_node(api_server: ApiServer, odd: dict[str, Any], usable: bool) -> None:
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server) as service:
        store(api_server, odd)
        api_server.create(ours("wants-odd", affinity=requiring_name("odd")))
        await others_are_scheduled(api_server, service, "n1" if not usable else "")
        assert node_of(api_server, "wants-odd") == ("odd" if usable else "")


# --- what cannot be read at all ----------------------------------------------------------------------------------


def volume(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "odd"}, "spec": spec}


def claim(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "odd", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def resized(**resources: Any) -> dict[str, Any]:
    return with_status(ours("odd", nodeName="n1"), containerStatuses=[{"name": "main", **resources}])


def with_devices(**device: Any) -> dict[str, Any]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "a", **device}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "odd"}, "spec": spec}


def asking_devices(**capacity: Any) -> dict[str, Any]:
    asked = {"name": "r", "exactly": {"deviceClassName": "c", "capacity": {"requests": capacity}}}
    metadata = {"name": "odd", "namespace": "default"}
    spec = {"devices": {"requests": [asked]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


NO_QUANTITY = "'lots' is not a quantity: expected a number with an optional suffix, such as 500m, 2 or 1.5Gi"
RESOURCES = {
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
    "ResourceSlice": "resourceslices.resource.k8s.io",
}
UNREADABLE = [
    pytest.param(asking(cpu="lots"), f"spec.containers[0].resources.requests.cpu: {NO_QUANTITY}", id="a pod's request"),
    pytest.param(ours("odd", overhead={"cpu": "lots"}), f"spec.overhead.cpu: {NO_QUANTITY}", id="a pod's overhead"),
    pytest.param(
        resized(allocatedResources={"cpu": "lots"}),
        f"status.containerStatuses[0].allocatedResources.cpu: {NO_QUANTITY}",
        id="what a container was given",
    ),
    pytest.param(
        with_status(ours("odd"), initContainerStatuses=[{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]),
        f"status.initContainerStatuses[0].resources.requests.cpu: {NO_QUANTITY}",
        id="what a sidecar has",
    ),
    pytest.param(
        with_devices(capacity={"memory": {"value": "lots"}}),
        f"spec.devices[0].capacity.memory.value: {NO_QUANTITY}",
        id="a device's capacity",
    ),
    pytest.param(
        asking_devices(memory="lots"),
        f"spec.devices.requests[0].exactly.capacity.requests.memory: {NO_QUANTITY}",
        id="what a claim asks of a device",
    ),
    pytest.param(sized(cpu="lots"), f"status.allocatable.cpu: {NO_QUANTITY}", id="a node's size"),
    pytest.param(volume(capacity={"storage": "lots"}), f"spec.capacity.storage: {NO_QUANTITY}", id="a volume's size"),
    pytest.param(
        claim(resources={"requests": {"storage": "lots"}}),
        f"spec.resources.requests.storage: {NO_QUANTITY}",
        id="a claim's size",
    ),
    pytest.param({**ours("odd"), "spec": "text"}, "spec: expected `object`, got `str`", id="a spec that is text"),
    pytest.param(
        with_meta(ours("odd"), labels=5), "metadata.labels: expected `object`, got `int`", id="labels that are a number"
    ),
    pytest.param(
        ours("odd", priority="high"), "spec.priority: expected `int | null`, got `str`", id="a priority in words"
    ),
    pytest.param(node("odd", taints="x"), "spec.taints: expected `array`, got `str`", id="taints that are text"),
]


@pytest.mark.parametrize("early", [pytest.param(True, id="in the first list"), pytest.param(False, id="in a watch")])
@pytest.mark.parametrize(("odd", "said"), UNREADABLE)
async def test_what_cannot_be_read_is_skipped_counted_and_told_of_once(
    api_server: ApiServer, odd: dict[str, Any], said: str, early: bool, caplog: pytest.LogCaptureFixture
) -> None:
    api_server.create(node("n1"))
    if early:
        store(api_server, odd)
    async with podium(api_server) as service:
        if not early:
            store(api_server, odd)
        await others_are_scheduled(api_server, service)
        # By another change of the same object.
        store(api_server, with_meta(odd, annotations={"changed": "yes"}))
        await asyncio.sleep(5.0)
        kind = odd["kind"]
        key = "odd" if kind in ("Node", "PersistentVolume", "ResourceSlice") else "default/odd"
        lines = [record.getMessage() for record in caplog.records if "odd" in record.getMessage()]
        resource = RESOURCES.get(kind, f"{kind.lower()}s")
        assert lines == [f"{resource}: {key} cannot be read and is skipped: {kind} {key}: {said}"]
        sample = service.metrics.registry.get_sample_value
        assert sample("podium_informer_undecodable_total", {"resource": resource}) == 2
        assert sample("podium_informer_handler_failures_total", {"resource": resource}) == 0
        assert service.debugger.mended == 0


async def test_a_readable_object_that_becomes_unreadable_counts_as_it_was(api_server: ApiServer) -> None:
    """Its room is taken, whatever its news say."""
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server) as service:
        api_server.create(ours("odd", cpu="800m"))
        await until(lambda: node_of(api_server, "odd") == "n1", "it is bound")
        await until(lambda: not service.cache.assumed, "and known to be")
        bound = api_server.get("pods", "odd")
        api_server.restore(
            with_status(bound, containerStatuses=[{"name": "main", "allocatedResources": {"cpu": "lots"}}])
        )
        api_server.create(ours("second", cpu="800m"))
        await until(lambda: bool(condition(api_server, "second")), "the second was tried")
        assert node_of(api_server, "second") == ""
        api_server.delete("pods", "odd", grace_seconds=0)
        await until(lambda: node_of(api_server, "second") == "n1", "its room is free once it is gone")
