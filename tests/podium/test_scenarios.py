"""The scenarios of tests/cases: protocol behaviour that users of other schedulers have reported (virtual time, real
HTTP). Each names its case; the last test sees to it that none is left out."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.api.core import Node, Pod
from kube.client import rest
from kube.client.auth import Credentials, TokenFile
from kube.client.leader_election import ElectionConfig, LeaderElector, LeadershipLost
from kube.client.rest import Client
from podium.wiring import PODS, Options, Service
from simulator.apiserver import ApiServer, http
from simulator.apiserver.faults import (
    Answer,
    Batches,
    Cut,
    Effect,
    Hang,
    Latency,
    WatchDelay,
    WatchExpired,
    WatchSilent,
)
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import check, condition, effective, events_of, node_of, podium, until
from tests.podium.overheard import Overheard

CASES = Path(__file__).parents[1] / "cases"
virtual = pytest.mark.looptime


def ours(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


class Heard:
    """What the handlers of an informer are told from now on."""

    def __init__(self, service: Service, *what: Any) -> None:
        self.told: list[tuple[str, ...]] = []
        self.counting = False
        service.factory.informer(*what).add_handler(
            add=lambda obj: self._tell("add", obj.metadata.name),
            update=lambda old, new: self._tell("update", new.metadata.name),
            delete=lambda obj, unknown: self._tell("delete", obj.metadata.name, *(["stale"] if unknown else [])),
        )
        self.counting = True

    def _tell(self, *what: str) -> None:
        if self.counting:
            self.told.append(what)


# --- 48: 410 Gone ------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize("times", [pytest.param(1, id="once"), pytest.param(3, id="three times in a row")])
@pytest.mark.parametrize(
    "gone", [pytest.param(WatchExpired(), id="as an event of the watch"), pytest.param(Answer(410), id="as its answer")]
)
async def test_48_after_410_there_is_one_list_and_everything_missed_is_told(
    api_server: ApiServer, gone: Effect, times: int
) -> None:
    api_server.create(node("a", cpu="1"))
    api_server.create(node("b", cpu="1"))
    api_server.create(ours("p1", cpu="1", nodeName="a"))
    api_server.create(ours("p2", cpu="1", nodeSelector={"not-on": "b"}))
    api_server.patch("nodes", "a", {"metadata": {"labels": {"not-on": "b"}}})
    async with podium(api_server) as service:
        await until(lambda: bool(condition(api_server, "p2")), "p2 has to wait")
        pods, nodes = Heard(service, Pod, PODS), Heard(service, Node)
        for path in ("/api/v1/pods", "/api/v1/nodes"):
            api_server.faults.add(gone, path=path, verb="watch", count=times)
        heard = Overheard(api_server)
        api_server.store.close()
        api_server.delete("pods", "p1", grace_seconds=0)
        api_server.delete("nodes", "b")
        api_server.create(node("c", cpu="1"))
        await until(lambda: node_of(api_server, "p2") == "a", "p2 has the room of p1", 200.0)
        await until(lambda: service.scheduler.idle and not service.cache.assumed, "all is quiet")
        await asyncio.sleep(60.0)
        assert [what for what in pods.told if what[1] != "p2"] == [("delete", "p1", "stale")]
        assert sorted(nodes.told) == [("add", "c"), ("delete", "b", "stale")]
        assert service.cache.nodes["a"].requested["cpu"] == 1000
        for path in ("/pods", "/nodes"):
            lists = heard.of("list", path)
            assert len(lists) == times
            pauses = [after.time - before.time for before, after in pairwise(lists)]
            assert all(pause > 0.5 for pause in pauses)
            assert all(int(watch.query["resourceVersion"]) > 0 for watch in heard.of("watch", path))


# --- 49: bookmarks -----------------------------------------------------------------------------------------------


class Bookmark(Effect):
    """A watch that says one bookmark and ends, as at the server's timeout. Meanwhile other things have happened."""

    def __init__(self, server: ApiServer, annotations: dict[str, str]) -> None:
        self._server = server
        self._annotations = annotations
        self.version = ""

    def disturb(self, batches: Batches) -> Batches:
        async def said() -> AsyncIterator[list[bytes]]:
            for i in range(50):
                self._server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"unrelated-{i}"}})
            self.version = str(self._server.store.version)
            yield [json.dumps({"type": "BOOKMARK", "object": self._object()}).encode() + b"\n"]

        return said()

    def _object(self) -> dict[str, Any]:
        meta = {"resourceVersion": self.version, "creationTimestamp": None, "annotations": self._annotations}
        return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": None}, "status": {}}


