"""The types of the Kubernetes API: which fields a message has, what they hold, and how lists are told apart.

`message_of` finds the type of a served resource's objects. Who asks: the protobuf decoder, the check for unknown fields
and server-side apply. The facts themselves are in `schema_data.py` and
`schema_more_data.py`; this module reads them once and never changes them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import msgspec

from simulator.apiserver import schema_data, schema_more_data
from simulator.apiserver.resources import Resource

Shape = Literal["one", "list", "map"]
ANY = "Any"
_SCALARS = frozenset({"str", "int", "float", "bool", "bytes"})
_LEAVES = frozenset({"Quantity", "IntOrString", "Time", "MicroTime", "FieldsV1", "Raw", ANY})
_FIELD = re.compile(r"(?P<number>\d+|-) (?P<name>\w+|\*) (?P<type>[^@?!]+)(?P<zero>\?)?(?P<atomic>!)?(?P<keys>@\S*)?")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    number: int
    type: str
    """A scalar, a leaf such as Quantity, or the name of a message."""
    shape: Shape = "one"
    zero_counts: bool = False
    """Whether a zero value is said, and not the same as absent."""
    atomic: bool = False
    keys: tuple[str, ...] | None = None
    """What tells the items of a list apart; () for a set, None for a list that is one value."""

    @property
    def message(self) -> "Message | None":
        """The message that it, or an item of it, holds; None for scalars and leaves."""
        return None if self.type in _SCALARS or self.type in _LEAVES else message(self.type)


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    name: str
    atomic: bool
    fields: dict[str, Field] = field(default_factory=dict)
    """By JSON name; the fields of embedded messages included."""
    numbers: dict[int, Field] = field(default_factory=dict)
    """By number in protobuf; an embedded message is one field named `*`."""


def message(name: str) -> Message:
    """Find a message by name; raises KeyError."""
    return _messages()[name]


def message_of(resource: Resource) -> Message | None:
    """Find the type of a resource's objects; None for custom resources, of which nothing is known."""
    return message_of_kind(resource.group, resource.kind) if resource.strategic_merge else None


def message_of_kind(group: str, kind: str) -> Message | None:
    """Find the type of a kind; of two kinds of one name that of a group other than the core one is prefixed."""
    known = _messages()
    return known.get(f"{group.partition('.')[0]}.{kind}") or known.get(kind)


@cache
def _messages() -> dict[str, Message]:
    found = {item.name: item for item in _parse()}
    for item in found.values():
        for embedded in [one for one in item.numbers.values() if one.name == "*"]:
            item.fields.update(found[embedded.type].fields)
    return found


def _parse() -> Iterator[Message]:
    messages = schema_data.MESSAGES + schema_more_data.MESSAGES.lstrip()
    for line in messages.strip().replace("\n    ", " ").splitlines():
        head, _, body = line.partition(":")
        item = Message(head.rstrip("!"), head.endswith("!"))
        for text in body.split(","):
            one = _field(text.strip())
            if one.number:
                item.numbers[one.number] = one
            if one.name != "*":
                item.fields[one.name] = one
        yield item


def _field(text: str) -> Field:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"schema_data: {text!r} is no field")
    kind = match["type"]
    shape: Shape = "list" if kind.startswith("[") else "map" if kind.startswith("{") else "one"
    keys = tuple(key for key in match["keys"][1:].split("+") if key) if match["keys"] else None
    number = 0 if match["number"] == "-" else int(match["number"])
    zero = bool(match["zero"])
    return Field(match["name"], number, kind.strip("[]{}"), shape, zero, bool(match["atomic"]), keys)


# --- as types of msgspec -------------------------------------------------------------------------------------------

_TYPED_MESSAGES = frozenset({"PersistentVolumeClaim"})  # in the middle of an object, with kind and apiVersion
_PYTHON: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "bytes": str,
    "Quantity": str | int | float,
    "IntOrString": str | int,
    "Time": str,
    "MicroTime": str,
}


@cache
def struct_of(resource: Resource) -> Any:
    """Give a msgspec type that takes exactly what a resource's objects may hold; None where nothing is known of them.

    It is there to check a whole object in one step, and says nothing good about what is wrong.
    """
    found = message_of(resource)
    return None if found is None else _struct(found.name, True)


@cache
def _struct(name: str, typed: bool) -> Any:
    fields: list[tuple[str, Any, None]] = [
        (f"f_{one.name}", _python_type(one) | None, None) for one in message(name).fields.values()
    ]
    if typed:
        fields += [("f_kind", str | None, None), ("f_apiVersion", str | None, None)]
    unique = dict.fromkeys(name for name, _, _ in fields)
    listed = [next(item for item in fields if item[0] == key) for key in unique]
    rename = {key: key.removeprefix("f_") for key in unique}
    return msgspec.defstruct(name.replace(".", ""), listed, rename=rename, forbid_unknown_fields=True, frozen=True)


def _python_type(one: Field) -> Any:
    nested = one.message
    kind: Any = _struct(nested.name, nested.name in _TYPED_MESSAGES) if nested else _PYTHON.get(one.type, Any)
    if one.shape == "list":
        return list.__class_getitem__(kind)
    return dict.__class_getitem__((str, kind | None)) if one.shape == "map" else kind
