"""What the Handle gives to plugins, each part used by a plugin as somebody would write it: custom resources that are
read and that wake pods, own metrics, events, waiting pods, `activate`, writes in PreBind (virtual time, real HTTP)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from kube.api.core import Pod
from kube.api.custom import CustomObject
from kube.api.meta import ApiObject, Object
from podium.http import HttpServer
from podium.wiring import Service
from scheduler.framework.cluster_event import Action, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.snapshot.columns import Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes
from simulator.apiserver import ApiServer
from simulator.apiserver.resources import Resource
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import condition, events_of, node_of, podium, until, with_plugins

pytestmark = pytest.mark.looptime

LICENCES = "licences.v1.example.com"
LICENCE = Resource(
    "example.com", "v1", "Licence", "licences", subresources=("status",), counts_generations=True, strategic_merge=False
)


def ours(name: str, **labels: str) -> dict[str, Any]:
    return pod(name, labels=labels, schedulerName="podium")


def licence(name: str, seats: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Licence", "metadata": metadata, "spec": {"seats": seats}}


def more_seats(pod: Pod, old: CustomObject | None, new: CustomObject | None) -> QueueingHint:
    """Whether the pod's own licence has more seats than before."""
    seats = [obj.spec.get("seats", 0) if obj is not None else 0 for obj in (old, new)]
    concerns = new is not None and new.metadata.name == pod.metadata.labels.get("licence")
    return QueueingHint.QUEUE if concerns and seats[1] > seats[0] else QueueingHint.SKIP


class Licensed(PreFilterPlugin, ReservePlugin, PreBindPlugin, PostBindPlugin):
    """A pod with the label `licence` needs a seat of the Licence of that name, a custom resource.

    Seats are counted in memory from Reserve on, and written to the Licence's status before the pod is bound.
    """

    name = "Licensed"
    events = (on(LICENCES, Action.ADD | Action.UPDATE, more_seats),)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.licences = handle.listers(LICENCES)
        self.taken: dict[str, set[str]] = {}
        self.refused = handle.metrics.counter("licence_refusals_total", "Pods without a seat", "licence")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        wanted = pod.metadata.labels.get("licence")
        if wanted is None:
            return Status(Code.SKIP)
        found = self.licences.get(wanted, pod.metadata.namespace)
        if found is not None and len(self.taken.get(wanted, ())) < found.spec["seats"]:
            return None
        self.refused.labels(wanted).inc()
        return unschedulable(f"no seat of licence {wanted}")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if wanted := pod.metadata.labels.get("licence"):
            self.taken.setdefault(wanted, set()).add(pod.metadata.uid)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.taken.get(pod.metadata.labels.get("licence", ""), set()).discard(pod.metadata.uid)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None if "licence" in pod.metadata.labels else Status(Code.SKIP)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        wanted = pod.metadata.labels["licence"]
        assert self.handle.client is not None
        found = await self.handle.client.get(LICENCES, wanted, pod.metadata.namespace)
        await self.handle.client.patch(found, {"status": {"taken": len(self.taken[wanted])}}, "status")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if wanted := pod.metadata.labels.get("licence"):
            self.handle.event(pod, None, "Normal", "Licensed", "Binding", f"took a seat of {wanted}")


async def series(service: Service) -> str:
    """What a scrape shows."""
    async with (
        HttpServer(service, "127.0.0.1", 0) as endpoints,
        aiohttp.ClientSession(f"http://127.0.0.1:{endpoints.port}") as http,
        http.get("/metrics") as answer,
    ):
        return await answer.text()


async def test_a_custom_resource_as_plain_dicts_decides_wakes_pods_and_is_written_to(api_server: ApiServer) -> None:
    api_server.registry.register(LICENCE)
    api_server.create(node("n1"))
    api_server.create(licence("office", 1))
    async with podium(api_server, with_plugins(Licensed)) as service:
        for name in ("first", "second", "third"):
            api_server.create(ours(name, licence="office"))
        api_server.create(ours("free"))
        await until(lambda: node_of(api_server, "first") == node_of(api_server, "free") == "n1", "two are bound")
        await until(lambda: bool(condition(api_server, "third")), "two were refused")
        assert condition(api_server, "second")["message"].startswith(
            "0/1 nodes are available: no seat of licence office."
        )
        tries = len(service.scheduler.decisions)
        api_server.create(licence("another", 5))
        api_server.patch("licences.example.com", "office", {"metadata": {"labels": {"touched": "yes"}}})
        await until(lambda: service.scheduler.idle, "nothing that helps has happened")
        assert len(service.scheduler.decisions) == tries
        api_server.patch("licences.example.com", "office", {"spec": {"seats": 3}})
        await until(
            lambda: node_of(api_server, "second") == node_of(api_server, "third") == "n1", "all are bound", 30.0
        )
        assert api_server.get("licences.example.com", "office")["status"] == {"taken": 3}
        await service.recorder.flush()
        assert {e["reason"]: e["note"] for e in events_of(api_server, "third")}["Licensed"] == "took a seat of office"
        assert 'licence_refusals_total{licence="office"} 2.0' in await series(service)


