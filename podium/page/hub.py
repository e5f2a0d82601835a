"""The hub: tells every browser what has changed, about once a second, and nobody when nobody looks.

An update is built in slices (see `image`), encoded once, and put into the queue of each client. A client that does not
keep up loses its queue and is sent the whole state instead, so no queue is ever long. Updates are numbered: a client
that comes back with the number it saw last is sent what it missed, as long as that is remembered.

Owner: the page's server. A bug in here costs the page an update, never the scheduler its loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque

from podium.page.image import Change, Image, Slices
from podium.page.rows import encode
from podium.page.samples import Samples
from podium.wiring import Service

log = logging.getLogger(__name__)

#: seconds between two updates, at least; more where building them would take more than this part of the loop's time
INTERVAL = 1.0
MAX_INTERVAL = 5.0
MOST_OF_LOOP = 0.05
#: updates that a client may be behind, and updates and bytes that are remembered for those who come back
QUEUE = 8
REMEMBERED = 60
REMEMBERED_BYTES = 4 * 2**20
#: seconds for which updates go on after the last client has left: it may be coming back
LINGER = 30.0


class Client:
    """One browser. Owner: the hub."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        #: it knows nothing yet, or too little: only the whole state helps
        self.lost = True
        self.closed = False

    def offer(self, message: bytes) -> None:
        """Put into its queue; where that is full, forget what it holds."""
        if self._messages.full():
            self.lost = True
            while not self._messages.empty():
                self._messages.get_nowait()
        if not self.lost:
            self._messages.put_nowait(message)

    def offer_whole(self, message: bytes) -> None:
        """Where it was lost, it is not any more."""
        self.lost = False
        self.offer(message)

    async def next(self) -> bytes:
        """The next message; empty once the page is closed."""
        return b"" if self.closed else await self._messages.get()

    def close(self) -> None:
        """No more messages."""
        self.closed = True
        while not self._messages.empty():
            self._messages.get_nowait()
        self._messages.put_nowait(b"")


class Hub:
    """The clients, and what they are told. `run` and `sample` are tasks of the server."""

    def __init__(self, service: Service) -> None:
        self._samples = Samples(service.scheduler, service.metrics)
        self._service = service
        self._image = Image(service)
        self._clients: set[Client] = set()
        self._epoch = secrets.token_hex(4)
        self._number = 0
        #: samples that the image as sent includes
        self._sampled = 0
        self._recent: deque[tuple[int, bytes]] = deque()
        self._recent_bytes = 0
        self._whole: tuple[int, bytes] | None = None
        self._wanted = asyncio.Event()
        self._left_at = float("-inf")

    # --- clients ------------------------------------------------------------------------------------------

    @property
    def clients(self) -> int:
        """Browsers that look."""
        return len(self._clients)

    def join(self, last: str = "") -> Client:
        """A browser begins to look; `last` is the number of the update it saw last."""
        client = Client()
        missed = self._missed(last)
        if missed is not None:
            client.lost = False
            for message in missed:
                client.offer(message)
        elif self._number:
            client.offer_whole(self._whole_state())
        self._clients.add(client)
        self._wanted.set()
        return client

    def leave(self, client: Client) -> None:
        """It is gone."""
        self._clients.discard(client)
        self._left_at = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Tell all of them that the page ends here."""
        for client in self._clients:
            client.close()

    def _missed(self, last: str) -> list[bytes] | None:
        """The updates after that one; None where they are not remembered, or too many for a queue."""
        epoch, _, number = last.partition("-")
        if epoch != self._epoch or not number.isdecimal():
            return None
        first = self._recent[0][0] if self._recent else self._number + 1
        if not first - 1 <= int(number) <= self._number or self._number - int(number) > QUEUE:
            return None
        return [message for n, message in self._recent if n > int(number)]

    # --- updates ------------------------------------------------------------------------------------------

    async def sample(self) -> None:
        """Take a sample every second, for ever."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                self._samples.take()
            except Exception:
                log.exception("the page's sample failed")

    async def run(self) -> None:
        """Update while somebody looks, for ever."""
        while True:
            await self._wanted.wait()
            slices = Slices()
            try:
                self._publish(await self._image.update(slices))
            except Exception:
                log.exception("the page's update failed")
                self._forget()
            await asyncio.sleep(min(max(INTERVAL, slices.spent / MOST_OF_LOOP), MAX_INTERVAL))
            if not self._clients and asyncio.get_running_loop().time() - self._left_at > LINGER:
                self._forget()
                self._wanted.clear()

    def _publish(self, change: Change) -> None:
        change.samples = [*self._samples.since(self._sampled)]
        self._sampled = self._samples.count
        self._number += 1
        message = self._message("change", change)
        self._remember(message)
        for client in self._clients:
            if client.lost:
                client.offer_whole(self._whole_state())
            else:
                client.offer(message)

    def _whole_state(self) -> bytes:
        """As of the last update, so that the next one goes on from there."""
        if self._whole is None or self._whole[0] != self._number:
            state = self._image.whole()
            samples = [*self._samples.all]
            state.samples = samples[: len(samples) - (self._samples.count - self._sampled)]
            self._whole = (self._number, self._message("state", state))
        return self._whole[1]

    def _message(self, event: str, change: Change) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
            self._epoch.encode(), self._number, event.encode(), encode(change)
        )  # fmt: skip

    def _remember(self, message: bytes) -> None:
        self._recent.append((self._number, message))
        self._recent_bytes += len(message)
        while len(self._recent) > REMEMBERED or self._recent_bytes > REMEMBERED_BYTES:
            self._recent_bytes -= len(self._recent.popleft()[1])

    def _forget(self) -> None:
        """Begin anew: whoever comes back is sent the whole state."""
        self._image = Image(self._service)
        self._epoch, self._number, self._whole = secrets.token_hex(4), 0, None
        self._recent.clear()
        self._recent_bytes = 0
        for client in self._clients:
            client.lost = True
