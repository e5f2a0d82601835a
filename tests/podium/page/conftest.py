from collections.abc import AsyncIterator, Iterator

import pytest

from tests.fixtures_apiserver import api_server, http  # noqa: F401
from tests.podium.page.chromium import HINT, Browser, Tab, find


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests; they are skipped where there is none."""
    program = find()
    if program is None:
        pytest.skip(HINT)
    with Browser(program, tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
async def tab(browser: Browser) -> AsyncIterator[Tab]:
    """A tab in which nothing may go wrong."""
    async with Tab.open(browser) as opened:
        yield opened
        assert opened.problems == []
