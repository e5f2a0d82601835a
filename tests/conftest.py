"""What holds for the tests of every room."""

import asyncio
import logging
from collections.abc import Iterator

import pytest


def pytest_configure() -> None:
    """There is no event loop yet: looptime asks for one even before synchronous tests, and would leave it unclosed."""
    asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def _the_log_as_it_was() -> Iterator[None]:
    """Commands set up logging for their whole process; the next test is not to live with it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
