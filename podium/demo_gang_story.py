"""What `podium demo --gangs` points at: which gang started and where, which did not, and who had to make room.

It follows the embedded cluster's store while the demo runs and reads what it needs at the end; it changes nothing.
Owner: the demo command.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any

from rich.table import Table
from rich.text import Text

from podium.demo_gangs import BATCH, FREE, HOPELESS, RACK, RING, SIZES, TOO_BIG, TRAIN, URGENT, WEB
from simulator.apiserver.watch_cache import Event
from simulator.cluster import Cluster

Object = dict[str, Any]
GROUPS = "podgroups.scheduling.k8s.io"
_PREEMPTED = "PreemptionByScheduler"


class GangStory:
    """Notes what happened when."""

    is_load = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        #: name -> when it was told that it had to go
        self._victims: dict[str, float] = {}
        self._unfollow: Callable[[], None] = cluster.server.store.listen("pods", self._on_pod)

    def stop(self) -> None:
        """Follow no longer."""
        self._unfollow()

    def _on_pod(self, event: Event) -> None:
        pod, name = event.revision.obj, event.revision.key[1]
        self._created.setdefault(name, perf_counter())
        if pod["spec"].get("nodeName"):
            self._bound.setdefault(name, perf_counter())
        if any(condition.get("reason") == _PREEMPTED for condition in _conditions(pod)):
            self._victims.setdefault(name, perf_counter())

    # --- the lines -------------------------------------------------------------------------------------------------

    def lines(self) -> list[tuple[str, str]]:
        """(title, text) of what there is to point at."""
        found = (self._together(), self._one_rack(), self._no_room_held(), self._hopeless(), self._made_room())
        titles = ("fits", "one rack", "too big", "hopeless", "urgent")
        return [(title, text) for title, text in zip(titles, found, strict=True) if text]

    def _together(self) -> str:
        moments = [self._bound[name] for name in self._members(TRAIN) if name in self._bound]
        if len(moments) < SIZES[TRAIN]:
            return ""
        apart = (max(moments) - min(moments)) * 1000
        return f"all {len(moments)} of [bold]{TRAIN}[/] were bound within {apart:,.0f} ms of each other"

    def _one_rack(self) -> str:
        racks = self._racks_of(RING)
        if len(racks) != 1:
            return ""
        ((rack, count),) = racks.items()
        return f"[bold]{RING}[/] wants one rack for all its members: the {count} of them are in {rack}"

    def _no_room_held(self) -> str:
        web = [self._bound[name] - self._created[name] for name in self._created if name.startswith(f"{WEB}-")
               and name in self._bound]  # fmt: skip
        if not web or self._racks_of(TOO_BIG):
            return ""
        return (
            f"[bold]{TOO_BIG}[/] needs {SIZES[TOO_BIG]} places and {FREE} were free, so none of it started; "
            f"{len(web)} pods of {WEB} that came next had them after {max(web) * 1000:,.0f} ms"
        )

    def _hopeless(self) -> str:
        told = next((c["message"] for c in self._said(f"{HOPELESS}-1") if c.get("message")), "")
        if not told:
            return ""
        return (
            f"[bold]{HOPELESS}[/] holds nothing and keeps nobody waiting: {HOPELESS}-1 says {told.partition('. ')[0]}"
        )

    def _made_room(self) -> str:
        bound = [self._bound[name] for name in self._members(URGENT) if name in self._bound]
        if len(bound) < SIZES[URGENT] or not self._victims:
            return ""
        victims = sorted(self._victims)
        took = max(bound) - min(self._created[name] for name in self._members(URGENT))
        apart = (max(self._victims.values()) - min(self._victims.values())) * 1000
        return (
            f"[bold]{URGENT}[/] evicted {len(victims)} pods of {BATCH} within {apart:,.0f} ms, no more than it needs, "
            f"and ran {took:,.1f} s after it came"
        )

    # --- the table -------------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Each group, and what its object says of it."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("GROUP", no_wrap=True)
        table.add_column("NEEDS", no_wrap=True, justify="right")
        table.add_column("RUN", no_wrap=True, justify="right")
        table.add_column("WHERE", max_width=24)
        table.add_column("THE GROUP'S CONDITION", overflow="fold", ratio=1)
        for name in SIZES:
            racks = self._racks_of(name)
            where = " · ".join(f"{rack} {count}" for rack, count in sorted(racks.items()))
            style = "green" if racks else "yellow"
            told = self._condition(name)
            table.add_row(Text(name, style=style), str(SIZES[name]), str(sum(racks.values())), where or "–", Text(told))
        return table

    def _condition(self, name: str) -> str:
        found = self._cluster.server.get(GROUPS, name)
        return "; ".join(f"{c['type']} {c['status']}: {c.get('message') or c['reason']}" for c in _conditions(found))

    def _members(self, group: str) -> list[str]:
        return [f"{group}-{i}" for i in range(SIZES[group])]

    def _racks_of(self, group: str) -> Counter[str]:
        """rack -> members that have a node there."""
        racks = {n["metadata"]["name"]: n["metadata"]["labels"][RACK] for n in self._cluster.server.list("nodes")}
        places: defaultdict[str, str] = defaultdict(str)
        for pod in self._cluster.server.list("pods", labels=f"app={group}"):
            places[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
        return Counter(racks[node] for node in places.values() if node)

    def _said(self, name: str) -> list[Object]:
        return _conditions(self._cluster.server.get("pods", name))


def _conditions(obj: Object) -> list[Object]:
    return list((obj.get("status") or {}).get("conditions") or ())
