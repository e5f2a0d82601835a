"""What may not change: immutable fields of all kinds, and what a status may not become.

Pure functions, as in `validation.py`, which judges an object by itself.
"""

from typing import Any

from simulator.apiserver.device_rules import claim_status_causes
from simulator.apiserver.errors import Cause, Object, forbidden_field, invalid_value
from simulator.apiserver.resources import Resource

_POD_UPDATE_WHY = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_IMMUTABLE = "field is immutable"


def validate_update(resource: Resource, obj: Object, old: Object) -> list[Cause]:
    """Give what may not change from `old` to `obj`; both are complete objects of the same name."""
    if resource.kind == "Pod" and not resource.group:
        return _pod_update(obj["spec"], old["spec"])
    if resource.kind == "PriorityClass":
        changed = [key for key in ("value", "preemptionPolicy") if obj.get(key) != old.get(key)]
        return [forbidden_field(key, "may not be changed in an update.") for key in changed]
    frozen = _IMMUTABLE_FIELDS.get((resource.group, resource.kind), ())
    moved = [path for path in frozen if _at(obj, path) != _at(old, path)]
    return [invalid_value(".".join(path), _at(obj, path), _IMMUTABLE) for path in moved]


def validate_status(resource: Resource, obj: Object, old: Object) -> list[Cause]:
    """Give what a status may not become."""
    if (resource.group, resource.kind) == ("resource.k8s.io", "ResourceClaim"):
        return claim_status_causes(obj, old)
    return []


_IMMUTABLE_FIELDS: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("apps", "ReplicaSet"): (("spec", "selector"),),
    ("apps", "Deployment"): (("spec", "selector"),),
    ("apps", "DaemonSet"): (("spec", "selector"),),
    ("apps", "StatefulSet"): (("spec", "selector"), ("spec", "serviceName"), ("spec", "podManagementPolicy")),
    ("batch", "Job"): (("spec", "selector"), ("spec", "completions")),
    ("resource.k8s.io", "ResourceClaim"): (("spec",),),
    ("resource.k8s.io", "ResourceClaimTemplate"): (("spec",),),
    ("resource.k8s.io", "ResourceSlice"): (("spec", "driver"), ("spec", "nodeName"), ("spec", "pool", "name")),
    ("storage.k8s.io", "StorageClass"): (("provisioner",), ("parameters",), ("reclaimPolicy",), ("volumeBindingMode",)),
}


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for step in path:
        value = (value or {}).get(step)
    return value


def _pod_update(spec: Object, old: Object) -> list[Cause]:
    causes: list[Cause] = []
    kept = [_without_seconds(toleration) for toleration in spec.get("tolerations") or ()]
    if any(_without_seconds(toleration) not in kept for toleration in old.get("tolerations") or ()):
        why = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(forbidden_field("spec.tolerations", why))
    gates, old_gates = spec.get("schedulingGates") or [], old.get("schedulingGates") or []
    if any(gate not in old_gates for gate in gates):
        causes.append(
            forbidden_field("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates")
        )
    if _frozen_part(spec, gated=bool(old_gates)) != _frozen_part(old, gated=bool(old_gates)):
        causes.append(forbidden_field("spec", _POD_UPDATE_WHY))
    return causes


def _without_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _frozen_part(spec: Object, gated: bool) -> Object:
    """Give what of a pod's spec may not change; a gated pod may still narrow where it can go."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds"}
    if gated:
        free |= {"nodeSelector", "affinity"}
    part = {key: value for key, value in spec.items() if key not in free and value not in (None, [], {})}
    for key in ("initContainers", "containers"):
        if key in part:
            part[key] = [{**container, "image": ""} for container in part[key]]
    # Ephemeral containers come through a subresource of their own.
    part.pop("ephemeralContainers", None)
    return part
