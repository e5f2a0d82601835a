"""A pod update as narrow cluster events (facts 1.2)."""

from typing import Any

import pytest

from scheduler.framework.cluster_event import EventResource
from scheduler.queue.pod_changes import pod_update_events
from tests.builders import exists, make_pod


@pytest.mark.parametrize(
    ("before", "after", "labels"),
    [
        pytest.param({}, {"labels": {"a": "b"}}, ["PodLabelUpdate"], id="labels"),
        pytest.param({"cpu": "2"}, {"cpu": "1"}, ["PodScaleDown"], id="a request shrank"),
        pytest.param({"cpu": "1"}, {"cpu": "2"}, ["PodUpdate"], id="a request that grew is a generic update"),
        pytest.param(
            {"cpu": "2", "memory": "1Gi"}, {"cpu": "4"}, ["PodScaleDown"], id="one request went, another grew"
        ),
        pytest.param(
            {"scheduling_gates": ["a"]}, {}, ["PodSchedulingGatesEliminated"], id="the last scheduling gate went"
        ),
        pytest.param(
            {"scheduling_gates": ["a", "b"]}, {"scheduling_gates": ["a"]}, ["PodUpdate"], id="one gate is left"
        ),
        pytest.param({}, {"tolerations": [exists("x")]}, ["PodTolerationUpdate"], id="tolerations"),
        pytest.param({}, {"annotations": {"a": "b"}}, ["PodUpdate"], id="anything else is a generic update"),
        pytest.param(
            {"scheduling_gates": ["a"]},
            {"labels": {"a": "b"}},
            ["PodLabelUpdate", "PodSchedulingGatesEliminated"],
            id="two changes are two events",
        ),
    ],
)
def test_what_changed(before: dict[str, Any], after: dict[str, Any], labels: list[str]) -> None:
    events = pod_update_events(make_pod("a", uid="u", **before), make_pod("a", uid="u", **after))
    assert [event.label for event in events] == labels
    assert {event.resource for event in events} == {EventResource.UNSCHEDULED_POD}
