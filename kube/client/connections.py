"""Short writes over connections of our own: the way of every bind, event and status patch.

Everything else goes over aiohttp. But two of these requests are made for each pod that is bound, and a client for all
purposes spends more on one of them than the scheduling cycle takes as a whole (docs/performance.md). This one knows
HTTP/1.1 with one request at a time on a connection; no redirects, no cookies, no compression, no proxies. httptools
parses what comes back.

Owned by a `transport.Transport`, used by nobody else. It never repeats a request: what was sent may have been applied.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import cast
from urllib.parse import quote, urlencode

import httptools
import msgspec
from yarl import URL

from kube.client.errors import Unreachable

#: an idle connection is not trusted for longer: load balancers forget them without a word
IDLE_SECONDS = 15.0
#: characters of a path that stand for themselves, and "%" because paths come quoted
_PATH = "/%:@!$&'()*+,;=~"
#: whether it has no others
_PLAIN = re.compile(rf"[A-Za-z0-9_.{_PATH}-]*").fullmatch
#: no loop's clock moves on by more at once
CLOCK_STEP = 0.01


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request as it goes out, but for what every request to the server has in common."""

    method: str
    path: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    content_type: str = "application/json"


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What came back."""

    status: int
    retry_after: str | None
    body: bytes


class Connection(asyncio.Protocol):
    """One connection that serves one request at a time. Owner: ConnectionPool."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._retry_after: str | None = None
        self._body: list[bytes] = []
        #: the answer's head is complete, and says where its body ends
        self._has_head = self._has_length = False
        self._used = self._loop.time()
        self._keeps_alive = True

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self._keeps_alive and self._loop.time() - self._used < IDLE_SECONDS

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a request; its answer, or Unreachable. Whoever stops waiting for it has to abort the connection."""
        assert self._transport is not None
        if self._transport.is_closing():
            raise Unreachable("the server closed the connection as soon as it was made", maybe_applied=False)
        self._waiter = waiter = self._loop.create_future()
        self._transport.write(request)
        return waiter

    def fail(self, text: str, reason: str = "Unreachable") -> None:
        """There is no answer to the request under way, if one is."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Unreachable(text, maybe_applied=True, reason=reason))

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected; TLS is done."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        connection = transport.get_extra_info("socket")
        if connection is not None:
            notice_the_dead(connection)

    def data_received(self, data: bytes) -> None:
        """A piece of an answer."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(f"the answer is not HTTP/1.1: {error}")
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Closed by either side; where an answer names no length, that is its end."""
        if self._has_head and not self._has_length:
            self.on_message_complete()
        why = f": {error}" if error is not None else " without an answer"
        self.fail(f"the server closed the connection{why}")

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        """The body follows."""
        self._has_head = True

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The answer is whole; 1xx only announces another one."""
        answer = Answer(self._parser.get_status_code(), self._retry_after, b"".join(self._body))
        self._retry_after, self._body = None, []
        self._has_head = self._has_length = False
        if answer.status < 200:
            return
        self._keeps_alive = self._keeps_alive and self._parser.should_keep_alive()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)
            self._used = self._loop.time()
        else:
            self.abort()  # nobody asked


class ConnectionPool:
    """The connections to one server. Owner: Transport."""

    def __init__(
        self, server: URL, tls: ssl.SSLContext | None, server_hostname: str | None, limit: int, timeout: float
    ) -> None:
        """`timeout`, seconds: for one exchange; connecting gets a third of it. Needs the running loop."""
        self._server = server
        self._tls = (tls or ssl.create_default_context()) if server.scheme == "https" else None
        self._server_hostname = (server_hostname or server.host) if self._tls is not None else None
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        #: exchanges that may begin, and those that wait until one ends
        self._room = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: deque[Connection] = deque()
        #: connections in use, and until when each may be; in that order, since all may be for as long
        self._busy: dict[Connection, float] = {}
        #: one for all of them: a timer for each exchange costs more than its request
        self._alarm: asyncio.TimerHandle | None = None

    async def exchange(self, request: bytes) -> Answer:
        """Send a request, as `render` makes it, over a free connection. Raises Unreachable."""
        if self._room:
            self._room -= 1
        else:
            # Whoever waits here waits for exchanges that end in time, each of them.
            await self._wait_for_room()
        try:
            connection = self._idle_one() or await self._connect()
            try:
                answer = await self._send(connection, request)
            except BaseException:
                connection.abort()
                raise
            finally:
                self._busy.pop(connection, None)
            self._idle.append(connection)
            return answer
        finally:
            if self._waiting:
                self._make_room()
            else:
                self._room += 1

    def close(self) -> None:
        """Close what is idle; what is under way ends with its task."""
        while self._idle:
            self._idle.pop().abort()

    def _send(self, connection: Connection, request: bytes) -> asyncio.Future[Answer]:
        self._busy[connection] = self._loop.time() + self._timeout
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._timeout, self._end_late_ones)
        return connection.send(request)

    def _end_late_ones(self) -> None:
        self._alarm = None
        late = self._loop.time() + CLOCK_STEP
        for connection, end in self._busy.items():
            if end > late:
                self._alarm = self._loop.call_at(end, self._end_late_ones)
                return
            connection.fail("no answer in time", "Timeout")

    async def _wait_for_room(self) -> None:
        turn = self._loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came at the very moment in which it gave up
                self._make_room()
            raise

    def _make_room(self) -> None:
        """An exchange ended: whoever has waited longest takes its place."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._room += 1

    def _idle_one(self) -> Connection | None:
        # The one used last: the others may then be let go.
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._timeout / 3):
                _, connection = await self._loop.create_connection(
                    Connection,
                    self._server.host or "",
                    self._server.port or 0,
                    ssl=self._tls,
                    server_hostname=self._server_hostname,
                )
        except (OSError, TimeoutError) as error:
            where = self._server.host_port_subcomponent
            text = f"cannot connect to {where}: {error}" if str(error) else f"cannot connect to {where} in time"
            raise Unreachable(text, maybe_applied=False) from error
        return connection


class Renderer:
    """Makes bytes of requests to one server. Owner: Transport."""

    def __init__(self, server: URL, headers: Mapping[str, str]) -> None:
        self._prefix = server.raw_path.rstrip("/")
        self._common = f" HTTP/1.1\r\nHost: {server.host_port_subcomponent}\r\n{_lines(headers)}"
        #: the headers of the request before, and what was made of them
        self._headers: Mapping[str, str] = {}
        self._lines = ""

    def __call__(self, request: Request, headers: Mapping[str, str]) -> bytes:
        """The request as it goes over the wire; `headers` are those of this moment. ValueError for a line break."""
        if headers != self._headers:
            self._lines, self._headers = _lines(headers), headers
        path = request.path if _PLAIN(request.path) else quote(request.path, safe=_PATH)
        query = f"?{urlencode(request.params)}" if request.params else ""
        body = request.body or b""
        return (
            f"{request.method} {self._prefix}{path}{query}{self._common}{self._lines}"
            f"Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode("latin-1") + body


def _lines(headers: Mapping[str, str]) -> str:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    if any(line.find("\n") != len(line) - 1 for line in lines):
        raise ValueError(f"a header may not contain a line break: {', '.join(headers)}")
    return "".join(lines)


def notice_the_dead(connection: socket.socket) -> None:
    """Make a connection notice within a minute when the other end is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
