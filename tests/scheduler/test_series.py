"""Counters and histograms show at a scrape what the library's own would show."""

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from scheduler import series

BUCKETS = (0.001, 0.002, 0.004)


def exposed(library: object) -> list[str]:
    """What is scraped after the same observations, with the classes of one module or the other."""
    registry = CollectorRegistry()
    counter, histogram = library.Counter, library.Histogram  # type: ignore[attr-defined]
    plain = counter("binds_total", "Binds", registry=registry)
    plain.inc()
    plain.inc(2)
    by_result = counter("attempts_total", "Attempts", ["result", "profile"], registry=registry)
    for result in ("scheduled", "error", "scheduled"):
        by_result.labels(result, "podium").inc()
    by_result.labels(profile="podium", result="error").inc()
    untouched = histogram("untouched_seconds", "Never observed", ["result"], buckets=BUCKETS, registry=registry)
    assert untouched is not None
    at_once = histogram("empty_seconds", "Not yet observed", buckets=BUCKETS, registry=registry)
    assert at_once is not None
    sizes = histogram("size", "How large", buckets=BUCKETS, registry=registry)
    latency = histogram("latency_seconds", "How long", ["point"], buckets=BUCKETS, registry=registry)
    for value in (0.0, 0.0005, 0.001, 0.0011, 0.002, 0.004, 0.0041, 17):
        sizes.observe(value)
        latency.labels("Bind").observe(value)
        latency.labels("Filter").observe(value / 2)
    generate_latest(registry)  # a scrape changes nothing
    latency.labels("Bind").observe(0.003)
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


def test_a_scrape_is_byte_for_byte_that_of_the_library() -> None:
    assert exposed(series) == exposed(prometheus_client)


def test_the_same_labels_are_the_same_series() -> None:
    counter = series.Counter("attempts_total", "Attempts", ["result"], registry=CollectorRegistry())
    assert counter.labels("error") is counter.labels("error")
    assert counter.labels("error") is not counter.labels("scheduled")


def test_a_label_too_many_is_refused() -> None:
    counter = series.Counter("attempts_total", "Attempts", ["result"], registry=CollectorRegistry())
    with pytest.raises(ValueError, match="label count"):
        counter.labels("error", "podium")
