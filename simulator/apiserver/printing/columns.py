"""What a printer is made of: columns, a function from an object to a row of cells, and how cells spell things.

Pure functions, used by the printers of this room alone. Times are told as ages against `now`, as kubectl users know
them from the real server: short, and coarser the longer ago.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from simulator.apiserver.errors import Object

Row = list[Any]
RowMaker = Callable[[Object, datetime], Row]
UNKNOWN, NONE, UNSET = "<unknown>", "<none>", "<unset>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those of a priority above 0 are shown by `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""

    def definition(self) -> Object:
        """Give the column as a Table declares it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    """How one kind is printed."""

    columns: tuple[Column, ...]
    row: RowMaker


def columns(shown: str, wide: str = "", numbers: str = "") -> tuple[Column, ...]:
    """Make columns from names separated by `|`."""
    whole = set(numbers.split("|"))
    listed = [(name, 0) for name in shown.split("|")] + [(name, 1) for name in wide.split("|") if name]
    return tuple(
        Column(name, "integer" if name in whole else "string", priority, "name" if name == "Name" else "")
        for name, priority in listed
    )


# --- times ---------------------------------------------------------------------------------------------------------


def parse_time(text: str | None) -> datetime | None:
    """Read a time of an object."""
    return datetime.fromisoformat(text) if text else None


def age(text: str | None, now: datetime) -> str:
    """Tell how long ago a time was; `<unknown>` for none."""
    moment = parse_time(text)
    return UNKNOWN if moment is None else duration((now - moment).total_seconds())


def created(obj: Object, now: datetime) -> str:
    """Tell the age of an object."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def duration(seconds: float) -> str:
    """Spell a length of time: two units where the first is small, one where it is large."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    for limit, unit, name, part, part_name in (
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if whole < limit:
            rest = whole % unit // part if part else 0
            return f"{whole // unit}{name}" + (f"{rest}{part_name}" if rest else "")
    return f"{whole // _YEAR}y"


# --- texts ---------------------------------------------------------------------------------------------------------


def joined(words: Iterable[str], nothing: str = NONE) -> str:
    """Join words by commas."""
    return ",".join(words) or nothing


def pairs(labels: Mapping[str, str] | None) -> str:
    """Spell a map of labels in the order of its keys."""
    return joined(f"{key}={value}" for key, value in sorted((labels or {}).items()))


_OPERATORS = {"In": "in", "NotIn": "notin"}


def selector(given: Object | None) -> str:
    """Spell a LabelSelector as on a command line."""
    if given is None:
        return NONE
    parts = [(key, f"{key}={value}") for key, value in (given.get("matchLabels") or {}).items()]
    for term in given.get("matchExpressions") or ():
        key, operator = term["key"], term["operator"]
        values = ",".join(sorted(term.get("values") or ()))
        spelled = {"Exists": key, "DoesNotExist": f"!{key}"}
        parts.append((key, spelled.get(operator) or f"{key} {_OPERATORS.get(operator, operator)} ({values})"))
    return joined(text for _, text in sorted(parts))


def template_columns(template: Object | None) -> tuple[str, str]:
    """Give the names and the images of a template's containers."""
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return ",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)


_ACCESS_MODES = (
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
)


def access_modes(modes: Iterable[str] | None) -> str:
    """Abbreviate access modes, each once."""
    given = set(modes or ())
    return ",".join(short for name, short in _ACCESS_MODES if name in given)
