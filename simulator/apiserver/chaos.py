"""Chaos in a line: a list of what goes wrong and how often, for `podium cluster --chaos` and for tests under faults.

    errors=2%,latency=50ms,watch-cuts=5%        or nothing at all: a little of everything

A share is the chance that a request meets the fault; a time is how long one may take at most. What happens is drawn
from the seed of the server's `Faults`, in the order the requests come in.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from simulator.apiserver.faults import (
    Answer,
    Cut,
    Effect,
    Faults,
    Latency,
    WatchCut,
    WatchDelay,
    WatchEnd,
    WatchExpired,
)

DEFAULT = (
    "latency=20ms,errors=1%,throttles=1%,pages=0.5%,cuts=0.5%,lost=0.5%,watch-ends=2%,watch-cuts=2%,watch-expired=2%"
)
_NO_WATCH = r"^(?!.*[?&]watch=)"
_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault: what it does, and to which requests."""

    effect: Callable[[float], Effect]
    about: str
    verb: str = ""
    path: str = ""
    timed: bool = False
    """Whether it is measured by a time, and strikes every request."""


KINDS: dict[str, Kind] = {
    "latency": Kind(lambda seconds: Latency(0.0, seconds), "answers take up to this long", timed=True),
    "errors": Kind(lambda _: Answer(500), "500 InternalError", path=_NO_WATCH),
    "throttles": Kind(lambda _: Answer(429, retry_after=1), "429 TooManyRequests with Retry-After", path=_NO_WATCH),
    "pages": Kind(lambda _: Answer(503, html=True), "the HTML page of a proxy, 503", path=_NO_WATCH),
    "cuts": Kind(lambda _: Cut(), "the connection is cut before a request is carried out", path=_NO_WATCH),
    "lost": Kind(lambda _: Cut(applied=True), "a request is carried out, and its answer lost", path=_NO_WATCH),
    "watch-ends": Kind(lambda _: WatchEnd(20), "a watch ends in good order", verb="watch"),
    "watch-cuts": Kind(lambda _: WatchCut(20, mid_line=True), "a watch is cut in the middle of a line", verb="watch"),
    "watch-expired": Kind(lambda _: WatchExpired(20), "a watch says 410, so that its client lists again", verb="watch"),
    "watch-delay": Kind(WatchDelay, "watches lag by this much, and so come out of order", verb="watch", timed=True),
    "expired-tokens": Kind(lambda _: Answer(410), "a list cannot be continued", verb="list", path="[?&]continue="),
}


class ChaosError(ValueError):
    """A word of the line that is not understood; one line that says what was expected."""


def unleash(faults: Faults, text: str = "") -> None:
    """Put faults in force until they are cleared; raises a ChaosError."""
    wanted = [_parse(part.strip()) for part in (text or DEFAULT).split(",") if part.strip()]
    for kind, amount in wanted:
        effect = kind.effect(amount)
        chance = 1.0 if kind.timed else amount
        faults.add(effect, path=kind.path, verb=kind.verb, count=None, probability=chance)


def _parse(part: str) -> tuple[Kind, float]:
    name, _, amount = part.partition("=")
    kind = KINDS.get(name)
    if kind is None:
        raise ChaosError(f"chaos: {name!r} is not one of {', '.join(KINDS)}")
    if kind.timed:
        match = _TIME.fullmatch(amount)
        if match is None:
            raise ChaosError(f"chaos: {name}: a time such as 50ms or 2s is expected, got {amount!r}")
        return kind, float(match[1]) / (1000 if match[2] == "ms" else 1)
    match = _SHARE.fullmatch(amount)
    if match is None or float(match[1]) > 100:
        raise ChaosError(f"chaos: {name}: a share of the requests such as 2% is expected, got {amount!r}")
    return kind, float(match[1]) / 100
