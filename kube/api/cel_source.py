"""CEL selectors as text: what `kube.api.cel` needs to know of an expression before the library compiles it.

Two things are in here: the few rewrites that map Kubernetes' `device` variable to what the library offers, and a
reader for selectors so simple that they need no library. Nothing here evaluates CEL in general.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>[bB]?(?:[rR](?:"[^"\n]*"|'[^'\n]*')|"{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}
      |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
#: what the library has for texts only, and what has it for lists as well
_POSITIONS = {"indexOf": "positionOf", "lastIndexOf": "lastPositionOf"}
#: what the library is told -> what was written, for its messages
RENAMED = {"written": "string"} | {ours: theirs for theirs, ours in _POSITIONS.items()}
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_MAPS = ("attributes", "capacity")


class Device(Protocol):
    """What a simple selector reads (`kube.api.cel.DeviceValues`)."""

    @property
    def driver(self) -> str:
        """The name of the driver."""

    @property
    def attributes(self) -> Any:
        """domain -> name -> value."""


@dataclass(frozen=True, slots=True)
class Source:
    """An expression as the library is to compile it, and the domains that must be in the maps."""

    text: str
    domains: tuple[str, ...]


@dataclass(slots=True)
class _Token:
    kind: str
    text: str


def read_source(expression: str) -> Source:
    """Rewrite what the library lacks: has() of a field of `device`, and `in`, size() and the like of whole maps."""
    tokens = [_Token(match.lastgroup or "other", match[0]) for match in _TOKEN.finditer(expression)]
    solid = [token for token in tokens if token.kind != "space"]
    for i, token in enumerate(solid):
        if token.text == "device" and (i == 0 or solid[i - 1].text != ".") and _field(solid, i) in _FIELDS:
            _rewrite(solid, i)
    for i, token in enumerate(solid):
        if token.text in _POSITIONS and i and solid[i - 1].text == ".":
            token.text = _POSITIONS[token.text]
    if any(token.text in ("ip", "cidr") for token in solid):
        _write_addresses(solid)
    text = "".join(token.text for token in tokens)
    return Source(text, tuple(dict.fromkeys(_domains(solid))))


def _field(tokens: list[_Token], i: int) -> str:
    return tokens[i + 2].text if i + 2 < len(tokens) and tokens[i + 1].text == "." else ""


def _rewrite(tokens: list[_Token], i: int) -> None:
    before = [token.text for token in tokens[max(i - 2, 0) : i]]
    after = [token.text for token in tokens[i + 3 : i + 6]]
    if before == ["has", "("] and after[:1] == [")"]:
        # Every device has all of these fields; the library cannot ask that of a dotted variable.
        tokens[i - 2].text = "true"
        for token in (*tokens[i - 1 : i + 3], tokens[i + 3]):
            token.text = ""
    elif tokens[i + 2].text in _MAPS and (before[-1:] == ["in"] or (after[:1] == ["."] and after[2:3] == ["("])):
        # Membership, size and comprehensions see the domains that the device has, not those that a lookup may name.
        tokens[i].text = "published"


def _write_addresses(tokens: list[_Token]) -> None:
    """string(x) becomes string(written(x)): the library's string() knows no addresses and cannot be taught."""
    closing: list[bool] = []
    for i, token in enumerate(tokens):
        if token.text == "(":
            is_string = i > 0 and tokens[i - 1].text == "string" and (i == 1 or tokens[i - 2].text != ".")
            closing.append(is_string)
            token.text = "(written(" if is_string else "("
        elif token.text == ")" and closing and closing.pop():
            token.text = "))"


def _domains(tokens: list[_Token]) -> list[str]:
    """Any literal may be one, be it by way of cel.bind, and so may a name after `device.attributes.`."""
    literals = [token.text.strip("\"'") for token in tokens if token.kind == "string" and "\\" not in token.text]
    names = [
        token.text
        for i, token in enumerate(tokens)
        if token.kind == "name" and [t.text for t in tokens[max(i - 2, 0) : i] if t.text != "?"][:1] == ["attributes"]
    ]
    return literals + names


# --- selectors that need no library ------------------------------------------------------------------------------

_LITERAL = r"""(?P<literal>"[^"\\\n]*"|'[^'\\\n]*'|-?[0-9]+|true|false)"""
_DRIVER = re.compile(rf"device\s*\.\s*driver\s*==\s*{_LITERAL}")
_ATTRIBUTE = re.compile(
    rf"""device\s*\.\s*attributes\s*\[\s*(?P<domain>"[^"\\\n]*"|'[^'\\\n]*')\s*\]\s*
         \.\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*==\s*{_LITERAL}""",
    re.VERBOSE,
)
_AND = re.compile(r"\s*&&\s*")


def simple_selector(expression: str) -> Callable[[Device], bool] | None:
    """Equalities of the driver or an attribute with a literal, joined by &&; None for anything else.

    The answer raises KeyError for a missing attribute, unless another term is false: as CEL's && does.
    """
    terms = [_simple_term(term) for term in _AND.split(expression.strip())]
    if any(term is None for term in terms):
        return None
    known = [term for term in terms if term is not None]
    return lambda device: _all(known, device)


def _simple_term(text: str) -> Callable[[Device], bool] | None:
    match = _DRIVER.fullmatch(text)
    if match:
        driver = _literal(match["literal"])
        return lambda device: device.driver == driver
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        return None
    domain, name, wanted = match["domain"][1:-1], match["name"], _literal(match["literal"])
    return lambda device: _same(device.attributes.get(domain, {})[name], wanted)


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    return text == "true" if text in ("true", "false") else int(text)


def _same(value: Any, wanted: Any) -> bool:
    """Values of different types are different, also 1 and true."""
    return type(value) is type(wanted) and value == wanted


def _all(terms: list[Callable[[Device], bool]], device: Device) -> bool:
    missing: KeyError | None = None
    for term in terms:
        try:
            if not term(device):
                return False
        except KeyError as error:
            missing = missing or error
    if missing is not None:
        raise missing
    return True
