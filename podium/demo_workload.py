"""The demo's cluster and workload: services with replicas as a team would run them, and a few pods that cannot fit.

Plain API objects as an API server takes them: Deployments, a StatefulSet and single pods; the embedded cluster's
controllers make pods of them. Called by `podium demo` only.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

ZONES = ("zone-a", "zone-b", "zone-c")
ZONE = "topology.kubernetes.io/zone"
GPU = "example.com/gpu"
GPU_TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
STORAGE_CLASS = "zonal-ssd"
#: the application whose replicas are counted by zone at the end, and the one whose volumes wait for it
SPREAD_APP = "api"
STATEFUL_APP = "db"
URGENT = "urgent-training"
_DB_REPLICAS = 3
_TRAINERS, _NOTEBOOKS = 3, 2  # of two GPUs and of one, on each node with eight: all are taken


def foundation() -> list[Object]:
    """What must be there before the pods: priorities, a storage class, services for default spreading."""
    return [*_priority_classes(), _storage_class(), *_services()]


def _priority_classes() -> list[Object]:
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


def _storage_class() -> Object:
    """Volumes of one zone, made once it is known where their pod goes."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "hollow.podium.io",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _services() -> list[Object]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
        }
        for app in ("web", "api", "worker")
    ]


def nodes(count: int) -> list[tuple[str, Object]]:
    """(name, template) of general nodes in three zones, every tenth with GPUs and a taint, every fifth an edge node."""
    made = []
    for i in range(count):
        labels = {ZONE: ZONES[i % 3], "topology.kubernetes.io/region": "region-1"}
        spec: Object = {}
        capacity = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "200Gi"}
        if i % 10 == 9:
            labels["pool"] = "gpu"
            capacity |= {GPU: "8", "cpu": "32", "memory": "256Gi"}
            spec["taints"] = [GPU_TAINT]
        elif i % 5 == 0:
            labels["pool"] = "edge"
        else:
            labels["pool"] = "general"
        template = {"metadata": {"labels": labels}, "spec": spec, "status": {"capacity": capacity}}
        made.append((f"{labels['pool']}-{i + 1:03d}", template))
    return made


# --- parts of pods -------------------------------------------------------------------------------------------------


def _template(app: str, cpu: str, memory: str, **spec: Any) -> Object:
    """A pod template; `extra` are further resources, `ports` and `mounts` the container's."""
    extra = spec.pop("extra", {})
    container: Object = {"name": app, "image": f"registry.example/{app}:1.0"}
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory, **extra}, "limits": dict(extra)}
    for field, name in (("ports", "ports"), ("mounts", "volumeMounts")):
        if field in spec:
            container[name] = spec.pop(field)
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"schedulerName": "podium", "containers": [container], **spec},
    }


def _spread(app: str, when: str) -> list[Object]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]


def _anti(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _near(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    preferred = {"weight": 50, "podAffinityTerm": term}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}


def _prefer_pool(pool: str) -> Object:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": term}]}}


def _with_gpus(count: int) -> Object:
    return {
        "extra": {GPU: str(count)},
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
    }


# --- workloads -----------------------------------------------------------------------------------------------------


def _deployment(name: str, replicas: int, template: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": template["metadata"]["labels"]},
            "template": template,
        },
    }


def _database() -> Object:
    """Three replicas, one a zone, each with a volume of its own that is made where the replica goes."""
    mounts = [{"name": "data", "mountPath": "/var/lib/db"}]
    spread = _spread(STATEFUL_APP, "DoNotSchedule")
    template = _template(STATEFUL_APP, "500m", "2Gi", mounts=mounts, topologySpreadConstraints=spread)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "20Gi"}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": STATEFUL_APP, "namespace": "default"},
        "spec": {
            "replicas": _DB_REPLICAS,
            "serviceName": STATEFUL_APP,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": STATEFUL_APP}},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


def _special(node_count: int) -> list[tuple[str, int, Object]]:
    """(name, replicas, template) of what each kind of node has room for."""
    ports = [{"containerPort": 8080, "hostPort": 80}, {"containerPort": 8443, "hostPort": 443}]
    cache = _template("cache", "500m", "4Gi", affinity=_anti("cache"), priorityClassName="critical")
    edge = _template("edge", "200m", "256Mi", ports=ports, nodeSelector={"pool": "edge"}, priorityClassName="critical")
    gpu_nodes = node_count // 10
    return [
        ("cache", max(1, node_count // 3), cache),
        ("edge", node_count // 5, edge),
        ("trainer", gpu_nodes * _TRAINERS, _template("trainer", "4", "16Gi", **_with_gpus(2))),
        (
            "notebook",
            gpu_nodes * _NOTEBOOKS,
            _template("notebook", "1", "4Gi", **_with_gpus(1), priorityClassName="batch"),
        ),
    ]


def _common() -> list[tuple[str, int, Object]]:
    """(name, weight, template) of what fills the rest."""
    soft, hard = _spread("web", "ScheduleAnyway"), _spread("api", "DoNotSchedule")
    return [
        ("web", 30, _template("web", "250m", "256Mi", topologySpreadConstraints=soft)),
        ("api", 20, _template("api", "500m", "1Gi", topologySpreadConstraints=hard, affinity=_near("cache"))),
        ("worker", 22, _template("worker", "200m", "512Mi", affinity=_prefer_pool("general"))),
        ("batch-small", 12, _template("batch-small", "250m", "512Mi", priorityClassName="batch")),
        ("batch-large", 16, _template("batch-large", "750m", "2Gi", priorityClassName="batch")),
    ]


def _pod(name: str, template: Object) -> Object:
    metadata = {"name": name, "namespace": "default", **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def misfits() -> list[Object]:
    """Pods that fit nowhere, each for a reason of its own."""
    return [
        _pod("needs-2ti", _template("analytics", "2", "2Ti")),
        _pod("needs-zone-d", _template("legacy", "100m", "128Mi", nodeSelector={ZONE: "zone-d"})),
        _pod("needs-gpu-untolerated", _template("untolerated", "1", "4Gi", extra={GPU: "1"})),
        _pod(
            "needs-approval", _template("release", "100m", "128Mi", schedulingGates=[{"name": "example.com/approval"}])
        ),
    ]


def workloads(pods: int, node_count: int) -> list[Object]:
    """Workloads of `pods` pods in all, where the nodes have room for the special ones; the misfits among them."""
    made: list[Object] = []
    left = max(0, pods - len(misfits()))
    if left >= _DB_REPLICAS and node_count >= len(ZONES):
        made.append(_database())
        left -= _DB_REPLICAS
    for name, room, template in _special(node_count):
        replicas = min(room, left)
        if replicas:
            made.append(_deployment(name, replicas, template))
            left -= replicas
    for (name, _, template), replicas in zip(_common(), _shares(left), strict=True):
        if replicas:
            made.append(_deployment(name, replicas, template))
    return made + misfits()


def _shares(total: int) -> list[int]:
    weights = [weight for _, weight, _ in _common()]
    shares = [total * weight // sum(weights) for weight in weights]
    shares[0] += total - sum(shares)
    return shares


def urgent(node_count: int) -> list[Object]:
    """What comes last and finds every GPU taken: it goes before what matters less. Nothing without GPU nodes."""
    if node_count < 10:
        return []
    return [_pod(URGENT, _template(URGENT, "2", "8Gi", **_with_gpus(2), priorityClassName="critical"))]
