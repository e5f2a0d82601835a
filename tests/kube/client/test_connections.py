"""Short writes over our own connections, against servers whose every byte is written down."""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
from msgspec.structs import replace
from yarl import URL

from kube.client.connections import IDLE_SECONDS, Answer, Connection, ConnectionPool, Renderer, Request
from kube.client.errors import Unreachable

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
POST = Request("POST", "/api/v1/pods", body=b'{"kind":"Pod"}')


class Server:
    """Answers each request with the next of `answers` (the last one again and again); None closes without a word."""

    def __init__(self, answers: list[bytes | None], closes: bool = False) -> None:
        self.url = URL()
        self.requests: list[bytes] = []
        self.connections: list[asyncio.StreamWriter] = []
        self.most_at_once = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._answers = answers
        self._closes = closes
        self._at_once = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while head := await _head_of(reader):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                await self.may_answer.wait()
                self._at_once -= 1
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if self._closes:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _head_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


@asynccontextmanager
async def serving(*answers, closes=False, tls=None, trusted=None, limit=10, timeout=30.0):
    """A server, and a pool of connections to it."""
    server = Server(list(answers), closes)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = URL(f"{'https' if tls else 'http'}://127.0.0.1:{port}")
    pool = ConnectionPool(server.url, trusted, None, limit, timeout)
    try:
        yield server, pool
    finally:
        pool.close()
        listening.close()
        for writer in server.connections:
            writer.close()
        await asyncio.sleep(0)


def rendered(server: Server, request: Request = POST) -> bytes:
    return Renderer(server.url, {})(request, {})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(OK, Answer(201, None, b"{}"), id="an answer of known length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
            Answer(200, None, b"{}"),
            id="an answer in pieces",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204, None, b""), id="an answer without a body"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n" + OK, Answer(201, None, b"{}"), id="an answer that was announced"
        ),
        pytest.param(
            b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n",
            Answer(429, "7", b""),
            id="an answer that says when to come again",
        ),
        pytest.param(
            b"HTTP/1.1 409 Conflict\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000,
            Answer(409, None, b"x" * 70000),
            id="an answer larger than one read",
        ),
    ],
)
async def test_an_answer_is_read_whole(answer, expected):
    async with serving(answer) as (server, pool):
        assert await pool.exchange(rendered(server)) == expected
        assert await pool.exchange(rendered(server)) == expected
        assert len(server.connections) == 1


async def test_an_answer_that_comes_byte_by_byte_is_read_whole():
    async with serving(OK) as (server, pool):
        server.may_answer.clear()
        exchange = asyncio.create_task(pool.exchange(rendered(server)))
        while not server.requests:
            await asyncio.sleep(0)
        for byte in OK[:-1]:
            server.connections[0].write(bytes((byte,)))
            await asyncio.sleep(0)
        assert not exchange.done()
        server.connections[0].write(OK[-1:])
        assert await exchange == Answer(201, None, b"{}")


@pytest.mark.parametrize(
    ("answer", "closes"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", False, id="that says so"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", False, id="of HTTP/1.0"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n{}", True, id="whose answer ends where it closes"),
    ],
)
async def test_a_connection_is_not_used_again_after_an_answer(answer, closes):
    async with serving(answer, closes=closes) as (server, pool):
        for _ in range(2):
            assert await pool.exchange(rendered(server)) == Answer(200, None, b"{}")
        assert len(server.connections) == 2


async def test_a_connection_that_the_server_closed_while_idle_is_not_used_again():
    async with serving(OK) as (server, pool):
        await pool.exchange(rendered(server))
        server.connections[0].close()
        await server.connections[0].wait_closed()
        await asyncio.sleep(0.01)
        assert (await pool.exchange(rendered(server))).status == 201
        assert len(server.connections) == 2


async def test_a_connection_on_which_something_came_unasked_is_not_used_again():
    async with serving(OK) as (server, pool):
        await pool.exchange(rendered(server))
        server.connections[0].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await server.connections[0].drain()
        await asyncio.sleep(0.01)
        assert (await pool.exchange(rendered(server))).status == 201
        assert len(server.connections) == 2


@pytest.mark.looptime
async def test_a_connection_that_was_idle_for_long_is_not_used_again():
    async with serving(OK) as (server, pool):
        for pause in (IDLE_SECONDS / 2, IDLE_SECONDS / 2, IDLE_SECONDS + 1, 0):
            await pool.exchange(rendered(server))
            await asyncio.sleep(pause)
        assert len(server.connections) == 2


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(None, "the server closed the connection without an answer", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "the server closed the connection", id="a half"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP/1.1", id="no HTTP"),
        pytest.param(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
            "the answer is not HTTP/1.1",
            id="another protocol",
        ),
    ],
)
async def test_a_request_may_have_been_applied_where_the_answer_is(answer, text):
    async with serving(answer, closes=True) as (server, pool):
        with pytest.raises(Unreachable, match=text) as raised:
            await pool.exchange(rendered(server))
        assert raised.value.maybe_applied
        assert len(server.requests) == 1


@pytest.mark.looptime
async def test_a_silent_server_is_given_up_and_its_connection_closed():
    async with serving(OK, timeout=30) as (server, pool):
        server.may_answer.clear()
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(Unreachable, match="no answer in time") as raised:
            await pool.exchange(rendered(server))
        assert (raised.value.reason, raised.value.maybe_applied) == ("Timeout", True)
        assert loop.time() - started == pytest.approx(30, abs=0.1)
        server.may_answer.set()
        await pool.exchange(rendered(server))
        assert len(server.connections) == 2


