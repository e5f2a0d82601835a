"""Field selectors of requests: `spec.nodeName=n1,status.phase!=Failed`, on typed objects and on plain dicts alike.

Anybody may call it. Which fields a resource supports is the API server's decision: it reads `terms`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

_TERM = re.compile(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)", re.DOTALL)
_COMMA = re.compile(r"((?:[^\\,]|\\.)*)(?:,|$)", re.DOTALL)


class FieldSelectorError(ValueError):
    """A text that is no field selector; the message is one line."""


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One comparison; `equal` is False for `!=`."""

    path: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; without terms everything matches."""

    terms: tuple[FieldTerm, ...]

    def __call__(self, obj: Any) -> bool:
        return all((field_value(obj, term.path) == term.value) == term.equal for term in self.terms)


@lru_cache(maxsize=4096)
def parse_field_selector(text: str) -> FieldSelector:
    """The `fieldSelector` of a request; empty text selects everything."""
    parts = [part for part in _COMMA.findall(text) if part]
    return FieldSelector(tuple(_term(part, text) for part in parts))


def field_value(obj: Any, path: str) -> str:
    """The field as text, "" where it is absent: absent and empty are one to a field selector."""
    for name in path.split("."):
        if isinstance(obj, dict):
            obj = obj.get(name)
        elif isinstance(obj, msgspec.Struct):
            attribute = _attributes(type(obj)).get(name)
            obj = getattr(obj, attribute) if attribute else None
        else:
            return ""
    if isinstance(obj, bool):
        return str(obj).lower()
    return "" if obj is None else str(obj)


@lru_cache(maxsize=512)
def _attributes(type_: type[msgspec.Struct]) -> dict[str, str]:
    return dict(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))


def _term(part: str, text: str) -> FieldTerm:
    match = _TERM.fullmatch(part)
    if match is None:
        raise FieldSelectorError(f"field selector {text!r}: {part!r} has no comparison, expected =, == or !=")
    path, operator, value = match.groups()
    return FieldTerm(path, operator != "!=", re.sub(r"\\(.)", r"\1", value))
