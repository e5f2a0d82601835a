"""Fields that no type has: dropped, and told about in a warning or refused, as `fieldValidation` of the request says.

    Ignore ─► nothing      Warn (the default) ─► `Warning` headers      Strict ─► a 400 that names each field

Only kinds whose types are known (`schema.py`) are looked at; custom resources hold what they like. One `FieldCheck`
belongs to one request. Called by `shape.py` for the objects that have something wrong with them.
"""

from collections.abc import Iterator, Mapping

from simulator.apiserver.errors import Object, bad_request
from simulator.apiserver.resources import Resource
from simulator.apiserver.schema import Field, Message, message_of

_MODES = ("Ignore", "Warn", "Strict")
_TYPE_FIELDS = ("kind", "apiVersion")
_TOLD = 20  # more unknown fields than these are not named
# Messages in the middle of an object that may carry kind and apiVersion of their own.
_TYPED = frozenset({"PersistentVolumeClaim", "DeleteOptions"})
Unknown = tuple[str, Object, str]
"""The path of an unknown field, the object that holds it, and its name there."""


class FieldCheck:
    """What one request wants to be told about unknown fields, and what it is told."""

    def __init__(self, mode: str = "Warn") -> None:
        self.warnings: list[str] = []
        self._strict = mode == "Strict"
        self._silent = mode == "Ignore"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "FieldCheck":
        """Read the query of a request; raises a 400 for an unknown word."""
        mode = query.get("fieldValidation") or "Warn"
        if mode not in _MODES:
            words = ", ".join(f'"{word}"' for word in _MODES)
            raise bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: {words}')
        return cls(mode)

    def drop_unknown(self, resource: Resource, obj: Object) -> None:
        """Take out of an object what its type does not have; raises a 400 where the request is strict."""
        kind = message_of(resource)
        if kind is None:
            return
        found = list(_unknown(kind, obj, "", typed=True))
        for _, owner, key in found:
            del owner[key]
        told = [f'unknown field "{path}"' for path, _, _ in found[:_TOLD]]
        if told and self._strict:
            subject = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise bad_request(f"{subject}: strict decoding error: {', '.join(told)}")
        if not self._silent:
            self.warnings += told


def _unknown(kind: Message, obj: Object, path: str, typed: bool) -> Iterator[Unknown]:
    for key, value in obj.items():
        field = kind.fields.get(key)
        if field is not None:
            yield from _below(field, value, f"{path}{key}")
        elif not (typed and key in _TYPE_FIELDS):
            yield f"{path}{key}", obj, key


def _below(field: Field, value: object, path: str) -> Iterator[Unknown]:
    kind = field.message
    if kind is None:
        return
    typed = kind.name in _TYPED
    if field.shape == "one" and isinstance(value, dict):
        yield from _unknown(kind, value, f"{path}.", typed)
    elif field.shape == "list" and isinstance(value, list):
        for i, item in enumerate(value):
            if isinstance(item, dict):
                yield from _unknown(kind, item, f"{path}[{i}].", typed)
