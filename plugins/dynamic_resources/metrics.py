"""The plugin's own metrics, under kube-scheduler's names (facts A8), in the registry that the handle gives plugins.

Owner: the plugin. How long drivers keep pods waiting for their binding conditions is told by driver and outcome; a pod
whose claims have devices of two drivers counts for both.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.framework.handle import Handle

#: up to the binding timeout's default of ten minutes, and beyond
_BUCKETS = tuple(0.1 * 2**i for i in range(14))
SUCCESS, FAILED, TIMEOUT, ERROR = "success", "failed", "timeout", "error"


class DeviceMetrics:
    """What one profile's plugin counts."""

    def __init__(self, handle: Handle) -> None:
        self._profile = handle.profile
        self._creates = handle.metrics.counter(
            "scheduler_resourceclaim_creates_total", "Claims created for extended resources, by outcome", "status"
        )
        labels = ("profile", "driver", "status")
        self._allocations = handle.metrics.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Allocations whose devices had binding conditions, by how these ended",
            *labels,
        )
        self._waits = handle.metrics.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time that pods waited for binding conditions",
            _BUCKETS,
            *labels,
        )

    def claim_created(self, *, succeeded: bool) -> None:
        """A claim for extended resources was stored, or could not be."""
        self._creates.labels(SUCCESS if succeeded else "failure").inc()

    def conditions_ended(self, drivers: Iterable[str], status: str, seconds: float) -> None:
        """The wait for the conditions of these drivers' devices is over."""
        for driver in sorted(set(drivers)):
            self._allocations.labels(self._profile, driver, status).inc()
            self._waits.labels(self._profile, driver, status).observe(seconds)
