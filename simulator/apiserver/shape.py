"""What the real server could not even decode into its types: a 400, with the path of what is wrong.

Objects here are plain dicts, so this is the one place where their shape is looked at: lists are lists, labels are
strings, quantities are quantities. What has passed may still break rules: `validation.py`. Pure functions.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from kube.api.quantity import QuantityError, canonical, nanos
from simulator.apiserver.errors import Object, bad_request
from simulator.apiserver.field_validation import FieldCheck
from simulator.apiserver.resources import Resource
from simulator.apiserver.schema import struct_of

_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Expected(NamedTuple):
    """What a field holds: how to say it, and how to tell."""

    name: str
    accepts: Callable[[Any], bool]


_WORD = Expected("a string", lambda value: isinstance(value, str))
_NUMBER = Expected("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
_OBJECT = Expected("a JSON object", lambda value: isinstance(value, dict))
_OBJECTS = Expected(
    "a JSON list of objects", lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value)
)
_WORDS = Expected(
    "a JSON list of strings", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
)
_STRINGS = Expected(
    "a JSON object with strings as values",
    lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
)
# By field name alone: a name means the same in all built-in types that the server looks into, with one exception.
_NODE_TERMS = "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_FIELDS = """
    word     name generateName namespace uid resourceVersion nodeName schedulerName priorityClassName preemptionPolicy
    word     restartPolicy topologyKey effect phase serviceAccountName whenUnsatisfiable apiVersion kind key
    strings  labels annotations matchLabels nodeSelector
    number   priority maxSkew replicas terminationGracePeriodSeconds containerPort hostPort
    object   metadata spec status template affinity nodeAffinity podAffinity podAntiAffinity podAffinityTerm strategy
    object   labelSelector namespaceSelector resources limits requests overhead selector
    object   securityContext rollingUpdate updateStrategy
    objects  containers initContainers ephemeralContainers tolerations volumes topologySpreadConstraints ports env
    objects  schedulingGates taints conditions ownerReferences matchExpressions nodeSelectorTerms addresses
    objects  preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution
    words    finalizers matchLabelKeys mismatchLabelKeys accessModes
"""
_KINDS = {
    "word": _WORD,
    "number": _NUMBER,
    "object": _OBJECT,
    "strings": _STRINGS,
    "objects": _OBJECTS,
    "words": _WORDS,
}
_EXPECTED: dict[str, Expected] = {
    field: _KINDS[kind] for kind, *fields in (line.split() for line in _FIELDS.strip().splitlines()) for field in fields
}
# What is not looked into: maps with keys of the user's own, and conditions, whose status is a word.
_USER_KEYS = "labels annotations matchLabels nodeSelector data stringData binaryData parameters"
_AMOUNTS = "limits requests overhead capacity allocatable"
_FREE = frozenset([*_USER_KEYS.split(), *_AMOUNTS.split(), "conditions"])


def check_shape(resource: Resource, obj: Any, fields: FieldCheck | None = None) -> Object:
    """Refuse what the real server could not decode into its types, and drop what they do not have; gives it back."""
    if not isinstance(obj, dict):
        raise bad_request(f"{_cannot(resource)}: a JSON object is expected")
    named = obj.get("kind", resource.kind), obj.get("apiVersion", resource.api_version)
    if named != (resource.kind, resource.api_version):
        offered = f"{obj.get('apiVersion', '')}, Kind={obj.get('kind', '')}"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"got {offered}, expected {resource.api_version}, Kind={resource.kind}"
        )
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request(f"{_cannot(resource)}: metadata: a JSON object is expected")
    for key in ("labels", "annotations"):
        _check_strings(resource, metadata, key)
    if _misfit(resource, obj):
        _check_fields(resource, "", obj)
        (fields or FieldCheck()).drop_unknown(resource, obj)
        if misfit := _misfit(resource, obj):
            raise bad_request(f"{_cannot(resource)}: {misfit}")
    for path, amounts in quantity_maps(resource, obj):
        _check_quantities(resource, path, amounts)
    return obj


def _misfit(resource: Resource, obj: Object) -> str:
    """Tell in one step whether an object is well-formed all over, as nearly all are: "", or what is not."""
    struct = struct_of(resource)
    if struct is None:
        return ""
    try:
        msgspec.convert(obj, struct)
    except msgspec.ValidationError as error:
        return str(error).replace("`$.", "`")
    return ""


def _cannot(resource: Resource) -> str:
    return f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'


def _check_fields(resource: Resource, path: str, obj: Object) -> None:
    """Look through the fields whose names say what they hold; what is absent or null is always right."""
    for key, value in obj.items():
        if value is None:
            continue
        where = f"{path}.{key}" if path else key
        expected = _OBJECT if where.endswith(_NODE_TERMS) else _EXPECTED.get(key)
        if expected is not None and not expected.accepts(value):
            raise bad_request(f"{_cannot(resource)}: {where}: {expected.name} is expected")
        if key not in _FREE:
            for place, child in _children(where, value):
                _check_fields(resource, place, child)


def _children(path: str, value: Any) -> Iterator[tuple[str, Object]]:
    if isinstance(value, dict):
        yield path, value
    elif isinstance(value, list):
        yield from ((f"{path}[{i}]", item) for i, item in enumerate(value) if isinstance(item, dict))


def _check_strings(resource: Resource, metadata: Object, key: str) -> None:
    values = metadata.get(key)
    if values is None:
        metadata.pop(key, None)
    elif not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise bad_request(f"{_cannot(resource)}: metadata.{key}: a JSON object with strings as values is expected")


def _check_quantities(resource: Resource, path: str, amounts: Any) -> None:
    if not isinstance(amounts, dict):
        raise bad_request(f"{_cannot(resource)}: {path}: a JSON object is expected")
    for name, text in amounts.items():
        if not _is_quantity(text):
            raise bad_request(f"{_cannot(resource)}: {path}[{name}]: {_QUANTITY_RULE}")


def _is_quantity(text: Any) -> bool:
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return False
    try:
        nanos(text)
    except QuantityError:
        return False
    return True


def quantity_maps(resource: Resource, obj: Object) -> Iterator[tuple[str, Any]]:
    """Give every map of resource quantities in a pod, a pod template, a node or a claim."""
    if resource.kind == "Node":
        status = obj.get("status") or {}
        yield from ((f"status.{key}", status[key]) for key in ("capacity", "allocatable") if status.get(key))
        return
    spec, path = obj.get("spec") or {}, "spec"
    if isinstance(spec.get("template"), dict):
        spec, path = spec["template"].get("spec") or {}, "spec.template.spec"
    if not isinstance(spec, dict):
        return
    yield from _requirement_maps(spec, path)
    if spec.get("overhead"):
        yield f"{path}.overhead", spec["overhead"]
    for key in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(key) or ()):
            if isinstance(container, dict):
                yield from _requirement_maps(container, f"{path}.{key}[{i}]")


def _requirement_maps(owner: Object, path: str) -> Iterator[tuple[str, Any]]:
    resources = owner.get("resources")
    if isinstance(resources, dict):
        for key in ("limits", "requests"):
            if resources.get(key):
                yield f"{path}.resources.{key}", resources[key]


def spell_quantities(resource: Resource, obj: Object) -> None:
    """Spell every quantity of an object as the server stores it (`0.5` is `500m`), in place: the caller owns it."""
    for _, amounts in quantity_maps(resource, obj):
        for name, text in amounts.items():
            amounts[name] = canonical(text)
