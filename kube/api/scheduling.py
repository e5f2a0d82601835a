"""PriorityClass of scheduling.k8s.io/v1. Anybody may import it."""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from kube.api.meta import ApiObject


class PriorityClass(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"

    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
