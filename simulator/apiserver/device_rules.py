"""The rules of resource.k8s.io: defaults, what is refused, and what a claim's status may become.

The rules a scheduler and its drivers rely on, not all of the real server's: the shape of requests, sizes, selectors
that compile, one node selection a slice, an allocation that never changes while it stands, and no user of a claim that
is not allocated. Pure functions; `defaults.py`, `validation.py` and `admission.py` call them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from kube.api.cel import NOT_INSTALLED, selector
from simulator.apiserver.errors import Cause, Object, duplicate, forbidden_field, invalid_value, required, unsupported

ADMIN_LABEL = "resource.kubernetes.io/admin-access"
EXACT_COUNT = "ExactCount"
_MODES = ("All", EXACT_COUNT)
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_NODE_SELECTIONS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME_WHY = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
MOST_DEVICES, MOST_SPECIAL_DEVICES, MOST_ATTRIBUTES = 128, 64, 32
MOST_REQUESTS, MOST_ALTERNATIVES, MOST_SELECTORS, MOST_USERS = 32, 8, 32, 256
MOST_TOLERATIONS, MOST_TAINTS, MOST_CONDITIONS = 16, 16, 4
MOST_COUNTER_SETS, MOST_COUNTERS, MOST_SETS_USED = 8, 32, 2
LONGEST_EXPRESSION, LONGEST_DRIVER = 10 * 1024, 63


#: the lists of a device and how long they may be
_DEVICE_LISTS = {
    "taints": MOST_TAINTS,
    "consumesCounters": MOST_SETS_USED,
    "bindingConditions": MOST_CONDITIONS,
    "bindingFailureConditions": MOST_CONDITIONS,
}


# --- defaults ------------------------------------------------------------------------------------------------------


def claim_defaults(claim: Object) -> None:
    """Fill in a ResourceClaim."""
    _spec_defaults(claim.setdefault("spec", {}))


def template_defaults(template: Object) -> None:
    """Fill in a ResourceClaimTemplate."""
    _spec_defaults(template.setdefault("spec", {}).setdefault("spec", {}))


def _spec_defaults(spec: Object) -> None:
    for _, request in _bodies((spec.get("devices") or {}).get("requests"), ""):
        request["allocationMode"] = request.get("allocationMode") or EXACT_COUNT
        if request["allocationMode"] == EXACT_COUNT and not request.get("count"):
            request["count"] = 1
        for toleration in request.get("tolerations") or ():
            toleration["operator"] = toleration.get("operator") or "Equal"


def _bodies(requests: Any, path: str) -> Iterator[tuple[str, Object]]:
    """Go through what asks for devices: each request itself, or its alternatives, with their paths."""
    for i, request in enumerate(requests or ()):
        if isinstance(request.get("exactly"), dict):
            yield f"{path}[{i}].exactly", request["exactly"]
        for j, alternative in enumerate(request.get("firstAvailable") or ()):
            yield f"{path}[{i}].firstAvailable[{j}]", alternative


# --- claims --------------------------------------------------------------------------------------------------------


def claim_causes(claim: Object) -> list[Cause]:
    """Give what is wrong with a ResourceClaim."""
    return _devices(claim["spec"].get("devices") or {}, "spec.devices")


def template_causes(template: Object) -> list[Cause]:
    """Give what is wrong with a ResourceClaimTemplate."""
    return _devices(template["spec"]["spec"].get("devices") or {}, "spec.spec.devices")


def _devices(devices: Object, path: str) -> list[Cause]:
    requests = devices.get("requests") or []
    causes = _too_many(requests, MOST_REQUESTS, f"{path}.requests") + _names(requests, f"{path}.requests")
    for i, request in enumerate(requests):
        causes += _request(request, f"{path}.requests[{i}]")
    for where, body in _bodies(requests, f"{path}.requests"):
        causes += _body(body, where)
    known = {request.get("name") for request in requests}
    known |= {f"{request.get('name')}/{one.get('name')}" for request in requests for one in _alternatives(request)}
    for key in ("constraints", "config"):
        causes += _too_many(devices.get(key) or [], MOST_REQUESTS, f"{path}.{key}")
    for i, constraint in enumerate(devices.get("constraints") or ()):
        causes += _constraint(constraint, known, f"{path}.constraints[{i}]")
    return causes


def _alternatives(request: Object) -> list[Object]:
    return request.get("firstAvailable") or []


def _request(request: Object, path: str) -> list[Cause]:
    both = bool(request.get("exactly")), bool(_alternatives(request))
    if both == (True, True):
        return [invalid_value(path, request, "exactly one of `exactly` or `firstAvailable` is required")]
    if both == (False, False):
        return [required(path, "exactly one of `exactly` or `firstAvailable` is required")]
    alternatives, where = _alternatives(request), f"{path}.firstAvailable"
    return _too_many(alternatives, MOST_ALTERNATIVES, where) + _names(alternatives, where)


def _body(body: Object, path: str) -> list[Cause]:
    causes = [] if body.get("deviceClassName") else [required(f"{path}.deviceClassName")]
    mode, count = body.get("allocationMode"), body.get("count") or 0
    if mode not in _MODES:
        causes.append(unsupported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        causes.append(invalid_value(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == EXACT_COUNT and count <= 0:
        causes.append(invalid_value(f"{path}.count", count, "must be greater than zero"))
    causes += _too_many(body.get("tolerations") or [], MOST_TOLERATIONS, f"{path}.tolerations")
    return causes + selector_causes(body.get("selectors") or [], f"{path}.selectors")


def _constraint(constraint: Object, known: set[Any], path: str) -> list[Cause]:
    causes = []
    for i, name in enumerate(constraint.get("requests") or ()):
        if name not in known:
            why = (
                "must be the name of a request in the claim, or that of a request and a subrequest with a slash between"
            )
            causes.append(invalid_value(f"{path}.requests[{i}]", name, why))
    if not constraint.get("matchAttribute") and not constraint.get("distinctAttribute"):
        causes.append(required(f"{path}.matchAttribute"))
    return causes


def selector_causes(selectors: list[Object], path: str) -> list[Cause]:
    """Give what is wrong with the selectors of a request or a class; CEL is compiled where its library is there."""
    causes = _too_many(selectors, MOST_SELECTORS, path)
    for i, one in enumerate(selectors):
        expression = (one.get("cel") or {}).get("expression")
        if not expression:
            causes.append(required(f"{path}[{i}].cel.expression"))
        elif len(expression) > LONGEST_EXPRESSION:
            why = f"Too long: may not be more than {LONGEST_EXPRESSION} bytes"
            causes.append(Cause("FieldValueTooLong", why, f"{path}[{i}].cel.expression"))
        elif (problem := selector(expression).compile_error) and problem != NOT_INSTALLED:
            causes.append(invalid_value(f"{path}[{i}].cel.expression", expression, problem))
    return causes


def class_causes(device_class: Object) -> list[Cause]:
    """Give what is wrong with a DeviceClass."""
    return selector_causes((device_class.get("spec") or {}).get("selectors") or [], "spec.selectors")


def wants_admin_access(spec: Object) -> bool:
    """Whether a claim's spec asks for devices that others use."""
    return any(body.get("adminAccess") for _, body in _bodies((spec.get("devices") or {}).get("requests"), ""))


