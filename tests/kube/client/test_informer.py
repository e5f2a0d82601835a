"""Reflector and shared informer over real HTTP, with everything a server and a network can do to them."""

import asyncio
import itertools
import json

import msgspec
import pytest
from aiohttp import web

from kube.api.core import Node, Pod
from kube.client import informer as informer_module
from kube.client.auth import Credentials, TokenFile
from kube.client.informer import InformerFactory, SharedInformer
from kube.client.reflector import RENEWAL_JITTER
from kube.client.rest import Client, Selection
from tests.kube.client.conftest import answers, drops, html, line, running, start_stream, streams

pytestmark = pytest.mark.looptime

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
BOOKMARK_5000 = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "5000", "creationTimestamp": None},
    "spec": {"taints": None},
    "status": {},
}
BROKEN = {"kind": "Status", "apiVersion": "v1", "code": 500, "message": "etcd event received with PrevKv=nil"}
EXPIRED = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}


class Story:
    """What a handler was told."""

    def __init__(self, informer: SharedInformer, **options) -> None:
        self.lines: list[str] = []
        self.listener = informer.add_handler(add=self._add, update=self._update, delete=self._delete, **options)

    def _add(self, obj) -> None:
        self.lines.append(f"add {obj.metadata.name}")

    def _update(self, old, new) -> None:
        self.lines.append(f"update {new.metadata.name}")

    def _delete(self, obj, final_state_unknown) -> None:
        self.lines.append(f"delete {obj.metadata.name}{' unseen' if final_state_unknown else ''}")

    def rest(self) -> list[str]:
        told, self.lines[:] = [*self.lines], []
        return told


@pytest.fixture
def nodes(server, client):
    for name in ("a", "b"):
        server.put(NODES, name)
    return SharedInformer(client, Node)


async def names(informer: SharedInformer) -> set[str]:
    return {obj.metadata.name for obj in informer.indexer}


async def test_it_lists_and_then_follows_the_watch(server, nodes):
    story = Story(nodes)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        assert story.rest() == ["add a", "add b"]
        server.put(NODES, "c")
        server.put(NODES, "a", spec={"unschedulable": True})
        server.remove(NODES, "b")
        await server.announce()
        await asyncio.sleep(1)
    assert story.rest() == ["add c", "update a", "delete b"]
    assert await names(nodes) == {"a", "c"}
    assert [request.query["resourceVersion"] for request in server.seen("GET", watch=True)] == ["102"]


async def test_a_resource_without_objects_syncs_too(server, client):
    server.objects[PODS] = {}
    pods = SharedInformer(client, Pod)
    async with running(pods.run()), asyncio.timeout(5):
        await pods.wait_for_sync()


async def test_a_watch_that_ends_in_time_is_resumed_from_the_last_event(server, nodes):
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        await asyncio.sleep(1)
        server.put(NODES, "c")
        await server.announce()
        await asyncio.sleep(700)
    watches = server.seen("GET", watch=True)
    assert [request.query["resourceVersion"] for request in watches][:2] == ["102", "103"]
    assert watches[1].time - watches[0].time <= 591
    assert len(server.seen("GET")) == 1


async def test_a_watch_that_is_closed_again_and_again_in_a_burst_costs_no_list(server, nodes):
    """A modern API server closes the watches of readers that fall behind."""
    story = Story(nodes)
    names_of_late = [f"late{number}" for number in range(200)]
    events = [
        line("ADDED", {"metadata": {"name": name, "resourceVersion": str(1000 + number)}})
        for number, name in enumerate(names_of_late)
    ]
    for first in range(0, 200, 10):
        server.once("GET", streams(*events[first : first + 10]), watch=True)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        story.rest()
        await asyncio.sleep(60)
    assert story.rest() == [f"add {name}" for name in names_of_late]
    watches = server.seen("GET", watch=True)
    assert [request.query["resourceVersion"] for request in watches][:21] == ["102", *map(str, range(1009, 1209, 10))]
    assert watches[20].time - watches[0].time < 20 * RENEWAL_JITTER
    assert len(server.seen("GET")) == 1


