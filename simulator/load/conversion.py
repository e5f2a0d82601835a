"""Type errors in the words of whoever wrote the file: the exact field, what was expected, what is there.

Called by `simulator.load.cluster_objects` only.
"""

from __future__ import annotations

import re
from typing import Any

from kube.api.codec import DecodeError

_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
    "float": "a number",
}
_EXPECTED = re.compile(r"^expected `([^`]+)`, got `([^`]+)`$", re.IGNORECASE)
_STEP = re.compile(r"\[(\d+)\]|\[\.\.\.\]|([^.\[\]]+)")


def explain(error: DecodeError, body: dict[str, Any]) -> str:
    """`path: expected …, got …` for a DecodeError about `body`."""
    _, _, text = str(error).partition(": ")
    path, _, reason = text.rpartition(": ")
    match = _EXPECTED.match(reason)
    if not match:
        return text
    expected, got = match[1], match[2]
    found, path = _locate(body, path, got)
    hint = " (quote it)" if expected == "str" and isinstance(found, bool | int) else ""
    return f"{path}: expected {_in_words(expected)}, got {_shown(found)}{hint}"


def _locate(body: Any, path: str, got: str) -> tuple[Any, str]:
    """The value at a msgspec path, and the path with `[...]` replaced by the key whose value has the wrong type."""
    value, steps = body, ""
    for step in _STEP.finditer(path):
        if step[1] is not None:
            key: Any = int(step[1])
            steps += f"[{key}]"
        elif step[2] is not None:
            key = step[2]
            steps += f".{key}"
        else:
            key = next((k for k, v in value.items() if _type_name(v) == got), "") if isinstance(value, dict) else ""
            steps += f".{key}"
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None, path
    return value, steps.lstrip(".")


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(name.strip(), name.strip()) for name in types.split("|") if name.strip() != "null")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return _WORDS[_type_name(value)] if isinstance(value, dict | list) or value is None else repr(value)