# --- the status of a claim -----------------------------------------------------------------------------------------


def claim_status_causes(claim: Object, old: Object) -> list[Cause]:
    """Give what may not become of a claim's status."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    allocation, users = status.get("allocation"), status.get("reservedFor") or []
    causes: list[Cause] = []
    if allocation and before.get("allocation") and _lasting(allocation) != _lasting(before["allocation"]):
        causes.append(invalid_value("status.allocation", allocation, "field is immutable"))
    if users and not allocation:
        causes.append(forbidden_field("status.reservedFor", "may not be specified when `allocated` is not set"))
    known = {user.get("uid") for user in before.get("reservedFor") or ()}
    if "deletionTimestamp" in old["metadata"] and any(user.get("uid") not in known for user in users):
        why = "new reservations must not be added while `deallocationRequested` or `deletionTimestamp` are set"
        causes.append(forbidden_field("status.reservedFor", why))
    causes += _too_many(users, MOST_USERS, "status.reservedFor")
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    causes += _too_many(results, MOST_REQUESTS, "status.allocation.devices.results")
    causes += _repeated([user.get("uid") for user in users], "status.reservedFor", ".uid")
    return causes + _reported(status.get("devices") or [], allocation)


def _lasting(allocation: Object) -> Object:
    """An allocation from before there were timestamps may get one."""
    return {key: value for key, value in allocation.items() if key != "allocationTimestamp"}


def _reported(devices: list[Object], allocation: Object | None) -> list[Cause]:
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    given = {(one.get("driver"), one.get("pool"), one.get("device")) for one in results}
    return [
        invalid_value(f"status.devices[{i}]", one.get("device"), "must be an allocated device in the claim")
        for i, one in enumerate(devices)
        if (one.get("driver"), one.get("pool"), one.get("device")) not in given
    ]


# --- slices --------------------------------------------------------------------------------------------------------


def slice_causes(resource_slice: Object) -> list[Cause]:
    """Give what is wrong with a ResourceSlice."""
    spec = resource_slice.get("spec") or {}
    causes = [required(f"spec.{key}") for key in ("driver",) if not spec.get(key)]
    if len(spec.get("driver") or "") > LONGEST_DRIVER:
        causes.append(
            Cause("FieldValueTooLong", f"Too long: may not be more than {LONGEST_DRIVER} bytes", "spec.driver")
        )
    pool = spec.get("pool") or {}
    if not pool.get("name"):
        causes.append(required("spec.pool.name"))
    if (pool.get("resourceSliceCount") or 0) <= 0:
        count = pool.get("resourceSliceCount") or 0
        causes.append(invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    chosen = [key for key in _NODE_SELECTIONS if spec.get(key)]
    why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not chosen:
        causes.append(required("spec", why))
    elif len(chosen) > 1:
        causes.append(invalid_value("spec", "{" + ", ".join(chosen) + "}", why))
    if spec.get("devices") and spec.get("sharedCounters"):
        causes.append(invalid_value("spec", spec, "only one of `sharedCounters` or `devices` is allowed"))
    sets = spec.get("sharedCounters") or []
    causes += _too_many(sets, MOST_COUNTER_SETS, "spec.sharedCounters") + _names(sets, "spec.sharedCounters")
    for i, one in enumerate(sets):
        causes += _too_many([*(one.get("counters") or ())], MOST_COUNTERS, f"spec.sharedCounters[{i}].counters")
    return causes + _slice_devices(spec.get("devices") or [])


def _slice_devices(devices: list[Object]) -> list[Cause]:
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    causes = _too_many(devices, MOST_SPECIAL_DEVICES if special else MOST_DEVICES, "spec.devices")
    causes += _names(devices, "spec.devices")
    for i, device in enumerate(devices):
        path = f"spec.devices[{i}]"
        count = len(device.get("attributes") or ()) + len(device.get("capacity") or ())
        if count > MOST_ATTRIBUTES:
            why = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
            causes.append(invalid_value(path, count, why))
        for key, most in _DEVICE_LISTS.items():
            causes += _too_many(device.get(key) or [], most, f"{path}.{key}")
        for j, taint in enumerate(device.get("taints") or ()):
            if taint.get("effect") not in _EFFECTS:
                causes.append(unsupported(f"{path}.taints[{j}].effect", taint.get("effect"), _EFFECTS))
    return causes


# --- pods ----------------------------------------------------------------------------------------------------------


def pod_claim_causes(spec: Object, path: str) -> list[Cause]:
    """Give what is wrong with the claims of a pod or a template, and with what its containers use of them."""
    uses = spec.get("resourceClaims") or []
    causes = _names(uses, f"{path}.resourceClaims")
    for i, use in enumerate(uses):
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if use.get(key)]
        if len(given) != 1:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            where = f"{path}.resourceClaims[{i}]"
            causes.append(invalid_value(where, use.get("name"), why) if given else required(where, why))
    known = {use.get("name") for use in uses}
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            used = ((container.get("resources") or {}).get("claims") or []) if isinstance(container, dict) else []
            where = f"{path}.{kind}[{i}].resources.claims"
            causes += [
                Cause("FieldValueNotFound", f'Not found: "{one.get("name")}"', f"{where}[{j}].name")
                for j, one in enumerate(used)
                if one.get("name") not in known
            ]
    return causes


# --- what they share -----------------------------------------------------------------------------------------------


def _too_many(items: list[Any], most: int, path: str) -> list[Cause]:
    if len(items) <= most:
        return []
    return [Cause("FieldValueTooMany", f"Too many: {len(items)}: must have at most {most} items", path)]


def _names(items: list[Object], path: str) -> list[Cause]:
    causes = []
    for i, item in enumerate(items):
        name = item.get("name")
        if not name:
            causes.append(required(f"{path}[{i}].name"))
        elif not _NAME.fullmatch(name):
            causes.append(invalid_value(f"{path}[{i}].name", name, _NAME_WHY))
    return causes + _repeated([item.get("name") for item in items], path, ".name")


def _repeated(values: Iterable[Any], path: str, key: str) -> list[Cause]:
    seen: set[Any] = set()
    causes = []
    for i, value in enumerate(values):
        if value and value in seen:
            causes.append(duplicate(f"{path}[{i}]{key}", value))
        seen.add(value)
    return causes
