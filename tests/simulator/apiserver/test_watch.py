"""Watches: where they begin, what they show, bookmarks, and how they end."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from simulator.apiserver import ApiServer
from simulator.apiserver.forms import Forms
from simulator.apiserver.watch_cache import View
from tests.fixtures_apiserver import node, pod


@asynccontextmanager
async def watching(http, path="/api/v1/pods", headers=None, **query):
    async with http.get(path, params={"watch": "true", **query}, headers=headers) as response:
        assert response.status == 200

        async def next_event():
            async with asyncio.timeout(10):
                line = await response.content.readline()
            return json.loads(line) if line else None

        yield next_event


def brief(event):
    return event["type"], event["object"]["metadata"]["name"]


async def test_a_watch_from_a_version_shows_what_came_after_it(http, api_server):
    first = api_server.create(pod("a"))
    api_server.create(pod("b"))
    async with watching(http, resourceVersion=first["metadata"]["resourceVersion"]) as next_event:
        assert brief(await next_event()) == ("ADDED", "b")
        changed = api_server.patch("pods", "b", {"metadata": {"labels": {"x": "y"}}})
        assert await next_event() == {"type": "MODIFIED", "object": changed}
        api_server.delete("pods", "b")
        gone = await next_event()
        assert brief(gone) == ("DELETED", "b")
        assert gone["object"]["metadata"]["resourceVersion"] == str(api_server.store.version)


@pytest.mark.parametrize("version", [pytest.param("", id="none"), pytest.param("0", id="zero")])
async def test_a_watch_from_nowhere_begins_with_what_is_there(http, api_server, version):
    api_server.create(pod("a"))
    async with watching(http, **({"resourceVersion": version} if version else {})) as next_event:
        assert brief(await next_event()) == ("ADDED", "a")
        api_server.create(pod("b"))
        assert brief(await next_event()) == ("ADDED", "b")


async def test_a_watch_of_a_namespace_shows_only_that(http, api_server):
    api_server.create(pod("here"))
    async with watching(http, "/api/v1/namespaces/kube-system/pods") as next_event:
        api_server.create(pod("still-here"))
        api_server.create(pod("there", "kube-system"))
        assert brief(await next_event()) == ("ADDED", "there")


async def test_a_selector_makes_objects_come_and_go(http, api_server):
    api_server.create(pod("p", labels={"app": "web"}))
    version = api_server.store.version
    async with watching(http, resourceVersion=str(version), labelSelector="app=web") as next_event:
        api_server.create(pod("other"))
        changed = api_server.patch("pods", "p", {"metadata": {"labels": {"more": "yes"}}})
        assert brief(await next_event()) == ("MODIFIED", "p")
        left = api_server.patch("pods", "p", {"metadata": {"labels": {"app": "db"}}})
        gone = await next_event()
        assert brief(gone) == ("DELETED", "p")
        assert gone["object"]["metadata"]["labels"] == changed["metadata"]["labels"]
        assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]
        api_server.patch("pods", "p", {"metadata": {"labels": {"ignored": "now"}}})
        api_server.patch("pods", "p", {"metadata": {"labels": {"app": "web"}}})
        assert brief(await next_event()) == ("ADDED", "p")


async def test_finished_pods_leave_the_scheduler_s_field_selector(http, api_server):
    api_server.create(pod("p"))
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    async with watching(http, fieldSelector=selector) as next_event:
        assert brief(await next_event()) == ("ADDED", "p")
        api_server.patch("pods", "p", {"status": {"phase": "Succeeded"}}, status=True)
        assert brief(await next_event()) == ("DELETED", "p")


async def test_bookmarks_come_in_between_and_at_the_end(http, api_server):
    api_server.watches.bookmark_period = 0.05
    async with watching(http, allowWatchBookmarks="true", timeoutSeconds="1") as next_event:
        bookmark = await next_event()
        assert bookmark == {
            "type": "BOOKMARK",
            "object": {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(api_server.store.version), "creationTimestamp": None},
                "spec": {"containers": None},
                "status": {},
            },
        }
        api_server.create(node("elsewhere"))
        events = [bookmark]
        while (event := await next_event()) is not None:
            events.append(event)
        assert {event["type"] for event in events} == {"BOOKMARK"}
        assert events[-1]["object"]["metadata"]["resourceVersion"] == str(api_server.store.version)


async def test_a_short_watch_ends_with_a_bookmark_for_those_who_asked(http, api_server):
    async with (
        watching(http, timeoutSeconds="1", allowWatchBookmarks="true") as asked,
        watching(http, timeoutSeconds="1") as not_asked,
    ):
        bookmark = await asked()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["resourceVersion"] == str(api_server.store.version)
        assert await asked() is None
        assert await not_asked() is None


async def test_a_streamed_list_ends_with_its_own_bookmark(http, api_server):
    for name in ("a", "b"):
        api_server.create(pod(name))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(http, **query) as next_event:
        assert [brief(await next_event()) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
        end = await next_event()
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert end["object"]["metadata"]["resourceVersion"] == str(api_server.store.version)
        api_server.create(pod("c"))
        assert brief(await next_event()) == ("ADDED", "c")


async def test_send_initial_events_false_begins_with_the_present(http, api_server):
    api_server.create(pod("a"))
    async with watching(http, sendInitialEvents="false", resourceVersionMatch="NotOlderThan") as next_event:
        api_server.create(pod("b"))
        assert brief(await next_event()) == ("ADDED", "b")


async def test_send_initial_events_needs_a_version_match(http):
    async with http.get("/api/v1/pods", params={"watch": "true", "sendInitialEvents": "true"}) as response:
        refusal = await response.json()
    assert (response.status, refusal["details"]["causes"][0]["field"]) == (422, "resourceVersionMatch")


async def test_a_version_behind_the_window_is_gone(http, api_server):
    version = api_server.create(pod("a"))["metadata"]["resourceVersion"]
    api_server.create(pod("b"))
    api_server.store.compact()
    async with watching(http, resourceVersion=version) as next_event:
        event = await next_event()
        assert event["type"] == "ERROR"
        assert (event["object"]["kind"], event["object"]["code"], event["object"]["reason"]) == (
            "Status",
            410,
            "Expired",
        )
        assert event["object"]["message"].startswith("too old resource version: ")
        assert await next_event() is None


@pytest.mark.parametrize(
    ("age", "gone"),
    [
        pytest.param(4, False, id="the last four events are kept"),
        pytest.param(5, True, id="the fifth last is not"),
    ],
)
async def test_the_window_is_as_long_as_it_says(age, gone):
    server = ApiServer(window=4)
    for i in range(8):
        server.create(pod(f"p{i}"))
    cache = server.store.collection("pods").cache
    assert (cache.oldest > server.store.version - age) is gone


async def test_a_watcher_that_does_not_read_is_cut_off():
    async with ApiServer(window=64) as server, aiohttp.ClientSession(server.url, read_bufsize=2**16) as session:
        server.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x": "x" * 200_000}}
        )
        async with session.get("/api/v1/configmaps", params={"watch": "true"}) as response:
            for i in range(512):
                server.patch("configmaps", "c", {"data": {"i": str(i)}})
                await asyncio.sleep(0)
            with pytest.raises(aiohttp.ClientError):
                async with asyncio.timeout(10):
                    await response.read()
        assert server.store.collection("configmaps").cache.watchers == 0


async def test_a_watcher_stuck_in_a_write_is_told_that_it_is_lost():
    server = ApiServer(window=64)
    server.create(pod("p"))
    watcher = server.store.collection("pods").cache.watch(None, [], server.resource("pods"), View())
    told = []
    watcher.on_lost = lambda: told.append(server.store.version)
    lost_from = server.store.version + 64
    for i in range(200):
        server.patch("pods", "p", {"metadata": {"labels": {"i": str(i)}}})
    assert watcher.lost
    assert lost_from < told[0] <= lost_from + 64


async def test_all_watchers_get_the_same_bytes(api_server):
    created = api_server.create(pod("p"))
    resource = api_server.resource("pods")
    (event,) = api_server.store.collection("pods").cache.since(int(created["metadata"]["resourceVersion"]) - 1)
    assert event.revision.encoded(resource) is event.revision.encoded(resource)
    table = Forms(api_server.verbs.clock).of(resource, "application/json;as=Table;g=meta.k8s.io;v=v1")
    assert event.line("ADDED", table) is event.line("ADDED", table)


async def test_stopping_ends_watches_in_good_order():
    server = await ApiServer().start()
    async with aiohttp.ClientSession(server.url) as session, watching(session, "/api/v1/nodes") as next_event:
        stopping = asyncio.ensure_future(server.stop())
        assert await next_event() is None
        await stopping


async def test_a_stopped_server_comes_back_on_its_port_with_its_objects(http, api_server):
    api_server.create(pod("p"))
    url = api_server.url
    await api_server.stop()
    await api_server.start()
    assert api_server.url == url
    async with http.get("/api/v1/namespaces/default/pods/p") as response:
        assert response.status == 200
