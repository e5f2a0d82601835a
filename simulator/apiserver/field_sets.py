"""Sets of fields of an object, as `managedFields` names them, and merging of objects by them.

A path is a tuple of steps in the spelling of FieldsV1: `f:spec`, `k:{"name":"main"}`, `v:"a"`. What a field is (one
value, a map, a list whose items have keys) comes from `schema.py`; of custom resources nothing is known, and so their
objects are taken apart and their lists are not. Pure functions; nothing that is handed in is changed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec.json

from simulator.apiserver.errors import Object
from simulator.apiserver.schema import Field, Message

Path = tuple[str, ...]
FieldSet = frozenset[Path]
_UNKNOWN = Field("", 0, "Any")
# What only the server sets, and nobody owns.
_UNOWNED_METADATA = frozenset({
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields",
    "deletionTimestamp", "deletionGracePeriodSeconds", "generateName",
})  # fmt: skip


# --- from objects to sets ------------------------------------------------------------------------------------------


def field_set(kind: Message | None, obj: Object, *, status: bool = False) -> FieldSet:
    """Give all fields that an object sets: those of its status, or those of all else."""
    found: list[Path] = []
    for key, value in obj.items():
        if key in ("kind", "apiVersion") or (key == "status") != status:
            continue
        if key == "metadata":
            value = {name: one for name, one in value.items() if name not in _UNOWNED_METADATA}  # noqa: PLW2901
            found += [path for path in _paths(_field(kind, key), value, ("f:metadata",)) if len(path) > 1]
        else:
            found += _paths(_field(kind, key), value, (f"f:{key}",))
    return frozenset(found)


def _field(kind: Message | None, key: str) -> Field:
    return kind.fields.get(key, _UNKNOWN) if kind else _UNKNOWN


def _paths(field: Field, value: Any, path: Path) -> Iterator[Path]:
    if _is_parted(field, value):
        for step, child, child_field in _children(field, value):
            below = (*path, step)
            if isinstance(value, list) and isinstance(child, dict):
                yield below
            yield from _paths(child_field, child, below)
    else:
        yield path


def _is_parted(field: Field, value: Any) -> bool:
    """Tell whether the parts of a value have owners of their own; an empty one has no parts."""
    return bool(value) and _has_parts(field, value)


def _has_parts(field: Field, value: Any) -> bool:
    """Tell whether values of this field are merged part by part."""
    if field.atomic:
        return False
    if isinstance(value, list):
        return field.keys is not None
    if not isinstance(value, dict):
        return False
    nested = field.message if field.shape == "one" else None
    if field.shape == "one" and field.type != "Any" and nested is None:
        return False
    return nested is None or not nested.atomic


def _children(field: Field, value: Any) -> Iterator[tuple[str, Any, Field]]:
    """Go through the parts of a parted value: step, value and field of each."""
    if isinstance(value, list):
        item = Field(field.name, 0, field.type)
        for one in value:
            yield step_of(field, one), one, item
        return
    if field.shape == "map":
        below = Field("", 0, field.type)
        yield from ((f"f:{key}", one, below) for key, one in value.items())
        return
    kind = field.message
    yield from ((f"f:{key}", one, _field(kind, key)) for key, one in value.items())


_KEY_DEFAULTS = {"protocol": "TCP"}


def step_of(field: Field, item: Any) -> str:
    """Spell how an item of a list is told apart."""
    if not field.keys or not isinstance(item, dict):
        return "v:" + msgspec.json.encode(item).decode()
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(field.keys)}
    known = {key: value for key, value in keys.items() if value is not None}
    return "k:" + msgspec.json.encode(known).decode()


# --- FieldsV1 ------------------------------------------------------------------------------------------------------


def to_fields(paths: Iterable[Path]) -> Object:
    """Spell a set as FieldsV1."""
    root: Object = {}
    listed = sorted(paths)
    inner = {path[:i] for path in listed for i in range(1, len(path))}
    for path in listed:
        node = root
        for step in path:
            node = node.setdefault(step, {})
        if path in inner:
            node["."] = {}
    return root


def from_fields(fields: Object) -> FieldSet:
    """Read FieldsV1."""
    return frozenset(_read(fields, ()))


def _read(node: Object, path: Path) -> Iterator[Path]:
    for step, below in node.items():
        if step == ".":
            yield path
        elif below:
            yield from _read(below, (*path, step))
        else:
            yield (*path, step)


def spell(path: Path) -> str:
    """Spell a path for people: `.spec.containers[name="main"].image`."""
    return "".join(_spell_step(step) for step in path)


def _spell_step(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    keys: Object = msgspec.json.decode(text)
    return "[" + ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items()) + "]"


# --- merging -------------------------------------------------------------------------------------------------------


def merge(kind: Message | None, live: Object, applied: Object) -> Object:
    """Lay an applied object over a live one: what has parts is merged by them, all else is replaced."""
    merged = dict(live)
    for key, value in applied.items():
        if key not in ("kind", "apiVersion"):
            merged[key] = _merged(_field(kind, key), live.get(key), value)
    return merged


def _merged(field: Field, live: Any, applied: Any) -> Any:
    if type(live) is not type(applied) or not _has_parts(field, applied) or not live:
        return applied
    if not applied:
        return live
    if isinstance(applied, list):
        return _merged_list(field, live, applied)
    merged = dict(live)
    for step, value, below in _children(field, applied):
        key = step[2:]
        merged[key] = _merged(below, live.get(key), value)
    return merged


def _merged_list(field: Field, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge by keys: the applied items in their order, live ones of nobody's stay behind the item they stood behind."""
    item = Field(field.name, 0, field.type)
    known = {step_of(field, one): one for one in live}
    wanted = {step_of(field, one): _merged(item, known.get(step_of(field, one)), one) for one in applied}
    merged = list(wanted)
    for i, step in enumerate(known):
        if step not in wanted:
            before = list(known)[i - 1] if i else None
            merged.insert(merged.index(before) + 1 if before in merged else 0, step)
    return [wanted.get(step, known.get(step)) for step in merged]


