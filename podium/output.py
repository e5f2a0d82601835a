"""What commands print: one JSON document on stdout, problems and progress on stderr."""

from __future__ import annotations

import sys
from typing import Any

import msgspec


def print_json(document: Any) -> None:
    """One document, indented, to stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def fail(message: object, code: int = 1) -> int:
    """One line (or one per problem) to stderr; returns the exit code."""
    print(message, file=sys.stderr)
    return code
