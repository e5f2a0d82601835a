"""Leader election on a Lease: of several replicas one works, the others wait.

    candidate ──acquired──► leader: `lead()` runs, the lease is renewed ──► stopped
        ▲ waits while the       │ could not renew within renew_deadline: LeadershipLost
        └ record is valid       └ `lead()` returned, or run() was cancelled: the lease is released

Owner: the program's wiring. Times of the record are never compared with our clock: a candidate waits the record's own
leaseDurationSeconds since it last saw the record change, on the loop's monotonic clock. The leader counts from before
it sent the last successful renewal, so its work is cancelled, and awaited, `lease_duration - renew_deadline` before any
other can take over; `on_stopped` and the release come after that. Any failed request is a failed try, nothing more.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from kube.api import codec
from kube.api.coordination import Lease, LeaseSpec
from kube.api.meta import ObjectMeta, format_micro_time
from kube.client import errors
from kube.client.rest import Client

log = logging.getLogger(__name__)

# wait.JitterUntil's factor in client-go: candidates ask every 1 to 2.2 retry periods.
JITTER = 1.2


class LeadershipLost(Exception):  # noqa: N818 - what happened, as kube-scheduler words it
    """The lease could not be renewed in time, or another holds it. The work has been stopped already."""


@dataclass(frozen=True)
class ElectionConfig:
    """Which Lease, who we are, and the three periods in seconds, with kube-scheduler's defaults."""

    namespace: str
    name: str
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    release_on_cancel: bool = True

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaderElection: leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= self.retry_period * JITTER:
            raise ValueError(f"leaderElection: renewDeadline must be greater than retryPeriod*{JITTER}")
        if self.retry_period <= 0.0:
            raise ValueError("leaderElection: retryPeriod must be greater than zero")


