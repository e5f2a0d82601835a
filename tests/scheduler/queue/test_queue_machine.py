"""SchedulingQueue against a model with a clock of its own: every pod in one pool, in order, and no event lost.

Three plugins refuse pods: `Room` is woken by nodes made for the pod (a hint looks at the name) and by the pod's own
label update, `Taint` by every taint change, `Door` (PreEnqueue) gates the pods whose door is closed.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kube.api.core import Node, Pod
from scheduler.framework.cluster_event import (
    NODE_ADD,
    Action,
    ClusterEvent,
    EventResource,
    QueueingHint,
    on,
)
from scheduler.framework.status import Status, unresolvable
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.hints import Hint, ProfileHooks
from scheduler.queue.in_flight import InFlight
from scheduler.queue.nominator import Nominator
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue, Strategy
from scheduler.snapshot.pod_info import PodInfo, ShapeTable
from tests.builders import make_node, make_pod
from tests.scheduler.machines import SOUND, must_catch

UIDS = tuple("abcd")
TAINT = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_TAINT, "NodeTaintChange")
DOOR = ClusterEvent("doors.v1.example.com", Action.UPDATE_OTHER, "DoorUpdate")
REFUSALS = st.sets(st.sampled_from(["Room", "Taint"]), min_size=1)


def made_for(pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
    assert new is not None
    return QueueingHint.QUEUE if new.metadata.name == pod.metadata.name else QueueingHint.SKIP


def own_update(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
    return QueueingHint.QUEUE if new.metadata.uid == pod.metadata.uid else QueueingHint.SKIP


HINTS = (
    Hint("Room", on(EventResource.NODE, Action.ADD, hint=made_for)),
    Hint("Room", on(EventResource.POD, Action.UPDATE_POD_LABEL, hint=own_update)),
    Hint("Taint", on(EventResource.NODE, Action.UPDATE_NODE_TAINT)),
    Hint("Door", on(DOOR.resource, Action.ALL)),
)


@dataclass
class Known:
    """The model of one pod: its pool, and what decides about the next one."""

    pod: Pod
    timestamp: float
    pool: str = ""
    refused_by: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    refusals: int = 0
    errors: int = 0
    expires: float = 0.0
    #: in flight: plugins whose hints said QUEUE since the pop, and whether someone activated or deleted it
    woken: set[str] = field(default_factory=set)
    activated: bool = False
    deleted: bool = False
    item: QueuedPodInfo | None = None

    @property
    def order(self) -> tuple[int, float]:
        return (-(self.pod.spec.priority or 0), self.timestamp)


class QueueMachine(RuleBasedStateMachine):
    """Informers, scheduling loop and timers, in any order."""

    queue_class: type[SchedulingQueue] = SchedulingQueue
    in_flight_class: type[InFlight] = InFlight
    backoff_class: type[BackoffQueue] = BackoffQueue

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.closed_doors: set[str] = set()
        self.shapes = ShapeTable()
        hooks = ProfileHooks(self.pre_enqueue, HINTS)
        self.queue = self.queue_class(lambda pod: hooks, Nominator(), sort_key, lambda: self.now)
        self.queue._in_flight = self.in_flight_class()
        self.queue._backoff.__class__ = self.backoff_class
        self.pods: dict[str, Known] = {}
        self.labels = 0

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unresolvable("closed").by("Door") if pod.metadata.uid in self.closed_doors else None

    # --- the model's own rules ----------------------------------------------------------------------------

    def enter(self, known: Known, pool: str) -> None:
        """A pod goes where it should, unless its door is closed."""
        if known.pod.metadata.uid in self.closed_doors:
            known.refused_by.add("Door")
            known.pool = "gated"
        else:
            known.pool = pool

    def wake(self, known: Known, plugins: set[str]) -> None:
        """Some plugins' hints said QUEUE for this pod."""
        if known.pool == "in flight":
            known.woken |= plugins
        elif known.pool in ("unschedulable", "gated"):
            self.return_to_queue(known, plugins)

    def return_to_queue(self, known: Known, woken: set[str]) -> None:
        if woken & known.pending or (woken & known.refused_by and known.expires <= self.now):
            self.enter(known, "active")
        elif woken & known.refused_by:
            self.enter(known, "backoff")

    def in_pool(self, *pools: str) -> list[Known]:
        return [known for known in self.pods.values() if known.pool in pools]

    # --- informers ----------------------------------------------------------------------------------------

    @rule(uid=st.sampled_from(UIDS), priority=st.sampled_from([0, 0, 5, 10]))
    def add(self, uid: str, priority: int) -> None:
        if uid in self.pods:
            return
        pod = make_pod(uid, uid=uid, priority=priority)
        self.pods[uid] = known = Known(pod, self.now)
        self.enter(known, "active")
        self.queue.add(self.shapes.pod_info(pod))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def change_own_labels(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        known = self.pods[uid]
        if known.deleted:
            return
        self.labels += 1
        old = known.pod
        known.pod = make_pod(uid, uid=uid, priority=old.spec.priority, labels={"version": str(self.labels)})
        self.wake(known, {"Room"})
        self.queue.update(old, self.shapes.pod_info(known.pod))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        if self.pods[uid].pool == "in flight":
            self.pods[uid].deleted = True
        else:
            del self.pods[uid]
        self.queue.delete(uid)

    @rule(name=st.sampled_from(UIDS))
    def a_node_appears(self, name: str) -> None:
        if name in self.pods:
            self.wake(self.pods[name], {"Room"})
        self.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, make_node(name))

    @rule()
    def a_taint_goes(self) -> None:
        for known in self.pods.values():
            self.wake(known, {"Taint"})
        self.queue.move_all_to_active_or_backoff_queue(TAINT, make_node("n"), make_node("n"))

    @rule(uid=st.sampled_from(UIDS))
    def a_door_closes(self, uid: str) -> None:
        self.closed_doors.add(uid)

    @precondition(lambda self: self.closed_doors)
    @rule(data=st.data())
    def a_door_opens(self, data: st.DataObject) -> None:
        self.closed_doors.remove(data.draw(st.sampled_from(sorted(self.closed_doors))))
        for known in self.pods.values():
            self.wake(known, {"Door"})
        self.queue.move_all_to_active_or_backoff_queue(DOOR)

    @rule(uid=st.sampled_from(UIDS))
    def activate(self, uid: str) -> None:
        known = self.pods.get(uid)
        if known is not None and known.pool == "in flight":
            known.activated = True
        elif known is not None and known.pool != "active":
            self.enter(known, "active")
        self.queue.activate([f"default/{uid}"])

    # --- the scheduling loop ------------------------------------------------------------------------------

    @rule()
    def pop(self) -> None:
        active = self.in_pool("active")
        early = [known for known in self.in_pool("backoff") if not known.errors]
        item = self.queue.pop_nowait()
        if item is None:
            assert not active
            assert not early
            return
        known = self.pods[item.uid]
        if active:
            assert known.pool == "active"
            assert known.order == min(other.order for other in active)
        else:
            assert known in early
            assert (known.expires, known.order) == min((other.expires, other.order) for other in early)
        known.pool, known.item = "in flight", item
        known.refused_by, known.pending, known.woken, known.activated = set(), set(), set(), False

    @precondition(lambda self: self.in_pool("in flight"))
    @rule(data=st.data())
    def bound(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(sorted(self.in_pool("in flight"), key=lambda k: k.pod.metadata.uid)))
        del self.pods[known.pod.metadata.uid]
        self.queue.done(known.pod.metadata.uid)

    @precondition(lambda self: [known for known in self.in_pool("in flight") if not known.deleted])
    @rule(data=st.data(), refused_by=REFUSALS | st.just(set[str]()), pending=st.booleans())
    def failed(self, data: st.DataObject, refused_by: set[str], pending: bool) -> None:
        flying = [known for known in self.in_pool("in flight") if not known.deleted]
        self.fail(data.draw(st.sampled_from(sorted(flying, key=lambda k: k.pod.metadata.uid))), refused_by, pending)

    @rule(
        refused_by=REFUSALS | st.just(set[str]()), pending=st.booleans(), missed=st.sampled_from(["", "node", "taint"])
    )
    def a_whole_attempt_fails(self, refused_by: set[str], pending: bool, missed: str) -> None:
        before = {known.pod.metadata.uid for known in self.in_pool("in flight")}
        self.pop()
        for known in self.in_pool("in flight"):
            if known.pod.metadata.uid not in before:
                if missed == "node":
                    self.a_node_appears(known.pod.metadata.uid)
                elif missed == "taint":
                    self.a_taint_goes()
                self.fail(known, refused_by, pending)

    def fail(self, known: Known, refused_by: set[str], pending: bool) -> None:
        known.refused_by, known.pending = set(refused_by), {"Taint"} & refused_by if pending else set()
        known.timestamp = self.now
        if refused_by:
            known.refusals, known.errors = known.refusals + 1, 0
        else:
            known.errors += 1
        known.expires = math.floor(self.now + min(2 ** ((known.errors or known.refusals) - 1), 10)) + 1
        known.pool = "unschedulable"
        if known.activated:
            self.enter(known, "active")
        elif refused_by:
            self.return_to_queue(known, known.woken)
        else:
            self.enter(known, "backoff")
        item = known.item
        assert item is not None
        item.pod_info = self.shapes.pod_info(known.pod)
        item.unschedulable_plugins, item.pending_plugins = set(refused_by), set(known.pending)
        self.queue.add_unschedulable(item)

    # --- time ---------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 3.0, 12.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def flush_backoff(self) -> None:
        for known in self.in_pool("backoff"):
            if known.expires <= self.now:
                self.enter(known, "active")
        self.queue.flush_backoff_completed()

    @rule(wait=st.sampled_from([0.0, 301.0]))
    def flush_unschedulable(self, wait: float) -> None:
        self.now += wait
        for known in self.in_pool("unschedulable", "gated"):
            if self.now - known.timestamp > 300:
                self.enter(known, "active" if known.expires <= self.now else "backoff")
        self.queue.flush_unschedulable_leftover()

    # --- what holds after each step -----------------------------------------------------------------------

    @invariant()
    def is_consistent(self) -> None:
        assert self.queue.validate() == []

    @invariant()
    def every_pod_is_in_its_one_pool(self) -> None:
        # One list, not a mapping: a pod in two pools is there twice.
        assert sorted((item.uid, pool) for item, pool in self.queue.pending_pods()) == sorted(
            (uid, known.pool) for uid, known in self.pods.items()
        )
        for uid, known in self.pods.items():
            found = self.queue.get(uid)
            assert found is not None
            assert found[1] == known.pool
            if known.pool != "in flight":
                assert found[0].pod == known.pod
        assert {uid for uid in UIDS if uid in self.queue} == set(self.pods)

    @invariant()
    def lengths_agree(self) -> None:
        pools = ("active", "backoff", "unschedulable", "gated")
        assert self.queue.lengths() == {pool: len(self.in_pool(pool)) for pool in pools}

    @invariant()
    def events_are_kept_only_for_pods_in_flight(self) -> None:
        assert self.queue.in_flight_events() == 0 or self.in_pool("in flight")


