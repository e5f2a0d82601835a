"""What can be wrong with a configuration: one finding per fault, with the place in the file it speaks of.

Validation and decoding make findings (a path and a sentence); `load` turns them into problems by adding the file and
the line. Every room may catch `ConfigError` and print it. Nothing here decides what is right or wrong.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

Path = tuple[str | int, ...]


class Finding(NamedTuple):
    """A fault at a path of the document, not yet tied to a file."""

    path: Path
    message: str


class Problem(msgspec.Struct, frozen=True):
    """One line for a person: where in which file, and what was expected there."""

    file: str
    message: str
    path: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.path, self.message) if part)


class ConfigError(Exception):
    """A configuration that cannot be used; carries every problem found, never only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def render(path: Path) -> str:
    """Write a path the way Kubernetes does: `profiles[1].plugins.score`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def invalid(path: Path, value: Any, why: str) -> Finding:
    """Report a value that is of the right type but out of its rules."""
    return Finding(path, f"Invalid value: {_show(value)}: {why}")


def required(path: Path, what: str) -> Finding:
    """Report a missing value."""
    return Finding(path, f"Required value: {what}")


def duplicate(path: Path, value: Any) -> Finding:
    """Report a value that may appear once only."""
    return Finding(path, f"Duplicate value: {_show(value)}")


def forbidden(path: Path, why: str) -> Finding:
    """Report a field that may not be set here."""
    return Finding(path, f"Forbidden: {why}")


def unsupported(path: Path, value: Any, supported: Iterable[str]) -> Finding:
    """Report a value outside a closed list."""
    known = ", ".join(f'"{name}"' for name in supported)
    return Finding(path, f"Unsupported value: {_show(value)}: supported values: {known}")


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return f'"{value}"'
