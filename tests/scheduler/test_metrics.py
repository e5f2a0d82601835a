"""Metrics under kube-scheduler's own names, labels and buckets (facts 1.7)."""

import pytest
from prometheus_client import Counter, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from plugins.dynamic_resources.plugin import DynamicResources
from scheduler.framework.plugin_metrics import PluginMetrics
from scheduler.metrics import Metrics, exponential
from tests.plugins.harness import Bench

#: name | type | labels | exponential buckets (start, factor, count), as kube-scheduler has them
TABLE = """
schedule_attempts_total | counter | result profile
scheduling_attempt_duration_seconds | histogram | result profile | 0.001 2 15
preemption_victims | histogram | | 1 2 7
preemption_attempts_total | counter
pending_pods | gauge | queue
pod_scheduling_attempts | histogram | | 1 2 5
framework_extension_point_duration_seconds | histogram | extension_point status profile | 0.0001 2 12
queue_incoming_pods_total | counter | queue event
goroutines | gauge | operation
pod_scheduling_sli_duration_seconds | histogram | attempts | 0.01 2 20
permit_wait_duration_seconds | histogram | result | 0.001 2 15
unschedulable_pods | gauge | plugin profile
plugin_evaluation_total | counter | plugin extension_point profile
scheduling_algorithm_duration_seconds | histogram | | 0.001 2 15
event_handling_duration_seconds | histogram | event | 0.0001 2 12
plugin_execution_duration_seconds | histogram | plugin extension_point status | 0.00001 1.5 20
queueing_hint_execution_duration_seconds | histogram | plugin event hint | 0.00001 1.5 20
inflight_events | gauge | event
cache_size | gauge | type
pod_scheduled_after_flush_total | counter
batch_attempts_total | counter | profile result
batch_cache_flushed_total | counter | profile reason
get_node_hint_duration_seconds | histogram | hinted profile | 0.00001 2 12
store_schedule_results_duration_seconds | histogram | profile | 0.00001 2 12
preemption_goroutines_duration_seconds | histogram | result | 0.01 2 20
preemption_goroutines_execution_total | counter | result
async_api_call_execution_total | counter | call_type result
async_api_call_execution_duration_seconds | histogram | call_type result | 0.001 2 15
pending_async_api_calls | gauge | call_type
resourceclaim_creates_total | counter | status
dra_bindingconditions_allocations_total | counter | profile driver status
dra_bindingconditions_wait_duration_seconds | histogram | profile driver status | 0.1 2 14
podgroup_schedule_attempts_total | counter | result profile
podgroup_scheduling_attempt_duration_seconds | histogram | result profile | 0.001 2 15
podgroup_scheduling_algorithm_duration_seconds | histogram | | 0.001 2 15
volume_binder_cache_requests_total | counter | operation
volume_scheduling_stage_error_total | counter | operation
"""


def rows() -> dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]]:
    """Full name -> type, labels, buckets."""
    found = {}
    for line in TABLE.strip().splitlines():
        name, kind, labels, buckets = (*(part.strip() for part in line.split("|")), "", "")[:4]
        start, factor, count = (float(number) for number in (buckets or "0 0 0").split())
        found[f"scheduler_{name}"] = (kind, tuple(labels.split()), exponential(start, factor, int(count)))
    return found


def made() -> dict[str, MetricWrapperBase]:
    """Name -> series, of a new scheduler."""
    registry = Metrics().registry
    Bench(DynamicResources, metrics=PluginMetrics(registry))
    return {
        metric._name + ("_total" if isinstance(metric, Counter) else ""): metric
        for metric in registry._collector_to_names
        if isinstance(metric, MetricWrapperBase)
    }


@pytest.mark.parametrize(("name", "row"), rows().items(), ids=list(rows()))
def test_every_series_of_kube_scheduler_is_there_as_it_is(
    name: str, row: tuple[str, tuple[str, ...], tuple[float, ...]]
) -> None:
    kind, labels, buckets = row
    series = made()[name]
    assert (series._type, series._labelnames) == (kind, labels)
    assert series._kwargs.get("buckets", ()) == buckets


def test_what_kube_scheduler_has_not_is_named_podium() -> None:
    further = made().keys() - rows().keys()
    assert further
    assert {name.partition("_")[0] for name in further} == {"podium"}


def test_exponential_buckets() -> None:
    assert exponential(1, 2, 5) == (1, 2, 4, 8, 16)


def test_there_are_no_created_series() -> None:
    metrics = Metrics()
    metrics.schedule_attempts.labels("scheduled", "podium").inc()
    metrics.pod_attempts.observe(1)
    assert b"_created" not in generate_latest(metrics.registry)


def test_observers_count_under_their_labels() -> None:
    metrics = Metrics()
    observe, count = metrics.point_observer("podium"), metrics.incoming_observer()
    for _ in range(2):
        observe("Filter", "Success", 0.001)
        count("active", "NodeAdd")
    labels = {"extension_point": "Filter", "status": "Success", "profile": "podium"}
    get = metrics.registry.get_sample_value
    assert get("scheduler_framework_extension_point_duration_seconds_count", labels) == 2
    assert get("scheduler_queue_incoming_pods_total", {"queue": "active", "event": "NodeAdd"}) == 2