async def test_a_custom_resource_that_is_installed_later_is_found(api_server: ApiServer) -> None:
    """Without it podium starts and schedules all the same."""
    api_server.create(node("n1"))
    async with podium(api_server, with_plugins(Licensed)) as service:
        api_server.create(ours("free"))
        api_server.create(ours("waits", licence="office"))
        await until(lambda: node_of(api_server, "free") == "n1", "the free one is bound")
        api_server.registry.register(LICENCE)
        api_server.create(licence("office", 1))
        await until(lambda: node_of(api_server, "waits") == "n1", "its licence was seen", 150.0)
        assert service.metrics.scheduled_after_flush._value.get() == 0


# --- a struct of the plugin's own, and a column fed by it --------------------------------------------------------


class NodeLoadStatus(Object, frozen=True):
    percent: int = 0


class NodeLoad(ApiObject, frozen=True):
    """As much of the custom resource as the plugin reads."""

    status: NodeLoadStatus = NodeLoadStatus()


class LeastLoaded(ScorePlugin):
    """Prefer nodes whose NodeLoad, an object of the node's name, says that they are idle."""

    name = "LeastLoaded"
    bounded = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        loads = handle.listers("nodeloads.v1.example.com", NodeLoad)
        self.idle = handle.column(
            "idle", lambda info: 100 - found.status.percent if (found := loads.get(info.name)) else 0
        )
        loads.add_handler(
            add=lambda load: handle.node_changed(load.metadata.name),
            update=lambda old, new: handle.node_changed(new.metadata.name),
            delete=lambda load, unknown: handle.node_changed(load.metadata.name),
        )

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        column: Vector = nodes.column(self.idle)
        return column


async def test_a_column_follows_a_custom_resource_of_the_plugins_own_type(api_server: ApiServer) -> None:
    api_server.registry.register(
        Resource("example.com", "v1", "NodeLoad", "nodeloads", namespaced=False, strategic_merge=False)
    )

    def load(name: str, percent: int) -> dict[str, Any]:
        status = {"percent": percent}
        return {"apiVersion": "example.com/v1", "kind": "NodeLoad", "metadata": {"name": name}, "status": status}

    for name, percent in (("a", 80), ("b", 20)):
        api_server.create(node(name))
        api_server.create(load(name, percent))
    async with podium(api_server, with_plugins(LeastLoaded)) as service:
        api_server.create(ours("p1"))
        await until(lambda: node_of(api_server, "p1") == "b", "the idle one is chosen")
        api_server.patch("nodeloads.example.com", "b", {"status": {"percent": 95}})
        key = service.scheduler.frameworks["podium"].scores[-1][0].idle
        row = service.snapshot.row_of["b"]
        await until(
            lambda: service.snapshot.stale or service.snapshot.nodes.column(key)[row] == 5, "podium heard of it"
        )
        api_server.create(ours("p2"))
        await until(lambda: node_of(api_server, "p2") == "a", "now the other one is")
        api_server.delete("nodeloads.example.com", "a")
        await until(lambda: service.snapshot.stale, "podium heard of that, too")
        api_server.create(ours("p3"))
        await until(lambda: node_of(api_server, "p3") == "b", "an unknown load counts as full")
        assert service.snapshot.validate() == []


# --- waiting pods and activate -----------------------------------------------------------------------------------


