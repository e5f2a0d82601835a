"""Pod groups for end-to-end tests: small objects in one line, stored as they are, and what podium makes of them."""

from __future__ import annotations

from typing import Any

from config.feature_gates import parse
from config.load import loads
from plugins.registry import Registry
from podium.configuration import Effective
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node
from tests.podium.harness import Object

GANGS = "GenericWorkload=true,GangScheduling=true"
TOPOLOGY = f"{GANGS},TopologyAwareWorkloadScheduling=true"
GROUP_PREEMPTION = f"{GANGS},WorkloadAwarePreemption=true"
#: longer than the longest backoff of a group: it has been tried again since
SETTLED = 15.0
RACK = "example.com/rack"


def effective(gates: str = GANGS, profiles: str = "[{schedulerName: podium}]", **more: str) -> Effective:
    """A configuration with these gates; `profiles` and further fields in YAML."""
    found, _ = parse(gates)
    fields = "".join(f"{key}: {value}\n" for key, value in more.items())
    text = (
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: {profiles}\n{fields}"
    )
    return Effective(loads(text, gates=found).configuration, found.as_dict(), Registry())


def group(name: str = "g", *, min_count: int = 0, topology: str = "", **spec: Any) -> Object:
    """A native PodGroup: a gang, or a basic one without a count."""
    policy: Object = {"gang": {"minCount": min_count}} if min_count else {"basic": {}}
    constraints = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}"},
        "spec": {"schedulingPolicy": policy, **constraints, **spec},
    }


def pod(
    name: str, cpu: str = "1", *, of: str = "", priority: int = 0, scheduler: str = "podium", **spec: Any
) -> Object:
    """A pod of that size, member of a group where one is named."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    member = {"schedulingGroup": {"podGroupName": of}} if of else {}
    running = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"} if "nodeName" in spec else {"phase": "Pending"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"},
        "spec": {
            "schedulerName": scheduler,
            "priority": priority,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **member,
            **spec,
        },
        "status": running,
    }


def rack(name: str, value: str, cpu: str = "4") -> Object:
    """A node in a rack."""
    made = node(name, cpu=cpu)
    made["metadata"]["labels"][RACK] = value
    return made


def store(server: ApiServer, *objects: Object) -> None:
    """Put these objects into the cluster, identity and status included."""
    for obj in objects:
        server.restore(obj)


def places(server: ApiServer) -> dict[str, str]:
    """Where each pod is, "" for nowhere; pods that are gone are left out."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in server.list("pods")}


def said(server: ApiServer, name: str) -> str:
    """What a waiting pod's condition says, "" for one that was not tried."""
    conditions = server.get("pods", name).get("status", {}).get("conditions", [])
    return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")


def group_condition(server: ApiServer, name: str = "g") -> tuple[str, str, str]:
    """Status, reason and message of a group's condition."""
    conditions = server.get("podgroups.scheduling.k8s.io", name).get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"], c.get("message", "")) for c in conditions), ("", "", ""))