async def test_a_bookmark_moves_the_position_and_nothing_else(server, nodes):
    story = Story(nodes)
    server.once("GET", streams(line("BOOKMARK", BOOKMARK_5000)), watch=True)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        story.rest()
        await asyncio.sleep(5)
    assert [request.query["resourceVersion"] for request in server.seen("GET", watch=True)] == ["102", "5000"]
    assert story.rest() == []
    assert await names(nodes) == {"a", "b"}


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(streams(line("ERROR", EXPIRED)), id="410 inside the stream"),
        pytest.param(answers(410, "Expired"), id="410 as HTTP status"),
    ],
)
async def test_410_lists_again_and_tells_what_was_missed(server, nodes, gone):
    story = Story(nodes)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        await asyncio.sleep(1)
        story.rest()
        server.remove(NODES, "b", silently=True)
        server.put(NODES, "c")
        server.events.clear()
        server.once("GET", gone, watch=True)
        await asyncio.sleep(700)
    assert story.rest() == ["add c", "delete b unseen"]
    assert [request.query.get("resourceVersion") for request in server.seen("GET")] == [None, "102"]
    watches = server.seen("GET", watch=True)
    assert [request.query["resourceVersion"] for request in watches][:3] == ["102", "102", "104"]


async def test_410_again_and_again_costs_one_list_each_with_growing_pauses(server, nodes):
    server.once("GET", answers(410, "Expired"), watch=True, times=3)
    async with running(nodes.run()):
        await asyncio.sleep(60)
    lists = [request.time for request in server.seen("GET")]
    pauses = [later - earlier for earlier, later in itertools.pairwise(lists)]
    assert len(lists) == 4
    assert all(low <= pause <= 2 * low + 0.1 for low, pause in zip((0.8, 1.6, 3.2), pauses, strict=True))


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(answers(410, "Expired"), id="the server has forgotten the version"),
        pytest.param(
            answers(504, "Timeout", message="Too large resource version: 102, current: 7"),
            id="the server was restored from a backup and does not know the version yet",
        ),
    ],
)
async def test_a_list_at_the_last_version_that_is_refused_is_made_from_scratch(server, nodes, refusal):
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        server.once("GET", streams(line("ERROR", EXPIRED)), watch=True)
        server.once("GET", refusal)
        await asyncio.sleep(700)
    assert [request.query.get("resourceVersion") for request in server.seen("GET")] == [None, "102", None]
    assert await names(nodes) == {"a", "b"}


async def test_a_silent_connection_is_given_up_and_resumed(server, client):
    server.put(PODS, "p1")
    pods = SharedInformer(client, Pod)
    two = [
        {"metadata": {"name": name, "namespace": "default", "resourceVersion": version}}
        for name, version in (("p2", "150"), ("p3", "160"))
    ]
    server.once("GET", streams(*(line("ADDED", obj) for obj in two), silent_for=1e6), watch=True)
    async with running(pods.run()):
        await pods.wait_for_sync()
        server.version = 200
        server.put(PODS, "p4")
        await asyncio.sleep(620)
        assert await names(pods) == {"p1", "p2", "p3", "p4"}
    watches = server.seen("GET", watch=True)
    assert [request.query["resourceVersion"] for request in watches] == ["101", "160"]
    assert all(290 <= int(request.query["timeoutSeconds"]) <= 590 for request in watches)


async def test_the_length_of_watches_differs(server, nodes):
    async with running(nodes.run()):
        await asyncio.sleep(5000)
    lengths = {request.query["timeoutSeconds"] for request in server.seen("GET", watch=True)}
    assert len(lengths) > 3


async def test_a_server_that_ends_each_watch_at_once_is_not_stormed(server, nodes):
    server.once("GET", streams(), watch=True, times=1000)
    async with running(nodes.run()):
        await asyncio.sleep(600)
    watches = server.seen("GET", watch=True)
    assert 10 <= len(watches) <= 30
    assert sum(request.time - watches[0].time < 1 for request in watches) <= 2


