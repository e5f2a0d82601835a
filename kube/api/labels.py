"""Label selectors: from text, from LabelSelector and from plain maps to one canonical, hashable form that matches maps.

Anybody may call it. `Requirements` is the form to intern and compare: sorted, without duplicates, so equal selectors
are equal values however they were written. Invalid selectors raise SelectorError with one line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kube.api.meta import LabelSelector

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"

Requirement = tuple[str, str, tuple[str, ...]]
"""(key, operator, values)"""
Requirements = tuple[Requirement, ...]

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """A selector that Kubernetes would refuse; the message is one line."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled label selector: call it with a map of labels.

    `requirements` is None for the selector that matches nothing (nil in Kubernetes), and () for the one that
    matches everything.
    """

    requirements: Requirements | None

    def __call__(self, labels: Mapping[str, str]) -> bool:
        if self.requirements is None:
            return False
        return all(requirement_matches(requirement, labels) for requirement in self.requirements)

    @property
    def is_empty(self) -> bool:
        """Whether it matches everything."""
        return self.requirements == ()

    def __str__(self) -> str:
        if self.requirements is None:
            return "<nothing>"
        return ",".join(_requirement_text(*requirement) for requirement in self.requirements)


NOTHING = Selector(None)
EVERYTHING = Selector(())


def requirements_of(selector: LabelSelector | None) -> Requirements | None:
    """The canonical form of an API label selector; None for nil, which matches nothing."""
    if selector is None:
        return None
    found: list[Requirement] = [(key, IN, (value,)) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        if expression.operator not in (IN, NOT_IN, EXISTS, DOES_NOT_EXIST):
            raise SelectorError(
                f"{expression.operator!r} is not a valid label selector operator for key {expression.key!r}: "
                "expected In, NotIn, Exists or DoesNotExist"
            )
        found.append((expression.key, expression.operator, expression.values))
    return canonical(found)


def canonical(requirements: Iterable[Requirement]) -> Requirements:
    """Sorted, values sorted and without duplicates, each one validated."""
    tidy = {(key, operator, tuple(sorted(set(values)))) for key, operator, values in requirements}
    for requirement in tidy:
        _validate(*requirement)
    return tuple(sorted(tidy))


def selector_of(selector: LabelSelector | None) -> Selector:
    """The compiled form of an API label selector."""
    return compile_selector(requirements_of(selector))


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """The selector of a Service or a ReplicationController: every pair must match; an empty map matches everything."""
    return compile_selector(tuple(sorted((key, IN, (value,)) for key, value in labels.items())))


@lru_cache(maxsize=16384)
def compile_selector(requirements: Requirements | None) -> Selector:
    """One shared Selector per canonical form."""
    return Selector(requirements)


def match_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether an API label selector selects these labels; nil selects nothing, an empty one everything."""
    return selector_of(selector)(labels)


def requirement_matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """One requirement; NotIn and DoesNotExist hold where the label is absent, Gt and Lt compare integers."""
    key, operator, values = requirement
    value = labels.get(key)
    if operator == IN:
        return value is not None and value in values
    if operator == NOT_IN:
        return value is None or value not in values
    if operator == EXISTS:
        return value is not None
    if operator == DOES_NOT_EXIST:
        return value is None
    return value is not None and compare_integers(value, operator, values)


def compare_integers(value: str, operator: str, values: tuple[str, ...]) -> bool:
    """Gt and Lt: false unless both sides are integers of 64 bits and there is exactly one value."""
    if operator not in (GT, LT) or len(values) != 1:
        return False
    left, right = parse_int64(value), parse_int64(values[0])
    if left is None or right is None:
        return False
    return left > right if operator == GT else left < right


def parse_int64(text: str) -> int | None:
    """Go's strconv.ParseInt(text, 10, 64); None where it fails."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def is_label_key(key: str) -> bool:
    """`name` or `prefix/name` of the right characters and lengths."""
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or bool(_PREFIX.fullmatch(prefix)))


def is_label_value(value: str) -> bool:
    """Empty, or at most 63 letters, digits, dashes, underscores and dots between alphanumerics."""
    return not value or bool(_NAME.fullmatch(value))


def _validate(key: str, operator: str, values: tuple[str, ...]) -> None:
    if not is_label_key(key):
        raise SelectorError(f"{key!r} is not a valid label key")
    if operator in (IN, NOT_IN) and not values:
        raise SelectorError(f"operator {operator} of key {key!r} needs at least one value")
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        raise SelectorError(f"operator {operator} of key {key!r} takes no values, got {', '.join(values)}")
    if operator in (GT, LT) and (len(values) != 1 or parse_int64(values[0]) is None):
        raise SelectorError(f"operator {operator} of key {key!r} needs exactly one integer, got {', '.join(values)!r}")
    for value in values:
        if not is_label_value(value):
            raise SelectorError(f"{value!r} is not a valid label value for key {key!r}")


def _requirement_text(key: str, operator: str, values: tuple[str, ...]) -> str:
    if operator == EXISTS:
        return key
    if operator == DOES_NOT_EXIST:
        return f"!{key}"
    if operator in (GT, LT):
        return f"{key}{'>' if operator == GT else '<'}{values[0]}"
    if len(values) == 1:
        return f"{key}{'=' if operator == IN else '!='}{values[0]}"
    return f"{key} {'in' if operator == IN else 'notin'} ({','.join(values)})"


# --- selectors written as text: a=b,c in (d,e),!f,g!=h --------------------------------------------------------------

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_COMPARISONS = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_SET_OPERATORS = {"in": IN, "notin": NOT_IN}
_PUNCTUATION = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", ","})
_END = ""


@lru_cache(maxsize=4096)
def parse_selector(text: str) -> Selector:
    """The `labelSelector` of a request; empty text selects everything."""
    return compile_selector(canonical(_Parser(text).requirements()))


class _Parser:
    """Recursive descent over the tokens of one selector; used once, owned by `parse_selector`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = _TOKEN.findall(text.strip())
        self._next = 0

    def requirements(self) -> Iterator[Requirement]:
        while self._peek() != _END:
            yield self._requirement()
            if self._peek() == _END:
                return
            self._expect(",")
            if self._peek() == _END:
                raise self._error("a label key after ','")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return self._word("a label key"), DOES_NOT_EXIST, ()
        key = self._word("a label key")
        operator = self._peek()
        if operator in (_END, ","):
            return key, EXISTS, ()
        if operator in _COMPARISONS:
            self._take()
            return key, _COMPARISONS[operator], (self._value(),)
        if operator in _SET_OPERATORS:
            self._take()
            return key, _SET_OPERATORS[operator], self._values()
        raise self._error("'=', '!=', '==', '<', '>', 'in' or 'notin'")

    def _value(self) -> str:
        # "a=" asks for the empty value.
        return "" if self._peek() in (_END, ",") else self._word("a value")

    def _values(self) -> tuple[str, ...]:
        self._expect("(")
        values = [""] if self._peek() in (",", ")") else [self._word("a value")]
        while self._peek() == ",":
            self._take()
            values.append("" if self._peek() in (",", ")") else self._word("a value"))
        self._expect(")")
        return tuple(values)

    def _word(self, expected: str) -> str:
        if self._peek() in _PUNCTUATION or self._peek() == _END:
            raise self._error(expected)
        return self._take()

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise self._error(f"{token!r}")
        self._take()

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> str:
        self._next += 1
        return self._tokens[self._next - 1]

    def _error(self, expected: str) -> SelectorError:
        found = f"found {self._peek()!r}" if self._peek() else "it ends early"
        return SelectorError(f"label selector {self._text!r}: {found}, expected {expected}")
