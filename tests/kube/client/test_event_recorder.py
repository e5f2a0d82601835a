"""The event recorder against a real HTTP server, in virtual time."""

import asyncio

import pytest

from kube.api.meta import ObjectReference
from kube.client.discovery import Discovery
from kube.client.event_recorder import SENDERS, EventRecorder, EventType, cut_note
from tests.builders import make_pod
from tests.kube.client.conftest import answers, drops, hangs, running

pytestmark = pytest.mark.looptime

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CORE_EVENTS = "/api/v1/namespaces/default/events"
WALL_CLOCK = 1_767_366_245.25


@pytest.fixture
def recorder(client):
    return EventRecorder(client, "podium-host", now=lambda: WALL_CLOCK)


def failed(
    recorder: EventRecorder, pod: str = "web", note: str = "0/1 nodes are available: 1 Insufficient cpu."
) -> None:
    recorder.event(
        make_pod(pod, uid=f"uid-{pod}"),
        EventType.WARNING,
        "FailedScheduling",
        "Scheduling",
        note,
        controller="podium",
    )


async def test_an_event_is_written_as_events_v1(server, recorder):
    async with running(recorder.run()):
        failed(recorder)
        await recorder.flush()
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", EVENTS)
    name = request.body["metadata"].pop("name")
    assert name.startswith("web.")
    assert request.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2026-01-02T15:04:05.250000Z",
        "reportingController": "podium",
        "reportingInstance": "podium-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web", "uid": "uid-web"},
        "note": "0/1 nodes are available: 1 Insufficient cpu.",
        "type": "Warning",
    }


async def test_an_event_about_a_cluster_scoped_object_goes_to_the_default_namespace(server, recorder):
    about = ObjectReference(kind="Node", name="n1")
    async with running(recorder.run()):
        recorder.event(
            about, EventType.NORMAL, "Seen", "Looking", "there", controller="podium", related=make_pod("web")
        )
        await recorder.flush()
    assert server.requests[0].path == EVENTS
    assert server.requests[0].body["related"]["name"] == "web"


async def test_the_same_event_again_is_a_series_patched_once_and_then_rarely(server, recorder):
    async with running(recorder.run()):
        for _ in range(20):
            failed(recorder)
            await asyncio.sleep(10)
        posts, patches = server.seen("POST"), server.seen("PATCH")
        assert (len(posts), [request.body["series"]["count"] for request in patches]) == (1, [2])
        assert patches[0].headers["Content-Type"] == "application/merge-patch+json"
        assert patches[0].path == f"{EVENTS}/{posts[0].body['metadata']['name']}"
        await asyncio.sleep(400)
        assert [request.body["series"]["count"] for request in server.seen("PATCH")] == [2, 20]
        await asyncio.sleep(1000)
        failed(recorder)
        await recorder.flush()
    assert len(server.seen("POST")) == 2  # the series is over


async def test_another_note_is_another_event(server, recorder):
    async with running(recorder.run()):
        failed(recorder, note="one")
        failed(recorder, note="two")
        await recorder.flush()
    assert [request.body["note"] for request in server.seen("POST")] == ["one", "two"]


async def test_a_series_whose_event_has_expired_begins_again(server, recorder):
    async with running(recorder.run()):
        failed(recorder)
        await recorder.flush()
        server.objects[EVENTS].clear()
        failed(recorder)
        await recorder.flush()
    assert server.seen("POST")[1].body["series"]["count"] == 2


@pytest.mark.parametrize(
    ("fault", "requests"),
    [
        pytest.param(answers(429, "TooManyRequests", headers={"Retry-After": "2"}), 3, id="too many requests"),
        pytest.param(answers(500, "InternalError"), 3, id="a server error"),
        pytest.param(drops, 3, id="connections that break"),
        pytest.param(hangs(), 3, id="a server that hangs"),
        pytest.param(answers(403, "Forbidden", message="namespace is being terminated"), 1, id="a namespace that ends"),
    ],
)
async def test_an_event_that_cannot_be_written_is_given_up_and_the_next_one_tried(server, recorder, fault, requests):
    server.once("POST", fault, times=requests)
    async with running(recorder.run()):
        failed(recorder, "lost")
        await recorder.flush()
        failed(recorder, "kept")
        await recorder.flush()
    assert [request.body["regarding"]["name"] for request in server.seen("POST")] == ["lost"] * requests + ["kept"]
    assert (recorder.failed, recorder.sent) == (1, 1)


