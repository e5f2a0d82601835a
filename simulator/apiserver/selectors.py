"""Label and field selectors over plain objects: from a query string, or from a LabelSelector object, to a predicate.

Compiled once per request or watch, then called once per object. Nothing here knows the store.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec.json

from simulator.apiserver.errors import Object, bad_request
from simulator.apiserver.resources import FieldPath, Resource

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]
Predicate = Callable[[Object], bool]

_METADATA_FIELDS: dict[str, FieldPath] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}
# Commas separate requirements, except between the brackets of a set.
_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s*\(\s*(?P<values>[^()]*?)\s*\)$")
_COMPARED = re.compile(r"^(?P<key>[^=!\s<>]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^=!\s<>()]*)$")
_KEY = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")
NO_LABELS: Labels = {}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector: a key, and what its value may be."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """Judge one set of labels; a missing key satisfies only the negative operators."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) is (self.operator == "In")


def _all_of(requirements: list[Requirement]) -> LabelTest:
    if len(requirements) == 1:
        return requirements[0].matches
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)


def parse_label_selector(text: str) -> LabelTest:
    """Compile `a=b,c!=d,e in (x,y),f notin (z),g,!h`; raises a 400 that names the part it cannot read."""
    parts = [part.strip() for part in _COMMA.split(text)]
    return _all_of([_parse_requirement(part, text) for part in parts if part])


def _parse_requirement(part: str, text: str) -> Requirement:
    if match := _SET.match(part):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return Requirement(_key(match["key"], text), "In" if match["operator"] == "in" else "NotIn", values)
    if match := _COMPARED.match(part):
        operator = "NotIn" if match["operator"] == "!=" else "In"
        return Requirement(_key(match["key"], text), operator, frozenset([match["value"]]))
    if part.startswith("!"):
        return Requirement(_key(part[1:].strip(), text), "DoesNotExist")
    return Requirement(_key(part, text), "Exists")


def _key(key: str, text: str) -> str:
    if _KEY.match(key):
        return key
    raise bad_request(f'unable to parse requirement: found "{key}" in label selector "{text}", expected a label key')


def label_selector(selector: Object | None) -> LabelTest:
    """Compile a LabelSelector object; None matches nothing, the empty selector everything."""
    if selector is None:
        return lambda _: False
    equal = [Requirement(key, "In", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()]
    terms = [
        Requirement(term["key"], term["operator"], frozenset(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    return _all_of(equal + terms)


def parse_field_selector(text: str, resource: Resource) -> Predicate:
    """Compile `a.b=c,d.e!=f` for the fields this resource knows; raises a 400 for any other."""
    tests = [_parse_field(part, resource) for part in text.split(",") if part.strip()]
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def _parse_field(part: str, resource: Resource) -> Predicate:
    match = re.match(r"^\s*(?P<key>[^=!]+?)\s*(?P<operator>==|=|!=)\s*(?P<value>.*?)\s*$", part)
    if not match:
        raise bad_request(
            f'invalid field selector: "{part}"; can\'t understand it, expected field=value or field!=value'
        )
    path = _METADATA_FIELDS.get(match["key"]) or resource.fields.get(match["key"])
    if path is None:
        raise bad_request(f"field label not supported: {match['key']}")
    wanted, equal = match["value"], match["operator"] != "!="
    return lambda obj: (_field_matches(obj, path, wanted)) is equal


def _field_matches(obj: Object, path: FieldPath, wanted: str) -> bool:
    value: Any = obj
    for step in path:
        value = value.get(step) if value else None
    if isinstance(value, str):
        return value == wanted
    # An absent field has its zero value: "" for words, false for flags, 0 for numbers.
    return wanted in ("", "false", "0") if value is None else msgspec.json.encode(value).decode() == wanted


def compile_selectors(label_text: str, field_text: str, resource: Resource) -> Predicate | None:
    """Compile the selectors of a list or watch; None where there are none."""
    label_test = parse_label_selector(label_text) if label_text.strip() else None
    field_test = parse_field_selector(field_text, resource) if field_text.strip() else None
    if label_test is None:
        return field_test
    if field_test is None:
        return lambda obj: label_test(labels_of(obj))
    return lambda obj: field_test(obj) and label_test(labels_of(obj))


def labels_of(obj: Object) -> Labels:
    """Give an object's labels, empty where it has none."""
    return obj["metadata"].get("labels") or NO_LABELS
