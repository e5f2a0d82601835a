"""Metrics under kube-scheduler's own names, labels and buckets (facts 1.7)."""

import pytest
from prometheus_client import generate_latest

from scheduler.metrics import Metrics, exponential

SERIES = {
    "scheduler_schedule_attempts_total": ("result", "profile"),
    "scheduler_scheduling_attempt_duration_seconds": ("result", "profile"),
    "scheduler_preemption_victims": (),
    "scheduler_preemption_attempts_total": (),
    "scheduler_pending_pods": ("queue",),
    "scheduler_pod_scheduling_attempts": (),
    "scheduler_framework_extension_point_duration_seconds": ("extension_point", "status", "profile"),
    "scheduler_queue_incoming_pods_total": ("queue", "event"),
    "scheduler_goroutines": ("operation",),
    "scheduler_pod_scheduling_sli_duration_seconds": ("attempts",),
    "scheduler_permit_wait_duration_seconds": ("result",),
    "scheduler_unschedulable_pods": ("plugin", "profile"),
    "scheduler_plugin_evaluation_total": ("plugin", "extension_point", "profile"),
    "scheduler_scheduling_algorithm_duration_seconds": (),
    "scheduler_event_handling_duration_seconds": ("event",),
    "scheduler_plugin_execution_duration_seconds": ("plugin", "extension_point", "status"),
    "scheduler_queueing_hint_execution_duration_seconds": ("plugin", "event", "hint"),
    "scheduler_inflight_events": ("event",),
    "scheduler_cache_size": ("type",),
    "scheduler_pod_scheduled_after_flush_total": (),
}

E = {
    "scheduler_scheduling_attempt_duration_seconds": (0.001, 2, 15),
    "scheduler_scheduling_algorithm_duration_seconds": (0.001, 2, 15),
    "scheduler_permit_wait_duration_seconds": (0.001, 2, 15),
    "scheduler_preemption_victims": (1, 2, 7),
    "scheduler_pod_scheduling_attempts": (1, 2, 5),
    "scheduler_framework_extension_point_duration_seconds": (0.0001, 2, 12),
    "scheduler_event_handling_duration_seconds": (0.0001, 2, 12),
    "scheduler_pod_scheduling_sli_duration_seconds": (0.01, 2, 20),
    "scheduler_plugin_execution_duration_seconds": (0.00001, 1.5, 20),
    "scheduler_queueing_hint_execution_duration_seconds": (0.00001, 1.5, 20),
}


def metrics() -> dict[str, object]:
    made = Metrics()
    return {name: metric for metric, names in made.registry._collector_to_names.items() for name in names}


@pytest.mark.parametrize(("name", "labels"), SERIES.items(), ids=SERIES)
def test_every_series_has_its_labels(name: str, labels: tuple[str, ...]) -> None:
    assert metrics()[name]._labelnames == labels  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "buckets"), E.items(), ids=E)
def test_every_histogram_has_its_buckets(name: str, buckets: tuple[float, float, int]) -> None:
    assert metrics()[name]._kwargs["buckets"] == exponential(*buckets)  # type: ignore[attr-defined]


def test_exponential_buckets() -> None:
    assert exponential(1, 2, 5) == (1, 2, 4, 8, 16)


def test_there_are_no_created_series() -> None:
    made = Metrics()
    made.schedule_attempts.labels("scheduled", "podium").inc()
    made.pod_attempts.observe(1)
    assert b"_created" not in generate_latest(made.registry)


def test_observers_count_under_their_labels() -> None:
    made = Metrics()
    observe, count = made.point_observer("podium"), made.incoming_observer()
    for _ in range(2):
        observe("Filter", "Success", 0.001)
        count("active", "NodeAdd")
    labels = {"extension_point": "Filter", "status": "Success", "profile": "podium"}
    get = made.registry.get_sample_value
    assert get("scheduler_framework_extension_point_duration_seconds_count", labels) == 2
    assert get("scheduler_queue_incoming_pods_total", {"queue": "active", "event": "NodeAdd"}) == 2
