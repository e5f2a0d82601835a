"""Waiting pods: pods that Permit plugins hold back between Reserve and Bind.

Owner: the framework of a profile. Plugins allow or reject through the map; the binding cycle waits on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from scheduler.framework.status import SUCCESS, Status, unschedulable
from scheduler.snapshot.pod_info import PodInfo

#: the longest a Permit plugin may hold a pod, seconds
MAX_TIMEOUT = 15 * 60.0


class WaitingPod:
    """One pod, the plugins that hold it, and until when (seconds, by the clock of `now`)."""

    __slots__ = ("_since", "_told", "deadlines", "decided", "leaving", "node_name", "pod_info")

    def __init__(self, pod_info: PodInfo, node_name: str, timeouts: Mapping[str, float], now: float) -> None:
        self.pod_info = pod_info
        self.node_name = node_name
        self._since = now
        self.deadlines = {plugin: now + min(timeout, MAX_TIMEOUT) for plugin, timeout in timeouts.items()}
        #: what became of it, once that is known
        self.decided: Status | None = None
        #: wakes whoever waits for that
        self._told: asyncio.Event | None = None
        #: where it is noted once it is rejected; set by `WaitingPods`
        self.leaving: set[str] = set()

    def allow(self, plugin: str) -> None:
        """This plugin lets the pod go; the last one releases it."""
        self.deadlines.pop(plugin, None)
        if not self.deadlines and self.decided is None:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """The pod is not bound. False where its fate was decided already."""
        if self.decided is not None:
            return False
        self._decide(unschedulable(message).by(plugin))
        self.leaving.add(self.pod_info.uid)
        return True

    def _decide(self, status: Status) -> None:
        self.decided = status
        if self._told is not None:
            self._told.set()

    @property
    def deadline(self) -> float:
        """When the first plugin's patience ends."""
        return min(self.deadlines.values())

    def expire(self, now: float) -> None:
        """Reject it if it has waited long enough."""
        plugin, deadline = min(self.deadlines.items(), key=lambda item: item[1])
        if deadline <= now:
            waited = go_duration(deadline - self._since)
            self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    async def wait(self) -> Status:
        """Until all plugins allowed it, one rejected it, or the first deadline passed. By the loop's clock."""
        self._told = told = asyncio.Event()
        loop = asyncio.get_running_loop()
        while self.decided is None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self.deadline):
                    await told.wait()
            if self.decided is None:
                self.expire(loop.time())
        return self.decided


def go_duration(seconds: float) -> str:
    """As Go writes a duration of at least a millisecond: 500ms, 1.5s, 5m0s, 1h0m30s."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if hours or minutes else "", f"{round(rest, 3):g}s")
    return "".join(parts)


class WaitingPods:
    """uid -> waiting pod, and uid -> the PreBind calls of pods that are past Permit but not being bound yet."""

    __slots__ = ("_pods", "leaving", "pre_binding")

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        #: UIDs of pods that were rejected and still hold their room, until their binding cycles go on
        self.leaving: set[str] = set()
        #: set by the framework for as long as PreBind runs
        self.pre_binding: dict[str, Sequence[asyncio.Task[Status | None]]] = {}

    def add(self, waiting: WaitingPod) -> None:
        """From now on the pod can be found."""
        self._pods[waiting.pod_info.uid] = waiting
        waiting.leaving = self.leaving

    def remove(self, uid: str) -> None:
        """The pod waits no longer."""
        self._pods.pop(uid, None)
        self.leaving.discard(uid)

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod of that UID."""
        return self._pods.get(uid)

    def preempt(self, uid: str, plugin: str) -> bool:
        """Stop a pod that waits on Permit or is in PreBind, in memory. False where it is neither: evict it."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.reject(plugin, "preempted"):
            return True
        cancelled = [task.cancel() for task in self.pre_binding.get(uid, ())]
        return any(cancelled)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)
