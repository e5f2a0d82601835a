"""What CEL's library lacks of texts, lists and maps: regular expressions, positions, the macros that make maps.

Called by `kube.api.cel_functions` and `kube.api.cel`; knows nothing of Kubernetes' own types.
"""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

from kube.api.cel_overloads import Functions, Overload, declared, function, member

#: an escape, a character class, or what opens a group that would be captured
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P<\w+>", re.DOTALL)
_STATUS = re.compile(r"^[A-Z_]+: ")


def text_functions(t: Any) -> Functions:
    """Of texts and lists."""
    text, number, yes_no = t.STRING, t.INT, t.BOOL
    return {
        "find": [member("string_find", [text, text], text, lambda s, pattern: next(iter(_found(s, pattern)), ""))],
        "findAll": [
            member("string_find_all", [text, text], t.List(text), _found),
            member("string_find_all_int", [text, text, number], t.List(text), _found),
        ],
        "isSorted": [
            member("list_is_sorted", [t.LIST], yes_no, lambda v: all(a <= b for a, b in itertools.pairwise(v)))
        ],
        "sum": [member("list_sum", [t.LIST], t.DYN, sum)],
        "min": [member("list_min", [t.LIST], t.DYN, min)],
        "max": [member("list_max", [t.LIST], t.DYN, max)],
        "positionOf": _positions(t, "index_of", _position, list.index),
        "lastPositionOf": _positions(t, "last_index_of", _last_position, _last_index),
    }


def _positions(
    t: Any, name: str, in_text: Callable[..., int], in_list: Callable[[list[Any], Any], int]
) -> list[Overload]:
    """indexOf and lastIndexOf: the library has them for texts only, and they cannot be added to."""
    kinds = (t.STRING, t.INT, t.UINT, t.BOOL, t.DOUBLE, t.BYTES)

    def found(values: list[Any], value: Any) -> int:
        return in_list(values, value) if value in values else -1

    return [
        member(f"string_{name}", [t.STRING, t.STRING], t.INT, in_text),
        member(f"string_{name}_int", [t.STRING, t.STRING, t.INT], t.INT, in_text),
        *(member(f"list_{name}_{kind.name().lower()}", [t.LIST, kind], t.INT, found) for kind in kinds),
    ]


def _position(text: str, part: str, start: int | None = None) -> int:
    if start is None or not part:
        return text.find(part, start)
    return text.find(part, _in_range(text, start))


def _last_position(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    return text.rfind(part, 0, _in_range(text, start) + len(part)) if part else start


def _in_range(text: str, start: int) -> int:
    if not 0 <= start < len(text):
        raise ValueError(f"index out of range: {start}")
    return start


def _last_index(values: list[Any], value: Any) -> int:
    return len(values) - 1 - values[::-1].index(value)


# --- maps -------------------------------------------------------------------------------------------------------------


def map_insertion(cel: Any) -> Any:
    """What transformMap becomes. The library has it, but not under the name by which its evaluator looks for it."""
    t = cel.Type
    keys = (t.STRING, t.INT, t.UINT, t.BOOL)
    values = (*keys, t.DOUBLE, t.BYTES, t.LIST, t.MAP, t.NULL, t.TIMESTAMP, t.DURATION)
    # A parameter of any type takes nothing when it is evaluated, so each is there.
    overloads = [
        function(f"insert_{key.name()}_{value.name()}".lower(), [t.MAP, key, value], t.MAP, _inserted)
        for key in keys
        for value in values
    ]
    whole = function("insert_map", [t.MAP, t.MAP], t.MAP, lambda m, n: functools.reduce(_with_entry, n.items(), m))
    return declared(cel, "cel.@mapInsert", [*overloads, whole])


def _inserted(entries: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in entries:
        raise ValueError(f"insert failed: key {key} already exists")
    return {**entries, key: value}


def _with_entry(entries: dict[Any, Any], entry: tuple[Any, Any]) -> dict[Any, Any]:
    return _inserted(entries, *entry)


# --- regular expressions ---------------------------------------------------------------------------------------------


def _found(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Whole matches, by the library's own RE2: a selector cannot make it take long."""
    bare = _GROUP.sub(lambda part: "(?:" if part[0].startswith("(") else part[0], pattern)
    result = _extract_all().eval(data={"text": text, "pattern": bare})
    if result.type().name() == "ERROR":
        raise ValueError(f"illegal regex: {plain_message(str(result.value()))}")
    found: list[str] = result.plain_value()
    return found if limit < 0 else found[:limit]


@functools.cache
def _extract_all() -> Any:
    from cel_expr_python import cel  # type: ignore[import-untyped]

    config = cel.NewEnvConfigFromYaml("name: regex\nextensions:\n- name: optional\n- name: regex\n")
    texts = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(config=config, variables=texts).compile("regex.extractAll(text, pattern)")


def plain_message(text: str) -> str:
    """The library's message without its status codes."""
    return _STATUS.sub("", text.removesuffix(" [INVALID_ARGUMENT]"))
