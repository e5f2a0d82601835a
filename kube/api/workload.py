"""Pod groups: Workload and PodGroup of scheduling.k8s.io, and the PodGroup of the scheduler-plugins project.

One type serves all versions of the native kinds, as far as podium reads them: of 1.35 (v1alpha1) the Workload that
holds its groups itself, of 1.36 (v1alpha2) and 1.37 (v1beta1) the PodGroup as an object of its own. Anybody may
import it.
"""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from msgspec import field

from kube.api.meta import ApiObject, Condition, Object


class BasicSchedulingPolicy(Object, frozen=True):
    """Members are scheduled as they come."""


class GangSchedulingPolicy(Object, frozen=True):
    min_count: int = 0


class PodGroupSchedulingPolicy(Object, frozen=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Object, frozen=True):
    key: str = ""


class PodGroupSchedulingConstraints(Object, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class SingleDisruption(Object, frozen=True):
    """Members may be evicted one by one."""


class WholeDisruption(Object, frozen=True):
    """Who evicts one member evicts all."""


class DisruptionMode(Object, frozen=True):
    """As 1.37 writes it; 1.36 has a word instead: Pod or PodGroup."""

    single: SingleDisruption | None = None
    all: WholeDisruption | None = None


class PodGroupSpec(Object, frozen=True):
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class PodGroupStatus(Object, frozen=True):
    conditions: tuple[Condition, ...] = ()


class PodGroup(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    KIND: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class WorkloadPodGroup(Object, frozen=True):
    name: str = ""
    policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()


class WorkloadSpec(Object, frozen=True):
    # 1.35 only; later versions have templates here, which a controller makes PodGroups of.
    pod_groups: tuple[WorkloadPodGroup, ...] = ()


class Workload(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    KIND: ClassVar[str] = "Workload"

    spec: WorkloadSpec = WorkloadSpec()


class CoschedulingPodGroupSpec(Object, frozen=True):
    min_member: int = 0
    min_resources: dict[str, str | int | float] = field(default_factory=dict)
    schedule_timeout_seconds: int | None = None


class CoschedulingPodGroup(ApiObject, frozen=True):
    """A custom resource; plugins find it under `podgroups.v1alpha1.scheduling.x-k8s.io`."""

    API_VERSION: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"
    KIND: ClassVar[str] = "PodGroup"

    spec: CoschedulingPodGroupSpec = CoschedulingPodGroupSpec()
