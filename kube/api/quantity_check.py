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
from kube.api.storage import CSIStorageCapacity

T = TypeVar("T", bound=ApiObject)
#: a path, and the amounts there
Amounts = tuple[str, Mapping[str, str]]


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
    said = {"capacity": capacity.capacity, "maximumVolumeSize": capacity.maximum_volume_size}
    return _checked(capacity, (("", {name: text for name, text in said.items() if text}),))


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
    if status.resources is not None:
        _checked(pod, _resources("status.resources", status.resources))
    if status.allocated_resources:
        _checked(pod, (("status.allocatedResources", status.allocated_resources),))
    if status.container_statuses:
        _checked(pod, _statuses(status.container_statuses))


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


def _statuses(statuses: Iterable[ContainerStatus]) -> Iterator[Amounts]:
    for i, status in enumerate(statuses):
        if status.resources is not None:
            yield from _resources(f"status.containerStatuses[{i}].resources", status.resources)
        yield f"status.containerStatuses[{i}].allocatedResources", status.allocated_resources
