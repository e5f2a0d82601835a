"""Plain data to structs and back, strictly and completely: every unknown field and every wrong type is found at once.

msgspec's own decoder stops at the first fault; an operator should see all of them. Used by `load`, `legacy` and the
`config` command. Nothing here knows a particular field.
"""

import base64
import binascii
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from config.duration import Duration
from config.problems import Finding, Path

T = TypeVar("T", bound=msgspec.Struct)
_NAMES: dict[Any, str] = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
REDACTED = "<redacted>"


class _UnusableError(Exception):
    """The value was reported; its field keeps the default."""


def decode(data: Any, struct: type[T], path: Path, findings: list[Finding]) -> T:
    """Build the struct from plain data; what cannot be used is added to the findings and left at its default."""
    try:
        built: T = _struct(data, struct, path, findings)
    except _UnusableError:
        return struct()
    return built


def encode(value: Any) -> Any:
    """Turn structs into plain data as the file would write them; empty values are left out, private keys hidden."""
    if isinstance(value, msgspec.Struct) and not isinstance(value, Duration):
        pairs = ((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))
        shown = {name: _shown(name, item) for name, item in pairs if not _empty(name, item)}
        return {name: item for name, item in shown.items() if item != {}}
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Duration | Enum):
        return str(value)
    return value


def _shown(name: str, value: Any) -> Any:
    return REDACTED if name == "keyData" else encode(value)


def _empty(name: str, value: Any) -> bool:
    """Whether a field says nothing: a weight of 0 is one that was never given."""
    if name == "weight":
        return bool(value == 0)
    return value is None or (isinstance(value, str | bytes | tuple | dict | list) and not value)


def _struct(data: Any, struct: type[Any], path: Path, findings: list[Finding]) -> Any:
    if not isinstance(data, dict):
        raise _wrong(data, "a mapping", path, findings)
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    values: dict[str, Any] = {}
    for key, item in data.items():
        field = fields.get(str(key))
        if field is None:
            findings.append(Finding((*path, str(key)), "unknown field"))
        elif item is not None:  # null leaves a field unset, as in Go
            try:
                values[field.name] = _value(item, field.type, (*path, str(key)), findings)
            except _UnusableError:
                continue
    return struct(**values)


def _value(data: Any, wanted: Any, path: Path, findings: list[Finding]) -> Any:
    if isinstance(wanted, type) and issubclass(wanted, Duration):
        return _duration(data, path, findings)
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return _struct(data, wanted, path, findings)
    if get_origin(wanted) is tuple:
        return _items(data, get_args(wanted)[0], path, findings)
    if get_origin(wanted) is dict:
        return _mapping(data, get_args(wanted)[1], path, findings)
    if isinstance(wanted, UnionType):
        return _value(data, next(part for part in get_args(wanted) if part is not NoneType), path, findings)
    if wanted is bytes:
        return _base64(data, path, findings)
    return data if wanted is Any else _plain(data, wanted, path, findings)


def _items(data: Any, wanted: Any, path: Path, findings: list[Finding]) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _wrong(data, "a list", path, findings)
    items = []
    for index, item in enumerate(data):
        try:
            items.append(_value(item, wanted, (*path, index), findings))
        except _UnusableError:
            items.append(wanted())  # holds the place, so that later paths keep their index
    return tuple(items)


def _mapping(data: Any, wanted: Any, path: Path, findings: list[Finding]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(data, "a mapping", path, findings)
    values = {}
    for key, item in data.items():
        try:
            values[str(key)] = _value(item, wanted, (*path, str(key)), findings)
        except _UnusableError:
            continue
    return values


def _plain(data: Any, wanted: Any, path: Path, findings: list[Finding]) -> Any:
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError:
        raise _wrong(data, _NAMES[wanted], path, findings) from None


def _duration(data: Any, path: Path, findings: list[Finding]) -> Duration:
    try:
        if isinstance(data, str):
            return Duration.parse(data)
    except ValueError:
        pass
    raise _wrong(data, "a duration such as 15s, 1m30s or 500ms", path, findings)


def _base64(data: Any, path: Path, findings: list[Finding]) -> bytes:
    try:
        if isinstance(data, str):
            return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        pass
    findings.append(Finding(path, "Invalid value: expected base64 text"))  # may be a key: never shown
    raise _UnusableError


def _wrong(data: Any, expected: str, path: Path, findings: list[Finding]) -> _UnusableError:
    shown = {dict: "a mapping", list: "a list", bool: str(data).lower(), NoneType: "null"}.get(type(data), repr(data))
    findings.append(Finding(path, f"Invalid value: expected {expected}, not {shown}"))
    return _UnusableError()
