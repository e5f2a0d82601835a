"""What the API server is told of a pod: phase, conditions and containers, from its spec and its sandbox.

Pure functions, by the kubelet's rules. Conditions that are not the kubelet's (PodScheduled, readiness gates,
DisruptionTarget) are kept as they are; a transition time stays while its status does.
"""

from typing import Any

from simulator.apiserver.errors import Object
from simulator.kubelet.runtime import Container, Sandbox

_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
FINISHED = ("Succeeded", "Failed")


def phase_of(spec: Object, box: Sandbox | None, *, terminating: bool = False) -> str:
    """Pending until all containers have started; Succeeded or Failed once none will run again."""
    if box is None or not box.up:
        return "Failed" if terminating else "Pending"
    if any(container.running or container.waiting for container in box.containers):
        return "Running"
    policy = spec.get("restartPolicy", "Always")
    failed = any(container.exit_code for container in box.containers)
    if not terminating and (policy == "Always" or (policy == "OnFailure" and failed)):
        return "Running"
    return "Failed" if failed else "Succeeded"


def pod_status(pod: Object, box: Sandbox | None, host: str, now: str, *, terminating: bool = False) -> Object:
    """The whole status."""
    known: Object = pod.get("status") or {}
    spec = pod["spec"]
    phase = phase_of(spec, box, terminating=terminating)
    containers = box.containers if box is not None else []
    address = (host if spec.get("hostNetwork") else box.address) if box is not None and box.up else ""
    status: dict[str, Any] = {
        **known,
        "phase": phase,
        "observedGeneration": pod["metadata"].get("generation", 0),
        "conditions": _conditions(pod, known, containers, phase, now),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": known.get("startTime") or now,
        "containerStatuses": [_container_status(container) for container in containers],
    }
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if spec.get("initContainers"):
        done = box is not None and box.up
        status["initContainerStatuses"] = [_init_status(c, status["startTime"], done) for c in spec["initContainers"]]
    return status


def rejected(pod: Object, reason: str, message: str, now: str) -> Object:
    """The status of a pod that the kubelet refuses."""
    known: Object = pod.get("status") or {}
    text = f"Pod was rejected: {message}"
    return {**known, "phase": "Failed", "reason": reason, "message": text, "startTime": now}


def overdue(status: Object) -> Object:
    """The status of a pod that has run for longer than it may."""
    why = "Pod was active on the node longer than the specified deadline"
    return {**status, "phase": "Failed", "reason": "DeadlineExceeded", "message": why}


def _conditions(pod: Object, known: Object, containers: list[Container], phase: str, now: str) -> list[Object]:
    before = {condition["type"]: condition for condition in known.get("conditions") or ()}
    kept = [condition for kind, condition in before.items() if kind not in _OURS]
    up = bool(containers) and not any(container.waiting == "ContainerCreating" for container in containers)
    unready = [container.name for container in containers if not container.running]
    containers_ready = up and not unready and phase == "Running"
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if (before.get(gate) or {}).get("status") != "True"]
    reasons: dict[str, tuple[str, str]] = {}
    if not containers_ready:
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed" if phase == "Failed" else "ContainersNotReady"
        text = f"containers with unready status: [{' '.join(unready)}]" if phase not in FINISHED else ""
        reasons = {"Ready": (reason, text), "ContainersReady": (reason, text)}
    elif closed:
        text = f'the status of pod readiness gate "{closed[0]}" is not "True", but False'
        reasons = {"Ready": ("ReadinessGatesNotReady", text)}
    values = {
        "PodReadyToStartContainers": up and phase not in FINISHED,
        "Initialized": up or phase in FINISHED,
        "Ready": containers_ready and not closed,
        "ContainersReady": containers_ready,
    }
    made = [_condition(kind, values[kind], reasons.get(kind), before.get(kind), now) for kind in _OURS]
    return made + kept


def _condition(kind: str, value: bool, why: tuple[str, str] | None, before: Object | None, now: str) -> Object:
    status = "True" if value else "False"
    moved = before["lastTransitionTime"] if before and before["status"] == status else now
    condition = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": moved}
    if why is not None and not value:
        condition |= {key: text for key, text in zip(("reason", "message"), why, strict=True) if text}
    return condition


def _container_status(container: Container) -> Object:
    return {
        "name": container.name,
        "state": container.state(),
        "lastState": container.last or {},
        "ready": container.running,
        "restartCount": container.restarts,
        "image": container.image,
        "imageID": "",
        "started": container.running,
    }


def _init_status(container: Object, at: str, done: bool) -> Object:
    """Init containers take no time here: they have been, or will be."""
    end = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
    return {
        "name": container["name"],
        "state": {"terminated": end} if done else {"waiting": {"reason": "PodInitializing"}},
        "lastState": {},
        "ready": done,
        "restartCount": 0,
        "image": container.get("image", ""),
        "imageID": "",
    }