async def test_a_server_that_asks_for_an_hour_is_asked_again_after_a_minute(server, recorder):
    """All senders would sleep, and everything that happens in that hour would be dropped at the bound."""
    server.once("POST", answers(429, "TooManyRequests", headers={"Retry-After": "3600"}), times=SENDERS)
    async with running(recorder.run()):
        for number in range(SENDERS):
            failed(recorder, f"p{number}")
        async with asyncio.timeout(61):
            await recorder.flush()
    assert (recorder.failed, recorder.sent) == (0, SENDERS)


async def test_an_event_that_has_to_be_tried_again_does_not_hold_up_the_others(server, recorder):
    server.once("POST", answers(500, "InternalError"), times=1)
    async with running(recorder.run()):
        failed(recorder, "slow")
        failed(recorder, "quick")
        await recorder.flush()
    posts = [request.body["regarding"]["name"] for request in server.seen("POST")]
    assert (posts[-1], sorted(posts)) == ("slow", ["quick", "slow", "slow"])


async def test_a_series_has_one_request_in_flight_at_a_time(server, recorder):
    async def slow(request):
        await asyncio.sleep(1)
        return server._patch(request.path, await request.read(), request)

    server.once("PATCH", slow)
    async with running(recorder.run()):
        failed(recorder)
        await recorder.flush()
        failed(recorder)
        await asyncio.sleep(0.5)
        failed(recorder)
        await recorder.flush()
    assert len(server.seen("PATCH")) == 1


async def test_an_event_whose_answer_was_lost_is_not_written_twice(server, recorder):
    async def late(request):
        server._post(request.path, await request.read(), request)
        await asyncio.sleep(1000)

    server.once("POST", late)
    async with running(recorder.run()):
        failed(recorder)
        await recorder.flush()
    assert len(server.objects[EVENTS]) == 1
    assert (recorder.sent, recorder.failed) == (1, 0)


async def test_a_flood_is_bounded_counted_and_never_waits(server, client):
    recorder = EventRecorder(client.with_rate(10, 10), "podium-host", capacity=100, now=lambda: WALL_CLOCK)
    server.once("POST", hangs(2), times=5)
    server.once("POST", answers(429, "TooManyRequests"), times=5)
    async with running(recorder.run()):
        started = asyncio.get_running_loop().time()
        for pod in range(2000):
            for _ in range(20):
                failed(recorder, f"pod-{pod}")
        assert asyncio.get_running_loop().time() == started
        assert recorder._queue.qsize() == 100
        assert recorder.dropped == 1900 * 20
        await recorder.flush()
    passed = server.requests[-1].time - server.requests[0].time
    assert len(server.requests) <= 10 * passed + 10


async def test_a_server_without_the_events_group_gets_core_events(server, recorder, client):
    server.objects[CORE_EVENTS] = {}
    await recorder.choose_api(Discovery(client))
    server.requests.clear()
    async with running(recorder.run()):
        failed(recorder)
        await recorder.flush()
        failed(recorder)
        await recorder.flush()
    post, patch = server.requests
    assert (post.path, post.body["apiVersion"], post.body["kind"]) == (CORE_EVENTS, "v1", "Event")
    assert post.body["involvedObject"]["name"] == "web"
    assert (post.body["message"], post.body["count"]) == ("0/1 nodes are available: 1 Insufficient cpu.", 1)
    assert (post.body["source"], post.body["firstTimestamp"]) == ({"component": "podium"}, "2026-01-02T15:04:05Z")
    assert patch.body == {"count": 2, "lastTimestamp": "2026-01-02T15:04:05Z"}


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        pytest.param("short", "short", id="a short note stays"),
        pytest.param("x" * 1024, "x" * 1024, id="a note of just 1024 bytes stays"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="a longer one ends in dots"),
        pytest.param("ü" * 600, "ü" * 510 + " ...", id="a cut between characters"),
        pytest.param("x" + "ü" * 600, "x" + "ü" * 509 + " ...", id="a cut within a character drops it"),
    ],
)
def test_notes_fit_the_limit_of_the_api(note, expected):
    assert cut_note(note) == expected
    assert len(cut_note(note).encode()) <= 1024


async def test_names_are_unique_and_fit_even_for_the_longest_pod(server, recorder):
    async with running(recorder.run()):
        for note in ("one", "two"):
            failed(recorder, "p" * 253, note=note)
        await recorder.flush()
    first, second = (request.body["metadata"]["name"] for request in server.seen("POST"))
    assert first != second
    assert len(first) <= 253
