"""What a Deployment says of itself: counts, and the conditions Available and Progressing. Pure functions."""

from typing import Any

from simulator.apiserver.errors import Object
from simulator.controllers.api import seconds_of
from simulator.controllers.rolling_update import surge_and_unavailable

_DONE = "NewReplicaSetAvailable"
_LATE = "ProgressDeadlineExceeded"


def deployment_status(
    deployment: Object, known: Object, sets: list[Object], new: Object | None, now: str
) -> dict[str, Any]:
    """The status after what its ReplicaSets say; `known` is the status until now."""
    ready = _total(sets, "readyReplicas")
    available = _total(sets, "availableReplicas")
    wanted = sum(one["spec"]["replicas"] for one in sets)
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": _total(sets, "replicas"),
        "updatedReplicas": _total([new] if new else [], "replicas"),
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
    }
    status = {key: value for key, value in counts.items() if value or key == "observedGeneration"}
    conditions = {condition["type"]: condition for condition in known.get("conditions") or ()}
    _set(conditions, _available_condition(deployment, available), now)
    _set_progressing(conditions, deployment, known, counts, new, now)
    _set_failure(conditions, sets, now)
    return {**status, "conditions": list(conditions.values())}


def is_complete(deployment: Object, sets: list[Object], new: Object | None) -> bool:
    """Whether all pods are new, up, and as many as wanted."""
    if new is None:
        return False
    wanted = deployment["spec"]["replicas"]
    counts = _total([new], "replicas"), _total(sets, "replicas"), _total(sets, "availableReplicas")
    return counts == (wanted, wanted, wanted)


def _total(sets: list[Object], field: str) -> int:
    return sum((one.get("status") or {}).get(field) or 0 for one in sets)


def _available_condition(deployment: Object, available: int) -> Object:
    minimum = deployment["spec"]["replicas"] - surge_and_unavailable(deployment)[1]
    if available >= minimum:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    reason = "MinimumReplicasUnavailable"
    return _condition("Available", "False", reason, "Deployment does not have minimum availability.")


def _set_progressing(
    conditions: dict[str, Object], deployment: Object, known: Object, counts: Object, new: Object | None, now: str
) -> None:
    name = new["metadata"]["name"] if new else deployment["metadata"]["name"]
    wanted = deployment["spec"]["replicas"]
    before = conditions.get("Progressing")
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted and new is not None:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        _set(conditions, _condition("Progressing", "True", _DONE, text), now)
    elif before is None and new is not None:
        text = f'Created new replica set "{name}"'
        _set(conditions, _condition("Progressing", "True", "NewReplicaSetCreated", text), now)
    elif _progressed(known, counts):
        text = f'ReplicaSet "{name}" is progressing.'
        _set(conditions, _condition("Progressing", "True", "ReplicaSetUpdated", text), now, touch=True)
    elif before is not None and _timed_out(deployment, before, now):
        text = f'ReplicaSet "{name}" has timed out progressing.'
        _set(conditions, _condition("Progressing", "False", _LATE, text), now)


def _progressed(known: Object, counts: Object) -> bool:
    """Something moved: more new ones, fewer old ones, more that are up."""

    def old_pods(status: Object) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    return (
        counts["updatedReplicas"] > known.get("updatedReplicas", 0)
        or old_pods(counts) < old_pods(known)
        or counts["readyReplicas"] > known.get("readyReplicas", 0)
        or counts["availableReplicas"] > known.get("availableReplicas", 0)
    )


def _timed_out(deployment: Object, progressing: Object, now: str) -> bool:
    deadline = deployment["spec"].get("progressDeadlineSeconds", 600)
    if progressing["reason"] == _DONE:
        return False
    return bool(seconds_of(now) > seconds_of(progressing["lastUpdateTime"]) + deadline)


def _set_failure(conditions: dict[str, Object], sets: list[Object], now: str) -> None:
    for one in sets:
        for condition in (one.get("status") or {}).get("conditions") or ():
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
                failure = _condition("ReplicaFailure", "True", condition["reason"], condition["message"])
                _set(conditions, failure, now)
                return
    conditions.pop("ReplicaFailure", None)


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _set(conditions: dict[str, Object], condition: Object, now: str, *, touch: bool = False) -> None:
    """Set a condition; the time of its transition stays while its status does."""
    before = conditions.get(condition["type"])
    if before and before["status"] == condition["status"] and before["reason"] == condition["reason"] and not touch:
        return
    same = before is not None and before["status"] == condition["status"]
    moved = before["lastTransitionTime"] if same and before else now
    conditions[condition["type"]] = {**condition, "lastUpdateTime": now, "lastTransitionTime": moved}
