"""Whether the quantities of an object are quantities. Types keep them as the text they came as: decoding cannot tell.

Asked once about each object that a list or watch brings, before anybody counts with it: kube-scheduler cannot decode
such an object at all, here it is one bad object. Raises DecodeError with one line, and never changes anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from kube.api.codec import DecodeError
from kube.api.core import (
    Container,
    ContainerStatus,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceRequirements,
)
from kube.api.meta import ApiObject
from kube.api.quantity import QuantityError, parse
from kube.api.resource import (
    CapacityRequirements,
    Counter,
    DeviceCapacity,
    QuantityText,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from kube.api.storage import CSIStorageCapacity

T = TypeVar("T", bound=ApiObject)
#: a path, and the amounts there
Amounts = tuple[str, Mapping[str, QuantityText]]


def checked_node(node: Node) -> Node:
    """The same node."""
    return _checked(node, (("status.allocatable", node.status.allocatable),))


def checked_volume(volume: PersistentVolume) -> PersistentVolume:
    """The same volume."""
    return _checked(volume, (("spec.capacity", volume.spec.capacity),))


def checked_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The same claim."""
    return _checked(claim, (("spec.resources.requests", claim.spec.resources.requests),))


def checked_capacity(capacity: CSIStorageCapacity) -> CSIStorageCapacity:
    """The same capacity."""
    return _checked(capacity, capacity_amounts(capacity))


def checked_slice(resource_slice: ResourceSlice) -> ResourceSlice:
    """The same slice."""
    return _checked(resource_slice, slice_amounts(resource_slice))


def checked_resource_claim(claim: ResourceClaim) -> ResourceClaim:
    """The same claim."""
    return _checked(claim, resource_claim_amounts(claim))


def check_containers(pod: Pod) -> None:
    """What replicas share: whoever has seen one of them need not look again."""
    _checked(pod, _containers("spec.initContainers", pod.spec.init_containers))
    _checked(pod, _containers("spec.containers", pod.spec.containers))


def check_pod_level(pod: Pod) -> None:
    """What is said of a pod as a whole, and of its containers as they run; most pods say nothing."""
    spec, status = pod.spec, pod.status
    if spec.overhead:
        _checked(pod, (("spec.overhead", spec.overhead),))
    if spec.resources is not None:
        _checked(pod, _resources("spec.resources", spec.resources))
    if status.container_statuses or status.init_container_statuses or status.resources or status.allocated_resources:
        _checked(pod, status_amounts(pod))


# --- where amounts stand -----------------------------------------------------------------------------------------


def status_amounts(pod: Pod) -> Iterator[Amounts]:
    """What the kubelet reports of a pod and its containers."""
    status = pod.status
    if status.resources is not None:
        yield from _resources("status.resources", status.resources)
    yield "status.allocatedResources", status.allocated_resources
    yield from _statuses("status.containerStatuses", status.container_statuses)
    yield from _statuses("status.initContainerStatuses", status.init_container_statuses)


def capacity_amounts(capacity: CSIStorageCapacity) -> Iterator[Amounts]:
    """How much storage is left somewhere."""
    said = {"capacity": capacity.capacity, "maximumVolumeSize": capacity.maximum_volume_size}
    yield "", {name: text for name, text in said.items() if text}


def slice_amounts(resource_slice: ResourceSlice) -> Iterator[Amounts]:
    """What devices have, and what they may be asked for."""
    spec = resource_slice.spec
    for i, counter_set in enumerate(spec.shared_counters):
        yield f"spec.sharedCounters[{i}].counters", _values(counter_set.counters)
    for i, device in enumerate(spec.devices):
        path = f"spec.devices[{i}]"
        yield f"{path}.capacity", _values(device.body.capacity)
        for name, capacity in device.body.capacity.items():
            yield from _policy(f"{path}.capacity.{name}.requestPolicy", capacity)
        for number, consumed in enumerate(device.body.consumes_counters):
            yield f"{path}.consumesCounters[{number}].counters", _values(consumed.counters)


def resource_claim_amounts(claim: ResourceClaim) -> Iterator[Amounts]:
    """What is asked of devices, and what was given."""
    yield from claim_spec_amounts(claim.spec, "spec")
    allocation = claim.status.allocation
    for i, result in enumerate(allocation.devices.results if allocation is not None else ()):
        yield f"status.allocation.devices.results[{i}].consumedCapacity", result.consumed_capacity


def claim_spec_amounts(spec: ResourceClaimSpec, path: str) -> Iterator[Amounts]:
    """What is asked of devices, by a claim or by its template."""
    for i, request in enumerate(spec.devices.requests):
        where = f"{path}.devices.requests[{i}]"
        if request.exactly is not None:
            yield from _asked(f"{where}.exactly.capacity", request.exactly.capacity)
        yield from _asked(f"{where}.capacity", request.capacity)
        for number, alternative in enumerate(request.first_available):
            yield from _asked(f"{where}.firstAvailable[{number}].capacity", alternative.capacity)


def _checked(obj: T, said: Iterable[Amounts]) -> T:
    for path, amounts in said:
        for name, text in amounts.items():
            try:
                parse(text)
            except QuantityError as error:
                where = f"{path}.{name}" if path else name
                raise DecodeError(f"{obj.KIND} {obj.key}: {where}: {error}") from None
    return obj


def _resources(path: str, resources: ResourceRequirements) -> Iterator[Amounts]:
    yield f"{path}.requests", resources.requests
    yield f"{path}.limits", resources.limits


def _containers(path: str, containers: Iterable[Container]) -> Iterator[Amounts]:
    for i, container in enumerate(containers):
        yield from _resources(f"{path}[{i}].resources", container.resources)


def _statuses(path: str, statuses: Iterable[ContainerStatus]) -> Iterator[Amounts]:
    for i, status in enumerate(statuses):
        if status.resources is not None:
            yield from _resources(f"{path}[{i}].resources", status.resources)
        yield f"{path}[{i}].allocatedResources", status.allocated_resources


def _values(valued: Mapping[str, DeviceCapacity | Counter]) -> Mapping[str, QuantityText]:
    """One without a value has none of it."""
    return {f"{name}.value": each.value for name, each in valued.items() if each.value != ""}


def _policy(path: str, capacity: DeviceCapacity) -> Iterator[Amounts]:
    policy = capacity.request_policy
    if policy is None:
        return
    limits = policy.valid_range
    said = {"default": policy.default}
    if limits is not None:
        said |= {"validRange.min": limits.min, "validRange.max": limits.max, "validRange.step": limits.step}
    yield path, {name: text for name, text in said.items() if text is not None}
    yield f"{path}.validValues", {str(i): text for i, text in enumerate(policy.valid_values)}


def _asked(path: str, capacity: CapacityRequirements | None) -> Iterator[Amounts]:
    if capacity is not None:
        yield f"{path}.requests", capacity.requests
