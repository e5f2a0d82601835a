"""What the event recorder counts, as metrics: events written, given up, and dropped at the bound of its queue.

Registered by the wiring; asked at each scrape. The recorder itself belongs to the client and knows no metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from kube.client.event_recorder import EventRecorder


class EventMetrics(Collector):
    """Reads one recorder."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterator[CounterMetricFamily]:
        """podium_events_total by result."""
        counted = CounterMetricFamily("podium_events", "Events for people, by what became of them", labels=["result"])
        counted.add_metric(["written"], self._recorder.sent)
        counted.add_metric(["failed"], self._recorder.failed)
        counted.add_metric(["dropped"], self._recorder.dropped)
        yield counted
