"""Short requests over HTTP/1.1 at a quarter of a general client's cost: one write, one read, connections kept.

Owned by a `Transport`, which sends through it what carries a body and goes to the server directly: binds, events,
patches. Everything else (lists, watches, whatever goes through a proxy) is aiohttp's. An answer is read whole: by
Content-Length, by chunks, or until the server closes. A connection serves one request at a time; one that failed, was
given up, or that the server wants closed is never used again. Nothing is sent twice.

Raises Unreachable, whose `maybe_applied` is False only while no byte was sent.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from yarl import URL

from kube.client import errors

MAX_ANSWER = 2**24
#: seconds after which an unused connection is closed; servers and what is between close them as well, unseen
KEEP_ALIVE = 15.0
_END_OF_HEAD = b"\r\n\r\n"
_CONTINUE, _OK = 100, 200
_NO_BODY = frozenset({204, 304})


class Answer(NamedTuple):
    """What came back."""

    status: int
    retry_after: str | None
    body: bytes


class _Head(NamedTuple):
    """What the first lines of an answer say. `length`: of the body; None where chunks or the end of the stream tell."""

    status: int
    retry_after: str | None
    length: int | None
    chunked: bool
    keeps_alive: bool


class _BrokenAnswerError(Exception):
    """What came is not HTTP."""


class Connection(asyncio.Protocol):
    """One connection, with at most one request on it. Owned by the pool."""

    def __init__(self) -> None:
        self.usable = False
        self.unused_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._head: _Head | None = None
        self._received = b""

    async def exchange(self, request: bytes) -> Answer:
        """Send and read; whoever gives up costs the connection."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._head, self._received, self.usable = None, b"", False
        self._transport.write(request)
        try:
            return await self._answer
        finally:
            self._answer = None
            if not self.usable:
                self.close()

    def close(self) -> None:
        """Whatever is on its way is lost."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if self._answer is None:
            self.close()  # nobody asked
            return
        try:
            self._read(ended=False)
        except _BrokenAnswerError as error:
            self._fail(f"the answer cannot be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if self._answer is None:
            return
        try:
            self._read(ended=True)
        except _BrokenAnswerError as broken:
            self._fail(f"the answer cannot be read: {broken}")
        began = "within" if self._received or self._head is not None else "without"
        self._fail(f"the server closed the connection {began} an answer")

    # Reading

    def _read(self, *, ended: bool) -> None:
        head = self._read_head()
        if head is None:
            return
        if head.chunked:
            body = _join_chunks(self._received)
        elif head.length is None:
            body = self._received if ended else None
        else:
            body = self._received[: head.length] if len(self._received) >= head.length else None
        if body is None and len(self._received) > MAX_ANSWER:
            raise _BrokenAnswerError("it is too large")
        if body is not None and self._answer is not None and not self._answer.done():
            self.usable = head.keeps_alive and head.length is not None and len(self._received) == head.length
            self.usable |= head.keeps_alive and head.chunked
            self._answer.set_result(Answer(head.status, head.retry_after, body))

    def _read_head(self) -> _Head | None:
        while self._head is None:
            end = self._received.find(_END_OF_HEAD)
            if end < 0:
                if len(self._received) > MAX_ANSWER:
                    raise _BrokenAnswerError("its head has no end")
                return None
            head = _parse_head(self._received[:end])
            self._received = self._received[end + len(_END_OF_HEAD) :]
            if not _CONTINUE <= head.status < _OK:
                self._head = head
        return self._head

    def _fail(self, why: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(errors.Unreachable(why, maybe_applied=True))


class ConnectionPool:
    """Connections to one server, at most `limit`. `prepare` is told of each new socket."""

    def __init__(
        self,
        server: str,
        headers: Mapping[str, str],
        *,
        tls: ssl.SSLContext | None,
        server_hostname: str | None,
        limit: int,
        prepare: Callable[[asyncio.BaseTransport], None],
    ) -> None:
        url = URL(server)
        self._host, self._port = url.host or "", url.port or 80
        self._tls = (tls or ssl.create_default_context()) if url.scheme == "https" else None
        self._server_hostname = (server_hostname or self._host) if self._tls is not None else None
        self._prefix = url.raw_path.rstrip("/")
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._common = {"Host": host if url.is_default_port() else f"{host}:{self._port}", **headers}
        self._prepare = prepare
        self._room = asyncio.Semaphore(limit)
        self._unused: deque[Connection] = deque()

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, timeout: float, connect: float
    ) -> Answer:
        """One request; seconds for all of it, and for a new connection."""
        request = self._encode(method, target, headers, body)
        sent = False
        try:
            async with asyncio.timeout(timeout), self._room:
                connection = self._take() or await self._connect(connect)
                sent = True
                answer = await connection.exchange(request)
        except TimeoutError:
            raise errors.Unreachable("no answer in time", maybe_applied=sent, reason="Timeout") from None
        if connection.usable:
            connection.unused_since = asyncio.get_running_loop().time()
            self._unused.append(connection)
        return answer

    def close(self) -> None:
        """Close what is not in use; requests in flight end with their callers."""
        for connection in self._unused:
            connection.close()
        self._unused.clear()

    def _encode(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{method} {self._prefix}{target} HTTP/1.1"]
        lines += [f"{name}: {value}" for part in (self._common, headers) for name, value in part.items()]
        lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1:
            raise ValueError("a header of the request holds a line break")
        return head.encode() + _END_OF_HEAD + body

    def _take(self) -> Connection | None:
        """The connection used last; the others are closed when their time has come."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE
        while self._unused and self._unused[0].unused_since < oldest:
            self._unused.popleft().close()
        while self._unused:
            connection = self._unused.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self, timeout: float) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport, connection = await loop.create_connection(
                    Connection, self._host, self._port, ssl=self._tls, server_hostname=self._server_hostname
                )
        except TimeoutError:
            why = f"cannot connect to {self._host}:{self._port} in time"
            raise errors.Unreachable(why, maybe_applied=False, reason="Timeout") from None
        except OSError as error:  # TLS errors among them
            why = f"cannot connect to {self._host}:{self._port}: {error}"
            raise errors.Unreachable(why, maybe_applied=False) from error
        self._prepare(transport)
        return connection


