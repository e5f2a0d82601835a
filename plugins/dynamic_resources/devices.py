"""Devices and slices as the allocator reads them: quantities parsed, taints sorted out, selector answers remembered.

Built once per ResourceSlice object by `pools.SliceIndex`; a changed slice makes new ones, so what a device remembers
is never stale. Nothing here knows about allocations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from weakref import WeakValueDictionary

from kube.api import cel
from kube.api.codec import encode
from kube.api.core import NodeSelector
from kube.api.node_affinity import match_node_selector
from kube.api.quantity import Quantity, nanos, parse
from kube.api.resource import (
    BasicDevice,
    CapacityRequestPolicy,
    Device,
    DeviceAttribute,
    DeviceTaint,
    ResourceSlice,
    ResourceSliceSpec,
)

#: (counter set, counter)
CounterKey = tuple[str, str]
_BLOCKING = ("NoSchedule", "NoExecute")


class DeviceId(NamedTuple):
    """What identifies a device in a cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolId(NamedTuple):
    """What identifies a pool: two drivers may use the same pool name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class Policy:
    """How much of a capacity a request really takes (parsed CapacityRequestPolicy)."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    minimum: Quantity | None = None
    maximum: Quantity | None = None
    step: Quantity | None = None
    has_range: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device."""

    value: Quantity
    policy: Policy | None


class _Published:
    """What selectors see, and what they said of it. Devices that differ in nothing else, on any node, share one."""

    __slots__ = ("__weakref__", "answers", "values")

    def __init__(self, values: cel.DeviceValues) -> None:
        self.values = values
        #: expression -> the answer, or the text of the error
        self.answers: dict[str, bool | str] = {}


#: expressions whose answers are kept; there may be ever new ones, with the name of a job in them
MAX_ANSWERS = 1024

_known: WeakValueDictionary[bytes, _Published] = WeakValueDictionary()


def _published(driver: str, body: BasicDevice) -> _Published:
    key = encode((driver, body.attributes, body.capacity, body.allow_multiple_allocations))
    found = _known.get(key)
    if found is None:
        values = cel.device_values(
            driver, body.attributes, body.capacity, allow_multiple_allocations=body.allow_multiple_allocations
        )
        found = _known[key] = _Published(values)
    return found


class DeviceView:
    """One device of a slice."""

    def __init__(self, device: Device, parent: SliceView) -> None:
        body: BasicDevice = device.body
        self.id = DeviceId(parent.pool.driver, parent.pool.pool, device.name)
        self.slice = parent
        self.body = body
        self.shareable = body.allow_multiple_allocations
        self.attributes: Mapping[str, DeviceAttribute] = body.attributes
        self.counters: tuple[tuple[CounterKey, int], ...] = tuple(
            ((consumption.counter_set, name), nanos(counter.value or "0"))
            for consumption in body.consumes_counters
            for name, counter in consumption.counters.items()
        )
        self.taints: tuple[DeviceTaint, ...] = tuple(taint for taint in body.taints if taint.effect in _BLOCKING)

    @cached_property
    def capacity(self) -> Mapping[str, Capacity]:
        """The capacities by name, as published."""
        return {
            name: Capacity(parse(each.value or "0"), _policy(each.request_policy))
            for name, each in self.body.capacity.items()
        }

    @cached_property
    def _published(self) -> _Published:
        return _published(self.id.driver, self.body)

    def matches(self, expression: str) -> bool:
        """What a selector says of this device; asked once. Raises `cel.SelectorError`."""
        answers = self._published.answers
        answer = answers.get(expression)
        if answer is None:
            try:
                answer = cel.selector(expression).matches(self._published.values)
            except cel.SelectorError as error:
                answer = str(error)
            if len(answers) >= MAX_ANSWERS:
                answers.clear()
            answers[expression] = answer
        if isinstance(answer, bool):
            return answer
        raise cel.SelectorError(answer)

    def attribute(self, name: str) -> DeviceAttribute | None:
        """By its full name, or by the short one where the domain is the driver's."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, slash, identifier = name.partition("/")
        return self.attributes.get(identifier) if slash and domain == self.id.driver else None

    @property
    def node_name(self) -> str | None:
        """The one node it belongs to, by the slice or by itself."""
        return self.body.node_name if self.slice.per_device else self.slice.spec.node_name

    @property
    def node_selector(self) -> NodeSelector | None:
        """The nodes it can be used from, by the slice or by itself."""
        return self.body.node_selector if self.slice.per_device else self.slice.spec.node_selector

    def is_for(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether it can be used from the node, where each device says so itself; else the slice has answered."""
        body = self.body
        return not self.slice.per_device or _selects(
            body.node_name, body.all_nodes, body.node_selector, node_name, labels
        )


@dataclass(slots=True)
class SliceView:
    """One ResourceSlice."""

    object: ResourceSlice
    pool: PoolId = field(init=False)
    devices: tuple[DeviceView, ...] = field(init=False)

    def __post_init__(self) -> None:
        spec = self.object.spec
        self.pool = PoolId(spec.driver, spec.pool.name)
        self.devices = tuple(DeviceView(device, self) for device in spec.devices)

    @property
    def name(self) -> str:
        """metadata.name; slices of a pool are in this order."""
        return self.object.metadata.name

    @property
    def spec(self) -> ResourceSliceSpec:
        """The object's spec."""
        return self.object.spec

    @property
    def generation(self) -> int:
        """Of the pool, as this slice knows it."""
        return self.object.spec.pool.generation

    @property
    def per_device(self) -> bool:
        """Whether each device says itself which nodes it is for."""
        return self.object.spec.per_device_node_selection

    @property
    def has_counters(self) -> bool:
        """A slice has counters or devices, never both."""
        return bool(self.object.spec.shared_counters)

    @property
    def only_node(self) -> str | None:
        """The node whose business this slice is alone; None: it may concern any node."""
        return None if self.has_counters else self.object.spec.node_name or None

    def is_for(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node can use something of it. Without a node selection that is known it is for none."""
        spec = self.object.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return _selects(spec.node_name, spec.all_nodes, spec.node_selector, node_name, labels)
        return self.per_device and any(device.is_for(node_name, labels) for device in self.devices)


def _selects(
    name: str | None, all_nodes: bool, selector: NodeSelector | None, node_name: str, labels: Mapping[str, str]
) -> bool:
    if name:
        return name == node_name
    return all_nodes or (selector is not None and match_node_selector(selector, labels, node_name))


def _policy(policy: CapacityRequestPolicy | None) -> Policy | None:
    if policy is None:
        return None
    limits = policy.valid_range
    return Policy(
        default=None if policy.default is None else parse(policy.default),
        valid_values=tuple(parse(value) for value in policy.valid_values),
        minimum=None if limits is None or limits.min is None else parse(limits.min),
        maximum=None if limits is None or limits.max is None else parse(limits.max),
        step=None if limits is None or not nanos(limits.step or "0") else parse(limits.step or "0"),
        has_range=limits is not None,
    )
