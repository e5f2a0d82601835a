"""Status patches: the pod conditions and nominations the scheduler writes, off the hot path.

A patch is sent only when it changes something: compared with the pod as the informer has it and with what was
sent last. The newest patch of a pod replaces one that still waits, so a herd of unschedulable pods costs one
request a pod at the most. Bounded; at the bound the oldest waiting patch is dropped and counted: the pod's next
attempt says it again.

Owner: Scheduler. `run` is its one task group.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from kube.api.core import Pod
from kube.client.errors import ApiError, NotFound

log = logging.getLogger(__name__)

WORKERS = 8
MAX_WAITING = 20_000
#: sends of one patch, the first included; then the pod's next attempt is the retry
MAX_TRIES = 3

#: (pod, status patch) -> sent
Send = Callable[[Pod, dict[str, Any]], Awaitable[None]]


class StatusPatches:
    """uid -> the patch that waits to be sent."""

    def __init__(self, send: Send, dropped: Callable[[], None]) -> None:
        self._send = send
        self._dropped = dropped
        self._waiting: OrderedDict[str, tuple[Pod, dict[str, Any]]] = OrderedDict()
        self._news = asyncio.Event()
        self._sending = 0

    def put(self, uid: str, pod: Pod, patch: dict[str, Any]) -> None:
        """Send this soon, instead of what still waits for the pod."""
        waiting = self._waiting.pop(uid, None)
        merged = {**waiting[1], **patch} if waiting is not None else patch
        self._waiting[uid] = (pod, merged)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
            self._dropped()
        self._news.set()

    def drop(self, uid: str) -> None:
        """The pod is bound or gone: what waits for it would be wrong."""
        self._waiting.pop(uid, None)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being sent."""
        return not self._waiting and not self._sending

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            _, (pod, patch) = self._waiting.popitem(last=False)
            self._sending += 1
            try:
                await self._try(pod, patch)
            finally:
                self._sending -= 1

    async def _try(self, pod: Pod, patch: dict[str, Any]) -> None:
        for attempt in range(MAX_TRIES):
            try:
                await self._send(pod, patch)
            except NotFound:
                return
            except ApiError as error:
                log.warning("status of pod %s was not written: %s", pod.key, error)
                await asyncio.sleep(0.2 * 2**attempt)
            else:
                return
