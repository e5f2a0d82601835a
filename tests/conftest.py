"""What holds for the tests of every room."""

import asyncio


def pytest_configure() -> None:
    """There is no event loop yet: looptime asks for one even before synchronous tests, and would leave it unclosed."""
    asyncio.set_event_loop(None)
