"""Extended resources that device classes back: which they are, and the requests that stand for them (facts A5).

`ClassMapping` knows the names; `requests_and_mappings` turns what the containers of a pod ask for into requests of one
claim that the scheduler makes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kube.api.core import Container, ContainerExtendedResourceRequest, Pod
from kube.api.meta import ObjectMeta, OwnerReference
from kube.api.pod_requests import is_extended_resource, is_restartable
from kube.api.quantity import value
from kube.api.resource import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.framework.handle import Lister

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
#: not a valid name, so no claim in the API server has it
IN_MEMORY_NAME = "<extended-resources>"

Mappings = tuple[ContainerExtendedResourceRequest, ...]


def may_be_devices(resource: str) -> bool:
    """Whether a class could back a resource of this name: extended resources, and the names classes have themselves."""
    return is_extended_resource(resource) or resource.startswith(IMPLICIT_PREFIX)


class ClassMapping:
    """Extended resource name -> the class that backs it. Owner: the manager."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._explicit: dict[str, DeviceClass] | None = None

    def forget(self) -> None:
        """Some class came, changed or went."""
        self._explicit = None

    def get(self, resource: str) -> DeviceClass | None:
        """The class of a name; each class also backs the name that it has by itself."""
        if resource.startswith(IMPLICIT_PREFIX):
            found: DeviceClass | None = self._lister.get(resource.removeprefix(IMPLICIT_PREFIX))
            return found
        if self._explicit is None:
            self._explicit = {}
            for each in sorted(self._lister.list(), key=_precedence):
                if each.spec.extended_resource_name:
                    self._explicit.setdefault(each.spec.extended_resource_name, each)
        return self._explicit.get(resource)

    def extended(self, requests: Mapping[str, int]) -> frozenset[str]:
        """Those resources of a pod that a class could back."""
        return frozenset(name for name, amount in requests.items() if amount and may_be_devices(name))

    def backed(self, requests: Mapping[str, int]) -> frozenset[str]:
        """Those that one does back."""
        return frozenset(name for name in self.extended(requests) if self.get(name) is not None)


def _precedence(device_class: DeviceClass) -> tuple[_Latest, str]:
    return _Latest(device_class.metadata.creation_timestamp), device_class.metadata.name


@dataclass(frozen=True, slots=True)
class _Latest:
    """Of two classes with the same name the one created later comes first; RFC 3339 times in UTC sort as text."""

    timestamp: str

    def __lt__(self, other: _Latest) -> bool:
        return self.timestamp > other.timestamp


def in_memory_claim(pod: Pod, requests: tuple[DeviceRequest, ...] = ()) -> ResourceClaim:
    """The claim for a pod's extended resources, before it has a name; its UID is borrowed from the pod."""
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY_NAME,
            generate_name=f"{meta.name}-extended-resources-",
            namespace=meta.namespace,
            uid=f"{meta.uid or pod.key}/extended-resources",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)),
    )


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], classes: ClassMapping
) -> tuple[tuple[DeviceRequest, ...], Mappings]:
    """The requests, by name, that cover these resources, and which container uses which of them.

    Init containers that end reuse the devices of containers that run later; of what they still lack only the largest
    request stays, for all of them.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = classes.get(resource)
        if device_class is not None:
            one = _OneResource(resource, device_class.metadata.name, containers, len(pod.spec.init_containers))
            requests += one.requests
            mappings += one.mappings
    return tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings)


class _OneResource:
    """The requests of one resource. Lives as long as its constructor and two reads."""

    def __init__(self, resource: str, class_name: str, containers: tuple[Container, ...], init_count: int) -> None:
        self._resource = resource
        self._class_name = class_name
        self._containers = containers
        self._lasting: list[DeviceRequest | None] = [None] * len(containers)
        self.mappings: list[ContainerExtendedResourceRequest] = []
        brief = [i for i in range(init_count) if not is_restartable(containers[i])]
        for i in range(len(containers)):
            if i not in brief:
                self._lasting[i], mapped = self._request(i, ())
                self.mappings += mapped
        largest, mapped = self._brief_requests(brief)
        self.mappings += mapped
        self.requests = [r for r in (largest, *self._lasting) if r is not None]

    def _brief_requests(self, brief: list[int]) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
        largest: DeviceRequest | None = None
        names = set()
        mappings: list[ContainerExtendedResourceRequest] = []
        for i in brief:
            request, mapped = self._request(i, self._lasting[i:])
            mappings += mapped
            if request is not None:
                names.add(request.name)
                if largest is None or _count(request) > _count(largest):
                    largest = request
        if largest is None:
            return None, mappings
        return largest, [_renamed(m, largest.name) if m.request_name in names else m for m in mappings]

    def _request(
        self, i: int, reusable: Iterable[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
        """What a container needs beyond what it can reuse, and what it uses in all."""
        container = self._containers[i]
        wanted = container.resources.requests
        amount = value(wanted[self._resource]) if self._resource in wanted else 0
        mapped: list[ContainerExtendedResourceRequest] = []
        if not amount:
            return None, mapped
        for other in reusable:
            if other is not None:
                amount -= _count(other)
                mapped.append(self._mapping(container, other.name))
                if amount <= 0:
                    return None, mapped
        name = f"container-{i}-request-{sorted(wanted).index(self._resource)}"
        mapped.append(self._mapping(container, name))
        exactly = ExactDeviceRequest(device_class_name=self._class_name, allocation_mode=EXACT_COUNT, count=amount)
        return DeviceRequest(name=name, exactly=exactly), mapped

    def _mapping(self, container: Container, request: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=self._resource, request_name=request
        )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _renamed(mapping: ContainerExtendedResourceRequest, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=mapping.container_name, resource_name=mapping.resource_name, request_name=request
    )
