"""Work that takes every right podium has: places, refuses, evicts, binds volumes, allocates devices, starts gangs.

Each run keeps to a namespace and nodes of its own, and takes them away again. Used by the tests of podium's rights.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.api import Api, Json
from tests.conformance.newer import UNLUCKY, with_fields
from tests.conformance.podium_process import create_namespace, create_nodes, pod

GATES = "GenericWorkload=true,GangScheduling=true"
DRIVER = "gpu.example.com"
EXTENDED = "example.com/gpu"
#: pods that ask for it are shown to the extender
SHOWN = "example.com/shown"
LABEL = "scheduling.x-k8s.io/pod-group"
OWNERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}
DEVICES = "/apis/resource.k8s.io/v1"
VOLUMES = "/api/v1/persistentvolumes"


def configuration(folder: Path, extender: str) -> Path:
    """Everything that needs a right of its own is on; the extender wants to see whole objects."""
    coscheduling = {"enabled": [{"name": "Coscheduling"}]}
    profile = {
        "schedulerName": "podium",
        "plugins": {
            "multiPoint": coscheduling,
            "queueSort": {**coscheduling, "disabled": [{"name": "*"}]},
        },
    }
    path = folder / "config.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "managedResources": [{"name": SHOWN, "ignoredByScheduler": True}],
            }
        ],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def prepare(api: Api) -> None:
    """What all runs share: classes of volumes and of devices."""
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/made")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await api.post("/apis/storage.k8s.io/v1/storageclasses", body)
    spec = {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        "extendedResourceName": EXTENDED,
    }
    await api.post(f"{DEVICES}/deviceclasses", _object("resource.k8s.io/v1", "DeviceClass", "gpu", spec=spec))


@asynccontextmanager
async def everything(api: Api, name: str) -> AsyncIterator[None]:
    """Ask for all of it; what was asked for is taken away at the end."""
    await create_nodes(api, name, 2, cpu="4")
    pods = await create_namespace(api, name)
    try:
        await _groups(api, name)
        await _claims(api, name)
        for body in _pods(name):
            await api.post(pods, body)
        yield
    finally:
        await api.delete(f"{pods}?gracePeriodSeconds=0")
        await api.delete(f"/api/v1/nodes?labelSelector=test%3D{name}")
        await api.delete(f"{DEVICES}/resourceslices/{name}")
        await api.delete(f"{VOLUMES}/{name}")


async def _claims(api: Api, name: str) -> None:
    claims = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
    size = {"storage": "1Gi"}
    spec: Json
    for kind in ("local", "made"):
        spec = {"storageClassName": kind, "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
        await api.post(claims, {"metadata": {"name": kind}, "spec": spec})
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"{name}-0"]}
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "capacity": size,
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
    }
    await api.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})
    # What the volume controller would say of a new volume.
    await api.patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = _object("resource.k8s.io/v1", "ResourceClaim", "gpu", spec={"devices": {"requests": [request]}})
    await api.post(f"{DEVICES}/namespaces/{name}/resourceclaims", claim)
    spec = {
        "driver": DRIVER,
        "nodeName": f"{name}-0",
        "pool": {"name": f"{name}-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{i}"} for i in range(2)],
    }
    await api.post(f"{DEVICES}/resourceslices", _object("resource.k8s.io/v1", "ResourceSlice", name, spec=spec))


async def _groups(api: Api, name: str) -> None:
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    for version, spec in (("scheduling.k8s.io/v1beta1", gang), ("scheduling.x-k8s.io/v1alpha1", {"minMember": 1})):
        path = f"/apis/{version}/namespaces/{name}/podgroups"
        await api.post(path, _object(version, "PodGroup", "gang", spec=spec))


def _pods(name: str) -> list[Json]:
    labelled = pod("labelled", name)
    labelled["metadata"]["labels"] = {LABEL: "gang"}
    second = {"kubernetes.io/hostname": f"{name}-1"}
    member: Json = {"schedulingGroup": {"podGroupName": "gang"}}
    return [
        pod("victim", name, "3", nodeName=f"{name}-1"),
        *(_owned(pod(f"of-{kind.lower()}", name), version, kind) for kind, version in OWNERS.items()),
        with_fields(pod("beside-others", name), affinity=_beside_others()),
        pod("too-big", name, "64"),
        *(pod(f"with-{kind}", name, volumes=[_volume(kind)]) for kind in ("local", "made")),
        pod("important", name, "3", priority=1000, nodeSelector=second),
        _wanting(pod("shown", name), SHOWN),
        labelled,
        *(with_fields(pod(f"member-{i}", name), **member) for i in range(2)),
        with_fields(pod("with-claim", name), resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
        _wanting(pod(UNLUCKY, name), EXTENDED),
    ]


def _owned(made: Json, version: str, kind: str) -> Json:
    """podium reads the selectors of owners, to spread their pods."""
    owner = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "1", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def _beside_others() -> Json:
    """Near pods of namespaces with a label: podium reads the labels of namespaces."""
    selector = {"matchLabels": {"team": "a"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, "namespaceSelector": selector}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _object(version: str, kind: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _volume(claim: str) -> Json:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def _wanting(made: Json, resource: str) -> Json:
    resources = made["spec"]["containers"][0]["resources"]
    resources["requests"][resource] = "1"
    resources["limits"] = {resource: "1"}
    return made


async def undone(api: Api, name: str) -> list[str]:
    """What has not happened yet."""
    core, devices = f"/api/v1/namespaces/{name}", f"{DEVICES}/namespaces/{name}/resourceclaims"
    pods = {p["metadata"]["name"]: p for p in (await api.get(f"{core}/pods"))["items"]}
    claim = await api.get(f"{core}/persistentvolumeclaims/made")
    volume = await api.get(f"{VOLUMES}/{name}")
    events = await api.get(f"/apis/events.k8s.io/v1/namespaces/{name}/events")
    lease = await api.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}")
    device = await api.get(f"{devices}/gpu")
    native = await api.get(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{name}/podgroups/gang")
    owned = [f"of-{kind.lower()}" for kind in OWNERS]
    placed = (*owned, "beside-others", "shown", "labelled", "member-0", "member-1", "with-claim", UNLUCKY)
    reasons = {event["reason"] for event in events["items"]}
    checks = {
        **{f"{each} is bound": bool(pods[each]["spec"].get("nodeName")) for each in placed},
        "too-big is refused": bool(pods["too-big"]["status"].get("conditions")),
        "victim is evicted": "victim" not in pods or "deletionTimestamp" in pods["victim"]["metadata"],
        "a provisioner is asked": "volume.kubernetes.io/selected-node" in claim["metadata"].get("annotations", {}),
        "a volume is chosen": "claimRef" in volume["spec"],
        "it is told": {"Scheduled", "FailedScheduling", "Preempted"} <= reasons,
        "the lease is held": lease.status == 200,
        "a device is reserved": bool(device.get("status", {}).get("reservedFor")),
        "the gang is told": bool(native.get("status", {}).get("conditions")),
    }
    return [what for what, happened in checks.items() if not happened]
