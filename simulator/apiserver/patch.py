"""The three patch formats: JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic-merge patch.

Pure functions: an object and a patch give a new object; what the patch does not touch is shared with the old one.
The merge keys of strategic merge are those of Kubernetes' own types; a list without one is replaced as a whole.
"""

from typing import Any

from simulator.apiserver.errors import ApiError, Object, bad_request, unprocessable

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

# Field name to merge key, for all kinds served; names that differ by owner are told apart in `_merge_key`.
_MERGE_KEYS: dict[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_PRIMITIVE_LISTS = frozenset({"finalizers", "podCIDRs"})
_ATOMIC_BELOW = frozenset({"data", "stringData", "labels", "annotations", "matchLabels", "nodeSelector"})
_DIRECTIVE, _RETAIN_KEYS = "$patch", "$retainKeys"
_ORDER, _DELETE_PRIMITIVES = "$setElementOrder/", "$deleteFromPrimitiveList/"


def apply_patch(obj: Object, patch: Any, content_type: str) -> Object:
    """Apply a decoded patch of the given content type."""
    if content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request("a JSON patch is a list of operations")
        patched = json_patch(obj, patch)
    elif not isinstance(patch, dict):
        raise bad_request("a merge patch is a JSON object")
    elif content_type == MERGE_PATCH:
        patched = merge_patch(obj, patch)
    else:
        patched = strategic_merge(obj, patch)
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise unprocessable("the patched object has no metadata")
    return patched


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


# --- JSON patch ----------------------------------------------------------------------------------------------------


def json_patch(obj: Object, operations: list[Any]) -> Any:
    """Apply the operations in order; raises a 422 for one that cannot be applied, and then nothing has changed."""
    document: Any = obj
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("an operation of a JSON patch needs op and path")
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: Object) -> Any:
    name, path = operation.get("op"), _pointer(operation["path"])
    if name in ("add", "replace", "test") and "value" not in operation:
        raise bad_request(f"operation {name} of a JSON patch needs a value")
    if name == "test":
        if _look_up(document, path) != operation["value"]:
            raise unprocessable(f"testing value {operation['path']} failed")
        return document
    if name in ("add", "replace"):
        return _edit(document, path, name, operation["value"])
    if name == "remove":
        return _edit(document, path, "remove", None)
    if name in ("move", "copy"):
        source = _pointer(operation.get("from", ""))
        value = _look_up(document, source)
        if name == "move":
            document = _edit(document, source, "remove", None)
        return _edit(document, path, "add", value)
    raise bad_request(f"unknown operation {name!r} in a JSON patch")


def _pointer(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"path {path!r} of a JSON patch does not begin with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _missing(step: str) -> ApiError:
    return unprocessable(f"the path of a JSON patch leads nowhere at {step!r}")


def _index(items: list[Any], step: str, limit: int) -> int:
    if step == "-" and limit > len(items) - 1:
        return len(items)
    if not step.isdecimal() or int(step) > limit:
        raise _missing(step)
    return int(step)


def _look_up(document: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(document, step, len(document) - 1)]
        else:
            raise _missing(step)
    return document


def _edit(document: Any, path: list[str], name: str, value: Any) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(document, dict):
        return _edit_object(document, step, rest, name, value)
    if isinstance(document, list):
        return _edit_list(document, step, rest, name, value)
    raise _missing(step)


def _edit_object(document: Object, step: str, rest: list[str], name: str, value: Any) -> Object:
    if step not in document and (rest or name != "add"):
        raise _missing(step)
    edited = dict(document)
    if rest:
        edited[step] = _edit(document[step], rest, name, value)
    elif name == "remove":
        del edited[step]
    else:
        edited[step] = value
    return edited


def _edit_list(document: list[Any], step: str, rest: list[str], name: str, value: Any) -> list[Any]:
    edited = list(document)
    position = _index(document, step, len(document) if name == "add" and not rest else len(document) - 1)
    if rest:
        edited[position] = _edit(document[position], rest, name, value)
    elif name == "add":
        edited.insert(position, value)
    elif name == "remove":
        del edited[position]
    else:
        edited[position] = value
    return edited


# --- strategic merge -----------------------------------------------------------------------------------------------


def strategic_merge(obj: Object, patch: Object) -> Object:
    """Apply a strategic-merge patch to an object of a built-in kind."""
    merged = _merge_object(obj, patch, obj.get("kind", ""), "")
    return merged if merged is not None else {}


def _merge_object(target: Object, patch: Object, kind: str, parent: str) -> Object | None:
    """Merge one object; None when the patch says to delete it."""
    directive = patch.get(_DIRECTIVE)
    if directive == "delete":
        return None
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive not in (None, "merge"):
        raise bad_request(f"unrecognized type: {directive} in a strategic merge patch")
    merged = dict(target)
    if _RETAIN_KEYS in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_RETAIN_KEYS]}
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(merged, key, value, patch, kind, parent)
    _apply_list_directives(merged, patch, kind, parent)
    return merged


