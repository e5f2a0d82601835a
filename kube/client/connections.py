"""Short writes over connections of our own: the way of every bind, event and status patch.

Everything else goes over aiohttp. But two of these requests are made for each pod that is bound, and a client for all
purposes spends more on one of them than the scheduling cycle takes as a whole (docs/performance.md). This one knows
HTTP/1.1 with one request at a time on a connection; no redirects, no cookies, no compression, no proxies. httptools
parses what comes back.

Owned by a `transport.Transport`, used by nobody else. It never repeats a request: what was sent may have been applied.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import quote, urlencode

import httptools
from yarl import URL

from kube.client.errors import Unreachable

#: an idle connection is not trusted for longer: load balancers forget them without a word
IDLE_SECONDS = 15.0
#: characters of a path that stand for themselves, and "%" because paths come quoted
_PATH = "/%:@!$&'()*+,;=~"


class Answer(NamedTuple):
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

    async def exchange(self, request: bytes, timeout: float) -> Answer:
        """Send a request and wait for its answer. Raises Unreachable."""
        assert self._transport is not None
        if self._transport.is_closing():
            raise Unreachable("the server closed the connection as soon as it was made", maybe_applied=False)
        self._waiter = self._loop.create_future()
        self._transport.write(request)
        alarm = self._loop.call_later(timeout, self._fail, "no answer in time", "Timeout")
        try:
            return await self._waiter
        finally:
            alarm.cancel()
            self._waiter = None
            self._used = self._loop.time()

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
            self._fail(f"the answer is not HTTP/1.1: {error}")
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Closed by either side; where an answer names no length, that is its end."""
        if self._has_head and not self._has_length:
            self.on_message_complete()
        why = f": {error}" if error is not None else " without an answer"
        self._fail(f"the server closed the connection{why}")

    # What the parser calls

    def on_message_begin(self) -> None:
        """A new answer."""
        self._retry_after, self._body = None, []
        self._has_head = self._has_length = False

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
        status = self._parser.get_status_code()
        self._has_head = False
        if status < 200:
            return
        self._keeps_alive = self._keeps_alive and self._parser.should_keep_alive()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(Answer(status, self._retry_after, b"".join(self._body)))
        else:
            self.abort()  # nobody asked

    def _fail(self, text: str, reason: str = "Unreachable") -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Unreachable(text, maybe_applied=True, reason=reason))


class ConnectionPool:
    """The connections to one server. Owner: Transport."""

    def __init__(
        self, server: URL, tls: ssl.SSLContext | None, server_hostname: str | None, limit: int, timeout: float
    ) -> None:
        """`timeout`, seconds: for one exchange; connecting gets a third of it."""
        self._server = server
        self._tls = (tls or ssl.create_default_context()) if server.scheme == "https" else None
        self._server_hostname = (server_hostname or server.host) if self._tls is not None else None
        self._timeout = timeout
        self._room = asyncio.Semaphore(limit)
        self._idle: deque[Connection] = deque()

    async def exchange(self, request: bytes) -> Answer:
        """Send a request, as `render` makes it, over a free connection. Raises Unreachable."""
        # Whoever waits here waits for exchanges that end in time, each of them.
        async with self._room:
            connection = self._idle_one() or await self._connect()
            try:
                answer = await connection.exchange(request, self._timeout)
            except BaseException:
                connection.abort()
                raise
            self._idle.append(connection)
            return answer

    def close(self) -> None:
        """Close what is idle; what is under way ends with its task."""
        while self._idle:
            self._idle.pop().abort()

    def _idle_one(self) -> Connection | None:
        # The one used last: the others may then be let go.
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout / 3):
                _, connection = await loop.create_connection(
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


class Request(NamedTuple):
    """A write, without what every request to the server has in common."""

    method: str
    path: str
    params: Mapping[str, str] | None
    content_type: str
    body: bytes


class Renderer:
    """Makes bytes of requests to one server. Owner: Transport."""

    def __init__(self, server: URL, headers: Mapping[str, str]) -> None:
        self._prefix = server.raw_path.rstrip("/")
        self._common = f" HTTP/1.1\r\nHost: {server.host_port_subcomponent}\r\n{_lines(headers)}"

    def __call__(self, request: Request, headers: Mapping[str, str]) -> bytes:
        """The request as it goes over the wire; `headers` are those of this moment. ValueError for a line break."""
        query = f"?{urlencode(request.params)}" if request.params else ""
        return (
            f"{request.method} {self._prefix}{quote(request.path, safe=_PATH)}{query}{self._common}{_lines(headers)}"
            f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n\r\n"
        ).encode("latin-1") + request.body


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
