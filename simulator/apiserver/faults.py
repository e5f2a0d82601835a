"""Faults on demand: what goes wrong, for which requests, how often. Tests and `podium cluster --chaos` set them.

    server.faults.add(Answer(429, retry_after=2), path="/binding$", verb="create", count=3)
    server.faults.add(WatchCut(after=10, mid_line=True), path="/pods", verb="watch")

A fault acts on the wire only: the store never knows. All chance comes from the seed of `Faults`.
Owner: `ApiServer`; `http.py` asks for the faults of each request and carries them out through the methods of `Effect`.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec.json
from aiohttp import web

from simulator.apiserver.errors import ApiError, too_old
from simulator.apiserver.watch_cache import watch_line

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_PAGE = "<html><head><title>{code}</title></head><body><h1>{code} Service Temporarily Unavailable</h1></body></html>\n"
FOREVER = 10.0**9

Batches = AsyncIterator[list[bytes]]


class ConnectionCutError(Exception):
    """The connection is to be cut now; `tail` is still sent before."""

    def __init__(self, tail: bytes = b"") -> None:
        super().__init__("connection cut by a fault")
        self.tail = tail


class Effect:
    """Something that goes wrong with one request. By default, nothing."""

    async def before(self, random: random.Random) -> web.Response | None:
        """Act before the request is carried out; an answer given here is all the client gets."""
        return None

    def after(self) -> None:
        """Act after the request has been carried out, before its answer is sent."""

    def disturb(self, batches: Batches) -> Batches:
        """Act on the lines of a watch."""
        return batches


@dataclass(frozen=True, slots=True)
class Latency(Effect):
    """The server takes its time: `seconds`, and by chance up to `jitter` more."""

    seconds: float
    jitter: float = 0.0

    async def before(self, random: random.Random) -> web.Response | None:
        """Wait."""
        await asyncio.sleep(self.seconds + random.random() * self.jitter)
        return None


@dataclass(frozen=True, slots=True)
class Answer(Effect):
    """An error instead of an answer: a proper Status, or the HTML page of a proxy in between."""

    code: int
    retry_after: int | None = None
    html: bool = False
    message: str = "fault injected"

    async def before(self, random: random.Random) -> web.Response | None:
        """Answer."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.html:
            page = _PAGE.format(code=self.code)
            return web.Response(status=self.code, text=page, content_type="text/html", headers=headers)
        error = ApiError(self.code, _REASONS.get(self.code, "Unknown"), self.message, retry_after=self.retry_after)
        body = msgspec.json.encode(error.status())
        return web.Response(status=self.code, body=body, content_type="application/json", headers=headers)


@dataclass(frozen=True, slots=True)
class Hang(Effect):
    """The server accepts the request and does nothing, by default until the client gives up."""

    seconds: float = FOREVER

    async def before(self, random: random.Random) -> web.Response | None:
        """Wait, then go on as if nothing had been."""
        await asyncio.sleep(self.seconds)
        return None


@dataclass(frozen=True, slots=True)
class Cut(Effect):
    """The connection breaks: before the request is carried out, or after it, so that the client cannot know."""

    applied: bool = False

    async def before(self, random: random.Random) -> web.Response | None:
        """Cut, unless the request is to be carried out first."""
        if not self.applied:
            raise ConnectionCutError
        return None

    def after(self) -> None:
        """Cut: the request was carried out, its answer is lost."""
        raise ConnectionCutError


