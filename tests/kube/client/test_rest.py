"""The REST client against a real HTTP server."""

import asyncio

import pytest
from aiohttp import web

from kube.api.codec import DecodeError
from kube.api.core import Node, Pod
from kube.api.meta import ObjectMeta
from kube.client import errors
from kube.client.auth import Credentials
from kube.client.rest import Client, PatchType, Selection
from tests.kube.client.conftest import answers, drops, hangs, html, line, streams

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


async def test_get_decodes_the_object_and_says_who_asks(server, client):
    server.put(PODS, "web", spec={"nodeName": "n1"})
    pod = await client.get(Pod, "web", "default")
    assert (pod.metadata.name, pod.spec.node_name) == ("web", "n1")
    assert server.requests[0].path == f"{PODS}/web"
    assert server.requests[0].headers["User-Agent"].startswith("podium")


async def test_a_list_is_read_page_by_page_and_stands_at_one_resource_version(server, client):
    for number in range(7):
        server.put(NODES, f"n{number}")
    nodes = await client.list(Node, limit=3)
    assert [node.metadata.name for node in nodes.items] == [f"n{number}" for number in range(7)]
    assert nodes.resource_version == "107"
    assert [request.query.get("continue") for request in server.requests] == [None, "3", "6"]


async def test_a_list_whose_continue_token_expired_is_asked_again_without_pages(server, client):
    for number in range(4):
        server.put(NODES, f"n{number}")
    server.once("GET", server_answers_normally(server))
    server.once("GET", answers(410, "Expired", message="the continue token is too old"))
    nodes = await client.list(Node, limit=2, resource_version="50")
    assert len(nodes.items) == 4
    assert [request.query for request in server.requests] == [
        {"limit": "2", "resourceVersion": "50"},
        {"limit": "2", "continue": "2"},
        {"resourceVersion": "50"},
    ]


def server_answers_normally(server):
    async def reply(request: web.Request) -> web.StreamResponse:
        return server._get(request.path, b"", request)

    return reply


async def test_selectors_reach_the_server_unharmed(server, client):
    server.objects["/api/v1/pods"] = {}
    await client.list(Pod, Selection("", "app in (a,b),!x", "status.phase!=Succeeded,status.phase!=Failed"))
    assert server.requests[0].query["labelSelector"] == "app in (a,b),!x"
    assert server.requests[0].query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


async def test_an_empty_list_written_as_null_is_an_empty_list(server, client):
    server.objects[NODES] = {}
    assert (await client.list(Node)).items == ()


async def test_one_bad_item_raises_with_its_name_unless_the_caller_converts(server, client):
    server.put(NODES, "good")
    server.put(NODES, "bad", spec={"unschedulable": "maybe"})
    with pytest.raises(DecodeError, match="bad"):
        await client.list(Node)


async def test_create_update_patch_and_delete_send_what_they_should(server, client):
    created = await client.create(Pod(metadata=ObjectMeta(name="web", namespace="default")))
    await client.update(created)
    await client.patch(Pod, "web", {"status": {"phase": "Failed"}}, "default", kind=PatchType.MERGE)
    await client.delete(Pod, "web", "default", uid="uid-web", grace_period_seconds=0)
    create, update, patch, delete = server.requests
    assert (create.path, create.body["kind"], create.body["apiVersion"]) == (PODS, "Pod", "v1")
    assert update.path == f"{PODS}/web"
    assert (patch.headers["Content-Type"], patch.body) == (
        "application/merge-patch+json",
        {"status": {"phase": "Failed"}},
    )
    assert delete.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "uid-web"},
        "gracePeriodSeconds": 0,
    }


async def test_a_bind_is_done_when_the_server_answers_201_with_a_status(server, client):
    await client.bind("default", "q", "uid-q", "n")
    assert server.requests[0].path == f"{PODS}/q/binding"
    assert server.requests[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "q", "namespace": "default", "uid": "uid-q"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        pytest.param(400, "BadRequest", errors.BadRequest, id="400 is a bad request"),
        pytest.param(403, "Forbidden", errors.Forbidden, id="403 is forbidden"),
        pytest.param(404, "NotFound", errors.NotFound, id="404 is not found"),
        pytest.param(405, "MethodNotAllowed", errors.ApiError, id="what has no name of its own is a plain ApiError"),
        pytest.param(409, "Conflict", errors.Conflict, id="409 is a conflict"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="409 with reason AlreadyExists is that"),
        pytest.param(410, "Expired", errors.Gone, id="410 is gone"),
        pytest.param(422, "Invalid", errors.Invalid, id="422 is invalid"),
        pytest.param(503, "ServiceUnavailable", errors.ServerError, id="5xx on a write is not repeated"),
    ],
)
async def test_every_status_has_its_error(server, client, code, reason, kind):
    server.once("POST", answers(code, reason, message="no such luck"))
    with pytest.raises(errors.ApiError) as caught:
        await client.bind("default", "q", "uid-q", "n")
    assert type(caught.value) is kind
    assert str(caught.value) == f"POST {PODS}/q/binding: {code} {reason}: no such luck"
    assert len(server.requests) == 1


async def test_a_page_of_html_becomes_one_short_line(server, client):
    server.once("POST", html(502))
    with pytest.raises(errors.ServerError) as caught:
        await client.bind("default", "q", "uid-q", "n")
    assert str(caught.value).endswith("502: 502 Sorry 502 Sorry nginx")


@pytest.mark.looptime
async def test_429_is_repeated_after_what_the_server_asks_for(server, client):
    server.once("POST", answers(429, "TooManyRequests", headers={"Retry-After": "7"}), times=2)
    await client.bind("default", "q", "uid-q", "n")
    assert [round(request.time - server.requests[0].time) for request in server.requests] == [0, 7, 14]


@pytest.mark.looptime
async def test_429_without_end_is_given_up(server, client):
    server.once("POST", answers(429, "TooManyRequests", headers={"Retry-After": "1"}), times=100)
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.bind("default", "q", "uid-q", "n")
    assert caught.value.retry_after == 1.0
    assert len(server.requests) == 6


@pytest.mark.looptime
async def test_a_read_is_repeated_after_a_server_error(server, client):
    server.put(NODES, "n1")
    server.once("GET", html(503), times=2)
    assert (await client.get(Node, "n1")).metadata.name == "n1"


@pytest.mark.looptime
async def test_a_bind_that_times_out_may_have_been_done(server, client):
    server.once("POST", hangs())
    with pytest.raises(errors.Unreachable) as caught:
        await client.bind("default", "q", "uid-q", "n")
    assert caught.value.maybe_applied
    assert 30 <= asyncio.get_running_loop().time() - server.requests[0].time <= 31


async def test_a_bind_whose_connection_broke_may_have_been_done(server, client):
    server.once("POST", drops)
    with pytest.raises(errors.Unreachable) as caught:
        await client.bind("default", "q", "uid-q", "n")
    assert caught.value.maybe_applied
    assert len(server.requests) == 1


async def test_a_refused_connection_has_surely_changed_nothing():
    async with Client(Credentials("http://127.0.0.1:1"), qps=-1) as client:
        with pytest.raises(errors.Unreachable) as caught:
            await client.bind("default", "q", "uid-q", "n")
    assert not caught.value.maybe_applied
    assert "\n" not in str(caught.value)


@pytest.mark.looptime
async def test_requests_wait_for_their_turn(server):
    server.put(NODES, "n1")
    async with Client(Credentials(server.url), qps=2, burst=3) as client:
        for _ in range(7):
            await client.get(Node, "n1")
    times = [round(request.time - server.requests[0].time, 3) for request in server.requests]
    assert times == [0, 0, 0, 0.5, 1.0, 1.5, 2.0]


async def test_a_twin_has_a_rate_limit_of_its_own(server):
    server.put(NODES, "n1")
    async with Client(Credentials(server.url), qps=0.001, burst=1) as client:
        twin = client.with_rate(-1, 0)
        for _ in range(5):
            await twin.get(Node, "n1")
    assert len(server.requests) == 5


# Watches


async def test_a_watch_asks_for_bookmarks_and_for_an_end(server, client):
    server.once("GET", streams(line("ADDED", {"metadata": {"name": "n1"}}), b"\n", line("BOOKMARK", {})), watch=True)
    events = [event.type async for event in client.watch(Node, "100")]
    assert events == ["ADDED", "BOOKMARK"]
    query = server.requests[0].query
    assert (query["allowWatchBookmarks"], query["resourceVersion"]) == ("true", "100")
    assert 290 <= int(query["timeoutSeconds"]) <= 590


@pytest.mark.parametrize("version", ["", "0", "None"])
async def test_a_watch_never_starts_from_nowhere(server, client, version):
    with pytest.raises(ValueError, match="resourceVersion"):
        await anext(client.watch(Node, version))
    assert server.requests == []


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        pytest.param(
            streams(line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})),
            errors.Gone,
            id="an ERROR event with 410 is gone",
        ),
        pytest.param(
            streams(line("ERROR", {"kind": "Status", "reason": "Gone"})),
            errors.Gone,
            id="an ERROR event without a code is read by its reason",
        ),
        pytest.param(answers(410, "Gone"), errors.Gone, id="so is the HTTP status"),
        pytest.param(
            streams(line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"})),
            errors.ServerError,
            id="another ERROR event is what its code says",
        ),
        pytest.param(streams(b'{"type":"ADDED","obj'), errors.Unreachable, id="a line cut short is a broken stream"),
        pytest.param(html(200), errors.Unreachable, id="a page of HTML is no stream"),
        pytest.param(html(503), errors.ServerError, id="nor is one with 503"),
        pytest.param(streams(b"x" * 5_000_000), errors.Gone, id="a line without end needs a new list"),
        pytest.param(drops, errors.Unreachable, id="a server that dies is unreachable"),
    ],
)
async def test_how_a_watch_fails(server, client, reply, kind):
    server.once("GET", reply, watch=True, times=2)  # aiohttp repeats a GET once where the connection is dropped
    with pytest.raises(kind) as caught:
        [event async for event in client.watch(Node, "100")]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


async def test_an_event_of_two_megabytes_is_an_event(server, client):
    big = {"metadata": {"name": "n1", "annotations": {"a": "x" * 2_000_000}}}
    server.once("GET", streams(line("ADDED", big)), watch=True)
    assert [event.type async for event in client.watch(Node, "100")] == ["ADDED"]


@pytest.mark.looptime
async def test_a_watch_that_falls_silent_ends_a_little_after_it_should_have(server, client):
    server.once("GET", streams(line("BOOKMARK", {}), silent_for=100_000), watch=True)
    with pytest.raises(errors.Unreachable):
        [event async for event in client.watch(Node, "100", seconds=300)]
    assert 315 <= asyncio.get_running_loop().time() - server.requests[0].time <= 317


@pytest.mark.looptime
async def test_a_watch_whose_headers_never_come_ends_at_the_timeout_of_a_request(server, client):
    server.once("GET", hangs(), watch=True)
    with pytest.raises(errors.Unreachable):
        [event async for event in client.watch(Node, "100")]
    assert 30 <= asyncio.get_running_loop().time() - server.requests[0].time <= 31
