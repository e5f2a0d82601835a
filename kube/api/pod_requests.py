"""What a pod takes from a node: effective resource requests, non-zero requests for scoring, host ports.

Anybody may call it. Sums are exact and rounded once at the end, as Kubernetes does. Requests that follow from limits
are filled in by the API server (or by the loader of a file), never here.
"""

from collections.abc import Callable, Mapping

from kube.api.core import Container, ContainerStatus, Pod
from kube.api.quantity import milli, nanos, whole

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU_REQUEST = 100
DEFAULT_MEMORY_REQUEST = 200 * 1024 * 1024

_DEFAULTS = {CPU: nanos("100m"), MEMORY: nanos("200Mi")}
_HUGEPAGES = "hugepages-"
_ATTACHABLE_VOLUMES = "attachable-volumes-"
_DEFAULT_NAMESPACE = "kubernetes.io/"

Amounts = dict[str, int]
"""Resource name to exact amount, in nanos."""


def pod_requests(pod: Pod, *, assigned: bool = False) -> dict[str, int]:
    """Effective requests of the pod: cpu in thousandths, everything else in whole units.

    For an assigned pod a resize in progress counts with whichever is larger: wanted, allocated or actuated.
    """
    return {name: _rounded(name, amount) for name, amount in _pod_amounts(pod, assigned, {}).items()}


def non_zero_requests(pod: Pod, *, assigned: bool = False) -> tuple[int, int]:
    """(milli cpu, memory) for scoring: a container that asks for none counts as 100m and 200 MiB.

    An explicit zero is an answer. With pod-level requests the defaults stand in only for what nobody asked for.
    """
    missing: Mapping[str, int] = _DEFAULTS
    if _pod_level_requests(pod):
        asked = _pod_amounts(pod, assigned, {})
        missing = {name: amount for name, amount in _DEFAULTS.items() if name not in asked}
    amounts = _pod_amounts(pod, assigned, missing)
    return _rounded(CPU, amounts.get(CPU, 0)), _rounded(MEMORY, amounts.get(MEMORY, 0))


def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler counts this resource beside cpu, memory, storage and pods; unknown names are ignored."""
    return (
        is_extended_resource(name) or _DEFAULT_NAMESPACE in name or name.startswith((_HUGEPAGES, _ATTACHABLE_VOLUMES))
    )


def is_extended_resource(name: str) -> bool:
    """`domain/name` outside kubernetes.io, and not a quota name."""
    return "/" in name and _DEFAULT_NAMESPACE not in name and not name.startswith("requests.")


def is_restartable(container: Container) -> bool:
    """Whether an init container is a sidecar, which keeps running beside the regular ones."""
    return container.restart_policy == "Always"


def host_ports(pod: Pod) -> tuple[tuple[str, str, int], ...]:
    """(protocol, ip, port) of every host port of regular containers and sidecars, defaults filled in."""
    sidecars = tuple(container for container in pod.spec.init_containers if is_restartable(container))
    return tuple(
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
        for container in pod.spec.containers + sidecars
        for port in container.ports
        if port.host_port > 0
    )


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet refused the wanted size, so that it will never be taken."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    # Before 1.33 the verdict was in status.resize.
    return pod.status.resize == "Infeasible"


def _pod_amounts(pod: Pod, assigned: bool, missing: Mapping[str, int]) -> Amounts:
    amounts = _container_amounts(pod, _sizes(pod, assigned, missing))
    amounts.update(_pod_level_amounts(pod, assigned))
    if pod.spec.overhead:
        _add(amounts, _exact(pod.spec.overhead))
    return amounts


def _container_amounts(pod: Pod, size: Callable[[Container], Amounts]) -> Amounts:
    """Regular containers and sidecars run together; each init container runs with the sidecars before it.

    A sidecar's own start is no peak: the total already holds all of them.
    """
    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, size(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        use = size(container)
        if is_restartable(container):
            _add(total, use)
            _add(sidecars, use)
        else:
            _add(use, sidecars)
            _maximum(peak, use)
    _maximum(total, peak)
    return total


def _sizes(pod: Pod, assigned: bool, missing: Mapping[str, int]) -> Callable[[Container], Amounts]:
    """How to size one container: from the spec, for assigned pods also from what its status reports."""
    statuses: dict[str, ContainerStatus] = {}
    if assigned:
        # An ordinary init container cannot be resized.
        sidecars = {container.name for container in pod.spec.init_containers if is_restartable(container)}
        reported = [status for status in pod.status.init_container_statuses if status.name in sidecars]
        reported += pod.status.container_statuses
        statuses = {status.name: status for status in reported if status.resources is not None}
    infeasible = bool(statuses) and is_resize_infeasible(pod)

    def size(container: Container) -> Amounts:
        amounts = _exact(container.resources.requests)
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            amounts = {} if infeasible else amounts
            _maximum(amounts, _exact(status.resources.requests))
            _maximum(amounts, _exact(status.allocated_resources))
        for name, amount in missing.items():
            amounts.setdefault(name, amount)
        return amounts

    return size


def _pod_level_requests(pod: Pod) -> Mapping[str, str]:
    if pod.spec.resources is None:
        return {}
    return {name: quantity for name, quantity in pod.spec.resources.requests.items() if _is_pod_level(name)}


def _pod_level_amounts(pod: Pod, assigned: bool) -> Amounts:
    requests = _pod_level_requests(pod)
    if not requests:
        return {}
    amounts = _exact(requests)
    if assigned and pod.status.resources is not None:
        amounts = {} if is_resize_infeasible(pod) else amounts
        for reported in (pod.status.resources.requests, pod.status.allocated_resources):
            _maximum(amounts, {name: nanos(q) for name, q in reported.items() if _is_pod_level(name)})
    return amounts


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(_HUGEPAGES)


def _exact(requests: Mapping[str, str]) -> Amounts:
    return {name: nanos(quantity) for name, quantity in requests.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _maximum(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _rounded(name: str, amount: int) -> int:
    return milli(amount) if name == CPU else whole(amount)