@dataclass(frozen=True, slots=True)
class _WatchFault(Effect):
    """Lets `after` lines of a watch through, and then does what its kind does."""

    after_lines: int = 0

    @property
    def needs_line(self) -> bool:
        """Whether one more line must come before the fault can do its work."""
        return False

    async def disturb(self, batches: Batches) -> Batches:
        """Pass on the first lines, then strike."""
        left, rest = self.after_lines, list[bytes]()
        if left or self.needs_line:
            async for lines in batches:
                passed, rest = lines[:left], lines[left:]
                left -= len(passed)
                if passed:
                    yield passed
                if left == 0 and (rest or not self.needs_line):
                    break
        if left == 0 and (last := await self.strike(rest)):
            yield last

    async def strike(self, lines: list[bytes]) -> list[bytes]:
        """Do it; what is given back is sent before the stream ends in good order."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class WatchEnd(_WatchFault):
    """The watch ends early, in good order, as on a server that shuts down."""

    async def strike(self, lines: list[bytes]) -> list[bytes]:
        """End the stream."""
        return []


@dataclass(frozen=True, slots=True)
class WatchCut(_WatchFault):
    """The connection of a watch breaks, between two lines or in the middle of one."""

    mid_line: bool = False

    @property
    def needs_line(self) -> bool:
        """Half a line needs a line."""
        return self.mid_line

    async def strike(self, lines: list[bytes]) -> list[bytes]:
        """Cut the connection."""
        half = lines[0][: len(lines[0]) // 2] if lines and self.mid_line else b""
        raise ConnectionCutError(half)


@dataclass(frozen=True, slots=True)
class WatchExpired(_WatchFault):
    """An ERROR event with a 410 Status arrives inside the stream."""

    async def strike(self, lines: list[bytes]) -> list[bytes]:
        """Send the ERROR event as the last line."""
        return [watch_line("ERROR", msgspec.json.encode(too_old(1, 2).status()))]


@dataclass(frozen=True, slots=True)
class WatchGarbage(_WatchFault):
    """A line that is no JSON arrives, and the stream ends."""

    line: bytes = b"<html>502 Bad Gateway</html>\n"

    async def strike(self, lines: list[bytes]) -> list[bytes]:
        """Send the broken line and end."""
        return [self.line]


@dataclass(frozen=True, slots=True)
class WatchSilent(_WatchFault):
    """A half-open connection: no more data, no bookmarks, no end."""

    async def strike(self, lines: list[bytes]) -> list[bytes]:
        """Say nothing until the client leaves."""
        await asyncio.sleep(FOREVER)
        return []


@dataclass(frozen=True, slots=True)
class WatchDelay(Effect):
    """All lines of a watch arrive late, and so out of order with those of other resources."""

    seconds: float

    async def disturb(self, batches: Batches) -> Batches:
        """Hold back each batch."""
        async for lines in batches:
            await asyncio.sleep(self.seconds)
            yield lines


@dataclass(slots=True)
class Rule:
    """One fault that was asked for, and how often it has struck."""

    effect: Effect
    path: re.Pattern[str]
    verb: str
    left: int | None
    probability: float
    hits: int = field(default=0)

    def matches(self, verb: str, path: str) -> bool:
        """Tell whether the rule is about this request."""
        return self.left != 0 and self.verb in ("", verb) and self.path.search(path) is not None


class Faults:
    """The faults in force on one server."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self._rules: list[Rule] = []

    @property
    def active(self) -> bool:
        """Whether any fault is in force."""
        return bool(self._rules)

    def add(
        self, effect: Effect, *, path: str = "", verb: str = "", count: int | None = 1, probability: float = 1.0
    ) -> Rule:
        """Let `effect` strike the next `count` requests (None: all) whose path with query matches, by this chance.

        `verb` is one of get, list, watch, create, update, patch, delete, deletecollection; empty for all.
        """
        rule = Rule(effect, re.compile(path), verb, count, probability)
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take back one fault."""
        self._rules.remove(rule)

    def clear(self) -> None:
        """Take back all faults; what has struck already goes on."""
        self._rules.clear()

    def strike(self, verb: str, path: str) -> list[Effect]:
        """Give the effects that strike this request, and count them."""
        struck = [rule for rule in self._rules if rule.matches(verb, path) and self._chance(rule)]
        for rule in struck:
            rule.hits += 1
            if rule.left is not None:
                rule.left -= 1
        self._rules = [rule for rule in self._rules if rule.left != 0]
        return [rule.effect for rule in struck]

    def _chance(self, rule: Rule) -> bool:
        return rule.probability >= 1.0 or self.random.random() < rule.probability
