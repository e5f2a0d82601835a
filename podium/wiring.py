"""The wiring: the one place that builds the whole service, and its life from the first list to the last bind.

`Service.build` asks the server what it has and puts the parts together; `Service.run` lists, waits until informers
and handlers have synced, then schedules (as leader, where configured) until it is stopped. `podium run` and
`podium demo` both use it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from config.types import Configuration
from kube.api.core import Node, Pod
from kube.api.resources import POD_GROUPS, RESOURCES
from kube.api.workload import PodGroup
from kube.client.discovery import Discovery
from kube.client.errors import Conflict
from kube.client.event_recorder import EventRecorder, EventType
from kube.client.informer import InformerFactory
from kube.client.leader_election import ElectionConfig, LeaderElector, LeadershipLost
from kube.client.rest import Client, PatchType, Selection
from podium.configuration import Effective
from podium.extender_transport import ExtenderTransport, ServerObjects
from podium.fault_metrics import FaultMetrics
from podium.informer_listers import InformerLister, InformerListers
from podium.plugin_client import PluginClient
from podium.sharing import Sharing
from scheduler.cache import SchedulerCache
from scheduler.debugger import Debugger, Stores
from scheduler.event_handlers import EventHandlers
from scheduler.extender import HTTPExtender, in_order
from scheduler.framework.cluster_event import EventResource
from scheduler.framework.handle import EventFunction, Handle
from scheduler.framework.meter import Meter
from scheduler.framework.plugin_metrics import PluginMetrics
from scheduler.framework.pod_groups import PodGroups
from scheduler.framework.registry import build_framework
from scheduler.framework.runtime import Framework
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.metrics import Metrics
from scheduler.pod_group_scheduling import (
    POD_GROUP_INITIALLY_SCHEDULED,
    POD_GROUP_SCHEDULED,
    GroupConditions,
)
from scheduler.queue.nominator import Nominator
from scheduler.queue.profile_hooks import hooks_of
from scheduler.queue.scheduling_queue import (
    MAX_IN_UNSCHEDULABLE_PODS_DURATION,
    Observers,
    QueueConfig,
    SchedulingQueue,
)
from scheduler.scheduler import Parts, Scheduler
from scheduler.snapshot.snapshot import Snapshot
from scheduler.status_patches import StatusPatches

log = logging.getLogger(__name__)

#: finished pods leave the informer, so their room is free at once (facts 2.12)
PODS = Selection(field_selector="status.phase!=Succeeded,status.phase!=Failed")
#: upstream's default of clientConnection.qps: a limit nobody chose does not throttle binds
DEFAULT_QPS = 50.0
#: objects made before the collector looks at the youngest, and how often at older ones (Python itself: 700, 10, 10)
COLLECT_AFTER = (20_000, 20, 50)
#: seconds that events which are still to be written may take at the end
FLUSH_TIMEOUT = 5.0
_HANDLED = frozenset(
    {
        EventResource.POD,
        EventResource.ASSIGNED_POD,
        EventResource.UNSCHEDULED_POD,
        EventResource.NODE,
        EventResource.WILDCARD,
    }
)


@dataclass(slots=True)
class Options:
    """What a command decides about the service, besides the configuration file."""

    leader_elect: bool = True
    seed: int | None = None
    identity: str = ""
    max_in_unschedulable: float = MAX_IN_UNSCHEDULABLE_PODS_DURATION


class Service:
    """podium, running. Owner: a command."""

    def __init__(
        self, client: Client, effective: Effective, options: Options | None = None, metrics: Metrics | None = None
    ) -> None:
        self.client = client
        self.configuration: Configuration = effective.value
        self.effective = effective
        self.options = options or Options()
        self.metrics = metrics or Metrics()
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.discovery = Discovery(client)
        self.factory = InformerFactory(client)
        self.identity = self.options.identity or f"{socket.gethostname()}_{os.getpid()}"
        qps, burst = self.configuration.client_connection.qps, self.configuration.client_connection.burst
        self.recorder = EventRecorder(client.with_rate(qps, burst), self.identity)
        self.metrics.registry.register(FaultMetrics(self.recorder, self.factory))
        self._binder = client.with_rate(-1, 0) if qps == DEFAULT_QPS else client
        self.plugin_client = PluginClient(client, self._binder)
        self.extender_transport = ExtenderTransport()
        self.elector: LeaderElector | None = None
        self.synced = asyncio.Event()
        self.scheduler: Scheduler
        self.debugger: Debugger
        self._informers: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._listers: InformerListers

    # --- building -----------------------------------------------------------------------------------------

    async def build(self) -> None:
        """Ask the server what it has, and put everything together. Raises ApiError if the server cannot be asked."""
        # Half a million objects of imported modules, which each full collection would look at.
        gc.freeze()
        # API objects are not tracked and tasks leave few cycles: looked for so seldom, they cost a twentieth less CPU.
        gc.set_threshold(*COLLECT_AFTER)
        missing = await self.discovery.choose(*(resource.type for resource in RESOURCES))
        await self.recorder.choose_api(self.discovery)
        self._listers = InformerListers(self.client, self.factory, missing)
        pods = self.factory.informer(Pod, PODS, Sharing().pod)
        self._listers.use("Pod", pods)
        self._listers("Node")
        nominator, waiting = Nominator(), WaitingPods()
        frameworks = self._frameworks(nominator, waiting)
        heard = self._heard_of(frameworks)
        await self._listers.look(self.discovery)
        hooks = {name: hooks_of(framework) for name, framework in frameworks.items()}
        queue = SchedulingQueue(
            lambda pod: hooks.get(pod.spec.scheduler_name),
            nominator,
            next(iter(frameworks.values())).queue_sort.sort_key,
            asyncio.get_running_loop().time,
            self._queue_config(),
            Observers(self.metrics.incoming_observer(), self.metrics.observe_event, self.metrics.observe_hint),
            self.snapshot.index(PodGroups) if self._gate("GenericWorkload") or self._gate("GangScheduling") else None,
        )
        patches = StatusPatches(self._patch_status, self.metrics.dropped_patches.inc)
        self.scheduler = Scheduler(
            Parts(
                cache=self.cache,
                queue=queue,
                frameworks=frameworks,
                metrics=self.metrics,
                patches=patches,
                event=self._event(""),
                current_pod=pods.indexer.get_by,
                percentages=self._percentages(),
                group_conditions=self._group_conditions() if self._gate("GenericWorkload") else None,
            )
        )
        self._late_bind(frameworks, queue)
        # A pod has a node, whoever gave it: what was still to be written about it is no longer true.
        handlers = EventHandlers(self.cache, queue, waiting, frameworks.keys(), patches.drop)
        self._add_handlers(handlers, heard)
        nodes = self.factory.informer(Node)
        self.debugger = Debugger(
            self.cache,
            queue,
            Stores(nodes.indexer, pods.indexer),
            handlers,
            frameworks.keys(),
            self.scheduler.left_alone,
            self.metrics.cache_corrections.inc,
        )

    def _frameworks(self, nominator: Nominator, waiting: WaitingPods) -> dict[str, Framework]:
        rng = random.Random(self.options.seed)
        extenders = self._extenders()
        metrics = PluginMetrics(self.metrics.registry)
        frameworks = {}
        for profile in self.configuration.profiles:
            name = profile.scheduler_name
            handle = Handle(
                snapshot=self.snapshot,
                profile=name,
                listers=self._listers,
                nominator=nominator,
                waiting_pods=waiting,
                feature_gates=self.effective.gates,
                metrics=metrics,
                random=rng,
                served=self._served,
                now=time.time,
                client=self.plugin_client,
                event=self._event(name),
                extenders=extenders,
                preemption_attempted=self.metrics.preemption_attempts.inc,
                preemption_done=self.metrics.preemption_done,
            )
            observe = self.metrics.point_observer(name)
            frameworks[name] = build_framework(
                profile,
                self.effective.registry,
                handle,
                observe,
                Meter(self.metrics.observe_plugin),
            )
        return frameworks

    def _extenders(self) -> tuple[HTTPExtender, ...]:
        objects = ServerObjects(self._binder, self.factory.informer(Node).indexer.get)
        return in_order(
            HTTPExtender(config, self.extender_transport.post(config), objects, self.snapshot)
            for config in self.configuration.extenders
        )

    def _late_bind(self, frameworks: Mapping[str, Framework], queue: SchedulingQueue) -> None:
        """What plugins reach of queue and scheduler, which are built from the plugins' hints."""
        for framework in frameworks.values():
            framework.handle.activate = queue.activate
            framework.handle.resort = queue.resort
            framework.handle.sit_out = queue.sit_out
            framework.handle.report = queue.move_all_to_active_or_backoff_queue
            framework.handle.spawn = self.scheduler.spawn
            framework.handle.later = _call_later

    def _queue_config(self) -> QueueConfig:
        return QueueConfig(
            initial_backoff=self.configuration.pod_initial_backoff_seconds,
            max_backoff=self.configuration.pod_max_backoff_seconds,
            max_in_unschedulable=self.options.max_in_unschedulable,
            pop_from_backoff=self.effective.gates.get("SchedulerPopFromBackoffQ", True),
        )

    def _percentages(self) -> dict[str, int]:
        default = self.configuration.percentage_of_nodes_to_score
        return {p.scheduler_name: p.percentage_of_nodes_to_score or default for p in self.configuration.profiles}

    def _event(self, profile: str) -> EventFunction:
        """Events of a profile, about any pod; without a profile the pod's own scheduler name is the reporter."""

        def event(regarding: Pod, related: Pod | None, kind: str, reason: str, action: str, note: str) -> None:
            controller = profile or regarding.spec.scheduler_name
            self.recorder.event(
                regarding, EventType(kind), reason, action, note, controller=controller, related=related
            )

        return event

    async def _patch_status(self, pod: Pod, patch: dict[str, Any]) -> None:
        started, result = time.perf_counter(), "error"
        try:
            await self._patch_unless_bound(pod, patch)
            result = "success"
        finally:
            self.metrics.called("pod_status_patch", result, time.perf_counter() - started)

    async def _patch_unless_bound(self, pod: Pod, patch: dict[str, Any]) -> None:
        """Only over the pod as it was seen: once somebody has bound it, it is scheduled, whatever we wanted to say."""
        meta = pod.metadata
        version = meta.resource_version
        while True:
            body = {"metadata": {"uid": meta.uid, "resourceVersion": version}, "status": patch}
            try:
                await self.client.patch(Pod, meta.name, body, meta.namespace, subresource="status")
                return
            except Conflict:
                now = await self.client.get(Pod, meta.name, meta.namespace)
                if now.metadata.uid != meta.uid or now.spec.node_name:
                    return
                if now.metadata.resource_version == version:
                    raise
                version = now.metadata.resource_version

    def _gate(self, name: str) -> bool:
        return self.effective.gates.get(name, False)

    def _group_conditions(self) -> GroupConditions:
        """The condition has the name that the server's version of PodGroup gives it."""
        newest = self._served(PodGroup.KIND) == POD_GROUPS.version
        name = POD_GROUP_INITIALLY_SCHEDULED if newest else POD_GROUP_SCHEDULED
        return GroupConditions(self._patch_group, self.metrics.dropped_patches.inc, name)

    def _served(self, kind: str) -> str:
        """The version of a kind that discovery found; "" where nobody has looked, or the server has none."""
        found = next((resource for resource in self.client.versions.values() if resource.listed_as == kind), None)
        return found.version if found is not None else ""

    async def _patch_group(self, group: PodGroup, patch: dict[str, Any]) -> None:
        meta = group.metadata
        body = {"metadata": {"uid": meta.uid}, "status": patch}
        await self.client.patch(PodGroup, meta.name, body, meta.namespace, kind=PatchType.MERGE, subresource="status")

    def _heard_of(self, frameworks: Mapping[str, Framework]) -> dict[str, InformerLister]:
        """The listers of what plugins want to hear of, whether or not one of them reads it."""
        heard = {}
        for kind in sorted(_event_kinds(frameworks)):
            try:
                heard[kind] = self._listers.first(kind)
            except ValueError as error:
                log.warning("plugins registered for events that podium cannot see: %s", error)
        return heard

    def _add_handlers(self, handlers: EventHandlers, heard: Mapping[str, InformerLister]) -> None:
        pods = self.factory.informer(Pod, PODS)
        pods.add_handler(add=handlers.add_pod, update=handlers.update_pod, delete=handlers.delete_pod)
        nodes = self.factory.informer(Node)
        nodes.add_handler(add=handlers.add_node, update=handlers.update_node, delete=handlers.delete_node)
        for kind, lister in heard.items():
            add, update, delete = handlers.others(kind)
            lister.add_handler(add=add, update=update, delete=delete)

    # --- running ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """From the first list until `stop`. Raises what makes the service impossible: ApiError, LeadershipLost."""
        try:
            async with asyncio.TaskGroup() as group:
                background = [
                    group.create_task(self.client.credentials.keep_fresh(), name="credentials"),
                    group.create_task(self.recorder.run(), name="event recorder"),
                    group.create_task(self.debugger.run(), name="cache comparison"),
                    group.create_task(self._listers.look_again(self.discovery), name="missing resources"),
                ]
                if self.waits_for_lease or await self._unless_stopped(self._sync(group)):
                    await self._schedule(group)
                await self._flush_events()
                for task in (*background, self._informers):
                    if task is not None:
                        task.cancel()
        finally:
            await self.extender_transport.close()

    @property
    def elects(self) -> bool:
        """Whether there is a lease to win before pods are scheduled."""
        return self.configuration.leader_election.leader_elect and self.options.leader_elect

    @property
    def waits_for_lease(self) -> bool:
        """Whether nothing is listed before the lease is won."""
        return self.elects and self.configuration.delay_cache_until_active

    async def _sync(self, group: asyncio.TaskGroup) -> None:
        self._informers = group.create_task(self._run_informers(), name="informers")
        await self.factory.wait_for_sync()
        await self._listers.wait_for_sync()
        # What was listed stays for good: the collector need not look at it again. It is not asked to look once more
        # before, for that would hold the loop for longer than anything else does.
        gc.freeze()
        self.synced.set()
        log.info("synced: %d nodes, %d assigned pods", self.cache.node_count(), len(self.cache.pods))

    async def _run_informers(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._listers.started(group)
            self.factory.start(group)

    async def _schedule(self, group: asyncio.TaskGroup) -> None:
        if not self.elects:
            await self.scheduler.run()
            return
        # Over the others the lease would be renewed only after two hundred binds that hang.
        async with self.client.apart(connections=2) as client:
            self.elector = LeaderElector(client, self._election())
            await self._take_part(self.elector, group)

    async def _take_part(self, elector: LeaderElector, group: asyncio.TaskGroup) -> None:
        async def lead() -> None:
            await self._lead(group)

        try:
            async with asyncio.TaskGroup() as election:
                leading = election.create_task(elector.run(lead), name="leader election")
                stopping = election.create_task(self._stop_waiting(elector, leading), name="stop")
                leading.add_done_callback(lambda _: stopping.cancel())
        except* LeadershipLost:
            # Whoever was told to stop does not mind to whom the lease goes.
            if not self.stopping:
                raise

    def _election(self) -> ElectionConfig:
        election = self.configuration.leader_election
        return ElectionConfig(
            namespace=election.resource_namespace,
            name=election.resource_name,
            identity=self.identity,
            lease_duration=election.lease_duration.seconds,
            renew_deadline=election.renew_deadline.seconds,
            retry_period=election.retry_period.seconds,
        )

    async def _lead(self, group: asyncio.TaskGroup) -> None:
        """Nothing is bound on a state of the cluster that is older than the lease: who led before may have bound pods
        of which no watch has told us yet.
        """
        fresh = self._sync(group) if self.waits_for_lease else self._relist()
        if await self._unless_stopped(fresh):
            await self.scheduler.run()

    async def _relist(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in (self.factory.informer(Node), self.factory.informer(Pod, PODS)):
                group.create_task(informer.relist())

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Wait for the work, or for `stop`; whether the work came to its end."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work)
            stopping = group.create_task(self._stop.wait())
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            working.cancel()
        return not working.cancelled()

    async def _flush_events(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT):
                await self.recorder.flush()
        except TimeoutError:
            log.warning("events that could not be written in %g s are lost", FLUSH_TIMEOUT)

    async def _stop_waiting(self, elector: LeaderElector, leading: asyncio.Task[None]) -> None:
        """A replica that does not lead has nothing to finish."""
        await self._stop.wait()
        if not elector.is_leader:
            leading.cancel()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """No new cycles; binds in flight end, the lease is released, `run` returns."""
        self._stop.set()
        self.scheduler.stop()


def _event_kinds(frameworks: Mapping[str, Framework]) -> set[str]:
    """The kinds that some plugin wants to hear of."""
    kinds = {
        str(registered.event.resource)
        for framework in frameworks.values()
        for plugin in framework.plugins()
        for registered in plugin.events or ()
    }
    return kinds - _HANDLED


def _call_later(seconds: float, function: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, function)
