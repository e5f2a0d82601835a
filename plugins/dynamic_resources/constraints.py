"""Constraints of a claim on the set of its devices: matchAttribute and distinctAttribute (facts A3, "Constraints").

Made anew for each search, which adds devices and takes them back in the order of its backtracking.
"""

from __future__ import annotations

from typing import Protocol

from kube.api.resource import DeviceAttribute, DeviceConstraint
from plugins.dynamic_resources.devices import DeviceView

#: type and value; values of different types are different
_Value = tuple[str, str | int | bool]


class Constraint(Protocol):
    """What a search asks of a constraint."""

    def add(self, request: str, sub_request: str, device: DeviceView) -> bool:
        """Whether the device may join; if so it has."""

    def remove(self, request: str, sub_request: str, device: DeviceView) -> None:
        """Take back an `add` that was answered with yes."""


def make_constraint(spec: DeviceConstraint) -> Constraint | None:
    """None for a kind that is not known."""
    if spec.match_attribute is not None:
        return MatchAttribute(spec.match_attribute, frozenset(spec.requests))
    if spec.distinct_attribute is not None:
        return DistinctAttribute(spec.distinct_attribute, frozenset(spec.requests))
    return None


def _concerns(requests: frozenset[str], request: str, sub_request: str) -> bool:
    """Without a list all requests; a request's name covers its alternatives."""
    return not requests or request in requests or (bool(sub_request) and f"{request}/{sub_request}" in requests)


class MatchAttribute:
    """All devices must have the attribute, with one type and value: that of the first."""

    def __init__(self, name: str, requests: frozenset[str]) -> None:
        self._name = name
        self._requests = requests
        self._first: _Value | None = None
        self._count = 0

    def add(self, request: str, sub_request: str, device: DeviceView) -> bool:
        """See Constraint."""
        if not _concerns(self._requests, request, sub_request):
            return True
        value = _value(device.attribute(self._name))
        if value is None or (self._count and value != self._first):
            return False
        self._first = value
        self._count += 1
        return True

    def remove(self, request: str, sub_request: str, device: DeviceView) -> None:
        """See Constraint."""
        if _concerns(self._requests, request, sub_request):
            self._count -= 1


class DistinctAttribute:
    """A device's value must differ from the remembered ones.

    One value is remembered per request: that of its latest device. So of one request with three devices the third may
    have the first one's value, and taking one back forgets the request. Kubernetes 1.36 does exactly this.
    """

    def __init__(self, name: str, requests: frozenset[str]) -> None:
        self._name = name
        self._requests = requests
        self._latest: dict[str, _Value] = {}

    def add(self, request: str, sub_request: str, device: DeviceView) -> bool:
        """See Constraint."""
        if not _concerns(self._requests, request, sub_request):
            return True
        value = _value(device.attribute(self._name))
        if value is None or value in self._latest.values():
            return False
        self._latest[request] = value
        return True

    def remove(self, request: str, sub_request: str, device: DeviceView) -> None:
        """See Constraint."""
        if _concerns(self._requests, request, sub_request):
            self._latest.pop(request, None)


def _value(attribute: DeviceAttribute | None) -> _Value | None:
    if attribute is None:
        return None
    for kind in ("string", "integer", "boolean", "version"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return None
