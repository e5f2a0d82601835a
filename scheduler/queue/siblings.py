"""The members of pod groups in the queue: they come in together, leave together, and change their places together.

Owner: the scheduling queue, which is made of this and of what it does for single pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube.api.core import Pod
from scheduler.framework.pod_groups import PodGroups, group_key
from scheduler.framework.status import Status
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.heap import KeyedHeap
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.unschedulable_pods import UnschedulablePods
from scheduler.snapshot.pod_info import PodInfo


class SiblingQueue:
    """The part of the scheduling queue that knows of groups. Owner: SchedulingQueue, its one subclass."""

    _groups: PodGroups | None
    _active: KeyedHeap[QueuedPodInfo]
    _backoff: BackoffQueue
    _unschedulable: UnschedulablePods
    _flying: dict[str, QueuedPodInfo]

    def _pre_enqueue(self, pod: Pod) -> Status | None:
        raise NotImplementedError

    def _move_to_active(self, item: QueuedPodInfo, event: str) -> bool:
        raise NotImplementedError

    def _take_off(self, item: QueuedPodInfo) -> None:
        raise NotImplementedError

    def _let_siblings_in(self, info: PodInfo, event: str) -> None:
        """The pod may be the one that its group waited for."""
        key = group_key(info.pod)
        if not key or self._groups is None:
            return
        gated: dict[str, list[QueuedPodInfo]] = {}
        for uid in self._groups.of(key).pending:
            item = self._unschedulable.get(uid)
            if item is not None and item.gated:
                gated.setdefault(item.gating_plugin, []).append(item)
        for siblings in gated.values():
            # One is asked for all that the same plugin keeps out: gangs are large.
            if self._pre_enqueue(siblings[0].pod) is not None:
                continue
            for item in siblings:
                self._unschedulable.pop(item.uid)
                self._move_to_active(item, event)

    def pop_siblings(self, first: QueuedPodInfo) -> list[QueuedPodInfo]:
        """A popped pod with the other members of its group, wherever they wait, as they arrived; gated ones stay."""
        assert self._groups is not None, "groups are not scheduled as such"
        found = []
        for uid in self._groups.of(group_key(first.pod)).pending:
            if uid == first.uid:
                found.append(first)
                continue
            item = self._active.remove(uid) or self._backoff.remove(uid)
            if item is None:
                item = self._pop_ungated(uid)
            if item is not None:
                self._take_off(item)
                found.append(item)
        return found or [first]

    def _pop_ungated(self, uid: str) -> QueuedPodInfo | None:
        item = self._unschedulable.get(uid)
        return None if item is None or item.gated else self._unschedulable.pop(uid)

    def resort(self, pods: Iterable[str]) -> None:
        """QueueSort thinks otherwise of these pods ("namespace/name") now; those in activeQ take their new places."""
        wanted = set(pods)
        for item in [i for i in self._active if i.pod_info.key in wanted]:
            self._active.push(item.uid, item)

    def sit_out(self, pods: Iterable[str]) -> None:
        """These pods ("namespace/name"), being scheduled now, are to wait until their backoff is over if they fail."""
        wanted = set(pods)
        for flying in self._flying.values():
            flying.sits_out = flying.sits_out or flying.pod_info.key in wanted
