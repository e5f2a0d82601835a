"""Bytes to typed objects and back: the only place where API objects are decoded and encoded.

Anybody may call it. Decoding is one pass of msgspec into the typed structs; only a body that this refuses takes the
slow path, which reads it as Go does (null is the zero value, a bare number is a quantity). What is wrong in the end
becomes a DecodeError of one line; nothing here logs, counts or skips, except `decode_list`, which hands the bad items
back beside the good ones so that one of them never costs the page.
"""

from datetime import UTC, date, datetime
from typing import Any, TypeVar, cast

import msgspec
from msgspec import field

from kube.api.custom import CustomObject
from kube.api.meta import ApiObject, ListMeta, Object, ObjectMeta

T = TypeVar("T")

# Where Go has map[string]string: a null value is the empty string there, and the key stays.
_STRING_MAPS = frozenset(
    {"labels", "annotations", "matchLabels", "nodeSelector", "parameters", "volumeAttributes", "selector"}
)
# Where Go has quantities: a JSON number is one as well, and null is zero.
_QUANTITIES = frozenset(
    {"requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "maximumVolumeSize"}
)


class DecodeError(ValueError):
    """An object that is not what its type says; the text is one line with object, field and expectation."""


class WatchEvent(Object, frozen=True):
    """One line of a watch. `object` keeps its bytes until its type is known: a Status when `type` is ERROR."""

    type: str = ""
    object: msgspec.Raw = field(default_factory=msgspec.Raw)


class PartialList(Object, frozen=True):
    """A list whose items are still bytes. `items` may be null: that is how Go writes an empty one."""

    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_encode = msgspec.json.Encoder().encode


def decode(data: bytes | msgspec.Raw, type_: type[T]) -> T:
    """The object in `data`; DecodeError if it is none of that type."""
    decoder = _decoders.get(type_)
    if decoder is None:
        if issubclass(type_, CustomObject):
            return convert(_parse(data, type_), type_)
        decoder = _decoders[type_] = msgspec.json.Decoder(type_)
    try:
        obj: T = decoder.decode(data)
    except msgspec.ValidationError:
        return convert(_parse(data, type_), type_)
    except msgspec.DecodeError as error:
        raise DecodeError(f"{_kind(type_)}: not valid JSON: {error}") from None
    return obj


def convert(obj: Any, type_: type[T]) -> T:
    """The same from plain dicts and lists, as a YAML file gives them."""
    if issubclass(type_, CustomObject):
        return cast("T", _custom(obj, type_))
    try:
        return msgspec.convert(obj, type_)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_as_go_reads_it(obj), type_)
    except msgspec.ValidationError as error:
        raise DecodeError(_explain(error, obj, type_)) from None


def decode_list(data: bytes, type_: type[T]) -> tuple[ListMeta, list[T], list[DecodeError]]:
    """A page of a list: its metadata, the good items, and what is wrong with the others."""
    page = decode(data, PartialList)
    items: list[T] = []
    errors: list[DecodeError] = []
    for raw in page.items or ():
        try:
            items.append(decode(raw, type_))
        except DecodeError as error:
            errors.append(error)
    return page.metadata, items, errors


def encode(obj: Any) -> bytes:
    """JSON of an object or of anything made of plain values; typed objects get their apiVersion and kind."""
    body = _encode(obj.body if isinstance(obj, CustomObject) else obj)
    if not isinstance(obj, ApiObject) or not obj.KIND:
        return body
    head = f'{{"apiVersion":"{obj.API_VERSION}","kind":"{obj.KIND}"'.encode()
    return head + (b"}" if body == b"{}" else b"," + body[1:])


def to_builtins(obj: Any) -> Any:
    """Plain dicts and lists with the wire's names, apiVersion and kind included."""
    return msgspec.json.decode(encode(obj))


def _custom(obj: Any, type_: type[CustomObject]) -> CustomObject:
    """Plain dicts, but for who has written which field: that is often most of an object, and nobody reads it."""
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(meta, dict):
        raise DecodeError(f"{_kind(type_)}: expected an object with metadata")
    meta = {key: value for key, value in meta.items() if key != "managedFields"}
    return type_(metadata=convert(meta, ObjectMeta), body={**obj, "metadata": meta})


def _parse(data: bytes | msgspec.Raw, type_: Any) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise DecodeError(f"{_kind(type_)}: not valid JSON: {error}") from None


def _as_go_reads_it(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if key in _STRING_MAPS and not any(isinstance(v, dict | list) for v in value.values()):
            return {k: "" if v is None else v for k, v in value.items()}
        return {k: _as_go_reads_it(v, _child_key(key, k)) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_as_go_reads_it(v, "") for v in value if v is not None]
    if isinstance(value, datetime):
        # YAML reads an unquoted time as a date; in the API it is text.
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if key in _QUANTITIES and isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return value


def _child_key(parent: str, key: str) -> str:
    # Inside a map of quantities every value is one, however deep; a CSI driver's `allocatable.count` is a number.
    return parent if parent in _QUANTITIES and key != "count" else key


def _explain(error: msgspec.ValidationError, obj: Any, type_: Any) -> str:
    text, _, path = str(error).partition(" - at `$")
    where = path.rstrip("`").lstrip(".")
    who = _name(obj, type_)
    return f"{who}: {where}: {text[0].lower()}{text[1:]}" if where else f"{who}: {text[0].lower()}{text[1:]}"


def _kind(type_: Any) -> str:
    """CustomObject types are named after their resource."""
    return getattr(type_, "KIND", "") or getattr(type_, "__name__", str(type_))


def _name(obj: Any, type_: Any) -> str:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(meta, dict) or not meta.get("name"):
        return _kind(type_)
    name = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
    return f"{_kind(type_)} {name}"
