"""Chaos in a line: a list of what goes wrong and how often, for `podium cluster --chaos` and for tests under faults.

    errors=2%,latency=50ms,watch-cuts=5%        or nothing at all: a little of everything
    throttles=100%:create:/binding:x3           the next three bindings
    nodes=30s,relists=60s                       about that often, all the time

A share is the chance that a request meets the fault; a time is how long one may take at most, or how often something
happens. Behind it, in any order, may stand a verb, a path (a regular expression, looked for in path and query) and a
count. What happens is drawn from the seed of the server's `Faults`, in the order the requests come in.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from simulator.apiserver.faults import (
    Answer,
    Cut,
    Effect,
    Faults,
    Hang,
    Latency,
    WatchCut,
    WatchDelay,
    WatchEnd,
    WatchExpired,
    WatchGarbage,
    WatchSilent,
)

DEFAULT = (
    "latency=20ms,errors=1%,throttles=1%,pages=0.5%,cuts=0.5%,lost=0.5%,watch-ends=2%,watch-cuts=2%,watch-expired=2%,"
    "nodes=30s"
)
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_LINES = 20  # of a watch that come through before it is struck
_NO_WATCH = r"(?!.*[?&]watch=)"
_CONTINUED = r"(?=.*[?&]continue=)"
_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_COUNT = re.compile(r"x(\d+)")
Measure = Literal["share", "time", "interval"]
_EXAMPLES: dict[Measure, str] = {
    "share": "a share of the requests such as 2%",
    "time": "a time such as 50ms or 2s",
    "interval": "an interval such as 30s",
}


def _nothing(_: float) -> Effect:
    return Effect()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault: what it does, and to which requests."""

    effect: Callable[[float], Effect]
    about: str
    verb: str = ""
    path: str = ""
    measure: Measure = "share"
    """A share strikes by chance; a time strikes every request; an interval is no fault of a request at all."""


KINDS: dict[str, Kind] = {
    "latency": Kind(lambda seconds: Latency(0.0, seconds), "answers take up to this long", measure="time"),
    "errors": Kind(lambda _: Answer(500), "500 InternalError", path=_NO_WATCH),
    "throttles": Kind(lambda _: Answer(429, retry_after=1), "429 TooManyRequests with Retry-After", path=_NO_WATCH),
    "pages": Kind(lambda _: Answer(503, html=True), "503 with the HTML page of a proxy", path=_NO_WATCH),
    "hangs": Kind(lambda _: Hang(), "a request is taken and never answered", path=_NO_WATCH),
    "cuts": Kind(lambda _: Cut(), "the connection is cut before a request is carried out", path=_NO_WATCH),
    "lost": Kind(lambda _: Cut(applied=True), "a request is carried out, and its answer lost", path=_NO_WATCH),
    "expired-tokens": Kind(lambda _: Answer(410), "a list cannot be continued: 410", verb="list", path=_CONTINUED),
    "watch-ends": Kind(lambda _: WatchEnd(_LINES), "a watch ends in good order", verb="watch"),
    "watch-cuts": Kind(lambda _: WatchCut(_LINES, mid_line=True), "a watch is cut in the middle of a line", "watch"),
    "watch-expired": Kind(lambda _: WatchExpired(_LINES), "a watch says 410, so that its client lists again", "watch"),
    "watch-garbage": Kind(lambda _: WatchGarbage(_LINES), "a watch sends a line that is no JSON", verb="watch"),
    "watch-silent": Kind(lambda _: WatchSilent(_LINES), "a watch falls silent and stays open", verb="watch"),
    "watch-delay": Kind(WatchDelay, "watches lag by this much: out of order with others", "watch", measure="time"),
    "relists": Kind(_nothing, "all watches break and the past is forgotten: all list again", measure="interval"),
    "nodes": Kind(_nothing, "a node falls silent, and comes back later", measure="interval"),
}


class ChaosError(ValueError):
    """A word of the line that is not understood; one line that says what was expected."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the line: how much of what, and for which requests."""

    kind: Kind
    amount: float
    verb: str = ""
    path: str = ""
    count: int | None = None

    def enforce(self, faults: Faults) -> None:
        """Put it in force."""
        pattern = f"^{self.kind.path}.*(?:{self.path})"
        verb = self.verb or self.kind.verb
        chance = self.amount if self.kind.measure == "share" else 1.0
        effect = self.kind.effect(self.amount)
        faults.add(effect, path=pattern, verb=verb, count=self.count, probability=chance)


def unleash(faults: Faults, text: str = "") -> dict[str, float]:
    """Put faults in force until they are cleared; raises a ChaosError.

    Gives, by kind, how often what is no fault of a request is to happen, in seconds: that is for others to carry out.
    """
    words = [(part.strip().partition("=")[0], parse(part.strip())) for part in (text or DEFAULT).split(",")]
    for _, word in words:
        if word.kind.measure != "interval":
            word.enforce(faults)
    return {name: word.amount for name, word in words if word.kind.measure == "interval"}


def check(text: str) -> None:
    """Raise a ChaosError for a line that is not understood."""
    unleash(Faults(), text)


def explained() -> str:
    """Tell what may stand in a line, a kind a line."""
    units: dict[Measure, str] = {"share": "2%", "time": "50ms", "interval": "30s"}
    return "\n".join(f"  {f'{name}={units[kind.measure]}':<19} {kind.about}" for name, kind in KINDS.items())


def parse(text: str) -> Word:
    """Read one word; raises a ChaosError."""
    name, _, rest = text.partition("=")
    kind = KINDS.get(name)
    if kind is None:
        raise ChaosError(f"chaos: {name!r} is not one of {', '.join(KINDS)}")
    amount, *filters = rest.split(":")
    word = Word(kind, _amount(name, kind.measure, amount))
    for one in filters:
        if kind.measure == "interval":
            raise ChaosError(f"chaos: {name}: happens to the whole cluster, so {one!r} says nothing here")
        word = _narrowed(name, word, one)
    return word


def _amount(name: str, measure: Measure, text: str) -> float:
    match = (_SHARE if measure == "share" else _TIME).fullmatch(text)
    if (
        match is None
        or (measure == "share" and float(match[1]) > 100)
        or (measure == "interval" and not float(match[1]))
    ):
        raise ChaosError(f"chaos: {name}: {_EXAMPLES[measure]} is expected, got {text!r}")
    if measure == "share":
        return float(match[1]) / 100
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


def _narrowed(name: str, word: Word, text: str) -> Word:
    if match := _COUNT.fullmatch(text):
        return replace(word, count=int(match[1]))
    if text.startswith("/"):
        try:
            re.compile(text)
        except re.error as error:
            raise ChaosError(f"chaos: {name}: {text!r} is no regular expression: {error}") from None
        return replace(word, path=text)
    if text in VERBS and word.kind.verb in ("", text):
        return replace(word, verb=text)
    choices = word.kind.verb or ", ".join(VERBS)
    raise ChaosError(f"chaos: {name}: a verb ({choices}), a /path or a count such as x3 is expected, got {text!r}")
