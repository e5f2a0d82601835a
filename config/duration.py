"""Go's duration strings (`15s`, `1m30s`, `0.5h`), the only form in which the configuration file writes a time span.

Whole nanoseconds inside, so nothing is lost between reading and printing. Anybody may import it.
"""

import re
from fractions import Fraction

import msgspec

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_LIMIT = 2**63 - 1


class Duration(msgspec.Struct, frozen=True, order=True):
    """A time span in nanoseconds, as Go's time.Duration."""

    nanoseconds: int = 0

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Read a Go duration; ValueError when it is none."""
        sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if body == "0":
            return cls(0)
        if not _WHOLE.fullmatch(body):
            raise ValueError(f"{text!r} is not a duration such as 15s, 1m30s or 500ms")
        nanoseconds = int(sum(Fraction(number) * _UNITS[unit] for number, unit in _PART.findall(body)))
        if nanoseconds > _LIMIT:
            raise ValueError(f"{text!r} is longer than the longest duration, 2562047h")
        return cls(sign * nanoseconds)

    @classmethod
    def of(cls, seconds: float) -> "Duration":
        """Make a duration from seconds."""
        return cls(round(seconds * 10**9))

    @property
    def seconds(self) -> float:
        """The same span as asyncio wants it."""
        return self.nanoseconds / 10**9

    def __str__(self) -> str:
        """Spell it as Go does: the smallest unit alone below a second, else hours, minutes and seconds."""
        sign, left = ("-", -self.nanoseconds) if self.nanoseconds < 0 else ("", self.nanoseconds)
        if left == 0:
            return "0s"
        for unit in ("ns", "µs", "ms"):
            if left < _UNITS[unit] * 1000:
                return f"{sign}{_decimal(left, _UNITS[unit])}{unit}"
        minutes, rest = divmod(left, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        seconds = f"{_decimal(rest, _UNITS['s'])}s"
        if hours:
            return f"{sign}{hours}h{minutes}m{seconds}"
        return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, rest = divmod(nanoseconds, unit)
    digits = len(str(unit)) - 1
    fraction = f"{rest:0{digits}d}".rstrip("0") if digits else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
