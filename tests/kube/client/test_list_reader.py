"""A list body is cut into items while it arrives, whatever stands in them and however it is cut into pieces."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.api import codec
from kube.api.core import Node, Pod
from kube.client import errors, list_reader
from kube.client.auth import Credentials
from kube.client.informer import SharedInformer
from kube.client.list_reader import BLOCK, ListReader
from kube.client.rest import Client
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import pod
from tests.kube.client.conftest import running, start_stream

pytestmark = pytest.mark.looptime
NODES = "/api/v1/nodes"


class Pieces:
    """A body that arrives bit by bit."""

    def __init__(self, body: bytes, sizes: list[int]) -> None:
        self.body = body
        self.sizes = sizes

    async def iter_any(self) -> AsyncIterator[bytes]:
        at, step = 0, 0
        while at < len(self.body):
            size = self.sizes[step % len(self.sizes)]
            yield self.body[at : at + size]
            at, step = at + size, step + 1


def taken_in(body: bytes, sizes: list[int]) -> tuple[list[bytes], bytes]:
    """The items that were cut out, and the list that is left."""
    items: list[bytes] = []
    rest = asyncio.run(ListReader(lambda raw: items.append(bytes(raw))).read(Pieces(body, sizes)))
    return items, rest


TEXT = st.sampled_from(["", "a", "}", '"', "\\", '},{"metadata":', '"items":[{', "ü", "]}"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries({"metadata": VALUES}, optional={"spec": VALUES, "items": VALUES})
LISTS = st.fixed_dictionaries({"metadata": st.just({"resourceVersion": "7"}), "items": st.lists(OBJECTS, max_size=8)})
SORTED = st.builds(lambda whole: dict(reversed(whole.items())), LISTS)


@settings(max_examples=400, deadline=None)
@given(
    whole=LISTS | SORTED,
    separators=st.sampled_from([(",", ":"), (", ", ": "), (",\n", ":")]),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=4),
    block=st.integers(1, 64),
)
def test_no_item_is_lost_doubled_or_changed(whole: Any, separators: Any, sizes: list[int], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_reader, "BLOCK", block)
        items, rest = taken_in(json.dumps(whole, separators=separators).encode(), sizes)
    left = json.loads(rest)
    assert [json.loads(item) for item in items] + left["items"] == whole["items"]
    assert left["metadata"] == whole["metadata"]


def test_what_looks_like_the_border_of_two_items_is_none_inside_of_one() -> None:
    """As in a StatefulSet with claim templates, and in a text that quotes one."""
    claims = [{"metadata": {"name": f"claim-{i}"}} for i in range(3)]
    items = [{"metadata": {"name": f"s{i}"}, "claims": claims, "text": '},{"metadata":'} for i in range(4_000)]
    body = json.dumps({"items": items, "metadata": {}}, separators=(",", ":")).encode()
    cut, rest = taken_in(body, [1 << 16])
    assert [json.loads(item)["metadata"]["name"] for item in cut] == [f"s{i}" for i in range(len(cut))]
    assert len(cut) > 3_000
    assert len(rest) < 2 * BLOCK


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing at all"),
        pytest.param(b'{"metadata":{},"items":null}', id="no items"),
        pytest.param(b"<html>" + b"x" * 3 * BLOCK, id="a long page of HTML"),
        pytest.param(b'{"a":{"items":[' + b'{"b":1},' * BLOCK + b'{"b":1}]}}', id="items of something else"),
        pytest.param(b'{"items":[{"a":"' + b"x" * 3 * BLOCK + b'"}]}', id="one item longer than a block"),
    ],
)
def test_what_cannot_be_cut_is_left_as_it_is(body: bytes) -> None:
    assert taken_in(body, [1000]) == ([], body)


async def test_a_large_list_in_one_piece_is_never_looked_at_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100,000 pods one look would hold the loop for a quarter of a second."""
    blocks: list[int] = []
    cut = list_reader._items

    def noted(text: bytearray) -> Any:
        blocks.append(len(text))
        return cut(text)

    monkeypatch.setattr(list_reader, "_items", noted)
    rests: list[int] = []
    monkeypatch.setattr(codec, "decode", _noting(codec.decode, rests))
    async with ApiServer() as server, Client(Credentials(server.url), qps=-1) as client:
        for i in range(2_000):
            server.create(pod(f"p{i:04}"))
        whole = await client.list(Pod, limit=0)
    size = sum(blocks)
    assert [each.metadata.name for each in whole.items] == [f"p{i:04}" for i in range(2_000)]
    assert len(whole.resource_version) > 0
    assert size > 5 * BLOCK
    assert len(blocks) >= size // BLOCK
    assert max(blocks) <= BLOCK
    assert max(rests) <= BLOCK + 1_000


def _noting(decode: Any, sizes: list[int]) -> Any:
    def noted(data: Any, type_: Any) -> Any:
        if type_ is codec.PartialList:
            sizes.append(len(data))
        return decode(data, type_)

    return noted


async def test_a_list_that_breaks_off_is_made_anew_and_nothing_of_it_stays(server, client, monkeypatch) -> None:
    monkeypatch.setattr(list_reader, "BLOCK", 64)
    for number in range(100):
        server.put(NODES, f"n{number}")

    async def breaks_off(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        items = ",".join(json.dumps({"metadata": {"name": f"ghost-{i}"}}, separators=(",", ":")) for i in range(50))
        await response.write(b'{"metadata":{"resourceVersion":"9"},"items":[' + items.encode())
        assert request.transport is not None
        request.transport.close()
        return response

    server.once("GET", breaks_off)
    nodes = SharedInformer(client, Node)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
    assert {node.metadata.name for node in nodes.indexer.list()} == {f"n{number}" for number in range(100)}


async def test_a_list_that_stops_in_the_middle_is_given_up(server, client) -> None:
    async def stops(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        await response.write(b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}},')
        await asyncio.sleep(3600)
        return response

    server.once("GET", stops)
    started = asyncio.get_running_loop().time()
    with pytest.raises(errors.Unreachable):
        await client.list(Node)
    assert asyncio.get_running_loop().time() - started == pytest.approx(30, abs=1)


async def test_a_list_that_trickles_is_given_up_in_the_end(server, client) -> None:
    """Each piece comes in time, the last one never."""

    async def trickles(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(20)

    server.once("GET", trickles)
    started = asyncio.get_running_loop().time()
    with pytest.raises(errors.Unreachable):
        await client.list(Node)
    assert asyncio.get_running_loop().time() - started == pytest.approx(300, abs=1)
