"""Request bodies in protobuf, as typed Go clients send them (`kubectl create`, drain, kube-scheduler): read as objects.

    "k8s\\0" · Unknown{typeMeta, raw} ─► message of the kind ─► the object that JSON would have brought

Answers are always JSON: every client that prefers protobuf takes that too. Zero values that JSON would leave out are
left out here, so both ways of sending give the same object. Pure functions; fields of unknown number are skipped, as
Go does.
"""

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec.json

from simulator.apiserver.errors import Object, bad_request
from simulator.apiserver.schema import Field, Message, message_of_kind

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_TYPE_META, _RAW = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_SHIFT = 70


_ALWAYS_WRITTEN = frozenset({"metadata", "status", "spec", "resources", "strategy", "updateStrategy"})


class _Part(NamedTuple):
    number: int
    value: int | bytes


class _CorruptError(Exception):
    """The bytes are no protobuf."""


def decode(body: bytes) -> Object:
    """Read a body; raises a 400 for what is none, or of a kind that is not known."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request does not begin as protobuf of Kubernetes does")
    try:
        outer = {part.number: part.value for part in _parts(body[len(_MAGIC) :])}
        meta = {part.number: _text(part.value) for part in _parts(_raw(outer.get(_TYPE_META, b"")))}
        api_version, kind = meta.get(1, ""), meta.get(2, "")
        found = message_of_kind(api_version.rpartition("/")[0], kind)
        if found is None:
            raise bad_request(f'no kind "{kind}" is known in version "{api_version}"')
        return {"kind": kind, "apiVersion": api_version, **_object(found, _raw(outer.get(_RAW, b"")))}
    except (_CorruptError, IndexError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise bad_request(f"the body of the request is not protobuf: {error}") from error


def _parts(data: bytes) -> Iterator[_Part]:
    """Split a message into its fields, in the order they come."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire = tag & 7
        if wire == _VARINT:
            number, position = _varint(data, position)
            yield _Part(tag >> 3, number)
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in _SIZES:
            size = _SIZES[wire]
        else:
            raise _CorruptError(f"wire type {wire}")
        if position + size > len(data):
            raise _CorruptError("a field is longer than its message")
        yield _Part(tag >> 3, data[position : position + size])
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > _MAX_SHIFT:
            raise _CorruptError("a number does not end")


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _CorruptError("a number where a message is expected")
    return value


def _text(value: int | bytes) -> str:
    return _raw(value).decode()


def _object(kind: Message, data: bytes) -> Object:
    built: Object = {}
    for part in _parts(data):
        field = kind.numbers.get(part.number)
        if field is not None:
            _add(built, field, part.value)
    return built


def _add(built: Object, field: Field, raw: int | bytes) -> None:
    if field.shape == "map":
        entry = {part.number: part.value for part in _parts(_raw(raw))}
        empty: int | bytes = 0 if field.type in ("int", "bool") else b""
        built.setdefault(field.name, {})[_text(entry.get(1, b""))] = _value(field, entry.get(2, empty))
        return
    value = _value(field, raw)
    if field.name == "*":
        built.update(value)
    elif field.shape == "list":
        built.setdefault(field.name, []).append(value)
    elif field.zero_counts or _says_something(field, value):
        built[field.name] = value


def _says_something(field: Field, value: Any) -> bool:
    """Empty messages stay, for they often choose (`emptyDir: {}`); but for those that Go always writes."""
    if isinstance(value, dict):
        return bool(value) or field.name not in (
            "metadata",
            "status",
            "spec",
            "resources",
            "strategy",
            "updateStrategy",
        )
    return value not in ("", 0, 0.0, False, None)


def _value(field: Field, raw: int | bytes) -> Any:
    kind = field.type
    if kind == "str":
        return _text(raw)
    if kind == "bool":
        return bool(raw)
    if kind == "int":
        return _signed(raw)
    if kind == "bytes":
        return base64.b64encode(_raw(raw)).decode()
    leaf = _LEAVES.get(kind)
    if leaf is not None:
        return leaf({part.number: part.value for part in _parts(_raw(raw))})
    nested = field.message
    if nested is None:
        raise _CorruptError(f"{field.name} cannot be read")
    return _object(nested, _raw(raw))


def _signed(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise _CorruptError("bytes where a number is expected")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _quantity(parts: dict[int, int | bytes]) -> str:
    return _text(parts.get(1, b"0"))


def _int_or_string(parts: dict[int, int | bytes]) -> int | str:
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))


def _time(parts: dict[int, int | bytes]) -> str | None:
    seconds = _signed(parts.get(1, 0))
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds > 0 else None


def _micro_time(parts: dict[int, int | bytes]) -> str | None:
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if seconds <= 0:
        return None
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _json(parts: dict[int, int | bytes]) -> Any:
    raw = _raw(parts.get(1, b""))
    return msgspec.json.decode(raw) if raw else None


_LEAVES: dict[str, Callable[[dict[int, int | bytes]], Any]] = {
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "FieldsV1": _json,
    "Raw": _json,
    "Any": lambda _: None,
}