def _merge_field(merged: Object, key: str, value: Any, patch: Object, kind: str, parent: str) -> None:
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        present = merged.get(key)
        result = _merge_object(present if isinstance(present, dict) else {}, value, kind, key)
        if result is None:
            merged.pop(key, None)
        else:
            merged[key] = result
    elif isinstance(value, list) and parent not in _ATOMIC_BELOW:
        merged[key] = _merge_list(merged.get(key) or [], value, kind, parent, key)
    else:
        merged[key] = value


def _merge_key(kind: str, parent: str, key: str) -> str | None:
    if key == "ports":
        return "port" if kind == "Service" else "containerPort"
    if key == "secrets" and kind != "ServiceAccount":
        return None
    if key == "volumes" and parent not in ("spec", "template"):
        return None
    return _MERGE_KEYS.get(key)


def _merge_list(present: list[Any], patch: list[Any], kind: str, parent: str, key: str) -> list[Any]:
    if key in _PRIMITIVE_LISTS:
        return present + [value for value in patch if value not in present]
    merge_key = _merge_key(kind, parent, key)
    if merge_key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get(_DIRECTIVE) == "replace" and len(item) == 1 for item in patch):
        return [item for item in patch if item != {_DIRECTIVE: "replace"}]
    merged = list(present)
    for item in patch:
        if merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        _merge_item(merged, item, merge_key, kind, key)
    return merged


def _merge_item(merged: list[Any], item: Object, merge_key: str, kind: str, key: str) -> None:
    position = next((i for i, known in enumerate(merged) if known.get(merge_key) == item[merge_key]), None)
    result = _merge_object({} if position is None else merged[position], item, kind, key)
    if position is None:
        if result is not None:
            merged.append(result)
    elif result is None:
        del merged[position]
    else:
        merged[position] = result


def _apply_list_directives(merged: Object, patch: Object, kind: str, parent: str) -> None:
    for directive, value in patch.items():
        if directive.startswith(_DELETE_PRIMITIVES):
            key = directive.removeprefix(_DELETE_PRIMITIVES)
            merged[key] = [item for item in merged.get(key) or [] if item not in value]
        elif directive.startswith(_ORDER):
            key = directive.removeprefix(_ORDER)
            if key in merged:
                merged[key] = _ordered(merged[key], value, _merge_key(kind, parent, key))


def _ordered(items: list[Any], order: list[Any], merge_key: str | None) -> list[Any]:
    """Put the named items in the order named; the others keep their places relative to the one before them."""

    def identity(item: Any) -> Any:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    rank = {identity(item): place for place, item in enumerate(order)}
    ranked = sorted((item for item in items if identity(item) in rank), key=lambda item: rank[identity(item)])
    result = iter(ranked)
    return [next(result) if identity(item) in rank else item for item in items]
