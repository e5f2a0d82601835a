"""The guard against slow changes: counts of calls, memory, bytes and requests, which no machine can blur.

A figure above its recorded value (with some slack for Python versions and hash order) fails. Who made it cheaper, or
has a reason to make it dearer, records anew: `python -m benchmarks counts --record FILE`, where FILE is the
expected_counts.yaml beside this test.
"""

from pathlib import Path

import pytest
import yaml

from benchmarks.counts import ENGINE, SERVICE, engine_counts, service_counts

EXPECTED = yaml.safe_load(Path(__file__).with_name("expected_counts.yaml").read_text())
SLACK = 1.1


def dearer(counts: dict[str, float], expected: dict[str, float]) -> list[str]:
    """What costs more than it did, as lines for people."""
    assert counts.keys() == expected.keys()
    return [
        f"{name}: {value:g}, recorded {expected[name]:g}"
        for name, value in counts.items()
        if value > expected[name] * SLACK
    ]


@pytest.mark.parametrize("workload", ENGINE)
def test_a_scheduling_cycle_makes_no_more_calls_and_takes_no_more_memory_than_recorded(workload):
    assert dearer(engine_counts(workload), EXPECTED[workload]) == []


@pytest.mark.parametrize("title", SERVICE)
async def test_a_bound_pod_costs_no_more_requests_and_decoded_bytes_than_recorded(title):
    assert dearer(await service_counts(title), EXPECTED[title]) == []


def test_a_figure_that_grew_is_named_with_what_it_was():
    assert dearer({"python_calls": 200.0, "growth": 1.0}, {"python_calls": 150.0, "growth": 1.0}) == [
        "python_calls: 200, recorded 150"
    ]
