"""The demo's cluster and workload: services with replicas as a team would run them, and a few pods that cannot fit.

Plain API objects as an API server takes them. Called by `podium demo` only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

ZONES = ("zone-a", "zone-b", "zone-c")
GPU_TAINT = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}


def priority_classes() -> list[Object]:
    """Three levels, batch lowest."""
    levels = (("batch", -100, False), ("standard", 1000, True), ("critical", 100000, False))
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": default,
        }
        for name, value, default in levels
    ]


def nodes(count: int) -> list[tuple[str, Object]]:
    """(name, template) of general nodes in three zones, every tenth with GPUs and a taint, every fifth an edge node."""
    made = []
    for i in range(count):
        labels = {"topology.kubernetes.io/zone": ZONES[i % 3], "topology.kubernetes.io/region": "region-1"}
        spec: Object = {}
        capacity = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "200Gi"}
        if i % 10 == 9:
            labels["pool"] = "gpu"
            capacity |= {"example.com/gpu": "8", "cpu": "32", "memory": "256Gi"}
            spec["taints"] = [GPU_TAINT]
        elif i % 5 == 0:
            labels["pool"] = "edge"
        else:
            labels["pool"] = "general"
        template = {"metadata": {"labels": labels}, "spec": spec, "status": {"capacity": capacity}}
        made.append((f"{labels['pool']}-{i + 1:03d}", template))
    return made


def _pod(name: str, app: str, cpu: str, memory: str, **spec: Any) -> Object:
    labels = {"app": app, **spec.pop("labels", {})}
    container: Object = {"name": app, "image": f"registry.example/{app}:1.0"}
    extra = spec.pop("extra", {})
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory, **extra}, "limits": dict(extra)}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"schedulerName": "podium", "containers": [container], **spec},
    }


def _spread(app: str, key: str, when: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _anti(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _near(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "topology.kubernetes.io/zone"}
    preferred = {"weight": 50, "podAffinityTerm": term}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}


def _prefer_pool(pool: str) -> Object:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": term}]}}


def services() -> list[Object]:
    """Services of the applications, for default spreading."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
        }
        for app in ("web", "api", "worker")
    ]


def _of_kind(kind: str, i: int, rng: random.Random) -> Object:
    """One replica of an application."""
    if kind == "web":
        spread = [_spread("web", "topology.kubernetes.io/zone", "ScheduleAnyway")]
        return _pod(f"web-{i}", "web", "250m", "256Mi", topologySpreadConstraints=spread)
    if kind == "api":
        spread = [_spread("api", "topology.kubernetes.io/zone", "DoNotSchedule")]
        return _pod(f"api-{i}", "api", "500m", "1Gi", topologySpreadConstraints=spread, affinity=_near("cache"))
    if kind == "cache":
        return _pod(f"cache-{i}", "cache", "500m", "4Gi", affinity=_anti("cache"), priorityClassName="critical")
    if kind == "edge":
        ports = [{"containerPort": 8080, "hostPort": 80}, {"containerPort": 8443, "hostPort": 443}]
        return _pod(f"edge-{i}", "edge", "200m", "256Mi", ports=ports, nodeSelector={"pool": "edge"},
                    priorityClassName="critical")  # fmt: skip
    if kind == "trainer":
        tolerations = [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        return _pod(f"trainer-{i}", "trainer", "4", "16Gi", extra={"example.com/gpu": "2"}, tolerations=tolerations)
    if kind == "worker":
        return _pod(
            f"worker-{i}", "worker", f"{rng.choice((100, 200, 400))}m", "512Mi", affinity=_prefer_pool("general")
        )
    return _pod(f"batch-{i}", "batch", f"{rng.choice((250, 500, 1000))}m", f"{rng.choice((512, 1024, 2048))}Mi",
                priorityClassName="batch")  # fmt: skip


#: share of each application in the workload
_MIX = (("web", 30), ("api", 20), ("worker", 22), ("batch", 28))


def misfits() -> list[Object]:
    """Pods that fit nowhere, each for a reason of its own."""
    return [
        _pod("needs-2ti", "analytics", "2", "2Ti"),
        _pod("needs-zone-d", "legacy", "100m", "128Mi", nodeSelector={"topology.kubernetes.io/zone": "zone-d"}),
        _pod("needs-gpu-untolerated", "notebook", "1", "4Gi", extra={"example.com/gpu": "1"}),
        _pod("needs-approval", "release", "100m", "128Mi", schedulingGates=[{"name": "example.com/approval"}]),
    ]


def pods(count: int, node_count: int, seed: int) -> Iterator[Object]:
    """About `count` pods: what each node count has room for of the special ones, the rest by the mix, and misfits."""
    rng = random.Random(seed)
    special = [("cache", max(1, node_count // 3)), ("edge", node_count // 5), ("trainer", node_count // 10 * 3)]
    left = count - len(misfits())
    for kind, replicas in special:
        for i in range(min(replicas, max(0, left))):
            yield _of_kind(kind, i, rng)
            left -= 1
    kinds, weights = zip(*_MIX, strict=True)
    counters = dict.fromkeys(kinds, 0)
    for kind in rng.choices(kinds, weights, k=max(0, left)):
        yield _of_kind(kind, counters[kind], rng)
        counters[kind] += 1
    yield from misfits()
