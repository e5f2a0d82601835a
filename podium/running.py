"""What `run` and `demo` share: an event loop, a service on it, and expected failures as one line."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kube.client.auth import CredentialsError
from kube.client.errors import ApiError
from kube.client.leader_election import LeadershipLost
from podium.http import PortError
from podium.output import UnwritableError, fail
from podium.serving.certificates import CertificateError


class UnusableServerError(Exception):
    """The API server cannot be reached, or refuses us, at start; the message is one line."""


EXPECTED = (
    UnusableServerError, PortError, CertificateError, CredentialsError, LeadershipLost, ApiError, UnwritableError,
)  # fmt: skip
#: what the command line or a file got wrong
BAD_INPUT = (CredentialsError, CertificateError)


def run_loop(main: Coroutine[Any, Any, int], *, fast: bool = True) -> int:
    """Run on uvloop where it is installed; failures that an operator can act on become one line and exit code 1."""
    try:
        with asyncio.Runner(loop_factory=loop_factory() if fast else None) as runner:
            return runner.run(main)
    except EXPECTED as problem:
        return fail(problem, 2 if isinstance(problem, BAD_INPUT) else 1)
    except BaseExceptionGroup as group:
        expected, rest = group.split(EXPECTED)
        if rest is not None or expected is None:
            raise
        for leaf in _leaves(expected):
            fail(leaf)
        return 1


def loop_factory() -> Any:
    """uvloop's, or None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves
