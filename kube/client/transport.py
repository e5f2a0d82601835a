"""One request or one stream: connections, headers, timeouts, credentials; every failure as an ApiError.

Owned by a `rest.Client`, shared by its twins with other rate limits; nobody else uses it. Reads and watches go over
aiohttp: one session serves requests and one serves watches, so that long watches never take the connections of short
requests. Writes, of which a pod needs two, go over `connections.py`, and over aiohttp where there is a proxy. It
repeats a request only after a 401, once, with refreshed credentials; it knows nothing of resources.
"""

import asyncio
import importlib.metadata
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from kube.client import errors
from kube.client.auth import Credentials
from kube.client.connections import Answer, ConnectionPool, Renderer, Request, notice_the_dead

# A watch line can hold the largest object that etcd stores (1.5 MiB), several times escaped; aiohttp allows twice this.
READ_BUFFER = 2**21

# A body that is taken in while it arrives may take so many times as long as one that is only read.
PATIENCE = 10

# Told of each answer: method, status, seconds.
OnAnswer = Callable[[str, int, float], None]
# What reads the body of a 2xx answer, and makes bytes of it.
Read = Callable[[aiohttp.StreamReader], Awaitable[bytes]]


class Transport:
    """The two sessions to one API server."""

    def __init__(
        self,
        credentials: Credentials,
        timeout: float,
        connections: int,
        user_agent: str = "",
        on_answer: OnAnswer | None = None,
    ) -> None:
        self._credentials = credentials
        self._connections = connections
        connect, sock_connect = min(10.0, timeout), min(5.0, timeout)
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=connect, sock_connect=sock_connect)
        self._patient = aiohttp.ClientTimeout(PATIENCE * timeout, connect, sock_read=timeout, sock_connect=sock_connect)
        self._headers = {"User-Agent": user_agent or _user_agent(), "Accept": "application/json"}
        self._on_answer = on_answer
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None
        self._writes: ConnectionPool | None = None
        self._clock: Callable[[], float] | None = None
        self._render = Renderer(URL(credentials.server), self._headers)

    def apart(self, connections: int) -> "Transport":
        """Another one to the same server, not yet open."""
        timeout = self._timeout.total or 0.0
        return Transport(self._credentials, timeout, connections, self._headers["User-Agent"], self._on_answer)

    def open(self) -> None:
        """Make the sessions; needs the running loop."""
        self._clock = asyncio.get_running_loop().time
        self._requests = self._session(self._connections)
        self._watches = self._session(0)
        if self._credentials.proxy is None:
            self._writes = ConnectionPool(
                URL(self._credentials.server),
                self._credentials.tls,
                self._credentials.server_hostname,
                self._connections,
                self._timeout.total or 0.0,
            )

    async def close(self) -> None:
        """Close all connections."""
        if self._writes is not None:
            self._writes.close()
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()

    async def send(self, call: Request, read: Read | None = None) -> bytes:
        """The body of a 2xx answer, or what `read` leaves of it, which is called once at most."""
        headers = self._credentials.headers()
        try:
            return await self._exchange(call, headers, read)
        except errors.Unauthorized:
            if not await self._credentials.refresh(headers):
                raise
        return await self._exchange(call, self._credentials.headers(), read)

    @asynccontextmanager
    async def stream(self, call: Request, sock_read: float) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """An open answer to be read piece by piece; what fails while it is read is an ApiError as well."""
        try:
            async with await self._open_stream(call, sock_read) as response:
                yield response
        except errors.TRANSPORT_ERRORS as error:
            raise _of(call, errors.from_exception(error)) from error
        except errors.ApiError as error:
            error.request = error.request or f"{call.method} {call.path}"
            raise

    async def _open_stream(self, call: Request, sock_read: float) -> aiohttp.ClientResponse:
        headers = self._credentials.headers()
        try:
            return await self._connect_stream(call, headers, sock_read)
        except errors.Unauthorized:
            if not await self._credentials.refresh(headers):
                raise
        return await self._connect_stream(call, self._credentials.headers(), sock_read)

    async def _exchange(self, call: Request, headers: Mapping[str, str], read: Read | None) -> bytes:
        assert self._clock is not None, "use the client as an async context manager"
        started = self._clock()
        try:
            if call.body is not None and self._writes is not None:
                answer = await self._writes.exchange(self._render(call, headers))
            else:
                answer = await self._ask(call, headers, read)
        except errors.Unreachable as error:
            raise _of(call, error) from error.__cause__
        except errors.TRANSPORT_ERRORS as error:
            raise _of(call, errors.from_exception(error)) from error
        if self._on_answer is not None:
            self._on_answer(call.method, answer.status, self._clock() - started)
        if answer.status >= 300:
            raise _of(call, errors.from_response(answer.status, answer.body, answer.retry_after))
        return answer.body

    async def _ask(self, call: Request, headers: Mapping[str, str], read: Read | None) -> Answer:
        assert self._requests is not None, "use the client as an async context manager"
        timeout = self._timeout if read is None else self._patient
        async with self._start(self._requests, call, headers, timeout) as response:
            body = await (response.read() if read is None or response.status >= 300 else read(response.content))
            return Answer(response.status, response.headers.get("Retry-After"), body)

    async def _connect_stream(
        self, call: Request, headers: Mapping[str, str], sock_read: float
    ) -> aiohttp.ClientResponse:
        assert self._watches is not None, "use the client as an async context manager"
        timeout = aiohttp.ClientTimeout(
            total=None, connect=self._timeout.connect, sock_connect=self._timeout.sock_connect, sock_read=sock_read
        )
        # Headers come at once or never: only the wait for more may last as long as the stream.
        async with asyncio.timeout(self._timeout.total):
            response = await self._start(self._watches, call, headers, timeout)
            if response.status == 200:
                return response
            async with response:
                retry_after = response.headers.get("Retry-After")
                raise _of(call, errors.from_response(response.status, await response.read(), retry_after))

    def _start(
        self, session: aiohttp.ClientSession, call: Request, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> "aiohttp.client._RequestContextManager":
        url = URL(self._credentials.server + call.path, encoded=True)
        return session.request(
            call.method,
            url.with_query(call.params) if call.params else url,
            data=call.body,
            headers={**headers, "Content-Type": call.content_type} if call.body is not None else headers,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._credentials.proxy,
            server_hostname=self._credentials.server_hostname,
        )

    def _session(self, limit: int) -> aiohttp.ClientSession:
        tls: Any = self._credentials.tls or True
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=tls, socket_factory=_socket),
            trust_env=False,  # looking for .netrc and proxies costs two threads per request
            read_bufsize=READ_BUFFER,
            timeout=self._timeout,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def _user_agent() -> str:
    try:
        return f"podium/{importlib.metadata.version('podium')}"
    except importlib.metadata.PackageNotFoundError:
        return "podium"


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    notice_the_dead(connection)
    return connection


def _of(call: Request, error: errors.ApiError) -> errors.ApiError:
    error.request = f"{call.method} {call.path}"
    return error
