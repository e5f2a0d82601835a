"""Status patches: the pod conditions and nominations the scheduler writes, off the hot path.

A patch is made only when it changes something of the pod as the informer has it. The newest patch of a pod replaces
one that still waits, so a herd of unschedulable pods costs one request a pod at the most, and waits for the one that
is being sent, so that the last word is the last to arrive. Bounded; at the bound the oldest waiting patch is dropped
and counted: the pod's next attempt says it again.

Owner: Scheduler. `run` is its one task group.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from kube.api.codec import DecodeError
from kube.api.core import Pod
from kube.api.meta import ApiObject
from kube.client.errors import ApiError, NotFound

log = logging.getLogger(__name__)

WORKERS = 8
MAX_WAITING = 20_000
#: sends of one patch, the first included; then the pod's next attempt is the retry
MAX_TRIES = 3
#: seconds that a pod which is about to be bound waits for a patch that is being sent
SETTLE_TIMEOUT = 2.0

#: (pod or group, status patch) -> sent
Send = Callable[[Any, dict[str, Any]], Awaitable[None]]


class StatusPatches:
    """uid -> the patch that waits to be sent."""

    def __init__(self, send: Send, dropped: Callable[[], None]) -> None:
        self._send = send
        self._dropped = dropped
        self._waiting: OrderedDict[str, tuple[ApiObject, dict[str, Any]]] = OrderedDict()
        self._news = asyncio.Event()
        #: uid -> what a worker is sending
        self._sending: dict[str, dict[str, Any]] = {}
        #: of these, what is not sent again if it fails
        self._abandoned: set[str] = set()
        self._scopes: dict[str, asyncio.Timeout] = {}
        self._ended = asyncio.Event()
        #: uid -> the nomination written last, until the informer shows it
        self._nominated: OrderedDict[str, str] = OrderedDict()

    def put(self, uid: str, pod: ApiObject, patch: dict[str, Any]) -> None:
        """Send this soon, instead of what still waits for the pod."""
        if "nominatedNodeName" in patch:
            self._nominated[uid] = patch["nominatedNodeName"] or ""
            if len(self._nominated) > MAX_WAITING:
                self._nominated.popitem(last=False)
        waiting = self._waiting.pop(uid, None)
        merged = {**waiting[1], **patch} if waiting is not None else patch
        self._waiting[uid] = (pod, merged)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
            self._dropped()
        self._news.set()

    def drop(self, uid: str) -> bool:
        """The pod is bound or gone: what waits for it would be wrong. Whether one is being sent nevertheless."""
        self._waiting.pop(uid, None)
        self._nominated.pop(uid, None)
        if uid not in self._sending:
            return False
        self._abandoned.add(uid)
        return True

    async def settle(self, uid: str) -> None:
        """After `drop`: nothing is written for the pod once this returns. A patch must not arrive after the bind."""
        scope = self._scopes.get(uid)
        if scope is not None:
            scope.reschedule(asyncio.get_running_loop().time() + SETTLE_TIMEOUT)
        while uid in self._sending:
            await self._ended.wait()

    def nomination(self, uid: str, pod: Pod) -> str:
        """The pod's nominatedNodeName once the informer shows all that was written."""
        shown = pod.status.nominated_node_name
        if self._nominated.get(uid) == shown:
            del self._nominated[uid]
        return self._nominated.get(uid, shown)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being sent."""
        return not self._waiting and not self._sending

    @property
    def pending(self) -> int:
        """How many wait or are being sent."""
        return len(self._waiting) + len(self._sending)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            uid = next((uid for uid in self._waiting if uid not in self._sending), None)
            if uid is None:
                self._news.clear()
                await self._news.wait()
                continue
            pod, self._sending[uid] = self._waiting.pop(uid)
            try:
                async with asyncio.timeout(None) as self._scopes[uid]:
                    await self._try(uid, pod)
            except TimeoutError:
                log.info("status of %s was not written: it is about to be bound", pod.key)
            finally:
                del self._sending[uid], self._scopes[uid]
                self._abandoned.discard(uid)
                self._news.set()
                self._ended.set()
                self._ended.clear()

    async def _try(self, uid: str, pod: ApiObject) -> None:
        for attempt in range(MAX_TRIES):
            if uid in self._waiting:
                # A newer word came while this one could not be said: say both at once.
                newer, patch = self._waiting.pop(uid)
                pod, self._sending[uid] = newer, {**self._sending[uid], **patch}
            elif uid in self._abandoned:
                return
            try:
                await self._send(pod, self._sending[uid])
            except NotFound:
                return
            except (ApiError, DecodeError) as error:
                log.warning("status of %s was not written: %s", pod.key, error)
                await asyncio.sleep(0.2 * 2**attempt)
            else:
                return
        self._nominated.pop(uid, None)
