"""`cluster`: an embedded cluster in virtual time that nobody reaches from outside, with a scheduler of one line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simulator.cluster import Cluster, NodeSettings
from simulator.controllers.manager import Settings
from tests.simulator.virtual import AnyNodeScheduler, virtual_clock

Object = dict[str, Any]


@pytest.fixture
def settings() -> Settings:
    """How the controllers are set; a module may have its own."""
    return Settings(events=False)


@pytest.fixture
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """Controllers, kubelets and store; pods start after two seconds and stop after one."""
    nodes = NodeSettings(start_delay=2.0, stop_delay=1.0, heartbeat=10.0)
    made = Cluster(clock=virtual_clock(), nodes=nodes, controllers=settings)
    await made.start(listen=False)
    scheduler = AnyNodeScheduler(made.server)
    scheduler.start()
    yield made
    scheduler.stop()
    await made.stop()
    assert made.controllers.failures == 0
    await asyncio.sleep(0)
