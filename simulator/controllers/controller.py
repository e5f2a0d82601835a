"""What every controller is: a work queue, handlers that fill it, and a `sync` that empties it.

    class Echo(Controller):
        name = "echo"
        def sync(self, key: Key) -> None: …

A sync that is refused (`ApiError`) comes again, later each time: 5 ms doubled up to 1000 s for the item, and ten a
second (a hundred at once) for all. A sync that fails by a bug does so too, and is logged and counted: one strange
object must not end the cluster. Owner: the manager, which runs `run` in its task group.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import ClassVar

from kube.client.work_queue import QueueShutDown, WorkQueue
from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import Api, key_of
from simulator.controllers.informer import Informers

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Context:
    """What all controllers share."""

    api: Api
    informers: Informers
    events: bool = True


class Controller:
    """One control loop."""

    name: ClassVar[str] = ""

    def __init__(self, context: Context) -> None:
        self.api = context.api
        self.informers = context.informers
        self.queue: WorkQueue[Key] = WorkQueue()
        self.failures = 0
        self._events = context.events

    def sync(self, key: Key) -> None:
        """Bring the object of this key nearer to what it should be."""
        raise NotImplementedError

    def enqueue(self, obj: Object) -> None:
        """The object must be looked at."""
        self.queue.add(key_of(obj))

    def event(self, regarding: Object, kind: str, reason: str, message: str) -> None:
        """Tell users what was done."""
        if self._events:
            self.api.event(regarding, kind, reason, message, f"{self.name}-controller")

    async def run(self) -> None:
        """Work until the queue is shut down."""
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            self._process(key)
            self.queue.done(key)
            await asyncio.sleep(0)

    def stop(self) -> None:
        """Take no more work."""
        self.queue.shut_down()

    def _process(self, key: Key) -> None:
        try:
            self.sync(key)
        except ApiError as error:
            log.debug("%s: %s/%s: %s", self.name, *key, error)
            self.queue.add_rate_limited(key)
        except Exception:
            # What stands in objects came from users; what a sync trips over must not stop all others.
            log.exception("%s: %s/%s", self.name, *key)
            self.failures += 1
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