class Pairs(FilterPlugin, PermitPlugin):
    """Pods with the label `pair` are bound two at a time; who is refused is tried again when its other half is.

    (A pod may be refused by a filter of its own, until somebody calls `activate` for it.)
    """

    name = "Pairs"
    events = ()

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.shy: set[str] = set()

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        shy = pod.metadata.labels.get("shy") == "yes" and pod.metadata.name not in self.shy
        return unschedulable("too shy") if shy else None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        pair = pod.metadata.labels.get("pair")
        if pair is None:
            return None, 0.0
        waiting = [w for w in self.handle.waiting_pods if w.pod_info.pod.metadata.labels.get("pair") == pair]
        if not waiting:
            self.shy.add(f"{pair}-2")
            self.handle.activate([f"{pod.metadata.namespace}/{pair}-2"])
            return Status(Code.WAIT), 60.0
        for each in waiting:
            each.allow(self.name)
        return None, 0.0


async def test_waiting_pods_are_allowed_and_refused_ones_activated_by_a_plugin(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server, with_plugins(Pairs)) as service:
        api_server.create(ours("x-2", pair="x", shy="yes"))
        await until(lambda: bool(condition(api_server, "x-2")), "its other half is not there")
        assert condition(api_server, "x-2")["message"].startswith("0/1 nodes are available: 1 too shy.")
        api_server.create(ours("x-1", pair="x"))
        await until(lambda: node_of(api_server, "x-1") == node_of(api_server, "x-2") == "n1", "both are bound", 30.0)
        assert len(service.scheduler.frameworks["podium"].handle.waiting_pods) == 0


# --- what is wrong is said ---------------------------------------------------------------------------------------


class Hopeful(FilterPlugin):
    """Waits for the events of something that is no resource."""

    name = "Hopeful"
    events = (on("Weather", Action.ADD),)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        return None


async def test_events_of_what_is_no_resource_are_told_of_at_start(
    api_server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    api_server.create(node("n1"))
    async with podium(api_server, with_plugins(Hopeful)):
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "it is bound all the same")
    assert "resource 'Weather': neither a kind podium knows nor plural.version.group" in caplog.text


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        pytest.param(
            lambda handle: handle.metrics.counter("scheduler_pending_pods", "mine"),
            "Duplicated timeseries",
            id="a metric of podium's own name",
        ),
        pytest.param(
            lambda handle: (handle.metrics.gauge("seats", "s"), handle.metrics.counter("seats", "s")),
            "metric seats exists already, as a gauge",
            id="one metric of two kinds",
        ),
        pytest.param(
            lambda handle: handle.listers("Weather"),
            "resource 'Weather': neither a kind podium knows nor plural.version.group",
            id="a resource that is none",
        ),
    ],
)
async def test_a_plugin_that_asks_for_what_cannot_be_is_told_so_in_one_line(
    api_server: ApiServer, mistake: Any, said: str
) -> None:
    def start(plugin: Any, args: Any, handle: Handle) -> None:
        FilterPlugin.__init__(plugin, args, handle)
        mistake(handle)

    namespace: Mapping[str, Any] = {"name": "Wrong", "__init__": start, "filter_node": lambda *_: None}
    wrong = type("Wrong", (FilterPlugin,), dict(namespace))
    with pytest.raises(ValueError, match=said) as raised:
        async with podium(api_server, with_plugins(wrong)):
            pass
    assert str(raised.value).startswith("plugin Wrong cannot be set up: ")
    assert "\n" not in str(raised.value)


class OpensLater(PreFilterPlugin):
    """Nobody gets in for a while; then all that were refused are told. It also notes what the server has."""

    name = "OpensLater"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.refused: set[str] = set()
        self.open = False
        self.served: tuple[str, str] = ("", "")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        self.served = self.handle.served("PersistentVolume"), self.handle.served(LICENCES)
        if self.open:
            return None
        if not self.refused:
            self.handle.later(20.0, self._open)
        self.refused.add(pod.key)
        return unschedulable("not open yet")

    def _open(self) -> None:
        self.open = True
        self.handle.activate(self.refused)


async def test_a_plugin_is_called_when_the_time_has_come_and_knows_what_the_server_has(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server, with_plugins(OpensLater)) as service:
        api_server.create(ours("early"))
        await asyncio.sleep(19)
        assert node_of(api_server, "early") == ""
        await until(lambda: node_of(api_server, "early") == "n1", "it is let in", 2.0)
        plugins = service.scheduler.frameworks["podium"].pre_filter
        (plugin,) = [each for each in plugins if isinstance(each, OpensLater)]
        assert plugin.served == ("v1", "")
