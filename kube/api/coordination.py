"""Lease of coordination.k8s.io/v1, the lock of leader election. Anybody may import it."""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from kube.api.meta import ApiObject, Object


class LeaseSpec(Object, frozen=True):
    # client-go reads an absent field of a Lease as its zero value, so the two are one here.
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    lease_transitions: int = 0
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "coordination.k8s.io/v1"
    KIND: ClassVar[str] = "Lease"

    spec: LeaseSpec = LeaseSpec()
