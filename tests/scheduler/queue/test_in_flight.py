"""What is kept for pods in flight: everything that one of them has not seen."""

from scheduler.framework.cluster_event import WILDCARD_EVENT
from scheduler.queue.in_flight import InFlight


def happened(in_flight: InFlight, uid: str) -> list[object]:
    return [event.new for event in in_flight.events_for(uid)]


def test_a_pod_that_starts_anew_keeps_no_event_from_one_that_started_between() -> None:
    in_flight = InFlight()
    in_flight.start("first")
    in_flight.start("second")
    in_flight.record(WILDCARD_EVENT, None, 1)
    in_flight.start("first")
    in_flight.start("third")
    in_flight.done("third")
    assert happened(in_flight, "second") == [1]
    assert happened(in_flight, "first") == []
