"""What the API server refuses to store: names, quantities, required and immutable fields, each named by its path.

What decodes but breaks a rule is a 422 that lists every cause at once; what cannot be decoded at all is the business of
`shape.py`. Pure functions over complete objects; nothing is changed here.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kube.api.quantity import NANOS, nanos
from simulator.apiserver import cron
from simulator.apiserver.device_rules import (
    claim_causes,
    class_causes,
    pod_claim_causes,
    slice_causes,
    template_causes,
)
from simulator.apiserver.errors import (
    Cause,
    Object,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from simulator.apiserver.resources import Resource

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_WHY = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_WHY = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_VALUE_WHY = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_WHY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_ONE_LABEL_KINDS = frozenset({"Namespace", "Service"})
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- rules for new objects -----------------------------------------------------------------------------------------


def validate(resource: Resource, obj: Object) -> list[Cause]:
    """Give everything that is wrong with an object, its defaults already set."""
    causes = _metadata(resource, obj["metadata"])
    rules = _RULES.get((resource.group, resource.kind))
    if rules is not None:
        causes += rules(obj)
    return causes


def _metadata(resource: Resource, metadata: Object) -> list[Cause]:
    causes: list[Cause] = []
    name = metadata.get("name")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += _name(resource, name)
    for key, value in (metadata.get("labels") or {}).items():
        causes += _label("metadata.labels", key, value)
    for key in metadata.get("annotations") or ():
        if not _QUALIFIED.fullmatch(key.lower()):
            causes.append(invalid_value("metadata.annotations", key, _QUALIFIED_WHY))
    return causes


def _name(resource: Resource, name: Any) -> list[Cause]:
    one_label = resource.kind in _ONE_LABEL_KINDS
    pattern, why, longest = (_LABEL, _LABEL_WHY, 63) if one_label else (_SUBDOMAIN, _SUBDOMAIN_WHY, 253)
    if not isinstance(name, str) or not pattern.fullmatch(name):
        return [invalid_value("metadata.name", name, why)]
    if len(name) > longest:
        return [invalid_value("metadata.name", name, f"must be no more than {longest} characters")]
    return []


def _label(field: str, key: str, value: str) -> list[Cause]:
    causes = []
    if not _QUALIFIED.fullmatch(key):
        causes.append(invalid_value(field, key, _QUALIFIED_WHY))
    if len(value) > 63:
        causes.append(invalid_value(field, value, "must be no more than 63 characters"))
    elif not _LABEL_VALUE.fullmatch(value):
        causes.append(invalid_value(field, value, _LABEL_VALUE_WHY))
    return causes


def _pod(pod: Object) -> list[Cause]:
    return pod_spec(pod["spec"], "spec")


def pod_spec(spec: Object, path: str) -> list[Cause]:
    """Give what is wrong with the spec of a pod or of a template."""
    causes: list[Cause] = []
    if not _list(spec.get("containers")):
        causes.append(required(f"{path}.containers"))
    names: set[str] = set()
    for key in ("initContainers", "containers"):
        for i, container in enumerate(_list(spec.get(key))):
            causes += _container(container, f"{path}.{key}[{i}]", names)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        value = spec.get("restartPolicy")
        field = f"{path}.restartPolicy"
        causes.append(unsupported(field, value, _RESTART_POLICIES) if value else required(field))
    if spec.get("nodeName") and not _SUBDOMAIN.fullmatch(spec["nodeName"]):
        causes.append(invalid_value(f"{path}.nodeName", spec["nodeName"], _SUBDOMAIN_WHY))
    for key, value in (spec.get("nodeSelector") or {}).items():
        causes += _label(f"{path}.nodeSelector", key, str(value))
    for i, toleration in enumerate(_list(spec.get("tolerations"))):
        causes += _toleration(toleration, f"{path}.tolerations[{i}]")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        causes.append(forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    for i, constraint in enumerate(_list(spec.get("topologySpreadConstraints"))):
        causes += _spread(constraint, f"{path}.topologySpreadConstraints[{i}]")
    return causes + pod_claim_causes(spec, path)


def _container(container: Any, path: str, names: set[str]) -> list[Cause]:
    if not isinstance(container, dict):
        return [invalid_value(path, container, "a container is expected")]
    causes: list[Cause] = []
    name = container.get("name")
    if not name:
        causes.append(required(f"{path}.name"))
    elif not _LABEL.fullmatch(str(name)):
        causes.append(invalid_value(f"{path}.name", name, _LABEL_WHY))
    elif name in names:
        causes.append(duplicate(f"{path}.name", name))
    names.add(str(name))
    image = container.get("image")
    if not image:
        causes.append(required(f"{path}.image"))
    elif not isinstance(image, str):
        causes.append(invalid_value(f"{path}.image", image, "must be a string"))
    for i, port in enumerate(_list(container.get("ports"))):
        causes += _port(port, f"{path}.ports[{i}]")
    return causes + _requirements(container.get("resources") or {}, f"{path}.resources")


def _port(port: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not port.get("containerPort"):
        causes.append(required(f"{path}.containerPort"))
    for key in ("containerPort", "hostPort"):
        value = port.get(key)
        if value and not (isinstance(value, int) and 0 < value < 65536):
            causes.append(invalid_value(f"{path}.{key}", value, "must be between 1 and 65535, inclusive"))
    if port.get("protocol") not in ("TCP", "UDP", "SCTP"):
        causes.append(unsupported(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP")))
    return causes


def _requirements(resources: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    limits = resources.get("limits") or {}
    for key in ("limits", "requests"):
        for name, text in (resources.get(key) or {}).items():
            causes += [replace(cause, field=f"{path}.{key}{cause.field}") for cause in _amount(name, text)]
    for name, text in (resources.get("requests") or {}).items():
        limit = limits.get(name)
        if limit is not None and nanos(text) > nanos(limit):
            causes.append(
                invalid_value(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")
            )
        elif limit is None and _is_extended(name):
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    return causes


@lru_cache(maxsize=4096)
def _amount(name: str, text: str | int | float) -> tuple[Cause, ...]:
    """Judge one amount; the field of a cause is still to be put in front."""
    if nanos(text) < 0:
        return (invalid_value(f"[{name}]", text, "must be greater than or equal to 0"),)
    if _is_extended(name) and nanos(text) % NANOS:
        return (invalid_value(f"[{name}]", text, "must be an integer"),)
    if "/" not in name and name not in ("cpu", "memory", "ephemeral-storage") and not name.startswith("hugepages-"):
        return (invalid_value(f"[{name}]", name, "must be a standard resource for containers"),)
    return ()


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _toleration(toleration: Object, path: str) -> list[Cause]:
    operator = toleration.get("operator") or "Equal"
    causes: list[Cause] = []
    if not toleration.get("key") and operator != "Exists":
        causes.append(
            invalid_value(
                f"{path}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if operator == "Exists" and toleration.get("value"):
        causes.append(invalid_value(f"{path}.operator", toleration, "value must be empty when `operator` is 'Exists'"))
    if operator not in ("Equal", "Exists", "Lt", "Gt"):
        causes.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt")))
    if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
        causes.append(unsupported(f"{path}.effect", toleration["effect"], _EFFECTS))
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        causes.append(
            invalid_value(
                f"{path}.effect",
                toleration.get("effect", ""),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        )
    return causes


def _spread(constraint: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not isinstance(constraint.get("maxSkew"), int) or constraint["maxSkew"] <= 0:
        causes.append(invalid_value(f"{path}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
    if not constraint.get("topologyKey"):
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    choices = ("DoNotSchedule", "ScheduleAnyway")
    if constraint.get("whenUnsatisfiable") not in choices:
        causes.append(unsupported(f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable", ""), choices))
    return causes


def _node(node: Object) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[Any, Any]] = set()
    for i, taint in enumerate(_list((node.get("spec") or {}).get("taints"))):
        field = f"spec.taints[{i}]"
        if not taint.get("key"):
            causes.append(required(f"{field}.key"))
        if taint.get("effect") not in _EFFECTS:
            causes.append(unsupported(f"{field}.effect", taint.get("effect", ""), _EFFECTS))
        if (taint.get("key"), taint.get("effect")) in seen:
            causes.append(duplicate(field, taint))
        seen.add((taint.get("key"), taint.get("effect")))
    return causes


def _workload(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    template = spec["template"]
    causes = pod_spec(template["spec"], "spec.template.spec")
    if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
        causes.append(invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    selector = spec.get("selector")
    if obj["kind"] in ("Job", "ReplicationController"):
        return causes
    if not selector:
        causes.append(required("spec.selector"))
        return causes
    labels = (template.get("metadata") or {}).get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        causes.append(
            invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        )
    return causes


def _cron_job(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    template = spec["jobTemplate"]["spec"]["template"]
    causes = pod_spec(template["spec"], "spec.jobTemplate.spec.template.spec")
    problem = cron.problem_of(spec.get("schedule") or "", spec.get("timeZone"))
    if problem:
        causes.append(replace(problem, field=f"spec.{problem.field}"))
    if spec.get("concurrencyPolicy") not in _CONCURRENCY:
        causes.append(unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _CONCURRENCY))
    return causes


def _priority_class(obj: Object) -> list[Cause]:
    value, name = obj.get("value"), obj["metadata"].get("name", "")
    if isinstance(value, int) and value > 1_000_000_000 and not name.startswith("system-"):
        return [forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")]
    return []


_RULES: dict[tuple[str, str], Callable[[Object], list[Cause]]] = {
    ("", "Pod"): _pod,
    ("", "Node"): _node,
    ("apps", "ReplicaSet"): _workload,
    ("apps", "Deployment"): _workload,
    ("apps", "StatefulSet"): _workload,
    ("apps", "DaemonSet"): _workload,
    ("batch", "Job"): _workload,
    ("batch", "CronJob"): _cron_job,
    ("resource.k8s.io", "ResourceClaim"): claim_causes,
    ("resource.k8s.io", "ResourceClaimTemplate"): template_causes,
    ("resource.k8s.io", "DeviceClass"): class_causes,
    ("resource.k8s.io", "ResourceSlice"): slice_causes,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
}
