"""The scheduling queue: pods that wait for a node.

activeQ             to be tried now, ordered by the profile's QueueSort plugin
backoffQ            were refused or failed; go to activeQ when their backoff ends, or early when it is empty
unschedulable pods  were refused; wait for a cluster event that may help; also the gated pods
in flight           popped, being scheduled or waiting on Permit

A pod is in exactly one of them at any time. Owner: Scheduler. Event handlers add, update, delete and move; only the
scheduling loop pops. Never talks to the API server, never awaits but in `pop`. Time comes from the given clock.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from kube.api.core import Pod
from scheduler.framework.cluster_event import (
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from scheduler.framework.pod_groups import PodGroups
from scheduler.framework.status import Status
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.heap import KeyedHeap
from scheduler.queue.hints import Hint, ProfileHooks
from scheduler.queue.in_flight import InFlight
from scheduler.queue.nominator import Nominator
from scheduler.queue.pod_changes import pod_update_events
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.siblings import SiblingQueue
from scheduler.queue.unschedulable_pods import Rejection, UnschedulablePods
from scheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

#: pods older than this in the pool are retried without any event (facts 2.8)
MAX_IN_UNSCHEDULABLE_PODS_DURATION = 300.0
FLUSH_UNSCHEDULABLE_PERIOD = 30.0
FLUSH_BACKOFF_PERIOD = 1.0


class Strategy(enum.Enum):
    """Where a pod goes after an event."""

    SKIP = "skip"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "immediately"


@dataclass(slots=True)
class QueueConfig:
    """Limits, in seconds."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = MAX_IN_UNSCHEDULABLE_PODS_DURATION
    pop_from_backoff: bool = True


def _ignore(*observed: object) -> None:
    """Nobody measures."""


@dataclass(frozen=True, slots=True)
class Observers:
    """Who is told what the queue does."""

    #: (pool, event label): a pod came in
    incoming: Callable[[str, str], None] = _ignore
    #: (event label, seconds): an event was matched against the pods that wait
    event: Callable[[str, float], None] = _ignore
    #: (plugin, event label, hint, seconds): a hint was asked
    hint: Callable[[str, str, str, float], None] = _ignore


