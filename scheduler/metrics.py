"""The scheduler's metrics, under kube-scheduler's own names, labels and buckets (facts 1.7).

Built once by the wiring and handed down; knows nothing of who observes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics

from scheduler.series import Counter, Histogram

# Go's client exposes no `_created` series; dashboards made for kube-scheduler expect none.
disable_created_metrics()  # type: ignore[no-untyped-call]


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket bounds start, start·factor, …"""
    return tuple(start * factor**i for i in range(count))


_ATTEMPT = exponential(0.001, 2, 15)
_POINT = exponential(0.0001, 2, 12)


class Metrics:
    """All series of one scheduler."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._attempts()
        self._plugins()
        self._queue_and_cache()
        self._preemptions()
        self._groups()
        self._calls()
        self._own()

    def _attempts(self) -> None:
        """Of pods and the attempts to place them."""
        self.schedule_attempts = self._counter(
            "schedule_attempts_total", "Attempts to schedule pods, by result", "result", "profile"
        )
        self.attempt_duration = self._histogram(
            "scheduling_attempt_duration_seconds", "Scheduling attempt latency", _ATTEMPT, "result", "profile"
        )
        self.algorithm_duration = self._histogram(
            "scheduling_algorithm_duration_seconds", "Scheduling algorithm latency", _ATTEMPT
        )
        self.sli_duration = self._histogram(
            "pod_scheduling_sli_duration_seconds",
            "Time from a pod entering the queue to its bind, gated and pool time left out",
            exponential(0.01, 2, 20),
            "attempts",
        )
        self.pod_attempts = self._histogram(
            "pod_scheduling_attempts", "Attempts it took to schedule a pod", exponential(1, 2, 5)
        )
        self.permit_wait = self._histogram("permit_wait_duration_seconds", "Time waiting on Permit", _ATTEMPT, "result")

    def _plugins(self) -> None:
        """Of extension points and plugins."""
        self.extension_point = self._histogram(
            "framework_extension_point_duration_seconds",
            "Latency of running all plugins of an extension point",
            _POINT,
            "extension_point",
            "status",
            "profile",
        )
        self.plugin_duration = self._histogram(
            "plugin_execution_duration_seconds",
            "Latency of one plugin at one extension point, sampled",
            exponential(0.00001, 1.5, 20),
            "plugin",
            "extension_point",
            "status",
        )
        self.plugin_evaluations = self._counter(
            "plugin_evaluation_total", "Times a plugin was evaluated", "plugin", "extension_point", "profile"
        )

    def _queue_and_cache(self) -> None:
        """Of what waits, and of what is known."""
        self.event_duration = self._histogram(
            "event_handling_duration_seconds", "Latency of handling cluster events", _POINT, "event"
        )
        self.hint_duration = self._histogram(
            "queueing_hint_execution_duration_seconds",
            "Latency of queueing hints",
            exponential(0.00001, 1.5, 20),
            "plugin",
            "event",
            "hint",
        )
        self.queue_incoming = self._counter(
            "queue_incoming_pods_total", "Pods added to the queues, by event and queue", "queue", "event"
        )
        self.pending_pods = self._gauge("pending_pods", "Pending pods, by queue", "queue")
        self.unschedulable_pods = self._gauge(
            "unschedulable_pods", "Pods refused by a plugin and still pending", "plugin", "profile"
        )
        self.scheduled_after_flush = self._counter(
            "pod_scheduled_after_flush_total", "Pods scheduled only after the five-minute flush: missing hints"
        )
        self.in_flight_events = self._gauge("inflight_events", "Cluster events kept for pods in flight", "event")
        self.cache_size = self._gauge("cache_size", "Nodes, pods and assumed pods in the cache", "type")
        self.goroutines = self._gauge("goroutines", "Running tasks, by the work they do", "operation")

    def _preemptions(self) -> None:
        """Of victims and how they went."""
        self.preemption_attempts = self._counter("preemption_attempts_total", "Preemption attempts")
        self.preemption_victims = self._histogram(
            "preemption_victims", "Victims chosen by a preemption", exponential(1, 2, 7)
        )
        self.preemption_duration = self._histogram(
            "preemption_goroutines_duration_seconds", "Latency of evicting victims", exponential(0.01, 2, 20), "result"
        )
        self.preemption_execution = self._counter(
            "preemption_goroutines_execution_total", "Evictions of all victims of a preemption", "result"
        )

    def _groups(self) -> None:
        """Of pod groups."""
        self.group_attempts = self._counter(
            "podgroup_schedule_attempts_total", "Attempts to schedule pod groups, by result", "result", "profile"
        )
        self.group_attempt_duration = self._histogram(
            "podgroup_scheduling_attempt_duration_seconds", "Pod group scheduling attempt latency", _ATTEMPT,
            "result", "profile",
        )  # fmt: skip
        self.group_algorithm_duration = self._histogram(
            "podgroup_scheduling_algorithm_duration_seconds", "Pod group scheduling algorithm latency", _ATTEMPT
        )

    def _calls(self) -> None:
        """Of writes beside the scheduling cycle."""
        self.api_calls = self._counter(
            "async_api_call_execution_total", "Writes beside the scheduling cycle", "call_type", "result"
        )
        self.api_call_duration = self._histogram(
            "async_api_call_execution_duration_seconds",
            "Latency of writes beside the scheduling cycle",
            _ATTEMPT,
            "call_type",
            "result",
        )
        self.pending_api_calls = self._gauge(
            "pending_async_api_calls", "Writes beside the scheduling cycle that wait", "call_type"
        )
        self._never_written()

    def _never_written(self) -> None:
        """Of parts that podium has not (docs/metrics.md): dashboards for kube-scheduler find the names all the same."""
        hint = exponential(0.00001, 2, 12)
        self._counter("batch_attempts_total", "Never written: podium keeps answers per pod shape", "profile", "result")
        self._counter("batch_cache_flushed_total", "Never written, as above", "profile", "reason")
        self._histogram("get_node_hint_duration_seconds", "Never written, as above", hint, "hinted", "profile")
        self._histogram("store_schedule_results_duration_seconds", "Never written, as above", hint, "profile")
        text = "Never written: volumes are kept in the informers' own stores"
        self._counter("binder_cache_requests_total", text, "operation", prefix="scheduler_volume_")
        self._counter("scheduling_stage_error_total", text, "operation", prefix="scheduler_volume_")

    def _own(self) -> None:
        """podium's own series."""
        self.bind_conflicts = self._counter(
            "bind_conflicts_total",
            "Binds that met a changed world: bound elsewhere, gone, or replaced",
            prefix="podium_",
        )
        self.bind_rechecks = self._counter(
            "bind_recheck_failures_total", "Pods whose node no longer fitted right before the bind", prefix="podium_"
        )
        self.cache_corrections = self._counter(
            "cache_corrections_total", "Times the cache was corrected from the informer", prefix="podium_"
        )
        self.dropped_in_flight_events = self._counter(
            "inflight_events_dropped_total", "Cluster events dropped at the bound of those kept for pods in flight",
            prefix="podium_",
        )  # fmt: skip
        self.dropped_patches = self._counter(
            "status_patches_dropped_total", "Status patches given up at the bound of their queue", prefix="podium_"
        )

    def _counter(self, name: str, text: str, *labels: str, prefix: str = "scheduler_") -> Counter:
        return Counter(prefix + name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge("scheduler_" + name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram("scheduler_" + name, text, labels, buckets=buckets, registry=self.registry)

    def point_observer(self, profile: str) -> Callable[[str, str, float], None]:
        """(extension point, status, seconds) -> observed, for one profile."""
        bound: dict[tuple[str, str], Callable[[float], None]] = {}

        def observe(point: str, status: str, seconds: float) -> None:
            observer = bound.get((point, status))
            if observer is None:
                observer = bound[point, status] = self.extension_point.labels(point, status, profile).observe
            observer(seconds)

        return observe

    def preemption_done(self, victims: int, result: str, seconds: float) -> None:
        """The victims of a preemption were evicted, or could not be ("error")."""
        self.preemption_victims.observe(victims)
        self.preemption_duration.labels(result).observe(seconds)
        self.preemption_execution.labels(result).inc()

    def called(self, call_type: str, result: str, seconds: float) -> None:
        """A write beside the scheduling cycle has ended ("success" or "error")."""
        self.api_calls.labels(call_type, result).inc()
        self.api_call_duration.labels(call_type, result).observe(seconds)

    def count_plugins(self, profile: str, counts: Mapping[tuple[str, str], int]) -> None:
        """(plugin, extension point) -> evaluations of a profile since the last time."""
        for (plugin, point), count in counts.items():
            self.plugin_evaluations.labels(plugin, point, profile).inc(count)

    def observe_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One call of a plugin in a sampled cycle."""
        self.plugin_duration.labels(plugin, point, status).observe(seconds)

    def observe_event(self, event: str, seconds: float) -> None:
        """A cluster event was matched against the pods that wait."""
        self.event_duration.labels(event).observe(seconds)

    def observe_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A queueing hint was asked."""
        self.hint_duration.labels(plugin, event, hint).observe(seconds)

    def incoming_observer(self) -> Callable[[str, str], None]:
        """(queue, event) -> counted."""
        bound: dict[tuple[str, str], Callable[[], None]] = {}

        def count(queue: str, event: str) -> None:
            counter = bound.get((queue, event))
            if counter is None:
                counter = bound[queue, event] = self.queue_incoming.labels(queue, event).inc
            counter()

        return count
