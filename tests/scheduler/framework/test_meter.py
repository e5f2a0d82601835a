"""The meter counts every evaluation of a plugin and times those of sampled cycles; kept answers are no evaluations."""

from __future__ import annotations

from scheduler.framework.meter import Meter
from scheduler.framework.status import Status, unschedulable
from scheduler.metrics import Metrics


def refuses() -> Status:
    return unschedulable("no")


def test_every_call_is_counted_and_only_sampled_cycles_are_timed() -> None:
    timed: list[tuple[str, str, str]] = []

    def note(plugin: str, point: str, status: str, seconds: float) -> None:
        timed.append((plugin, point, status))

    unsampled, calls = Meter(note, sample=0.0), Meter(note, sample=1.0)
    unsampled.begin_cycle()
    assert unsampled.call("A", "Filter", refuses) == unschedulable("no")
    assert (timed, unsampled.take_counts()) == ([], {("A", "Filter"): 1})
    calls.begin_cycle()
    assert calls.call("A", "Filter", refuses) == unschedulable("no")
    assert calls.call("B", "Score", lambda value: value, 7.0) == 7.0
    assert calls.take_counts() == {("A", "Filter"): 1, ("B", "Score"): 1}
    assert calls.take_counts() == {}
    assert timed == [("A", "Filter", "Unschedulable"), ("B", "Score", "Success")]


def test_the_series_of_plugins_events_and_hints_have_upstreams_labels() -> None:
    metrics = Metrics()
    metrics.count_plugins("podium", {("NodeName", "Filter"): 2})
    metrics.count_plugins("podium", {("NodeName", "Filter"): 1})
    metrics.observe_plugin("NodeName", "Filter", "Success", 0.001)
    metrics.observe_event("NodeAdd", 0.001)
    metrics.observe_hint("NodeName", "NodeAdd", "Queue", 0.001)

    def sample(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    evaluated = {"plugin": "NodeName", "extension_point": "Filter", "profile": "podium"}
    assert sample("scheduler_plugin_evaluation_total", **evaluated) == 3
    timed = {"plugin": "NodeName", "extension_point": "Filter", "status": "Success"}
    assert sample("scheduler_plugin_execution_duration_seconds_count", **timed) == 1
    assert sample("scheduler_event_handling_duration_seconds_count", event="NodeAdd") == 1
    asked = {"plugin": "NodeName", "event": "NodeAdd", "hint": "Queue"}
    assert sample("scheduler_queueing_hint_execution_duration_seconds_count", **asked) == 1
