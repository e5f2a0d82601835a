"""What is wrong with the input, in lines for people: the origin of an object and the collector of problems.

Every step of loading adds to one `Problems`; nothing is raised before all files were looked at, so that one run
names everything there is to mend. Never formats a traceback.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

MAX_LINES = 20


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where an object was read: file, document in the file, place in a List (0: not in a List)."""

    file: str
    document: int = 1
    item: int = 0
    from_directory: bool = False

    def __str__(self) -> str:
        item = f", item {self.item}" if self.item else ""
        return f"{self.file}: document {self.document}{item}"


class LoadError(Exception):
    """The input cannot be used; `problems` holds one line for each reason, the text the first twenty of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        more = len(problems) - MAX_LINES
        shown = problems[:MAX_LINES] + ((f"… and {more} more problems",) if more > 0 else ())
        super().__init__("\n".join(shown))
        self.problems = problems


@dataclass(slots=True)
class Problems:
    """Collects errors and warnings of one load, each line once and in order. Owned by the load that made it."""

    _errors: dict[str, None] = field(default_factory=dict)
    _warnings: dict[str, None] = field(default_factory=dict)

    def error(self, where: object, text: str) -> None:
        self._errors[f"{where}: {text}"] = None

    def warn(self, where: object, text: str) -> None:
        self._warnings[f"{where}: {text}"] = None

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def raise_if_any(self) -> None:
        if self._errors:
            raise LoadError(tuple(self._errors))