@virtual
@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="an ordinary one"),
        pytest.param({"k8s.io/initial-events-end": "true"}, id="the one that ends a streamed list"),
    ],
)
async def test_49_a_bookmark_moves_the_position_and_nothing_else(
    api_server: ApiServer, annotations: dict[str, str]
) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        await until(lambda: not service.cache.assumed, "and known to be")
        told, known = Heard(service, Pod, PODS), dict(service.cache.pods)
        bookmark = Bookmark(api_server, annotations)
        api_server.faults.add(bookmark, path="/api/v1/pods", verb="watch")
        heard = Overheard(api_server)
        api_server.store.close()
        await until(lambda: len(heard.of("watch", "/pods")) >= 2, "it watches again")
        first, second = heard.of("watch", "/pods")[:2]
        assert int(first.query["resourceVersion"]) < int(bookmark.version)
        assert second.query["resourceVersion"] == bookmark.version
        assert first.query["allowWatchBookmarks"] == "true"
        assert (heard.of("list", "/pods"), told.told, service.cache.pods) == ([], [], known)


# --- 50: a watch that is connected but dead ----------------------------------------------------------------------


@virtual
async def test_50_a_silent_watch_is_given_up_and_goes_on_where_it_stopped(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "WATCH_SECONDS", (20, 40))
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        heard = Overheard(api_server)
        api_server.faults.add(WatchSilent(after_lines=2), path="/api/v1/pods", verb="watch")
        api_server.store.close()
        await until(lambda: bool(heard.of("watch", "/pods")), "it watches")
        for name in ("seen-1", "seen-2"):
            api_server.create(pod(name, schedulerName="somebody"))
        await until(lambda: len(service.factory.informer(Pod, PODS).indexer) == 2, "two events came")
        last = api_server.get("pods", "seen-2")["metadata"]["resourceVersion"]
        api_server.create(ours("web"))
        started = asyncio.get_running_loop().time()
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        assert asyncio.get_running_loop().time() - started <= 40 + rest.WATCH_GRACE + 2
        watches = heard.of("watch", "/pods")
        assert watches[1].query["resourceVersion"] == last
        assert heard.of("list") == []
        await asyncio.sleep(300)
        lengths = {watch.query["timeoutSeconds"] for watch in heard.of("watch")}
        assert len(lengths) > 5
        assert all(20 <= int(seconds) <= 40 for seconds in lengths)


# --- 52 and 53: what a bind answers ------------------------------------------------------------------------------


@virtual
async def test_52_the_answer_to_a_bind_is_a_status_and_needs_no_target(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    bind = http.bind

    def listening(verbs: Any, resource: Any, namespace: str, name: str, body: Any, write: Any) -> Any:
        bodies.append(body)
        answers.append(bind(verbs, resource, namespace, name, body, write))
        return answers[-1]

    monkeypatch.setattr(http, "bind", listening)
    api_server.create(node("n"))
    api_server.faults.add(WatchDelay(5.0), path="/api/v1/pods", verb="watch", count=None)
    async with podium(api_server) as service:
        uid = api_server.create(ours("q"))["metadata"]["uid"]
        await until(lambda: node_of(api_server, "q") == "n", "q is bound")
        await until(lambda: service.scheduler.idle and not service.cache.assumed, "the informer has confirmed it")
        assert bodies == [
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "q", "namespace": "default", "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
            }
        ]
        assert (answers[0]["kind"], answers[0]["status"]) == ("Status", "Success")
        assert service.metrics.schedule_attempts.labels("scheduled", "podium")._value.get() == 1
        await service.recorder.flush()
        assert [event["reason"] for event in events_of(api_server, "q")] == ["Scheduled"]


