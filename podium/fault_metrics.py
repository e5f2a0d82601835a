"""What the client's parts count, as metrics: events by what became of them, objects that nobody could read, handlers
that failed.

Registered by the wiring; asked at each scrape. The parts themselves belong to the client and know no metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from kube.client.event_recorder import EventRecorder
from kube.client.informer import InformerFactory


class FaultMetrics(Collector):
    """Reads the recorder and the informers of one service."""

    def __init__(self, recorder: EventRecorder, factory: InformerFactory) -> None:
        self._recorder = recorder
        self._factory = factory

    def collect(self) -> Iterator[CounterMetricFamily]:
        """One sample a result, and one a resource."""
        events = CounterMetricFamily("podium_events", "Events for people, by what became of them", labels=["result"])
        events.add_metric(["written"], self._recorder.sent)
        events.add_metric(["failed"], self._recorder.failed)
        events.add_metric(["dropped"], self._recorder.dropped)
        yield events
        text = "Times an object could not be read and was skipped"
        unreadable = CounterMetricFamily("podium_informer_undecodable", text, labels=["resource"])
        text = "Times a handler failed for an object, and was told of it again or not"
        failures = CounterMetricFamily("podium_informer_handler_failures", text, labels=["resource"])
        for informer in self._factory.informers:
            unreadable.add_metric([informer.name], informer.reflector.undecodable)
            failures.add_metric([informer.name], sum(listener.failures for listener in informer.listeners))
        yield unreadable
        yield failures
