"""Types of the apps/v1 group whose selectors decide the default topology spread. Anybody may import it."""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from kube.api.meta import ApiObject, LabelSelector, Object


class ReplicaSetSpec(Object, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ReplicaSet"

    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Object, frozen=True):
    replicas: int | None = None
    selector: LabelSelector | None = None
    service_name: str = ""


class StatefulSet(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "StatefulSet"

    spec: StatefulSetSpec = StatefulSetSpec()