@pytest.mark.looptime
async def test_a_connection_that_was_closed_before_anything_was_sent_applied_nothing():
    """A balancer without a server behind it takes connections, too; nobody waits for an answer on them."""
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        _, connection = await loop.create_connection(Connection, *server.sockets[0].getsockname())
        await asyncio.sleep(1)
        started = loop.time()
        with pytest.raises(Unreachable, match="as soon as it was made") as error:
            await connection.send(b"")
    assert not error.value.maybe_applied
    assert loop.time() < started + 1.0


async def test_a_server_that_is_not_there_applied_nothing():
    async with serving(OK) as (server, pool):
        pass
    with pytest.raises(Unreachable, match=f"cannot connect to 127.0.0.1:{server.url.port}") as raised:
        await pool.exchange(rendered(server))
    assert not raised.value.maybe_applied


@pytest.mark.parametrize("trusts", [pytest.param(True, id="trusted"), pytest.param(False, id="not trusted")])
async def test_over_tls_only_a_server_whose_certificate_is_trusted_gets_the_request(trusts):
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    (authority if trusts else trustme.CA()).configure_trust(ours)
    async with serving(OK, tls=theirs, trusted=ours) as (server, pool):
        if trusts:
            assert (await pool.exchange(rendered(server))).status == 201
            return
        with pytest.raises(Unreachable, match="certificate verify failed") as raised:
            await pool.exchange(rendered(server))
        assert not raised.value.maybe_applied
        assert not server.requests


async def test_there_are_never_more_connections_than_allowed_and_nobody_is_forgotten():
    async with serving(OK, limit=3) as (server, pool):
        server.may_answer.clear()
        exchanges = [asyncio.create_task(pool.exchange(rendered(server))) for _ in range(20)]
        while len(server.requests) < 3:
            await asyncio.sleep(0)
        server.may_answer.set()
        assert [answer.status for answer in await asyncio.gather(*exchanges)] == [201] * 20
        assert (server.most_at_once, len(server.connections)) == (3, 3)


async def test_a_cancelled_request_closes_its_connection_and_makes_room():
    async with serving(OK, limit=1) as (server, pool):
        server.may_answer.clear()
        first = asyncio.create_task(pool.exchange(rendered(server)))
        second = asyncio.create_task(pool.exchange(rendered(server)))
        while not server.requests:
            await asyncio.sleep(0)
        first.cancel()
        server.may_answer.set()
        assert (await second).status == 201
        assert first.cancelled()
        assert len(server.connections) == 2
        async with asyncio.timeout(5):
            with suppress(ConnectionError):  # closed at once, not in good order
                await server.connections[0].wait_closed()


async def test_whoever_gives_up_at_the_moment_of_its_turn_leaves_it_to_the_next():
    async with serving(OK, limit=1) as (server, pool):
        waiting = [asyncio.create_task(pool.exchange(rendered(server))) for _ in range(2)]
        await pool.exchange(rendered(server))
        waiting[0].cancel()
        async with asyncio.timeout(5):
            assert (await waiting[1]).status == 201
        assert waiting[0].cancelled()
        assert len(server.connections) == 1


@pytest.mark.looptime
async def test_each_of_many_requests_has_its_own_time():
    async with serving(OK, timeout=30) as (server, pool):
        server.may_answer.clear()
        loop = asyncio.get_running_loop()
        started, ended = loop.time(), []

        async def ask() -> None:
            with suppress(Unreachable):
                await pool.exchange(rendered(server))
            ended.append(loop.time() - started)

        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(ask())
                await asyncio.sleep(10)
        assert ended == pytest.approx([30, 40, 50], abs=0.1)


@pytest.mark.parametrize(
    ("server", "request_", "first_line"),
    [
        pytest.param("https://k8s:6443", POST, "POST /api/v1/pods HTTP/1.1", id="a path"),
        pytest.param(
            "https://k8s/clusters/c-1/", POST, "POST /clusters/c-1/api/v1/pods HTTP/1.1", id="behind a prefix"
        ),
        pytest.param(
            "https://k8s",
            replace(POST, method="PATCH", params={"fieldManager": "a b", "force": "true"}),
            "PATCH /api/v1/pods?fieldManager=a+b&force=true HTTP/1.1",
            id="with parameters",
        ),
        pytest.param(
            "https://k8s",
            replace(POST, path="/p o\r\nds/é"),
            "POST /p%20o%0D%0Ads/%C3%A9 HTTP/1.1",
            id="odd characters",
        ),
    ],
)
def test_a_request_names(server, request_, first_line):
    request = Renderer(URL(server), {"User-Agent": "podium"})(request_, {"Authorization": "Bearer x"})
    lines = request.decode().split("\r\n")
    assert lines[0] == first_line
    assert lines[1:] == [
        f"Host: {URL(server).host_port_subcomponent}",
        "User-Agent: podium",
        "Authorization: Bearer x",
        "Content-Type: application/json",
        "Content-Length: 14",
        "",
        '{"kind":"Pod"}',
    ]


def test_a_header_with_a_line_break_is_refused():
    with pytest.raises(ValueError, match="a header may not contain a line break: Authorization"):
        Renderer(URL("https://k8s"), {})(POST, {"Authorization": "Bearer x\r\nX-Evil: y"})
