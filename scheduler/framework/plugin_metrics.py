"""Metrics of plugins, beside podium's own: made once, however many profiles run the plugin.

Owner: the wiring, which gives it the registry that is served; offline nobody looks. Names are the plugin's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

M = TypeVar("M", Counter, Gauge, Histogram)


class PluginMetrics:
    """Series by name. Asking for one again gives the same one."""

    __slots__ = ("_made", "_registry")

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry if registry is not None else CollectorRegistry()
        self._made: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Something that only grows."""
        return self._once(Counter, name, lambda: Counter(name, help_text, labels, registry=self._registry))

    def gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        """Something that goes up and down."""
        return self._once(Gauge, name, lambda: Gauge(name, help_text, labels, registry=self._registry))

    def histogram(self, name: str, help_text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """How often something was how large; the bounds of the buckets in order."""
        return self._once(
            Histogram, name, lambda: Histogram(name, help_text, labels, registry=self._registry, buckets=buckets)
        )

    def _once(self, kind: type[M], name: str, make: Callable[[], M]) -> M:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = make()
        if not isinstance(found, kind):
            raise ValueError(f"metric {name} exists already, as a {type(found).__name__.lower()}")
        return found
