"""What the demo points at: a preemption, a zone spread, and a volume that waited for its consumer.

It follows the embedded cluster's store while the demo runs and reads what it needs at the end; it changes nothing.
Owner: the demo command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any

from rich.table import Table

from kube.api.volumes import SELECTED_NODE
from podium.demo_workload import SPREAD_APP, STATEFUL_APP, URGENT, ZONE
from simulator.apiserver.watch_cache import Event
from simulator.cluster import Cluster

Object = dict[str, Any]
_PREEMPTED = "PreemptionByScheduler"


class Highlights:
    """Notes what happened when."""

    is_load = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        self._victims: dict[str, str] = {}
        self._selected: dict[str, float] = {}
        self._provisioned: dict[str, float] = {}
        store = cluster.server.store
        self._unfollow: list[Callable[[], None]] = [
            store.listen("pods", self._on_pod),
            store.listen("persistentvolumeclaims", self._on_claim),
        ]

    def stop(self) -> None:
        """Follow no longer."""
        for unfollow in self._unfollow:
            unfollow()

    def _on_pod(self, event: Event) -> None:
        pod, name = event.revision.obj, event.revision.key[1]
        self._created.setdefault(name, perf_counter())
        if pod["spec"].get("nodeName"):
            self._bound.setdefault(name, perf_counter())
        conditions = (pod.get("status") or {}).get("conditions") or ()
        if any(condition.get("reason") == _PREEMPTED for condition in conditions):
            self._victims[name] = pod["spec"].get("nodeName", "")

    def _on_claim(self, event: Event) -> None:
        claim, name = event.revision.obj, event.revision.key[1]
        if SELECTED_NODE in (claim["metadata"].get("annotations") or {}):
            self._selected.setdefault(name, perf_counter())
        if claim["spec"].get("volumeName"):
            self._provisioned.setdefault(name, perf_counter())

    def lines(self) -> list[tuple[str, str]]:
        """(title, text) of what there is to point at."""
        found = (self._preemption(), self._spread(), self._volume())
        titles = ("preemption", "zone spread", "volume")
        return [(title, text) for title, text in zip(titles, found, strict=True) if text]

    def table(self) -> Table | None:
        """The nodes themselves are what there is to see."""
        return None

    def _preemption(self) -> str:
        if not self._victims or URGENT not in self._bound:
            return ""
        victims = sorted(self._victims)
        took = (self._bound[URGENT] - self._created[URGENT]) * 1000
        node = self._cluster.server.get("pods", URGENT)["spec"].get("nodeName", "")
        return f"[bold]{URGENT}[/] evicted {' and '.join(victims)}, and was bound to {node} after {took:,.0f} ms"

    def _spread(self) -> str:
        zones = {n["metadata"]["name"]: n["metadata"]["labels"].get(ZONE, "") for n in self._list("nodes")}
        pods = [pod for pod in self._list("pods", f"app={SPREAD_APP}") if pod["spec"].get("nodeName")]
        counts = Counter(zones[pod["spec"]["nodeName"]] for pod in pods)
        if not counts:
            return ""
        listed = " · ".join(f"{zone} [bold]{count}[/]" for zone, count in sorted(counts.items()))
        return f"{len(pods)} replicas of {SPREAD_APP}, at most one apart: {listed}"

    def _volume(self) -> str:
        name = f"{STATEFUL_APP}-0"
        claim = f"data-{name}"
        if name not in self._bound or claim not in self._provisioned or claim not in self._selected:
            return ""
        pod = self._cluster.server.get("pods", name)
        node = self._cluster.server.get("nodes", pod["spec"]["nodeName"])
        took = (self._provisioned[claim] - self._selected[claim]) * 1000
        where = f"{node['metadata']['name']} in {node['metadata']['labels'].get(ZONE, 'no zone')}"
        return f"{claim} waited for [bold]{name}[/]: {where} was chosen, the volume made there {took:,.0f} ms later"

    def _list(self, resource: str, labels: str = "") -> list[Object]:
        return self._cluster.server.list(resource, labels=labels)
