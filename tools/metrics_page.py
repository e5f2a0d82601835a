"""Writes docs/metrics.md from the series that a podium makes: `python tools/metrics_page.py`. A test compares them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from plugins.dynamic_resources.metrics import DeviceMetrics
from podium.serving.client_metrics import ClientMetrics
from podium.serving.more_metrics import HealthChecks
from scheduler.framework.handle import Handle
from scheduler.framework.plugin_metrics import PluginMetrics
from scheduler.metrics import Metrics

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

INTRODUCTION = """# Metrics, dashboard, alerts

`/metrics` on the secure port, in Prometheus' text format. Names, labels and buckets are kube-scheduler's, so dashboards
and alerts made for it work; podium's own begin with `podium_`. Series that say "never written" belong to parts that
kube-scheduler has and podium has not; they are there so that no panel fails. Go's own (`go_*`) and those of work queues
(`workqueue_*`) are not there: there is neither.

- `deploy/components/monitoring` has a PodMonitor with an account of its own, recording rules and alerts
  (PrometheusRule), and a Grafana dashboard (`podium.json`). The overlay `high-availability` includes it; the chart has
  it behind `monitoring.*`.
- The job's name is `podium`. For dashboards that ask for `job="kube-scheduler"`, relabel it in the PodMonitor.
- `/metrics/resources`, of the leader only: `kube_pod_resource_request` and `kube_pod_resource_limit`, per pod, resource
  and unit. `/metrics/slis`: `kubernetes_healthcheck` and `kubernetes_healthchecks_total`.
- `--disabled-metrics=A,B` leaves families out.
- Further families: `process_*` (CPU, memory, file descriptors, start time), `leader_election_master_status`, and
  `podium_unschedulable_reason{plugin, reason}`: pending pods by the reasons of their last attempt.
- `podium_events_total{result}`: events for people that were written, failed, or dropped at the bound of their queue.
  `podium_informer_undecodable_total{resource}`: objects that could not be read, skipped (the log names each once);
  `podium_informer_handler_failures_total{resource}`: bugs met while taking in news.
"""


def render() -> str:
    """The whole page."""
    metrics = Metrics()
    ClientMetrics(metrics.registry)
    DeviceMetrics(cast("Handle", SimpleNamespace(profile="", metrics=PluginMetrics(metrics.registry))))
    made = _series(metrics.registry)
    parts = [INTRODUCTION]
    for title, prefix in (
        ("kube-scheduler's", "scheduler_"),
        ("podium's own", "podium_"),
        ("The client's", "rest_client_"),
    ):
        parts.append(f"## {title}\n\n" + _table(each for each in made if _name(each).startswith(prefix)))
    parts.append("## Health checks (/metrics/slis)\n\n" + _table(_series(HealthChecks().registry)))
    return "\n".join(parts)


def _series(registry: CollectorRegistry) -> list[MetricWrapperBase]:
    found = [each for each in registry._collector_to_names if isinstance(each, MetricWrapperBase)]
    return sorted(found, key=_name)


def _name(series: MetricWrapperBase) -> str:
    return f"{series._name}_total" if isinstance(series, Counter) else f"{series._name}"


def _table(series: Iterable[MetricWrapperBase]) -> str:
    lines = ["| name | type | labels | buckets | what |", "| --- | --- | --- | --- | --- |"]
    for each in series:
        labels = ", ".join(each._labelnames)
        lines.append(f"| `{_name(each)}` | {each._type} | {labels} | {_buckets(each)} | {each._documentation} |")
    return "\n".join(lines) + "\n"


def _buckets(series: MetricWrapperBase) -> str:
    if not isinstance(series, Histogram):
        return ""
    bounds = series._kwargs["buckets"]
    return f"{bounds[0]:g} to {bounds[-1]:.4g}, {len(bounds)}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
