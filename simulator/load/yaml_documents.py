"""YAML as Kubernetes reads it: YAML 1.1 turned into what JSON can say, with every text kept as it was written.

Timestamps, floats (`0.5`, `1e3`), sexagesimals (`1:30`) and keys (`on:`, `1:`) stay text; integers, booleans
(`yes`, `off`, `true` …) and null are resolved. Called by `simulator.load.files` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

_Base: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_BOOLEANS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_MERGE_TAG = "tag:yaml.org,2002:merge"
_TAG = "tag:yaml.org,2002:"

# An alias is expanded wherever it is used; this bound stops a document that would expand without end.
MAX_NODES = 20_000_000


class YAMLError(Exception):
    """The text is not YAML that can be turned into JSON; `str()` is one line with its place."""


class _Loader(_Base):  # type: ignore[misc]
    """The C parser and composer with our own table of implicit types."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


def _resolve_as(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(_TAG + kind, re.compile(pattern), list(first))


_resolve_as("bool", r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$", "yYnNtTfFoO")
_resolve_as("int", r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$", "-+0123456789")
_resolve_as("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
_Loader.yaml_implicit_resolvers[""] = _Loader.yaml_implicit_resolvers.pop("\0")
_resolve_as("merge", r"^<<$", "<")


def load_documents(text: bytes) -> Iterator[Any]:
    """The documents of a stream, empty ones as None. Raises YAMLError."""
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                yield _Builder().build(loader.get_node())
        finally:
            loader.dispose()
    except yaml.error.YAMLError as error:
        raise YAMLError(_one_line(error)) from error
    except RecursionError as error:
        raise YAMLError("nested too deeply, or an alias contains itself") from error


class _Builder:
    """Builds fresh dicts and lists from composed nodes (aliases are copies: defaults are filled in place)."""

    def __init__(self) -> None:
        self._left = MAX_NODES

    def build(self, node: yaml.Node) -> Any:
        self._left -= 1
        if self._left < 0:
            raise YAMLError(f"aliases expand to more than {MAX_NODES} values")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(value) for value in node.value]
        return self._mapping(node)

    def _mapping(self, node: yaml.Node) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE_TAG:
                self._merge(merged, value)
            elif isinstance(key, yaml.ScalarNode):
                own[key.value] = self.build(value)
            else:
                raise YAMLError(f"{_place(key.start_mark)}: a key must be a plain word")
        return {**merged, **own} if merged else own

    def _merge(self, merged: dict[str, Any], value: yaml.Node) -> None:
        for source in value.value if isinstance(value, yaml.SequenceNode) else (value,):
            if not isinstance(source, yaml.MappingNode):
                raise YAMLError(f"{_place(value.start_mark)}: << needs a mapping")
            for key, item in self._mapping(source).items():
                merged.setdefault(key, item)


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbB":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


_CONSTRUCT: dict[str, Callable[[str], Any]] = {
    _TAG + "str": str,
    _TAG + "float": str,
    _TAG + "timestamp": str,
    _TAG + "binary": str,
    _TAG + "int": _integer,
    _TAG + "bool": lambda text: _BOOLEANS[text.lower()],
    _TAG + "null": lambda _: None,
}


def _scalar(node: yaml.ScalarNode) -> Any:
    construct = _CONSTRUCT.get(node.tag)
    if construct is None:
        raise YAMLError(f"{_place(node.start_mark)}: unknown tag {node.tag}")
    try:
        return construct(node.value)
    except (ValueError, KeyError) as error:
        raise YAMLError(f"{_place(node.start_mark)}: {node.value!r} is not {node.tag.removeprefix(_TAG)}") from error


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _one_line(error: yaml.error.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    text = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    return f"{_place(mark)}: {text}" if mark else f"not YAML: {text}"
