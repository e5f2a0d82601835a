"""What client-go measures of requests to the API server, under its names: rest_client_* (facts 1.7).

Made by `podium run`, which gives the observer to its client; registered with the scheduler's own metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from scheduler.series import Counter, Histogram

BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class ClientMetrics:
    """Of all clients of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server, by code, method and host",
            ("code", "host", "method"),
            registry=registry,
        )
        self._latency = Histogram(
            "rest_client_request_duration_seconds",
            "Latency of requests to the API server, by verb and host",
            ("verb", "host"),
            buckets=BUCKETS,
            registry=registry,
        )

    def observer(self, server: str) -> Callable[[str, int, float], None]:
        """(method, code, seconds) -> observed, for one server."""
        host = urlsplit(server).netloc
        counted: dict[tuple[str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}

        def observe(method: str, code: int, seconds: float) -> None:
            found = counted.get((method, code))
            if found is None:
                count, time = self._requests.labels(code, host, method), self._latency.labels(method, host)
                found = counted[method, code] = (count.inc, time.observe)
            found[0]()
            found[1](seconds)

        return observe