async def test_a_server_that_ends_each_watch_after_one_event_is_asked_about_once_a_second(server, nodes):
    async def one_event(request):
        response = await start_stream(request)
        server.version += 1
        await response.write(line("MODIFIED", {"metadata": {"name": "a", "resourceVersion": str(server.version)}}))
        return response

    server.once("GET", one_event, watch=True, times=1000)
    async with running(nodes.run()):
        await asyncio.sleep(60)
    assert 30 <= len(server.seen("GET", watch=True)) <= 80


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(html(503), id="a load balancer's page with 503"),
        pytest.param(html(200), id="a load balancer's page with 200"),
        pytest.param(answers(403, "Forbidden"), id="a permission that is missing for a while"),
        pytest.param(answers(401, "Unauthorized"), id="a token that is refused for a while"),
        pytest.param(answers(429, "TooManyRequests", headers={"Retry-After": "1"}), id="too many requests"),
        pytest.param(drops, id="connections that break"),
        pytest.param(streams(b'{"type":"ADDED","object":{"meta'), id="a line cut short"),
    ],
)
async def test_no_fault_of_list_or_watch_ends_it(server, nodes, fault):
    server.once("GET", fault, times=3)
    server.once("GET", fault, watch=True, times=3)
    async with running(nodes.run()):
        async with asyncio.timeout(120):
            await nodes.wait_for_sync()
        server.put(NODES, "c")
        await server.announce()
        await asyncio.sleep(120)
        assert await names(nodes) == {"a", "b", "c"}
    assert len(server.requests) <= 16


@pytest.mark.parametrize(
    ("refusal", "watches"),
    [
        pytest.param(
            answers(504, "Timeout", message="Too large resource version: 102, current: 7"),
            1,
            id="a server restored from a backup, which does not know the version",
        ),
        pytest.param(streams(line("ERROR", BROKEN)), 3, id="an error that does not say why, again and again"),
        pytest.param(answers(500, "InternalError"), 3, id="a failure of the server, again and again"),
    ],
)
async def test_where_watching_from_a_version_is_refused_for_good_it_is_listed_anew(server, nodes, refusal, watches):
    """Nothing would be heard any more, for as long as the server says no."""
    server.once("GET", refusal, watch=True, times=1000)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        server.put(NODES, "c")
        await asyncio.sleep(30)
        assert await names(nodes) == {"a", "b", "c"}
    assert [request.is_watch for request in server.requests][: watches + 2] == [False, *[True] * watches, False]


async def test_a_server_that_is_away_for_long_is_not_asked_for_lists(server, nodes):
    """The watch goes on where it was as soon as there is a server: no list of everything after each short break."""
    server.once("GET", drops, watch=True, times=8)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        await asyncio.sleep(300)
    assert len(server.seen("GET", watch=True)) > 8
    assert len(server.seen("GET")) == 1


async def test_an_unreachable_server_is_tried_again_until_it_is_there(nodes, client, server):
    client.credentials.server = "http://127.0.0.1:1"
    async with running(nodes.run()):
        await asyncio.sleep(100)
        assert not nodes.has_synced
        client.credentials.server = server.url
        await asyncio.sleep(61)
        assert nodes.has_synced


async def test_an_object_that_cannot_be_read_is_skipped_logged_once_and_passed(server, nodes, caplog):
    story = Story(nodes)
    server.put(NODES, "bad", spec={"unschedulable": "perhaps"})
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        assert story.rest() == ["add a", "add b"]
        server.put(NODES, "bad", spec={"unschedulable": "perhaps not"})
        server.put(NODES, "c")
        server.put(NODES, "bad", spec={"unschedulable": False})
        await server.announce()
        await asyncio.sleep(1)
    assert story.rest() == ["add c", "add bad"]
    assert nodes.reflector.undecodable == 2
    assert nodes.reflector.resource_version == "106"
    assert [
        record.getMessage().count("bad cannot be read") for record in caplog.records if "cannot" in record.getMessage()
    ] == [1]


async def test_an_object_that_became_unreadable_keeps_its_last_readable_state_until_it_is_deleted(server, nodes):
    story = Story(nodes)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        story.rest()
        server.put(NODES, "b", spec={"taints": "none"})
        server.once("GET", streams(line("ERROR", EXPIRED)), watch=True)
        await server.announce()
        await asyncio.sleep(1000)
        assert len(server.seen("GET")) == 2
        assert await names(nodes) == {"a", "b"}
        server.remove(NODES, "b")
        await server.announce()
        await asyncio.sleep(1)
        assert await names(nodes) == {"a"}
    assert story.rest() == ["delete b unseen"]


