"""Event of events.k8s.io/v1, as the event recorder writes it. Anybody may import it."""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from kube.api.meta import ApiObject, Object, ObjectReference


class EventSeries(Object, frozen=True):
    count: int = 0
    last_observed_time: str = ""


class Event(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "events.k8s.io/v1"
    KIND: ClassVar[str] = "Event"

    event_time: str = ""
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
