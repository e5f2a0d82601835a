"""The whole scheduler with the API server replaced by a dictionary: what the client writes shows up in the informer.

    async with World(nodes=[make_node("n1")]) as world:
        world.create(make_pod("web"))
        await world.settle()
        assert world.node_of("web") == "n1"

Time is virtual (`@pytest.mark.looptime`). The only thing replaced is what lies behind the handle's client, the patch
sender and the event function.
"""

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from kube.api.core import Node, Pod
from kube.api.meta import Condition
from kube.client.errors import NotFound
from scheduler.event_handlers import EventHandlers
from scheduler.framework.cluster_event import Action, EventResource, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import BindPlugin, FilterPlugin, Plugin
from scheduler.framework.status import Status, unschedulable
from scheduler.metrics import Metrics
from scheduler.queue.profile_hooks import hooks_of
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.scheduler import Parts, Scheduler
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes
from scheduler.status_patches import StatusPatches
from tests.scheduler.harness import PROFILE, ByPriority, Cluster


class Room(FilterPlugin):
    """CPU and pod count; woken by pods that leave and by nodes."""

    name = "Room"
    events = (
        on(EventResource.ASSIGNED_POD, Action.DELETE),
        on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
    )

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        wanted = state.pod_info.requests.get("cpu", 0)
        return (nodes.free("cpu") >= wanted) & (nodes.free("pods") >= 1)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        free = node.allocatable["cpu"] - node.requested.get("cpu", 0)
        return None if free >= state.pod_info.requests.get("cpu", 0) else unschedulable("Insufficient cpu")


class Binder(BindPlugin):
    """Binds through the client."""

    name = "Binder"
    events = ()

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.client.bind(pod, node_name)  # type: ignore[union-attr]
        return None


class Api:
    """The API server's side: stored pods, what was asked of it, and how it misbehaves."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.binds: list[tuple[str, str]] = []
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.binding = 0
        self.most_binding = 0
        self.latency = 0.1
        self.patch_latency = 0.01
        #: errors of the next binds; with True the bind is carried out all the same
        self.bind_errors: list[tuple[Exception, bool]] = []
        self.changed: Any = lambda old, new: None

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.binds.append((pod.metadata.name, node_name))
        self.binding += 1
        self.most_binding = max(self.most_binding, self.binding)
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.binding -= 1
        error, done = self.bind_errors.pop(0) if self.bind_errors else (None, True)
        if done:
            stored = self.pods[pod.metadata.namespace, pod.metadata.name]
            self.store(replace(stored, spec=replace(stored.spec, node_name=node_name)))
        if error is not None:
            raise error

    async def get(self, kind: str, name: str, namespace: str = "") -> Pod:
        if (namespace, name) not in self.pods:
            raise NotFound(f"{kind} {name}", status=404, reason="NotFound")
        return self.pods[namespace, name]

    async def patch_status(self, pod: Pod, patch: dict[str, Any]) -> None:
        self.patches.append((pod.metadata.name, patch))
        await asyncio.sleep(self.patch_latency)
        stored = self.pods[pod.metadata.namespace, pod.metadata.name]
        fields: dict[str, Any] = {}
        if "conditions" in patch:
            (condition,) = patch["conditions"]
            fields["conditions"] = (
                Condition(
                    type=condition["type"],
                    status=condition["status"],
                    reason=condition["reason"],
                    message=condition["message"],
                    last_transition_time=condition["lastTransitionTime"],
                ),
            )
        if "nominatedNodeName" in patch:
            fields["nominated_node_name"] = patch["nominatedNodeName"] or ""
        self.store(replace(stored, status=replace(stored.status, **fields)))

    def store(self, pod: Pod) -> Pod:
        key = (pod.metadata.namespace, pod.metadata.name)
        old = self.pods.get(key)
        version = str(int(old.metadata.resource_version or "0") + 1) if old is not None else "1"
        pod = self.pods[key] = replace(pod, metadata=replace(pod.metadata, resource_version=version))
        self.changed(old, pod)
        return pod


class World(Cluster):
    """A running scheduler. `lag`: changes of pods reach the informer this much later, in seconds."""

    def __init__(
        self,
        *plugins: type[Plugin],
        nodes: Iterable[Node] = (),
        gates: Mapping[str, bool] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self.api = Api()
        super().__init__(*plugins, Room, Binder, gates=gates, weights=weights, client=self.api)
        self.lag = 0.0
        self.informed: dict[tuple[str, str], Pod] = {}
        self.events: list[tuple[str, str]] = []
        self.metrics = Metrics()
        hooks = hooks_of(self.framework)
        loop = asyncio.get_running_loop()
        self.queue = SchedulingQueue(
            lambda pod: hooks, self.nominator, ByPriority(None, self.handle).sort_key, loop.time
        )
        self.patches = StatusPatches(self.api.patch_status, self.metrics.dropped_patches.inc)
        self.scheduler = Scheduler(
            Parts(
                cache=self.cache,
                queue=self.queue,
                frameworks={PROFILE: self.framework},
                metrics=self.metrics,
                patches=self.patches,
                event=lambda pod, related, kind, reason, action, note: self.events.append((reason, note)),
                current_pod=lambda namespace, name: self.informed.get((namespace, name)),
                percentages={},
            )
        )
        self.handle.activate = self.queue.activate
        self.handle.spawn = self.scheduler.spawn
        self.handlers = EventHandlers(self.cache, self.queue, self.waiting, {PROFILE})
        self.api.changed = self._changed
        for node in nodes:
            self.handlers.add_node(node)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.scheduler.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._running is not None
        self.scheduler.stop()
        await self._running
        assert self.cache.validate() == []
        assert self.queue.validate() == []

    # --- the cluster does something -----------------------------------------------------------------------

    def _changed(self, old: Pod | None, new: Pod) -> None:
        asyncio.get_running_loop().call_later(self.lag, self._inform, old, new)

    def _inform(self, old: Pod | None, new: Pod) -> None:
        self.informed[new.metadata.namespace, new.metadata.name] = new
        if old is None:
            self.handlers.add_pod(new)
        else:
            self.handlers.update_pod(old, new)

    def create(self, *pods: Pod) -> None:
        """Pods are created; those without a scheduler name are ours."""
        for pod in pods:
            name = pod.spec.scheduler_name
            mine = name if name not in ("", "default-scheduler") or pod.spec.node_name else PROFILE
            self.api.store(replace(pod, spec=replace(pod.spec, scheduler_name=mine)))

    def delete(self, name: str) -> None:
        pod = self.api.pods.pop(("default", name))
        self.informed.pop(("default", name), None)
        self.handlers.delete_pod(pod, final_state_unknown=False)

    async def settle(self, seconds: float = 0.5) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    # --- what one asks ------------------------------------------------------------------------------------

    def node_of(self, name: str) -> str:
        return self.api.pods["default", name].spec.node_name

    def pool(self, name: str) -> str | None:
        found = self.queue.get(self.api.pods["default", name].metadata.uid)
        return None if found is None else found[1]

    def attempts(self, result: str) -> float:
        return float(self.metrics.schedule_attempts.labels(result, PROFILE)._value.get())

    def conditions(self) -> list[tuple[str, str, str]]:
        """(pod, reason, message) of each PodScheduled condition that was written."""
        return [
            (name, patch["conditions"][0]["reason"], patch["conditions"][0]["message"])
            for name, patch in self.api.patches
            if "conditions" in patch
        ]