async def test_an_object_made_anew_under_its_name_while_nobody_watched_is_a_delete_and_an_add(server, nodes):
    story = Story(nodes)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        story.rest()
        server.once("GET", streams(line("ERROR", EXPIRED)), watch=True)
        server.remove(NODES, "b", silently=True)
        server.put(NODES, "b", metadata={"uid": "another"})
        server.events.clear()
        await asyncio.sleep(700)
    assert story.rest() == ["delete b unseen", "add b"]


async def test_deletes_missed_with_pods_and_their_nodes_are_all_told(server, client):
    for name in ("g1", "g2"):
        server.put(NODES, name)
    server.put(PODS, "h", spec={"nodeName": "g2"})
    server.put(PODS, "k")
    factory = InformerFactory(client)
    nodes, pods = factory.informer(Node), factory.informer(Pod)
    node_story, pod_story = Story(nodes), Story(pods)
    async with running(run(factory)):
        await factory.wait_for_sync(30)
        await asyncio.sleep(1)
        node_story.rest(), pod_story.rest()
        for path in (NODES, PODS):
            server.once("GET", answers(410, "Gone"), watch=True, path=path)
        server.remove(NODES, "g2", silently=True)
        for name in ("h", "k"):
            server.remove(PODS, name, silently=True)
        await asyncio.sleep(700)
    assert node_story.rest() == ["delete g2 unseen"]
    assert pod_story.rest() == ["delete h unseen", "delete k unseen"]


async def run(factory: InformerFactory) -> None:
    async with asyncio.TaskGroup() as group:
        factory.start(group)


# Handlers


async def test_a_filter_makes_crossing_it_an_add_or_a_delete(server, nodes):
    story = Story(nodes, filter=lambda node: not node.spec.unschedulable)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        for spec in ({"unschedulable": True}, {"unschedulable": True, "providerID": "x"}, {}, {"providerID": "y"}):
            server.put(NODES, "a", spec=spec)
            await server.announce()
            await asyncio.sleep(1)
        server.put(NODES, "b", spec={"unschedulable": True})
        server.remove(NODES, "b")
        await server.announce()
        await asyncio.sleep(1)
    assert story.rest() == ["add a", "add b", "delete a", "add a", "update a", "delete b"]


async def test_a_final_state_outside_the_filter_hides_no_delete(server, client):
    server.put(PODS, "p", spec={"nodeName": "n1"})
    pods = SharedInformer(client, Pod)
    story = Story(pods, filter=lambda pod: pod.status.phase != "Failed")
    async with running(pods.run()):
        await pods.wait_for_sync()
        final = {
            "metadata": {"name": "p", "namespace": "default", "resourceVersion": "102"},
            "status": {"phase": "Failed"},
        }
        server.events.append((102, "DELETED", final))
        await server.announce()
        await asyncio.sleep(1)
    assert story.rest() == ["add p", "delete p"]


async def test_a_handler_added_later_is_told_what_is_there(server, nodes):
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        assert Story(nodes).rest() == ["add a", "add b"]


async def test_a_handler_that_fails_hears_the_same_again_before_anything_newer(server, nodes, caplog):
    failures = [RuntimeError("not now"), RuntimeError("nor now")]
    heard = []

    def add(node: Node) -> None:
        if node.metadata.name == "a" and failures:
            raise failures.pop()
        heard.append(f"add {node.metadata.name}")

    listener = nodes.add_handler(add=add, update=lambda old, new: heard.append(f"update {new.metadata.name}"))
    story = Story(nodes)
    async with running(nodes.run()):
        await asyncio.sleep(0.05)
        assert story.rest() == ["add a", "add b"]
        assert not nodes.has_synced
        server.put(NODES, "a", spec={"unschedulable": True})
        await server.announce()
        await asyncio.sleep(5)
        assert nodes.has_synced
    assert heard == ["add b", "add a", "update a"]
    assert (listener.failures, listener.dropped) == (2, 0)


async def test_a_handler_that_always_fails_is_given_up_for_that_object_only(server, nodes):
    heard = []

    def add(node: Node) -> None:
        if node.metadata.name == "a":
            raise RuntimeError("never")
        heard.append(node.metadata.name)

    listener = nodes.add_handler(add=add)
    async with running(nodes.run()):
        async with asyncio.timeout(30):
            await nodes.wait_for_sync()
    assert heard == ["b"]
    assert (listener.failures, listener.dropped) == (informer_module.MAX_TRIES, 1)