@virtual
async def test_53_a_bind_that_hangs_but_was_done_is_found_out(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    api_server.create(node("n2", unschedulable=True))
    api_server.faults.add(WatchDelay(60.0), path="/api/v1/pods", verb="watch", count=None)
    async with podium(api_server) as service:
        heard = Overheard(api_server)
        api_server.faults.add(Hang(), path="/pods/r1/binding$")
        api_server.create(ours("r1"))
        await until(lambda: bool(heard.of("create", "/pods/r1/binding")), "the bind is sent")
        api_server.bind("r1", "n1")
        bound_at = asyncio.get_running_loop().time()
        await until(lambda: service.scheduler.idle and not service.cache.assumed, "podium knows")
        assert len(heard.of("create", "/pods/r1/binding")) <= 2
        shown_at = bound_at + 60.0
        await asyncio.sleep(600)
        assert all(each.time <= shown_at for each in heard.of("create", "/pods/r1/binding"))
        assert heard.of("patch", "/pods/r1/status") == []
        [state] = service.cache.pods.values()
        assert (state.node_name, state.assumed) == ("n1", False)
        assert [c["status"] for c in api_server.get("pods", "r1")["status"]["conditions"]] == ["True"]


@virtual
async def test_53_a_pod_that_another_has_bound_gives_its_room_back(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    api_server.create(node("n2", unschedulable=True))
    api_server.faults.add(WatchDelay(30.0), path="/api/v1/pods", verb="watch", count=None)
    async with podium(api_server) as service:
        heard = Overheard(api_server)
        api_server.create(ours("r2", cpu="2"))
        await asyncio.sleep(1.0)
        api_server.bind("r2", "n2")
        await until(lambda: bool(heard.of("create", "/pods/r2/binding")), "podium binds it to n1")
        await until(lambda: service.scheduler.idle, "the conflict is settled")
        assert service.cache.nodes["n1"].requested.get("cpu", 0) == 0
        await until(lambda: bool(service.cache.pods), "the informer shows it on n2")
        assert service.cache.nodes["n2"].requested["cpu"] == 2000
        await asyncio.sleep(600)
        assert len(heard.of("create", "/pods/r2/binding")) == 1
        assert (heard.of("patch", "/pods/r2/status"), heard.of("delete")) == ([], [])
        assert condition(api_server, "r2")["status"] == "True"


# --- 56: a delete that nobody saw --------------------------------------------------------------------------------


@virtual
async def test_56_what_went_while_nobody_looked_is_gone_everywhere(api_server: ApiServer) -> None:
    for name in ("g1", "g2"):
        api_server.create(node(name, cpu="1"))
    api_server.create(ours("h", nodeName="g2"))
    async with podium(api_server) as service:
        api_server.create(ours("k", cpu="2"))
        await until(lambda: bool(condition(api_server, "k")), "k was tried")
        pods, nodes = Heard(service, Pod, PODS), Heard(service, Node)
        cut = api_server.faults.add(Cut(), count=None)
        api_server.store.close()
        api_server.delete("nodes", "g2")
        api_server.delete("pods", "h", grace_seconds=0)
        api_server.bind("k", "g1")
        api_server.delete("pods", "k", grace_seconds=0)
        api_server.store.compact()
        await asyncio.sleep(10.0)
        api_server.faults.remove(cut)
        await until(lambda: len(pods.told) >= 2 and bool(nodes.told), "the lists came", 200.0)
        assert sorted(pods.told) == [("delete", "h", "stale"), ("delete", "k", "stale")]
        assert nodes.told == [("delete", "g2", "stale")]
        assert set(service.cache.nodes) == {"g1"}
        assert (service.cache.pods, service.scheduler.queue.pending_pods()) == ({}, [])
        for i in range(5):
            api_server.create(ours(f"next-{i}"))
        await until(lambda: all(node_of(api_server, f"next-{i}") == "g1" for i in range(5)), "the next go to g1")


# --- 58: a token that is rotated ---------------------------------------------------------------------------------


class Mount:
    """A projected volume: `token` is a link into `..data`, which is replaced by renaming another link over it."""

    def __init__(self, folder: Path) -> None:
        self.token = folder / "token"
        self._folder = folder
        self._versions = 0

    def write(self, token: str) -> None:
        self._versions += 1
        version = self._folder / f"..version-{self._versions}"
        version.mkdir()
        (version / "token").write_text(token)
        link = self._folder / "..data.new"
        link.symlink_to(version.name)
        os.replace(link, self._folder / "..data")
        if not self.token.is_symlink():
            self.token.symlink_to("..data/token")


@asynccontextmanager
async def with_token_file(server: ApiServer, token: Path) -> AsyncIterator[Service]:
    """podium as in a pod, with leader election."""
    async with Client(Credentials(server.url, token=TokenFile(token)), qps=-1, burst=0) as client:
        service = Service(client, effective(), Options(seed=0, identity="one"))
        await service.build()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service.run())
            await service.synced.wait()
            yield service
            service.stop()
            await running
        check(service)


@virtual
@pytest.mark.parametrize("late", [pytest.param(0.0, id="the file is there first"), pytest.param(5.0, id="it is late")])
async def test_58_everything_goes_on_with_a_rotated_token(tmp_path: Path, late: float) -> None:
    mount = Mount(tmp_path)
    mount.write("t1")
    async with ApiServer(token="t1") as server:
        server.create(node("n1"))
        async with with_token_file(server, mount.token) as service:
            await until(lambda: service.elector is not None and service.elector.is_leader, "it leads")
            server.create(ours("before"))
            await until(lambda: node_of(server, "before") == "n1", "it binds")
            await service.recorder.flush()
            if not late:
                mount.write("t2")
            heard = Overheard(server)
            server._handler._authorization = "Bearer t2"
            server.store.close()
            server.create(ours("during"))
            if late:
                await asyncio.sleep(late)
                assert len(heard.requests) < 60, "it does not run in circles while the token is refused"
                mount.write("t2")
            await until(lambda: node_of(server, "during") == "n1", "bound with the new token", 90.0)
            server.delete("pods", "before", grace_seconds=0)
            await until(lambda: len(service.cache.pods) == 1, "the watch has recovered", 90.0)
            await service.recorder.flush()
            assert [event["reason"] for event in events_of(server, "during")] == ["Scheduled"]
            renewed = server.get("leases", "podium", "kube-system")["metadata"]["resourceVersion"]
            await asyncio.sleep(5.0)
            lease = server.get("leases", "podium", "kube-system")
            assert lease["metadata"]["resourceVersion"] != renewed
            assert (lease["spec"]["holderIdentity"], lease["spec"].get("leaseTransitions", 0)) == ("one", 0)
            lists = [each for each in heard.of("list") if each.path in ("/api/v1/pods", "/api/v1/nodes")]
            assert lists == [], "401 is not 410"


# --- 59: leases and clocks ---------------------------------------------------------------------------------------


class Candidate:
    """An elector whose clock is off by so many seconds, and what it does while it leads."""

    def __init__(self, server: ApiServer, identity: str, lease: float, clock: float, deadline: float) -> None:
        self.identity = identity
        self.led: list[tuple[str, float]] = []
        self._credentials = Credentials(server.url)
        self._config = ElectionConfig("kube-system", "podium", identity, lease, deadline, 2.0)
        self.clock = clock
        self.task: asyncio.Task[None]

    async def run(self) -> None:
        now = asyncio.get_running_loop().time
        async with Client(self._credentials, qps=-1, burst=0, timeout=5.0, user_agent=self.identity) as client:
            elector = LeaderElector(client, self._config, now=lambda: 1_000_000.0 + now() + self.clock)

            async def work() -> None:
                self.led.append(("began", now()))
                try:
                    await asyncio.sleep(10**6)
                finally:
                    self.led.append(("ended", now()))

            await elector.run(work)


def holder(server: ApiServer) -> str:
    return str(server.get("leases", "podium", "kube-system")["spec"].get("holderIdentity") or "")


@asynccontextmanager
async def two_candidates(server: ApiServer) -> AsyncIterator[tuple[Candidate, Candidate]]:
    """A leads; its clock is ten minutes behind. B believes that leases last five seconds."""
    a = Candidate(server, "A", lease=15.0, clock=-600.0, deadline=10.0)
    b = Candidate(server, "B", lease=5.0, clock=0.0, deadline=4.0)
    a.task = asyncio.create_task(a.run())
    await until(lambda: bool(a.led), "A leads")
    b.task = asyncio.create_task(b.run())
    try:
        yield a, b
    finally:
        for each in (a, b):
            each.task.cancel()
        await asyncio.gather(a.task, b.task, return_exceptions=True)


@virtual
@pytest.mark.parametrize("blocked", [pytest.param(Answer(429), id="by 429"), pytest.param(Hang(), id="by silence")])
async def test_59_a_lease_is_taken_by_how_long_it_did_not_change_and_by_its_own_length(
    api_server: ApiServer, blocked: Effect
) -> None:
    async with two_candidates(api_server) as (a, b):
        await asyncio.sleep(60.0)
        assert (holder(api_server), b.led) == ("A", []), "B waits as long as the record changes"
        api_server.faults.add(Answer(409), path="/leases/podium$", verb="update")
        await asyncio.sleep(30.0)
        assert (holder(api_server), len(a.led)) == ("A", 1), "one conflict ends no leadership"
        api_server.faults.add(blocked, path="/leases/podium$", verb="update", count=None)
        changed_at = asyncio.get_running_loop().time()
        with pytest.raises(LeadershipLost):
            await a.task
        api_server.faults.clear()
        await until(lambda: bool(b.led), "B takes over", 60.0)
        (_, began), (_, ended) = b.led[0], a.led[1]
        assert ended <= changed_at + 10.0 + 2.0, "A stops at its deadline at the latest"
        assert ended < began
        assert began >= changed_at + 15.0 - 2.0 * 2.2, "not before the fifteen seconds that the lease itself names"


@virtual
async def test_59_a_clean_end_hands_the_lease_over_at_once(api_server: ApiServer) -> None:
    async with two_candidates(api_server) as (a, b):
        await asyncio.sleep(30.0)
        a.task.cancel()
        ended_at = asyncio.get_running_loop().time()
        await until(lambda: bool(b.led), "B takes over")
        assert b.led[0][1] - ended_at <= 2.0 * 2.2 + 0.5


@virtual
@pytest.mark.parametrize("jump", [pytest.param(3600.0, id="forward"), pytest.param(-3600.0, id="back")])
async def test_59_a_clock_that_jumps_costs_no_leadership_and_gives_none(api_server: ApiServer, jump: float) -> None:
    async with two_candidates(api_server) as (a, b):
        await asyncio.sleep(30.0)
        for each in (a, b):
            each.clock += jump
            await asyncio.sleep(60.0)
        assert (holder(api_server), len(a.led), b.led) == ("A", 1, [])


# --- 60: failed pods and their events ----------------------------------------------------------------------------


async def retried(service: Service, server: ApiServer, times: int) -> float:
    """Let every pod be tried again so often; virtual seconds it took to try them all."""
    pods = len(service.scheduler.queue.pending_pods())
    now = asyncio.get_running_loop().time
    spent = 0.0
    for _ in range(times):
        before = service.scheduler.metrics.schedule_attempts.labels("unschedulable", "podium")._value.get()
        wanted = before + pods
        service.scheduler.queue.activate([i.pod_info.key for i, _ in service.scheduler.queue.pending_pods()])
        started = now()
        attempts = service.scheduler.metrics.schedule_attempts.labels("unschedulable", "podium")._value.get
        await until(lambda wanted=wanted, attempts=attempts: attempts() >= wanted, "all were tried again", 60.0)
        spent += now() - started
        await asyncio.sleep(1.0)
    return spent


@virtual
async def test_60_failed_pods_do_not_flood_the_api_server_with_events(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three reasons, whatever the number of nodes; the events endpoint is slow, then busy, then forbids."""
    for i in range(150):
        taints = [{"key": "k", "effect": "NoSchedule"}] if i % 3 == 0 else []
        api_server.create(node(f"n{i}", cpu="1", unschedulable=i % 3 == 1, taints=taints))
    async with podium(api_server) as service:
        recorder = service.recorder
        monkeypatch.setattr(recorder._queue, "_maxsize", 50)
        for i in range(50):
            api_server.create(ours(f"big-{i}", cpu="4"))
        await until(lambda: bool(condition(api_server, "big-49")), "all were tried")
        await recorder.flush()
        quick = await retried(service, api_server, 2)
        slow = api_server.faults.add(Latency(2.0), path="/events", count=None)
        heard, began = Overheard(api_server), asyncio.get_running_loop().time()
        with_slow = await retried(service, api_server, 8)
        api_server.faults.remove(slow)
        busy = api_server.faults.add(Answer(429, retry_after=1), path="/events", count=None)
        with_busy = await retried(service, api_server, 5)
        api_server.faults.remove(busy)
        api_server.faults.add(Answer(403), path="/events", count=None)
        for i in range(200):
            api_server.create(ours(f"other-{i}", cpu="4"))
        with_forbidden = await retried(service, api_server, 5)
        seconds = asyncio.get_running_loop().time() - began
        sent = [each for each in heard.requests if "/events" in each.path]
        assert len(sent) <= 50 * seconds + 100, "the configured rate"
        assert recorder._queue.qsize() <= 50
        assert recorder.dropped > 0
        sample = service.metrics.registry.get_sample_value
        assert sample("podium_events_total", {"result": "dropped"}) == recorder.dropped
        assert max(with_slow / 8, with_busy / 5, with_forbidden / 5) <= quick / 2 + 0.2, "scheduling does not wait"
        notes = {e["note"] for e in api_server.list("events.events.k8s.io") if e["regarding"]["name"].startswith("big")}
        assert len(notes) == 1
        assert all(len(note) < 1024 and note.count(",") <= 4 for note in notes)


# --- none is left out --------------------------------------------------------------------------------------------

#: tests of other files, which look at one thing from all its sides
ELSEWHERE = {
    "62-two-schedulers-one-node": (
        "tests.podium.test_binds",
        "test_two_schedulers_overfill_a_node_and_the_room_of_the_failed_pod_is_free_at_once",
    ),
}


def scenarios() -> list[str]:
    """The cases that are told in prose; those of gangs are another file's."""
    cases = {path.parent.name: yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("[0-9]*/case.yaml"))}
    return [name for name, case in cases.items() if case["kind"] == "scenario"]


@pytest.mark.parametrize("case", scenarios())
def test_every_scenario_has_its_test(case: str) -> None:
    if case in ELSEWHERE:
        module, name = ELSEWHERE[case]
        assert callable(getattr(import_module(module), name))
    else:
        number = case.partition("-")[0]
        assert [name for name in globals() if name.startswith(f"test_{number}_")]
