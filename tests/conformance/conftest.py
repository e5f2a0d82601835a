"""Fixtures of the conformance tests: one real control plane for the session, its admin, podium's own rights, and the
figures that tests want to be read at the end of the run."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conformance.api import Api
from tests.conformance.find import Binaries, NotFoundError, require
from tests.conformance.manifests import apply_rbac
from tests.conformance.start import ADMIN, ControlPlane


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """Skips with the one clear line where there are none; `make conformance` sees to it that there are."""
    try:
        return require()
    except NotFoundError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Shared by all tests: each works in namespaces and nodes of its own, and leaves the servers running."""
    async with ControlPlane(binaries) as plane:
        yield plane


@pytest_asyncio.fixture
async def own_control_plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """For one test that stops servers or needs an empty cluster; about five seconds."""
    async with ControlPlane(binaries) as plane:
        yield plane


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Path:
    """A kubeconfig that may do everything."""
    return control_plane.kubeconfig(ADMIN)


@pytest_asyncio.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """The admin's bare client."""
    async with control_plane.api() as client:
        yield client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def podium_kubeconfig(control_plane: ControlPlane) -> Path:
    """A kubeconfig of the ServiceAccount in deploy/, with exactly the rights given there."""
    return await apply_rbac(control_plane)


class Figures:
    """Lines for people, printed below the tests' results; owner: the session."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line)


_FIGURES = pytest.StashKey[Figures]()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Figures:
    return pytestconfig.stash.setdefault(_FIGURES, Figures())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash.get(_FIGURES, None)
    if figures is not None and figures.lines:
        terminalreporter.section("figures")
        for line in figures.lines:
            terminalreporter.write_line(line)