async def test_a_resync_reminds_handlers_of_everything(server, client):
    server.put(NODES, "a")
    nodes = SharedInformer(client, Node, resync_period=30)
    story = Story(nodes)
    async with running(nodes.run()):
        await asyncio.sleep(65)
    assert story.rest() == ["add a", "update a", "update a"]


async def test_transform_changes_what_is_stored_and_told(server, client):
    server.put(NODES, "a", metadata={"labels": {"zone": "z"}})
    shared = {"zone": "z"}
    nodes = SharedInformer(client, Node, transform=lambda node: _with_labels(node, shared))
    async with running(nodes.run()):
        await nodes.wait_for_sync()
    assert nodes.indexer.get("a").metadata.labels is shared


def _with_labels(node: Node, labels: dict[str, str]) -> Node:
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))


# The factory


async def test_there_is_one_informer_per_resource_and_selection(client):
    factory = InformerFactory(client)
    assert factory.informer(Node) is factory.informer(Node)
    assert factory.informer(Pod) is not factory.informer(Pod, Selection(field_selector="status.phase=Running"))
    with pytest.raises(ValueError, match="nodes"):
        factory.informer(Node, transform=lambda node: node)


async def test_waiting_for_sync_names_who_is_late(server, client):
    server.put(NODES, "a")
    server.objects[PODS] = {}
    factory = InformerFactory(client)
    factory.informer(Node), factory.informer(Pod)

    server.once("GET", answers(403, "Forbidden"), path=PODS, times=100)
    async with running(*(one.run() for one in factory.informers)):
        with pytest.raises(TimeoutError, match="not synced after 30 s: pods"):
            await factory.wait_for_sync(30)


async def test_the_loop_stays_responsive_while_a_large_list_is_taken_in(server, client):
    for number in range(1500):
        server.put(NODES, f"n{number}", status={"images": [{"names": [f"image-{number}-{i}"]} for i in range(20)]})
    body = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [*server.objects[NODES].values()]}).encode()

    async def all_at_once(_):
        return web.Response(body=body, content_type="application/json")

    server.once("GET", all_at_once)
    nodes = SharedInformer(client, Node)
    turns_between_handlers = 0
    last_turn = 0
    turn = 0

    async def count_turns():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def handler(_node: Node) -> None:
        nonlocal turns_between_handlers, last_turn
        turns_between_handlers += turn != last_turn
        last_turn = turn
        sum(range(1000))  # some work, so that the whole takes many slices

    nodes.add_handler(add=handler)
    async with running(nodes.run(), count_turns()):
        await nodes.wait_for_sync()
    assert len(nodes.indexer) == 1500
    assert turns_between_handlers > 5


async def test_a_rotated_token_is_read_again_by_open_ended_work(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("t1\n")
    server.tokens = {"t1"}
    server.put(NODES, "a")
    credentials = Credentials(server.url, token=TokenFile(token))
    async with Client(credentials, qps=-1) as client:
        nodes = SharedInformer(client, Node)
        async with running(nodes.run()):
            await nodes.wait_for_sync()
            server.tokens = {"t2"}  # the server refuses t1 before the file changes
            server.once("GET", answers(410, "Gone"), watch=True)
            await asyncio.sleep(600)
            refused = len(server.requests)
            token.write_text("t2\n")
            server.put(NODES, "c")
            await asyncio.sleep(61)
            assert await names(nodes) == {"a", "c"}
    assert refused < 40


async def test_a_list_after_a_version_is_asked_for_in_one_piece(server, nodes):
    """With a limit it would mean exactly that version, from which a server that was started anew cannot watch."""
    server.put(NODES, "a")
    server.once("GET", answers(410, "Expired"), watch=True)
    async with running(nodes.run()):
        await nodes.wait_for_sync()
        await asyncio.sleep(30)
    first, second = server.seen("GET")[:2]
    assert ("resourceVersion" in first.query, "limit" in first.query) == (False, True)
    assert ("resourceVersion" in second.query, "limit" in second.query) == (True, False)
