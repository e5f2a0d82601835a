"""Connections of our own, against a server that sends given bytes: what is read, what is kept, what is told."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from kube.client.connections import Answer, ConnectionPool
from kube.client.errors import Unreachable

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n3;x=y\r\n:1}\r\n0\r\n\r\n'
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
UNTIL_END = b"HTTP/1.1 200 OK\r\n\r\n{}"
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class RawServer:
    """Answers each request on a connection with the next of its replies, piece by piece."""

    def __init__(self, *replies, pieces=1, closes=False):
        self.replies = list(replies)
        self.pieces = pieces
        self.closes = closes
        self.connections = 0
        self.requests = []

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                reply = self.replies.pop(0)
                size = -(-len(reply) // self.pieces) or 1
                for start in range(0, len(reply), size):
                    writer.write(reply[start : start + size])
                    await writer.drain()
                    await asyncio.sleep(0)
                if self.closes:
                    return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def pool_of(server, prefix="", limit=10):
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = ConnectionPool(
        f"http://127.0.0.1:{port}{prefix}",
        {"Accept": "application/json"},
        tls=None,
        server_hostname=None,
        limit=limit,
        prepare=lambda transport: None,
    )
    try:
        yield pool
    finally:
        pool.close()
        listening.close()
        await asyncio.sleep(0)


async def send(pool, timeout=10.0):
    return await pool.send("POST", "/api/v1/pods", {"Content-Type": "application/json"}, b"{}", timeout, 5.0)


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("reply", "closes", "answer", "kept"),
    [
        pytest.param(OK, False, Answer(201, None, b"{}"), True, id="a body of known length"),
        pytest.param(CHUNKED, False, Answer(200, None, b'{"a":1}'), True, id="chunks"),
        pytest.param(CLOSING, True, Answer(200, None, b"{}"), False, id="a server that closes and says so"),
        pytest.param(UNTIL_END, True, Answer(200, None, b"{}"), False, id="a body until the end"),
        pytest.param(OLD, False, Answer(200, None, b"{}"), False, id="an old server"),
        pytest.param(CONTINUE + OK, False, Answer(201, None, b"{}"), True, id="an interim answer before"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", False, Answer(204, None, b""), True, id="no content"),
        pytest.param(
            b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
            False,
            Answer(429, "7", b""),
            True,
            id="a wish to wait",
        ),
    ],
)
async def test_an_answer_is_read_whole_in_whatever_pieces_it_comes(reply, closes, answer, kept, pieces):
    server = RawServer(reply, OK, pieces=pieces, closes=closes)
    async with pool_of(server) as pool:
        assert await send(pool) == answer
        server.closes = False
        await send(pool)
    assert server.connections == (1 if kept else 2)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(b"", "the server closed the connection without an answer", id="nothing"),
        pytest.param(OK[:-1], "the server closed the connection within an answer", id="half an answer"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", "the answer cannot be read: SSH-2.0-OpenSSH", id="no HTTP"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "the answer cannot be read: Content-Length many",
            id="a length that is no number",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "the answer cannot be read: a chunk without a size",
            id="a chunk without a size",
        ),
    ],
)
async def test_a_broken_answer_may_have_been_applied_and_costs_the_connection(reply, text):
    server = RawServer(reply, OK, closes=True)
    async with pool_of(server) as pool:
        with pytest.raises(Unreachable) as caught:
            await send(pool)
        assert (str(caught.value).endswith(text), caught.value.maybe_applied) == (True, True)
        server.closes = False
        assert (await send(pool)).status == 201


async def test_a_refused_connection_was_surely_not_applied():
    async with pool_of(RawServer()) as pool:
        pass
    with pytest.raises(Unreachable, match="cannot connect to 127.0.0.1") as caught:
        await send(pool)
    assert caught.value.maybe_applied is False


async def test_a_request_without_an_answer_in_time_costs_its_connection_only():
    server = RawServer(OK[:10], OK)
    async with pool_of(server) as pool:
        with pytest.raises(Unreachable, match="no answer in time") as caught:
            await send(pool, timeout=0.05)
        assert caught.value.maybe_applied is True
        assert (await send(pool)).status == 201
    assert server.connections == 2


async def test_no_more_connections_than_the_limit_are_opened():
    server = RawServer(*[OK] * 20)
    async with pool_of(server, limit=3) as pool, asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(send(pool))
    assert (server.connections, len(server.requests)) == (3, 20)


async def test_the_request_goes_out_with_path_headers_and_length():
    server = RawServer(OK)
    async with pool_of(server, prefix="/k8s/clusters/c-1/") as pool:
        await send(pool)
    first, *lines = server.requests[0].decode().split("\r\n")
    assert first == "POST /k8s/clusters/c-1/api/v1/pods HTTP/1.1"
    assert lines[0].startswith("Host: 127.0.0.1:")
    assert lines[1:] == ["Accept: application/json", "Content-Type: application/json", "Content-Length: 2", "", "{}"]


async def test_a_line_break_in_a_header_is_refused_before_anything_is_sent():
    server = RawServer(OK)
    async with pool_of(server) as pool:
        with pytest.raises(ValueError, match="line break"):
            await pool.send("POST", "/", {"Authorization": "Bearer a\r\nX-Own: b"}, b"", 1.0, 1.0)
    assert server.requests == []
