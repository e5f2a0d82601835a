"""What commands print: one JSON document on stdout, problems and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec


class UnwritableError(Exception):
    """A file cannot be written; the message is one line."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what writes the file. Raises UnwritableError."""
    try:
        yield
    except OSError as problem:
        raise UnwritableError(f"{path}: cannot be written: {problem.strerror or problem}") from problem


def print_json(document: Any) -> None:
    """One document, indented, to stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def fail(message: object, code: int = 1) -> int:
    """One line (or one per problem) to stderr; returns the exit code."""
    print(message, file=sys.stderr)
    return code
