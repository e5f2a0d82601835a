"""PodDisruptionBudget of policy/v1, read by preemption. Anybody may import it."""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from msgspec import field

from kube.api.meta import ApiObject, LabelSelector, Object


class PodDisruptionBudgetSpec(Object, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Object, frozen=True):
    observed_generation: int = 0
    # Pods whose eviction was granted but not seen yet, with the time of the grant: they are already accounted for.
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