class SchedulingQueue(SiblingQueue):
    """All pending pods of all profiles."""

    def __init__(
        self,
        hooks_of: Callable[[Pod], ProfileHooks | None],
        nominator: Nominator,
        sort_key: Callable[[PodInfo, float], Any],
        clock: Callable[[], float],
        config: QueueConfig | None = None,
        observers: Observers | None = None,
        groups: PodGroups | None = None,
    ) -> None:
        """`groups`: told of members that wait; None where pods are scheduled one by one."""
        self.config = config or QueueConfig()
        self.nominator = nominator
        self._groups = groups
        self._hooks_of = hooks_of
        self._clock = clock
        self._observers = observers or Observers()
        self._incoming = self._observers.incoming

        def order(item: QueuedPodInfo) -> Any:
            return sort_key(item.pod_info, item.timestamp)

        self._active: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
        self._backoff = BackoffQueue(
            self.config.initial_backoff, self.config.max_backoff, order, whole_seconds=self.config.pop_from_backoff
        )
        self._order = order
        self._unschedulable = UnschedulablePods()
        self._in_flight = InFlight()
        self._flying: dict[str, QueuedPodInfo] = {}
        self._ready = asyncio.Event()
        self._closed = False

    # --- adding -------------------------------------------------------------------------------------------

    def add(self, info: PodInfo, event: str = "UnscheduledPodAdd") -> None:
        """A pending pod appeared."""
        if info.uid in self:
            self.update(info.pod, info)
            return
        self.nominator.add(info)
        if self._groups is not None:
            self._groups.wait(info)
        self._move_to_active(QueuedPodInfo(info, self._clock()), event)
        if self._groups is not None:
            self._let_siblings_in(info, event)

    def _move_to_active(self, item: QueuedPodInfo, event: str) -> bool:
        """Into activeQ, unless a PreEnqueue plugin keeps it out."""
        if self._gate(item, event):
            return False
        self._active.push(item.uid, item)
        self._incoming("active", event)
        self._ready.set()
        return True

    def _move_to_backoff(self, item: QueuedPodInfo, event: str) -> None:
        if self._gate(item, event):
            return
        self._backoff.push(item)
        self._incoming("backoff", event)
        self._ready.set()

    def _pre_enqueue(self, pod: Pod) -> Status | None:
        hooks = self._hooks_of(pod)
        return hooks.pre_enqueue(pod) if hooks is not None else None

    def _gate(self, item: QueuedPodInfo, event: str) -> bool:
        status = self._pre_enqueue(item.pod)
        if status is None:
            item.gating_plugin = item.gating_message = ""
            return False
        item.gating_plugin, item.gating_message = status.plugin, status.message
        item.unschedulable_plugins.add(status.plugin)
        item.flushed = False
        self._unschedulable.add(item)
        self._incoming("gated", event)
        return True

    def add_unschedulable(self, item: QueuedPodInfo) -> None:
        """A popped pod failed: back it goes, with the plugins that refused it set. Replays what it missed."""
        uid = item.uid
        strategy = self._strategy_in_flight(item)
        self._finish(uid)
        if uid in self:
            return
        if item.rejectors:
            item.unschedulable_count += 1
            item.consecutive_errors = 0
        else:
            item.consecutive_errors += 1
        item.timestamp = self._clock()
        item.flushed = False
        self._backoff.start(item)
        self._requeue(item, strategy, "ScheduleAttemptFailure")

    def _strategy_in_flight(self, item: QueuedPodInfo) -> Strategy:
        if item.at_once:
            return Strategy.IMMEDIATELY
        if not item.rejectors or item.uid not in self._in_flight:
            # Past Permit no events are kept for the pod: it would wait for one that has happened already.
            item.sits_out = True
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for missed in self._in_flight.events_for(item.uid):
            strategy = self._worth_requeuing(item, missed.event, missed.old, missed.new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                best = strategy
                if not item.pending_plugins:
                    return best
        return best

    def _requeue(self, item: QueuedPodInfo, strategy: Strategy, event: str) -> None:
        if strategy is Strategy.SKIP:
            self._unschedulable.add(item)
            self._incoming("unschedulable", event)
        elif strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(item, self._clock()):
            self._move_to_backoff(item, event)
        else:
            self._move_to_active(item, event)

    # --- events -------------------------------------------------------------------------------------------

    def _may_wake(self, pod: Pod, rejectors: frozenset[str], event: ClusterEvent) -> bool:
        """Whether the event can matter to pods of this profile that these plugins refused."""
        if not rejectors or event.resource == EventResource.WILDCARD:
            return True
        hooks = self._hooks_of(pod)
        return hooks is not None and not rejectors.isdisjoint(hooks.interested(event))

    def _worth_requeuing(self, item: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Ask the hints of the plugins that refused the pod (facts 1.2)."""
        rejectors = item.rejectors
        if not rejectors or event.resource == EventResource.WILDCARD:
            return Strategy.AFTER_BACKOFF
        hooks = self._hooks_of(item.pod)
        if hooks is None:
            return Strategy.SKIP
        if item.pending_plugins & hooks.any_event:
            return Strategy.IMMEDIATELY
        strategy = Strategy.AFTER_BACKOFF if rejectors & hooks.any_event else Strategy.SKIP
        for hint in hooks.hints_for(event):
            if hint.plugin not in rejectors:
                continue
            if self._ask(hint, event, item.pod, old, new) is QueueingHint.SKIP:
                continue
            if hint.plugin in item.pending_plugins:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not item.pending_plugins:
                return strategy
        return strategy

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any = None, new: Any = None, check: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Something happened: move the pods it may help, and remember it for those in flight."""
        started = perf_counter()
        self._in_flight.record(event, old, new)
        for (_, rejectors), items in self._unschedulable.groups():
            if items and self._may_wake(next(iter(items.values())).pod, rejectors, event):
                self._move([*items.values()], event, old, new, check)
        self._observers.event(event.label, perf_counter() - started)

    def _ask(self, hint: Hint, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """No hint function means yes, and so does one that fails."""
        function = hint.registered.hint
        if function is None:
            return QueueingHint.QUEUE
        started = perf_counter()
        try:
            answer = function(pod, old, new)
        except Exception:  # a plugin's bug must not lose a wake-up
            log.exception("the queueing hint of %s failed for pod %s", hint.plugin, pod.key)
            answer = QueueingHint.QUEUE
        self._observers.hint(hint.plugin, event.label, answer.value, perf_counter() - started)
        return answer

    def _move(
        self,
        items: Iterable[QueuedPodInfo],
        event: ClusterEvent,
        old: Any,
        new: Any,
        check: Callable[[PodInfo], bool] | None,
    ) -> None:
        for item in items:
            if check is not None and not check(item.pod_info):
                continue
            strategy = self._worth_requeuing(item, event, old, new)
            # Whoever was asked about this pod, or about one before it, may have activated it.
            if strategy is not Strategy.SKIP and self._unschedulable.pop(item.uid) is not None:
                self._requeue(item, strategy, event.label)

    def update(self, old: Pod, info: PodInfo) -> None:
        """A pending pod changed."""
        uid = info.uid
        self.nominator.update(old, info)
        flying = self._flying.get(uid)
        if flying is not None:
            for event in pod_update_events(old, info.pod):
                self._in_flight.record(event, old, info.pod)
            return
        for pool in (self._active.get(uid), self._backoff.get(uid)):
            if pool is not None:
                self._replace(pool, info)
                return
        item = self._unschedulable.get(uid)
        if item is None:
            self.add(info, "UnscheduledPodUpdate")
            return
        item.pod_info = info
        for event in pod_update_events(old, info.pod):
            self._move((item,), event, old, info.pod, None)
            if uid not in self._unschedulable:
                return

    def _replace(self, item: QueuedPodInfo, info: PodInfo) -> None:
        """In place, unless QueueSort sees the difference."""
        before = self._order(item)
        item.pod_info = info
        if self._order(item) != before:
            if item.uid in self._active:
                self._active.push(item.uid, item)
            else:
                self._backoff.push(item)

    def delete(self, uid: str) -> None:
        """The pod is gone, or has a node."""
        self.nominator.delete(uid)
        if self._groups is not None:
            self._groups.wait_no_more(uid)
        self._active.remove(uid)
        self._backoff.remove(uid)
        self._unschedulable.pop(uid)

    def activate(self, pods: Iterable[str]) -> None:
        """Move these pods ("namespace/name") out of the pool now, or once their attempt fails."""
        wanted = set(pods)
        for flying in self._flying.values():
            flying.at_once = flying.at_once or flying.pod_info.key in wanted
        for item in [i for i in (*self._unschedulable.values(), *self._backoff) if i.pod_info.key in wanted]:
            if self._unschedulable.pop(item.uid) or self._backoff.remove(item.uid):
                self._move_to_active(item, "ForceActivate")

    # --- popping ------------------------------------------------------------------------------------------

    def pop_nowait(self) -> QueuedPodInfo | None:
        """The next pod to try, or None. The caller must call `done` or `add_unschedulable` for it."""
        item = self._active.pop()
        if item is None and self.config.pop_from_backoff:
            item = self._pop_backoff()
        if item is None:
            self._ready.clear()
            return None
        self._take_off(item)
        return item

    def _take_off(self, item: QueuedPodInfo) -> None:
        item.attempts += 1
        if item.initial_attempt_timestamp is None:
            item.initial_attempt_timestamp = self._clock()
        item.unschedulable_plugins = set()
        item.pending_plugins = set()
        item.gating_plugin = item.gating_message = ""
        item.at_once = item.sits_out = False
        self._in_flight.start(item.uid)
        self._flying[item.uid] = item

    def _pop_backoff(self) -> QueuedPodInfo | None:
        item = self._backoff.pop_early()
        if item is not None:
            self._incoming("active", "PopFromBackoffQ")
        return item

    async def pop(self) -> QueuedPodInfo | None:
        """Wait for the next pod; None after `close`."""
        while not self._closed:
            item = self.pop_nowait()
            if item is not None:
                return item
            await self._ready.wait()
        return None

    def close(self) -> None:
        """Nobody pops any more."""
        self._closed = True
        self._ready.set()

    def done(self, uid: str) -> None:
        """The popped pod needs no replay of events any more."""
        self._finish(uid)

    def _finish(self, uid: str) -> None:
        self._in_flight.done(uid)
        self._flying.pop(uid, None)

    # --- flushing -----------------------------------------------------------------------------------------

    def flush_backoff_completed(self) -> None:
        """Every second: pods whose backoff is over go to activeQ."""
        now = self._clock()
        while (item := self._backoff.pop_expired(now)) is not None:
            self._move_to_active(item, "BackoffComplete")

    def flush_unschedulable_leftover(self) -> None:
        """Every 30 seconds: pods that waited longer than five minutes are tried again, event or not."""
        limit = self._clock() - self.config.max_in_unschedulable
        for item in [i for i in self._unschedulable.values() if i.timestamp < limit]:
            if self._unschedulable.pop(item.uid) is not None:
                item.flushed = True
                self._requeue(item, Strategy.AFTER_BACKOFF, "UnschedulableTimeout")

    # --- questions ----------------------------------------------------------------------------------------

    def __contains__(self, uid: str) -> bool:
        return uid in self._active or uid in self._backoff or uid in self._unschedulable or uid in self._flying

    def get(self, uid: str) -> tuple[QueuedPodInfo, str] | None:
        """The pod and the name of its pool: active, backoff, unschedulable, gated or in flight."""
        for item, pool in (
            (self._active.get(uid), "active"),
            (self._backoff.get(uid), "backoff"),
            (self._unschedulable.get(uid), "unschedulable"),
            (self._flying.get(uid), "in flight"),
        ):
            if item is not None:
                return item, "gated" if pool == "unschedulable" and item.gated else pool
        return None

    def pending_pods(self) -> list[tuple[QueuedPodInfo, str]]:
        """Every pending pod with the name of its pool."""
        return [
            *((item, "active") for item in self._active),
            *((item, "backoff") for item in self._backoff),
            *((item, "gated" if item.gated else "unschedulable") for item in self._unschedulable.values()),
            *((item, "in flight") for item in self._flying.values()),
        ]

    def rejections(self) -> dict[Rejection, int]:
        """How many of the pods that wait for an event, gated ones included, were refused by what."""
        return {rejection: len(items) for rejection, items in self._unschedulable.groups()}

    def lengths(self) -> dict[str, int]:
        """Pods per pool, for the pending_pods gauge."""
        gated = sum(item.gated for item in self._unschedulable.values())
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    def in_flight_events(self) -> int:
        """Events kept for replay."""
        return self._in_flight.event_count

    def dropped_events(self) -> int:
        """Events that were dropped at their bound: pods in flight at the time count as woken by anything."""
        return self._in_flight.dropped

    def now(self) -> float:
        """The queue's clock, seconds."""
        return self._clock()

    def validate(self) -> list[str]:
        """Pods that are in more than one pool, and other contradictions; empty when all is well."""
        problems = []
        pools = {
            "active": {i.uid for i in self._active},
            "backoff": {i.uid for i in self._backoff},
            "unschedulable": set(self._unschedulable),
            "in flight": set(self._flying),
        }
        names = list(pools)
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                problems += [f"pod {uid} is in {one} and in {other}" for uid in pools[one] & pools[other]]
        problems += [f"pod {uid} flies without a mark" for uid in pools["in flight"] if uid not in self._in_flight]
        if self._in_flight.event_count and not len(self._in_flight):
            problems.append("events are kept though nobody is in flight")
        return problems
