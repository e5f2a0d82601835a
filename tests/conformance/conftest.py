"""Fixtures of the conformance tests: one real control plane for the session, its admin, and podium's own rights."""

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