def _parse_head(data: bytes) -> _Head:
    first, *lines = data.split(b"\r\n")
    status = first[9:12]
    if not first.startswith(b"HTTP/1.") or not status.isdigit():
        raise _BrokenAnswerError(errors.one_line(first))
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
    length = headers.get(b"content-length")
    if length is not None and not length.isdigit():
        raise _BrokenAnswerError(f"Content-Length {errors.one_line(length)}")
    connection = headers.get(b"connection", b"").lower()
    retry_after = headers.get(b"retry-after")
    code = int(status)
    return _Head(
        status=code,
        retry_after=retry_after.decode("latin-1") if retry_after is not None else None,
        length=0 if code in _NO_BODY else None if chunked or length is None else int(length),
        chunked=chunked and code not in _NO_BODY,
        keeps_alive=connection == b"keep-alive" or (connection != b"close" and first.startswith(b"HTTP/1.1")),
    )


def _join_chunks(data: bytes) -> bytes | None:
    """The body that these chunks make up; None where the last is still missing."""
    parts: list[bytes] = []
    position = 0
    while True:
        end = data.find(b"\r\n", position)
        if end < 0:
            return None
        try:
            size = int(data[position:end].partition(b";")[0], 16)
        except ValueError:
            raise _BrokenAnswerError("a chunk without a size") from None
        start = end + 2
        if size == 0:
            # Trailers end as a head does: with an empty line.
            whole = data.startswith(b"\r\n", start) or data.find(_END_OF_HEAD, end) >= 0
            return b"".join(parts) if whole else None
        if len(data) < start + size + 2:
            return None
        parts.append(data[start : start + size])
        position = start + size + 2
