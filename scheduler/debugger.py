"""The debugger: compares cache and queue with what the informers hold, mends what differs, and dumps everything.

Informers tell their handlers in the same step in which their store changes, so at any moment both sides agree but for
pods in flight. `compare` looks at all at once (SIGUSR2, and every test at its end); `run` looks again and again, a
slice at a time, and tells the handlers anew about what it finds twice in a row. A pod that was bound by somebody else
is such a difference for the moment until the informer shows it; hence twice.

Owner: the service, on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kube.api.core import Node, Pod
from kube.client.backoff import TimeSlice
from scheduler.cache import SchedulerCache
from scheduler.event_handlers import EventHandlers
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.pod_info import uid_of

log = logging.getLogger(__name__)

PERIOD = 60.0

T_co = TypeVar("T_co", covariant=True)


class Store(Protocol[T_co]):
    """What an informer holds."""

    def get(self, key: str) -> T_co | None:
        """By `namespace/name`, or by name."""

    def list(self) -> Iterable[T_co]:
        """All objects."""

    def keys(self) -> Iterable[str]:
        """All keys."""


@dataclass(frozen=True, slots=True)
class Stores:
    """What the informers hold, of what the cache is made of."""

    nodes: Store[Node]
    pods: Store[Pod]


@dataclass(frozen=True, slots=True)
class Subject:
    """A node, by name, or a pod."""

    key: str
    uid: str = ""

    @property
    def is_node(self) -> bool:
        """Pods have a UID here."""
        return not self.uid


@dataclass(slots=True)
class Mismatch:
    """What cache and queue lack or have differently (missed), and what they have too much (redundant)."""

    missed: list[Subject] = field(default_factory=list)
    redundant: list[Subject] = field(default_factory=list)

    def add(self, subject: Subject, kind: str) -> None:
        """`kind`: "missed", "redundant", or "" where all is well."""
        if kind:
            (self.missed if kind == "missed" else self.redundant).append(subject)

    @property
    def subjects(self) -> list[Subject]:
        """All of them."""
        return [*self.missed, *self.redundant]

    def lines(self) -> list[str]:
        """As kube-scheduler logs it (facts 1.8); empty where all is well."""
        lines = []
        for what, is_node in (("nodes", True), ("pods", False)):
            missed, redundant = (
                sorted(s.key for s in found if s.is_node is is_node) for found in (self.missed, self.redundant)
            )
            if missed or redundant:
                lines.append(f"Cache mismatch: missed {what}: {missed}, redundant {what}: {redundant}")
        return lines


class Debugger:
    """Looks at one cache and one queue."""

    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        stores: Stores,
        handlers: EventHandlers,
        profiles: Collection[str],
        left_alone: set[str],
        corrected: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._nodes = stores.nodes
        self._pods = stores.pods
        self._handlers = handlers
        self._profiles = profiles
        self._left_alone = left_alone
        self._corrected = corrected
        #: what was mended so far
        self.mended = 0

    # --- comparing ----------------------------------------------------------------------------------------

    def compare(self) -> Mismatch:
        """Everything, now."""
        found = Mismatch()
        for subject in self._subjects():
            found.add(subject, self._judge(subject))
        return found

    def _subjects(self) -> list[Subject]:
        nodes = dict.fromkeys([*self._nodes.keys(), *self._cache.nodes])
        pods = {Subject(pod.key, uid_of(pod)): None for pod in self._pods.list()}
        self._left_alone.intersection_update([subject.uid for subject in pods])
        pods |= {Subject(state.info.key, uid): None for uid, state in self._cache.pods.items()}
        pods |= {Subject(item.pod_info.key, item.uid): None for item, _ in self._queue.pending_pods()}
        return [*(Subject(name) for name in nodes), *pods]

    def _judge(self, subject: Subject) -> str:
        return self._judge_node(subject.key) if subject.is_node else self._judge_pod(subject)

    def _judge_node(self, name: str) -> str:
        node, info = self._nodes.get(name), self._cache.nodes.get(name)
        known = info.node if info is not None else None
        if node is None:
            return "redundant" if known is not None else ""
        return "" if known is not None and _version(known) == _version(node) else "missed"

    def _judge_pod(self, subject: Subject) -> str:
        pod = self._pods.get(subject.key)
        if pod is not None and uid_of(pod) != subject.uid:
            pod = None
        state, queued = self._cache.pods.get(subject.uid), self._queue.get(subject.uid)
        waits = queued is not None and queued[1] != "in flight"
        if pod is None:
            return "redundant" if state is not None or waits else ""
        if pod.spec.node_name:
            self._left_alone.discard(subject.uid)
            counted = state is not None and not state.assumed and state.node_name == pod.spec.node_name
            if state is None or not counted or _version(state.info.pod) != _version(pod):
                return "missed"
            return "redundant" if waits else ""
        if state is not None:
            return "" if state.assumed and not waits else "redundant"
        if pod.spec.scheduler_name not in self._profiles:
            return "redundant" if waits else ""
        known_to_leave = pod.metadata.deletion_timestamp is not None or subject.uid in self._left_alone
        return "missed" if queued is None and not known_to_leave else ""

    # --- mending ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look again and again until cancelled."""
        suspects: set[Subject] = set()
        while True:
            await asyncio.sleep(PERIOD)
            suspects = await self.check(suspects)

    async def check(self, suspects: Collection[Subject]) -> set[Subject]:
        """Look at everything in slices, and mend what was suspect before; the new suspects."""
        work = TimeSlice()
        work.begin()
        found: set[Subject] = set()
        mended = Mismatch()
        for subject in self._subjects():
            kind = self._judge(subject)
            if kind and subject in suspects:
                mended.add(subject, kind)
                self._try_to_mend(subject)
            elif kind:
                found.add(subject)
            if work.spent:
                await work.give_way()
        for line in mended.lines():
            log.error("%s (mended)", line)
        return found

    def _try_to_mend(self, subject: Subject) -> None:
        """What cannot be counted, by a bug, is one object too few: no reason for the others to stand still."""
        try:
            self._mend(subject)
        except Exception:
            log.exception("%s cannot be mended", subject.key)

    def _mend(self, subject: Subject) -> None:
        """As if the informer told the handlers for the first time."""
        self._corrected()
        self.mended += 1
        if subject.is_node:
            self._mend_node(subject.key)
        else:
            self._mend_pod(subject)

    def _mend_node(self, name: str) -> None:
        node, info = self._nodes.get(name), self._cache.nodes.get(name)
        if node is not None:
            self._handlers.add_node(node)
        elif info is not None and info.node is not None:
            self._handlers.delete_node(info.node, final_state_unknown=True)

    def _mend_pod(self, subject: Subject) -> None:
        pod, state, queued = (
            self._pods.get(subject.key),
            self._cache.pods.get(subject.uid),
            self._queue.get(subject.uid),
        )
        known = state.info.pod if state is not None else queued[0].pod if queued is not None else None
        if known is not None:
            self._handlers.delete_pod(known, final_state_unknown=True)
        if pod is not None and uid_of(pod) == subject.uid:
            self._handlers.add_pod(pod)

    # --- dumping ------------------------------------------------------------------------------------------

    def dump(self) -> list[str]:
        """The comparison, every node with what is counted on it, and every pending pod; also written to the log."""
        lines = self.compare().lines() or ["Cache comparison: no mismatch"]
        lines.append("Dump of cached NodeInfo")
        for name, info in sorted(self._cache.nodes.items()):
            gone = "" if info.node is not None else " (deleted)"
            pods = ", ".join(pod.key + "?" * self._cache.is_assumed(pod.uid) for pod in info.pods.values())
            lines.append(f"{name}{gone}: requested {info.requested}, allocatable {info.allocatable}, pods: {pods}")
        pools: dict[str, list[str]] = {}
        for item, pool in self._queue.pending_pods():
            pools.setdefault(pool, []).append(item.pod_info.key)
        lines.append("Dump of scheduling queue")
        lines += [f"{pool}: {', '.join(pods)}" for pool, pods in pools.items()]
        for line in lines:
            log.info("%s", line)
        return lines


def _version(obj: Node | Pod) -> str:
    return obj.metadata.resource_version
