"""The cluster and workload of `podium demo --devices`: GPUs as devices, and pods that ask for them in every way.

    trainer      a template: two large GPUs of one NUMA node
    inference    a template: one small GPU
    notebook     three pods that share one claim
    classic      an extended resource, as before there were claims
    nightly      a job that holds two large GPUs for a few seconds
    late         comes when all large GPUs are taken, and waits for those of the job
    flexible     one large GPU, or else two small ones
    wants-eight  fits nowhere

Plain API objects. Called by `podium demo` only.
"""

from __future__ import annotations

from typing import Any

from simulator.controllers.device_driver import DEVICES, DRIVER

Object = dict[str, Any]
API_VERSION = "resource.k8s.io/v1"
LARGE, SMALL = "gpu-large", "gpu-small"
PER_NODE = 4
_EVERY = 5  # this one of the nodes has large GPUs, the next one small ones
SHARED = "shared-gpu"
EXTENDED = "example.com/gpu"
NIGHTLY, LATE = "nightly", "late"
NIGHTLY_SECONDS = 3


def nodes(count: int) -> list[tuple[str, Object]]:
    """(name, template): every fifth node with large GPUs, every fifth with small ones, the others with none."""
    made = []
    for i in range(count):
        pool, devices = {
            0: ("large", f"h100*{PER_NODE}:memory=80Gi"),
            1: ("small", f"a30*{PER_NODE}:memory=24Gi"),
        }.get(i % _EVERY, ("general", ""))
        annotations = {DEVICES: devices} if devices else {}
        capacity = {"cpu": "32", "memory": "256Gi", "pods": "110"}
        template = {"metadata": {"annotations": annotations}, "status": {"capacity": capacity}}
        made.append((f"{pool}-{i + 1:03d}", template))
    return made


def foundation() -> list[Object]:
    """Classes, templates, and the claim that is shared."""
    two = {"deviceClassName": LARGE, "count": 2}
    same_numa = [{"matchAttribute": f"{DRIVER}/numa"}]
    either = [{"name": "large", "deviceClassName": LARGE}, {"name": "two-small", "deviceClassName": SMALL, "count": 2}]
    return [
        _class(LARGE, "h100"),
        _class(SMALL, "a30", extendedResourceName=EXTENDED),
        _template("two-large", [{"name": "gpu", "exactly": two}], constraints=same_numa),
        _template("one-small", [{"name": "gpu", "exactly": {"deviceClassName": SMALL}}]),
        _template("either", [{"name": "gpu", "firstAvailable": either}]),
        _template("eight-large", [{"name": "gpu", "exactly": {"deviceClassName": LARGE, "count": 8}}]),
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": SHARED, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": SMALL}}]}},
        },
    ]


def _class(name: str, model: str, **spec: Any) -> Object:
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    selectors = [{"cel": {"expression": expression}}]
    metadata = {"name": name}
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": selectors, **spec},
    }


def _template(name: str, requests: list[Object], **devices: Any) -> Object:
    spec = {"spec": {"devices": {"requests": requests, **devices}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


# --- pods ----------------------------------------------------------------------------------------------------------


def workloads(node_count: int) -> list[Object]:
    """What takes all large GPUs, and most of the small ones."""
    large, small = device_counts(node_count)
    made = []
    if large:
        made.append(_job(NIGHTLY, _pods(NIGHTLY, resourceClaimTemplateName="two-large")))
        trainers = large // 2 - 1
        made.append(_deployment("trainer", trainers, _pods("trainer", resourceClaimTemplateName="two-large")))
    if small > 1:
        made += [_pod(f"notebook-{i}", _pods("notebook", resourceClaimName=SHARED)) for i in (1, 2, 3)]
        made.append(_pod("classic", _classic()))
    if small > PER_NODE:
        inference = _pods("inference", resourceClaimTemplateName="one-small")
        made.append(_deployment("inference", small // 2, inference))
    return made


def latecomers(node_count: int) -> list[Object]:
    """What comes once every large GPU is taken."""
    large, small = device_counts(node_count)
    made = [_pod("wants-eight", _pods("wants-eight", resourceClaimTemplateName="eight-large"))]
    if large:
        made.append(_pod(LATE, _pods(LATE, resourceClaimTemplateName="two-large")))
    if small > PER_NODE:
        made.append(_pod("flexible", _pods("flexible", resourceClaimTemplateName="either")))
    return made


def device_counts(node_count: int) -> tuple[int, int]:
    """How many large and small GPUs there are."""
    return PER_NODE * len(range(0, node_count, _EVERY)), PER_NODE * len(range(1, node_count, _EVERY))


def _pods(app: str, **source: str) -> Object:
    """A pod template with one claim."""
    resources = {"requests": {"cpu": "1", "memory": "4Gi"}, "claims": [{"name": "gpu"}]}
    container = {"name": app, "image": f"registry.example/{app}:1.0", "resources": resources}
    spec = {"schedulerName": "podium", "containers": [container], "resourceClaims": [{"name": "gpu", **source}]}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def _classic() -> Object:
    """A pod that knows nothing of claims."""
    resources = {"requests": {"cpu": "1"}, "limits": {EXTENDED: "1"}}
    container = {"name": "classic", "image": "registry.example/classic:1.0", "resources": resources}
    return {"metadata": {"labels": {"app": "classic"}}, "spec": {"schedulerName": "podium", "containers": [container]}}


def _pod(name: str, template: Object) -> Object:
    metadata = {"name": name, "namespace": "default", **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _deployment(name: str, replicas: int, template: Object) -> Object:
    spec = {"replicas": replicas, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _job(name: str, template: Object) -> Object:
    """A job whose pod runs for a few seconds, and gives its devices back."""
    metadata = {**template["metadata"], "annotations": {"podium.io/run-seconds": str(NIGHTLY_SECONDS)}}
    spec = {**template["spec"], "restartPolicy": "Never"}
    body = {"template": {"metadata": metadata, "spec": spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": body,
    }