def look_up(kind: Message | None, obj: Object, path: Path) -> Any:
    """Give the value at a path; `MISSING` for none."""
    value: Any = obj
    field = Field("", 0, kind.name if kind else "Any")
    for step in path:
        if not isinstance(value, dict | list):
            return MISSING
        found = next(((one, below) for name, one, below in _steps(field, value) if name == step), None)
        if found is None:
            return MISSING
        value, field = found
    return value


def remove(kind: Message | None, obj: Object, paths: Iterable[Path], kept: Iterable[Path]) -> Object:
    """Take the fields at `paths` out of an object, and what is left empty by that; nothing that holds `kept` goes."""
    holding = {path[:i] for path in kept for i in range(1, len(path) + 1)}
    gone = {path for path in paths if path not in holding}
    if not gone:
        return obj
    pruned: Object = _removed(Field("", 0, kind.name if kind else "Any"), obj, (), gone, holding)
    return pruned


def _removed(field: Field, value: Any, path: Path, gone: set[Path], holding: set[Path]) -> Any:
    if not isinstance(value, dict | list) or not any(one[: len(path)] == path for one in gone):
        return value
    left: dict[str, Any] = {}
    for step, child, child_field in _steps(field, value):
        below = (*path, step)
        kept = MISSING if below in gone else _removed(child_field, child, below, gone, holding)
        if kept is not MISSING:
            left[step] = kept
    if not left and len(path) > 1 and path not in holding:
        return MISSING
    return list(left.values()) if isinstance(value, list) else {step[2:]: child for step, child in left.items()}


def _steps(field: Field, value: Any) -> Iterator[tuple[str, Any, Field]]:
    if isinstance(value, list) and field.keys is None:
        return iter(())
    return _children(field, value)


class _Missing:
    """No value at all, which is not the same as null."""


MISSING = _Missing()
