"""The metrics of a Kubernetes component beside the scheduler's own: process_*, who leads, what pods ask for, and the
health checks (facts 1.7: /metrics, /metrics/resources, /metrics/slis).

Read when they are scraped. Owner: the HTTP server of one service.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kube.api.core import Container, Pod, ResourceRequirements
from kube.api.pod_requests import pod_requests
from kube.client.leader_election import LeaderElector

_UNITS = {"cpu": "cores", "memory": "bytes", "ephemeral-storage": "bytes"}
_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")


class LeaderCollector(Collector):
    """leader_election_master_status: 1 on the replica that leads."""

    def __init__(self, name: str, elector: Callable[[], LeaderElector | None]) -> None:
        self._name = name
        self._elector = elector

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Nothing where nobody is elected."""
        family = GaugeMetricFamily("leader_election_master_status", "1 on the replica that leads", labels=("name",))
        elector = self._elector()
        if elector is not None:
            family.add_metric((self._name,), float(elector.is_leader))
        return [family]


class ResourceCollector(Collector):
    """kube_pod_resource_request and kube_pod_resource_limit of all pods that are not finished."""

    def __init__(self, pods: Callable[[], Iterable[Pod]]) -> None:
        self._pods = pods

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Without looking at the pods."""
        return self._families()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """A sample per pod and resource."""
        requests, limits = families = self._families()
        for pod in self._pods():
            for family, subject in ((requests, pod), (limits, _with_limits(pod))):
                for labels, value in _samples(subject):
                    family.add_metric(labels, value)
        return families

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily(
                "kube_pod_resource_request", "What pods ask for, as the scheduler counts", labels=_LABELS
            ),
            GaugeMetricFamily("kube_pod_resource_limit", "What pods may use at most, counted alike", labels=_LABELS),
        )


def _samples(pod: Pod) -> Iterator[tuple[tuple[str, ...], float]]:
    meta, spec = pod.metadata, pod.spec
    who = (meta.namespace, meta.name, spec.node_name, spec.scheduler_name, str(spec.priority or 0))
    for resource, amount in pod_requests(pod).items():
        if amount:
            value = amount / 1000 if resource == "cpu" else float(amount)
            unit = "bytes" if resource.startswith("hugepages-") else _UNITS.get(resource, "integer")
            yield (*who, resource, unit), value


def _with_limits(pod: Pod) -> Pod:
    """The pod, asking for its limits: the sum over containers follows the same rules."""

    def limited(container: Container) -> Container:
        return msgspec.structs.replace(container, resources=ResourceRequirements(requests=container.resources.limits))

    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(limited, pod.spec.containers)),
        init_containers=tuple(map(limited, pod.spec.init_containers)),
        overhead={},
    )
    return msgspec.structs.replace(pod, spec=spec)


class Without(Collector):
    """A registry without the families of --disabled-metrics."""

    def __init__(self, registry: CollectorRegistry, names: Collection[str]) -> None:
        self._registry = registry
        self._names = names

    def collect(self) -> Iterable[Metric]:
        """The others."""
        for family in self._registry.collect():
            # A counter's family is named without the suffix that its samples have.
            if family.name not in self._names and f"{family.name}_total" not in self._names:
                yield family


class HealthChecks:
    """kubernetes_healthcheck and kubernetes_healthchecks_total, as the probes see them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._now = Gauge(
            "kubernetes_healthcheck", "Result of a health check", ("name", "type"), registry=self.registry
        )
        self._all = Counter(
            "kubernetes_healthchecks_total", "Health checks, by result", ("name", "status", "type"),
            registry=self.registry,
        )  # fmt: skip

    def observe(self, name: str, kind: str, *, well: bool) -> None:
        """A probe was answered."""
        self._now.labels(name, kind).set(float(well))
        self._all.labels(name, "success" if well else "error", kind).inc()


def register(registry: CollectorRegistry, lease: str, elector: Callable[[], LeaderElector | None]) -> None:
    """What /metrics holds of the process."""
    ProcessCollector(registry=registry)
    registry.register(LeaderCollector(lease, elector))