class LeaderElector:
    """One candidate. `run` may be called once."""

    def __init__(
        self,
        client: Client,
        config: ElectionConfig,
        *,
        on_stopped: Callable[[], None] | None = None,
        on_new_leader: Callable[[str], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._client = client
        self._on_stopped = on_stopped
        self._on_new_leader = on_new_leader
        self._now = now  # only ever written into the Lease, for people to read
        self._lease: Lease | None = None
        self._observed_at = 0.0
        self._renewed_at = float("-inf")
        self._reported_leader = ""

    @property
    def leader(self) -> str:
        """Who holds the lease, as far as was seen."""
        return self._lease.spec.holder_identity if self._lease is not None else ""

    @property
    def is_leader(self) -> bool:
        """Whether that is us."""
        return self.leader == self.config.identity

    def expired_for(self) -> float:
        """Seconds since a lease that we believe to hold ran out: client-go's watchdog for /healthz; else zero."""
        if not self.is_leader:
            return 0.0
        return max(0.0, _loop_time() - self._renewed_at - self.config.lease_duration)

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership and do the work. Returns when the work does; raises LeadershipLost when it is lost."""
        await self._acquire()
        log.info("%s became the leader of %s/%s", self.config.identity, self.config.namespace, self.config.name)
        try:
            await self._lead(lead)
        finally:
            if self._on_stopped is not None:
                self._on_stopped()
            if self.config.release_on_cancel and self.is_leader:
                await self._release()

    async def _acquire(self) -> None:
        while True:
            if await self._try_in_time(self.config.renew_deadline / 2):
                return
            await asyncio.sleep(self.config.retry_period * (1.0 + random.random() * JITTER))

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(_await(lead), name="leading")
            losing = group.create_task(self._renew_until_lost(), name="leader election")
            await asyncio.wait({work, losing}, return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            losing.cancel()
        if not losing.cancelled():
            raise LeadershipLost(losing.result())

    async def _renew_until_lost(self) -> str:
        """Keep the lease for as long as that goes well; says why it no longer does."""
        while True:
            await asyncio.sleep(self.config.retry_period)
            deadline = self._renewed_at + self.config.renew_deadline
            while not await self._try_in_time(min(self.config.renew_deadline / 2, deadline - _loop_time())):
                if not self.is_leader:
                    return f"the lease {self._key} is held by {self.leader or 'nobody'}"
                if _loop_time() + self.config.retry_period >= deadline:
                    await asyncio.sleep(deadline - _loop_time())
                    self._lease = None  # who holds it now is not known, so there is nothing to release
                    return f"the lease {self._key} was not renewed in {self.config.renew_deadline:g} s"
                await asyncio.sleep(self.config.retry_period)

    async def _release(self) -> None:
        """Let the next one take over at once; if that fails, it waits for the lease to run out."""
        assert self._lease is not None
        now = format_micro_time(self._now())
        spec = msgspec.structs.replace(
            self._lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=now, acquire_time=now
        )
        try:
            async with asyncio.timeout(self.config.renew_deadline / 2):
                await self._write(spec)
        except (errors.ApiError, codec.DecodeError, TimeoutError) as error:
            log.warning("Cannot release the lease %s: %s", self._key, error)

    async def _try_in_time(self, seconds: float) -> bool:
        """One try to get or keep the lease; whether we hold it now."""
        try:
            async with asyncio.timeout(seconds):
                return await self._try_acquire_or_renew()
        except TimeoutError:
            log.warning("The lease %s: no answer in %.1f s", self._key, seconds)
        except (errors.ApiError, codec.DecodeError) as error:
            log.warning("The lease %s: %s", self._key, error)
        return False

    async def _try_acquire_or_renew(self) -> bool:
        started = _loop_time()
        if self.is_leader and self._lease is not None:
            try:
                await self._write(self._renewed(self._lease.spec))
            except (errors.Conflict, errors.NotFound):
                pass  # somebody touched the lease: read it, and go on if it is still ours or nobody's
            else:
                self._renewed_at = started
                return True
        if not await self._read():
            await self._create()
        elif self._may_take():
            assert self._lease is not None
            await self._write(self._renewed(self._lease.spec))
        else:
            return False
        self._renewed_at = started
        return True

    def _may_take(self) -> bool:
        assert self._lease is not None
        spec = self._lease.spec
        if not spec.holder_identity or spec.holder_identity == self.config.identity:
            return True
        return _loop_time() >= self._observed_at + spec.lease_duration_seconds

    async def _read(self) -> bool:
        """Look at the lease; whether there is one."""
        try:
            lease = await self._client.get(Lease, self.config.name, self.config.namespace, retries=0)
        except errors.NotFound:
            return False
        self._observe(lease)
        return True

    async def _create(self) -> None:
        meta = ObjectMeta(name=self.config.name, namespace=self.config.namespace)
        lease = Lease(metadata=meta, spec=self._renewed(LeaseSpec(), transitions=0))
        self._observe(await self._client.create(lease, retries=0))

    async def _write(self, spec: LeaseSpec) -> None:
        assert self._lease is not None
        self._observe(await self._client.update(msgspec.structs.replace(self._lease, spec=spec), retries=0))

    def _renewed(self, spec: LeaseSpec, transitions: int | None = None) -> LeaseSpec:
        """The record with us as holder, from now on."""
        now = format_micro_time(self._now())
        ours = spec.holder_identity == self.config.identity
        if transitions is None:
            transitions = spec.lease_transitions + (0 if ours else 1)
        return msgspec.structs.replace(
            spec,
            holder_identity=self.config.identity,
            lease_duration_seconds=math.ceil(self.config.lease_duration),
            acquire_time=spec.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _observe(self, lease: Lease) -> None:
        if self._lease is None or self._lease.spec != lease.spec:
            self._observed_at = _loop_time()
        self._lease = lease
        holder = lease.spec.holder_identity
        if holder != self._reported_leader:
            self._reported_leader = holder
            if holder and self._on_new_leader is not None:
                self._on_new_leader(holder)

    @property
    def _key(self) -> str:
        return f"{self.config.namespace}/{self.config.name}"


async def _await(lead: Callable[[], Awaitable[None]]) -> None:
    await lead()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
