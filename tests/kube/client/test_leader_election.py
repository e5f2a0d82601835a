"""Leader election against a real HTTP server, in virtual time."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

from kube.client.auth import Credentials
from kube.client.leader_election import ElectionConfig, LeaderElector, LeadershipLost
from kube.client.rest import Client
from tests.kube.client.conftest import FakeServer, answers, drops, hangs, html

pytestmark = pytest.mark.looptime

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# Far from any clock of the loop: the times of a record are for people only.
WALL_CLOCK = 1_767_366_245.25


def lease(server: FakeServer) -> dict:
    return server.objects[LEASES]["podium"]["spec"]


def hold(server: FakeServer, holder: str, **spec) -> None:
    """Somebody else writes the record."""
    record = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, **spec}
    server.put(LEASES, "podium", spec=record)


def now() -> float:
    return asyncio.get_running_loop().time()


class Candidate:
    """A replica that writes down when it worked."""

    def __init__(self, client: Client, identity: str, **config) -> None:
        self.story: list[tuple[str, float]] = []
        self.elector = LeaderElector(
            client,
            ElectionConfig("kube-system", "podium", identity, **config),
            on_stopped=lambda: self.note("stopped"),
            on_new_leader=lambda leader: self.note(f"leader {leader}"),
            now=lambda: WALL_CLOCK,
        )
        self.work = asyncio.Event()

    def note(self, what: str) -> None:
        self.story.append((what, now()))

    def when(self, what: str) -> float:
        return next(time for text, time in self.story if text == what)

    async def lead(self) -> None:
        self.note("working")
        try:
            await self.work.wait()
        finally:
            self.note("work ended")

    async def run(self) -> None:
        await self.elector.run(self.lead)


@pytest.fixture
def candidate(client):
    return lambda identity, **config: Candidate(client, identity, **config)


@asynccontextmanager
async def electing(candidate: Candidate):
    task = asyncio.ensure_future(candidate.run())
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def events(candidate: Candidate) -> list[str]:
    return [what for what, _ in candidate.story]


async def test_the_first_candidate_creates_the_lease_with_utc_micro_times(server, candidate):
    a = candidate("a")
    async with electing(a):
        await asyncio.sleep(1)
        assert events(a) == ["leader a", "working"]
        assert lease(server) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T15:04:05.250000Z",
            "renewTime": "2026-01-02T15:04:05.250000Z",
        }


async def test_it_renews_every_retry_period_with_one_request(server, candidate):
    async with electing(candidate("a")):
        await asyncio.sleep(21)
    puts = server.seen("PUT")
    assert [round(request.time - puts[0].time) for request in puts[:10]] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
    assert len(server.seen("GET")) == 1


async def test_taking_over_counts_a_transition_and_keeps_what_others_wrote(server, candidate):
    hold(server, "", acquireTime="2020-01-01T00:00:00.000000Z")
    async with electing(candidate("b")):
        await asyncio.sleep(1)
        assert (lease(server)["holderIdentity"], lease(server)["leaseTransitions"]) == ("b", 4)
        assert lease(server)["acquireTime"] == "2026-01-02T15:04:05.250000Z"


async def test_a_candidate_waits_while_the_record_changes_however_old_its_times_look(server, candidate):
    b = candidate("b", lease_duration=5.0, renew_deadline=4.0)
    hold(server, "a", renewTime="1999-01-01T00:00:00.000000Z")
    async with electing(b):
        for second in range(0, 60, 2):
            hold(server, "a", renewTime=f"1999-01-01T00:00:{second:02}.000000Z")
            await asyncio.sleep(2)
        last_change = now() - 2
        assert "working" not in events(b)
        await asyncio.sleep(40)
    # The record's own 15 s count, not the candidate's 5; it asks every 2 to 4.4 s.
    assert 15 <= b.when("working") - last_change <= 15 + 2 * 4.5


async def test_a_leader_that_dies_is_replaced_when_its_lease_ran_out_since_it_was_seen(server, candidate):
    hold(server, "dead")
    b = candidate("b")
    started = now()
    async with electing(b):
        await asyncio.sleep(30)
    assert 15 <= b.when("working") - started <= 15 + 4.5
    assert events(b)[:3] == ["leader dead", "leader b", "working"]


FAULTS = [
    pytest.param(hangs(), id="the server hangs"),
    pytest.param(drops, id="connections break"),
    pytest.param(html(503), id="a page of HTML with 503"),
    pytest.param(answers(429, "TooManyRequests", headers={"Retry-After": "30"}), id="too many requests"),
    pytest.param(answers(401, "Unauthorized"), id="the token is refused"),
]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_leader_cut_off_stops_its_work_before_another_can_take_over(server, client, candidate, fault):
    a = candidate("a")
    task = asyncio.ensure_future(a.run())
    await asyncio.sleep(5)
    last_renewal = server.seen("PUT")[-1].time
    for method in ("GET", "PUT"):
        server.once(method, fault, times=10_000)
    with pytest.raises(LeadershipLost, match=r"kube-system/podium was not renewed in 10 s"):
        await task
    assert events(a) == ["leader a", "working", "work ended", "stopped"]
    assert 9.9 <= a.when("work ended") - last_renewal <= 10.1
    # Nothing is written after the loss: the lease may be another's by now.
    await asyncio.sleep(60)
    assert [request for request in server.requests if request.time >= a.when("stopped")] == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_short_fault_costs_nothing(server, candidate, fault):
    a = candidate("a")
    async with electing(a):
        await asyncio.sleep(5)
        server.once("PUT", fault)
        await asyncio.sleep(60)
        assert events(a) == ["leader a", "working"]


async def test_an_unreachable_server_costs_the_leadership_too(server, candidate):
    a = candidate("a")
    task = asyncio.ensure_future(a.run())
    await asyncio.sleep(5)
    for method in ("GET", "PUT"):
        server.once(method, drops, times=100)
    with pytest.raises(LeadershipLost):
        await task
    assert events(a)[-2:] == ["work ended", "stopped"]


async def test_after_a_conflict_the_leader_reads_again_and_goes_on_if_it_still_holds_the_lease(server, candidate):
    a = candidate("a")
    async with electing(a):
        await asyncio.sleep(5)
        server.put(LEASES, "podium", metadata={"labels": {"touched": "by a person"}}, spec=lease(server))
        await asyncio.sleep(30)
        assert events(a) == ["leader a", "working"]
        assert server.objects[LEASES]["podium"]["metadata"]["labels"] == {"touched": "by a person"}
    assert len(server.seen("GET")) == 2


async def test_a_lease_that_somebody_deleted_is_made_again(server, candidate):
    a = candidate("a")
    async with electing(a):
        await asyncio.sleep(5)
        server.remove(LEASES, "podium")
        await asyncio.sleep(5)
        assert lease(server)["holderIdentity"] == "a"
        assert events(a) == ["leader a", "working"]


async def test_a_leader_whose_lease_another_took_stops_at_once_and_leaves_it_alone(server, candidate):
    a = candidate("a")
    task = asyncio.ensure_future(a.run())
    await asyncio.sleep(5)
    hold(server, "thief")
    taken = now()
    with pytest.raises(LeadershipLost, match="is held by thief"):
        await task
    assert a.when("work ended") - taken <= 2.1
    assert lease(server)["holderIdentity"] == "thief"


async def test_a_clean_stop_releases_the_lease_after_the_work_ended_and_the_next_takes_over_at_once(server, candidate):
    a, b = candidate("a"), candidate("b")
    async with electing(a) as task:
        await asyncio.sleep(3)
        async with electing(b):
            await asyncio.sleep(10)
            task.cancel()
            stopped = now()
            await asyncio.sleep(10)
            assert events(a) == ["leader a", "working", "work ended", "stopped"]
            assert a.when("work ended") <= b.when("working") <= stopped + 4.5
    assert task.cancelled()


async def test_the_release_empties_the_holder_and_leaves_a_lease_of_one_second(server, candidate):
    a = candidate("a")
    a.work.set()
    await a.run()  # the work ends by itself
    assert (lease(server).get("holderIdentity", ""), lease(server)["leaseDurationSeconds"]) == ("", 1)


async def test_without_release_on_cancel_the_lease_runs_out_by_itself(server, candidate):
    a = candidate("a", release_on_cancel=False)
    a.work.set()
    await a.run()
    assert lease(server)["holderIdentity"] == "a"


async def test_work_that_fails_releases_the_lease_and_says_why(server, candidate):
    a = candidate("a")

    async def lead():
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await a.elector.run(lead)
    assert caught.group_contains(ZeroDivisionError)
    assert lease(server).get("holderIdentity", "") == ""


async def test_two_candidates_never_work_at_the_same_time(server, candidate):
    a, b = candidate("a"), candidate("b")
    first = asyncio.ensure_future(a.run())
    await asyncio.sleep(3)
    async with electing(b):
        server.once("PUT", hangs(), times=4)
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(30)
    assert b.when("working") - a.when("work ended") >= 4.9


async def test_fractions_of_seconds_are_rounded_up_in_the_record(server, candidate):
    async with electing(candidate("a", lease_duration=3.5, renew_deadline=3.0, retry_period=1.0)):
        await asyncio.sleep(0.5)
        assert lease(server)["leaseDurationSeconds"] == 4


async def test_a_lease_that_ran_out_while_the_loop_stood_still_is_seen_by_the_watchdog(server, candidate):
    a = candidate("a")
    async with electing(a):
        await asyncio.sleep(5)
        assert a.elector.expired_for() == 0
        a.elector._renewed_at -= 40
        assert 25 <= a.elector.expired_for() <= 28


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param(
            {"lease_duration": 10.0}, "leaseDuration must be greater than renewDeadline", id="lease = deadline"
        ),
        pytest.param({"retry_period": 9.0}, "renewDeadline must be greater than retryPeriod*1.2", id="a slow retry"),
        pytest.param({"retry_period": 0.0}, "retryPeriod must be greater than zero", id="no retry"),
    ],
)
async def test_periods_that_cannot_work_are_refused(config, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ElectionConfig("kube-system", "podium", "a", **config)


async def test_credentials_that_are_refused_for_a_while_do_not_cost_the_leadership(server):
    server.tokens = {""}
    async with Client(Credentials(server.url), qps=-1) as client:
        a = Candidate(client, "a")
        async with electing(a):
            await asyncio.sleep(3)
            server.tokens = {"t2"}
            await asyncio.sleep(5)
            server.tokens = {""}
            await asyncio.sleep(30)
            assert events(a) == ["leader a", "working"]
