"""What `podium demo --devices` points at: the dance of one claim, who shares, who waited, and which device is whose.

It follows the embedded cluster's store while the demo runs and reads what it needs at the end; it changes nothing.
Owner: the demo command.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any

from rich.table import Table
from rich.text import Text

from podium.demo_devices import LATE, NIGHTLY, SHARED
from simulator.apiserver.watch_cache import Event
from simulator.cluster import Cluster
from simulator.controllers.informer import controller_of

Object = dict[str, Any]
CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_WIDEST = 16
_DANCER = "inference"


class DeviceStory:
    """Notes what happened when."""

    is_load = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._claims: defaultdict[str, dict[str, float]] = defaultdict(dict)
        store = cluster.server.store
        self._unfollow: list[Callable[[], None]] = [
            store.listen("pods", self._on_pod),
            store.listen(CLAIMS, self._on_claim),
        ]

    def stop(self) -> None:
        """Follow no longer."""
        for unfollow in self._unfollow:
            unfollow()

    def _on_pod(self, event: Event) -> None:
        pod, moments, now = event.revision.obj, self._pods[event.revision.key[1]], perf_counter()
        phase = (pod.get("status") or {}).get("phase")
        moments.setdefault("created", now)
        if pod["spec"].get("nodeName"):
            moments.setdefault("bound", now)
        if phase in ("Running", "Succeeded"):
            moments.setdefault(phase.lower(), now)

    def _on_claim(self, event: Event) -> None:
        claim, moments, now = event.revision.obj, self._claims[event.revision.key[1]], perf_counter()
        status = claim.get("status") or {}
        moments.setdefault("created", now)
        if status.get("allocation"):
            moments.setdefault("allocated", now)
        if status.get("devices"):
            moments.setdefault("prepared", now)

    # --- the lines -------------------------------------------------------------------------------------------------

    def lines(self) -> list[tuple[str, str]]:
        """(title, text) of what there is to point at."""
        found = (self._in_use(), self._dance(), self._shared(), self._late(), self._alternative(), self._extended())
        titles = ("devices", "the dance", "shared claim", "waited", "alternatives", "by resource")
        return [(title, text) for title, text in zip(titles, found, strict=True) if text]

    def _in_use(self) -> str:
        devices = [device for one in self._slices() for device in one["spec"]["devices"]]
        used = {f"{pool}/{device}" for claim in self._allocated() for pool, device in devices_of(claim)}
        made = sum(controller_of(one) is not None for one in self._allocated())
        claims = f"{len(self._allocated())} claims, {made} of them made for one pod each"
        return f"[bold]{len(used)}[/] of {len(devices)} in use, by {claims}"

    def _dance(self) -> str:
        """One claim from its template to a running container."""
        for claim in self._list(CLAIMS):
            owner = controller_of(claim)
            if owner is None or not owner["name"].startswith(_DANCER):
                continue
            pod, moments = self._pods[owner["name"]], self._claims[claim["metadata"]["name"]]
            if "running" not in pod or "prepared" not in moments:
                continue
            begun = pod["created"]
            steps = [("claim made", moments["created"]), ("allocated", moments["allocated"]), ("bound", pod["bound"]),
                     ("prepared", moments["prepared"]), ("running", pod["running"])]  # fmt: skip
            told = " · ".join(f"{word} [bold]{(moment - begun) * 1000:,.0f}[/] ms" for word, moment in steps)
            return f"{owner['name']}: {told}"
        return ""

    def _shared(self) -> str:
        claim = next((one for one in self._allocated() if one["metadata"]["name"] == SHARED), None)
        if claim is None:
            return ""
        users = ", ".join(f"[bold]{name}[/]" for name in sorted(_users(claim)))
        (place, *_) = devices_of(claim)
        return f"{users} use {SHARED}: {'/'.join(place)}, so all of them run on {place[0]}"

    def _late(self) -> str:
        moments = self._pods.get(LATE, {})
        if "bound" not in moments:
            return ""
        waited = moments["bound"] - moments["created"]
        claim = next((one for one in self._allocated() if _owner(one) == LATE), None)
        places = " and ".join("/".join(place) for place in devices_of(claim)) if claim else "nothing any more"
        return f"[bold]{LATE}[/] waited {waited:,.1f} s, until {NIGHTLY} had finished, and got {places}"

    def _alternative(self) -> str:
        claim = next((one for one in self._allocated() if _owner(one) == "flexible"), None)
        if claim is None:
            return ""
        chosen = claim["status"]["allocation"]["devices"]["results"][0]["request"].partition("/")[2]
        got = " and ".join("/".join(place) for place in devices_of(claim))
        return f"[bold]flexible[/] asked for one large GPU or else two small ones, and got {chosen}: {got}"

    def _extended(self) -> str:
        claim = next((one for one in self._allocated() if _owner(one) == "classic"), None)
        if claim is None:
            return ""
        return f"[bold]classic[/] asked for example.com/gpu: 1 as ever, and got {'/'.join(devices_of(claim)[0])}"

    # --- the table -------------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Which device of which node is whose."""
        slices = sorted(self._slices(), key=lambda one: str(one["spec"]["nodeName"]))
        users = {place: _users(claim) for claim in self._allocated() for place in devices_of(claim)}
        apps = sorted({app_of(names) for names in users.values()})
        colours = {app: _COLOURS[i % len(_COLOURS)] for i, app in enumerate(apps)}
        widest = max((len(one["spec"]["devices"]) for one in slices), default=0)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("NODE", no_wrap=True)
        table.add_column("MODEL", no_wrap=True)
        for i in range(widest):
            table.add_column(f"GPU-{i}", no_wrap=True)
        for one in slices:
            devices = one["spec"]["devices"]
            cells = [_cell(users.get((one["spec"]["pool"]["name"], device["name"])), colours) for device in devices]
            table.add_row(one["spec"]["nodeName"], devices[0]["attributes"]["model"]["string"], *cells)
        return table

    def _allocated(self) -> list[Object]:
        return [one for one in self._list(CLAIMS) if (one.get("status") or {}).get("allocation")]

    def _slices(self) -> list[Object]:
        return self._list(SLICES)

    def _list(self, resource: str) -> list[Object]:
        return self._cluster.server.list(resource)


def devices_of(claim: Object) -> list[tuple[str, str]]:
    """(pool, device) of an allocated claim."""
    results = claim["status"]["allocation"]["devices"]["results"]
    return [(result["pool"], result["device"]) for result in results]


def app_of(names: list[str]) -> str:
    """What the pods of a claim are called without what tells them apart."""
    return names[0].partition("-")[0] if names else ""


def _users(claim: Object) -> list[str]:
    return [user["name"] for user in claim["status"].get("reservedFor") or ()]


def _owner(claim: Object) -> str:
    owner = controller_of(claim)
    return str(owner["name"]) if owner is not None else ""


def _cell(users: list[str] | None, colours: dict[str, str]) -> Text:
    if not users:
        return Text("free", style="dim")
    app = app_of(users)
    text = (
        f"{app} ×{len(users)}" if len(users) > 1 else f"{app} {users[0].rpartition('-')[2]}" if "-" in users[0] else app
    )
    return Text(text[:_WIDEST], style=colours[app])