def sort_key(info: PodInfo, timestamp: float) -> tuple[int, float]:
    return (-info.priority, timestamp)


TestQueue = QueueMachine.TestCase
TestQueue.settings = SOUND


# --- mutants: each breaks one property, and the machine notices ---------------------------------------------------


class ForgetsEvents(InFlight):
    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Nothing is kept for pods in flight."""


class KeepsEvents(InFlight):
    def done(self, uid: str) -> None:
        self._since.pop(uid, None)


class InTwoPools(SchedulingQueue):
    def flush_backoff_completed(self) -> None:
        for item in list(self._backoff):
            if item.backoff_expiration <= self._clock():
                self._move_to_active(item, "BackoffComplete")


class FirstComeFirstServed(SchedulingQueue):
    def __init__(self, hooks: Any, nominator: Any, sort: Any, clock: Any) -> None:
        super().__init__(hooks, nominator, lambda info, timestamp: timestamp, clock)


class CountsGatedPodsTwice(SchedulingQueue):
    def lengths(self) -> dict[str, int]:
        return {**super().lengths(), "unschedulable": len(self._unschedulable)}


class PendingWaits(SchedulingQueue):
    def _requeue(self, item: QueuedPodInfo, strategy: Strategy, event: str) -> None:
        super()._requeue(item, Strategy.AFTER_BACKOFF if strategy is Strategy.IMMEDIATELY else strategy, event)


class NeverFlushes(SchedulingQueue):
    def flush_unschedulable_leftover(self) -> None:
        """Whoever missed an event waits for ever."""


class GateStaysOpen(SchedulingQueue):
    def _gate(self, item: QueuedPodInfo, event: str) -> bool:
        return bool(item.attempts == 0 and super()._gate(item, event))


class DeletesHalf(SchedulingQueue):
    def delete(self, uid: str) -> None:
        self.nominator.delete(uid)
        self._active.remove(uid)
        self._unschedulable.pop(uid)


class KeepsTheOldPod(SchedulingQueue):
    def _replace(self, item: QueuedPodInfo, info: PodInfo) -> None:
        """The update is lost."""


class NoBackoff(BackoffQueue):
    __slots__ = ()

    def start(self, item: QueuedPodInfo) -> None:
        item.backoff_expiration = 0.0


class ErrorsAreTakenEarly(BackoffQueue):
    __slots__ = ()

    def pop_early(self) -> QueuedPodInfo | None:
        return super().pop_early() or self._patient.pop()


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param({"in_flight_class": ForgetsEvents}, id="an event during the attempt is lost"),
        pytest.param({"in_flight_class": KeepsEvents}, id="events are kept though nobody is in flight"),
        pytest.param({"queue_class": InTwoPools}, id="a pod whose backoff ended is in two pools"),
        pytest.param({"queue_class": FirstComeFirstServed}, id="priority does not count"),
        pytest.param({"queue_class": CountsGatedPodsTwice}, id="gated pods are counted as unschedulable too"),
        pytest.param({"queue_class": PendingWaits}, id="a pod that waited for this very event still backs off"),
        pytest.param({"queue_class": NeverFlushes}, id="leftovers are never tried again"),
        pytest.param({"queue_class": GateStaysOpen}, id="PreEnqueue is asked for new pods only"),
        pytest.param({"queue_class": DeletesHalf}, id="a deleted pod stays in backoff"),
        pytest.param({"queue_class": KeepsTheOldPod}, id="an update of an active pod is lost"),
        pytest.param({"backoff_class": NoBackoff}, id="nobody backs off"),
        pytest.param({"backoff_class": ErrorsAreTakenEarly}, id="a pod that failed by error is taken early"),
    ],
)
def test_the_machine_catches(mutation: dict[str, type]) -> None:
    must_catch(QueueMachine, **mutation)
