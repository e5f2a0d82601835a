"""HTTP extenders in offline questions: asked over the wire, about objects that never were on any server.

A simulation has no event loop of its own; the one here runs while an extender is asked, and at no other time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from config.types import Configuration
from kube.api import codec
from kube.api.core import Node, Pod
from podium.extender_transport import ExtenderTransport
from scheduler.extender import HTTPExtender, in_order
from scheduler.framework.extender import Extender
from scheduler.snapshot.snapshot import Snapshot

T = TypeVar("T")


class OfflineExtenders:
    """The extenders of a configuration. Use as a context manager; owner: the command."""

    def __init__(self, configuration: Configuration) -> None:
        self._configs = configuration.extenders
        self._transport = ExtenderTransport()
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._configs:
            self._runner.run(self._transport.close())
        self._runner.close()

    def of(self, snapshot: Snapshot) -> Sequence[Extender]:
        """The extenders, for a simulation's snapshot."""
        objects = SimulatedObjects(snapshot)
        return in_order(
            HTTPExtender(config, self._transport.post(config), objects, snapshot) for config in self._configs
        )

    def ask(self, cycle: Coroutine[Any, Any, T]) -> T:
        """Run a cycle that awaits extenders to its end."""
        return self._runner.run(cycle)


class SimulatedObjects:
    """Implements `scheduler.extender.CompleteObjects`: as complete as the files were read."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes: dict[str, tuple[Node, msgspec.Raw]] = {}

    async def pod(self, pod: Pod) -> msgspec.Raw:
        """The pod."""
        return msgspec.Raw(codec.encode(pod))

    async def nodes(self, names: Sequence[str]) -> list[msgspec.Raw]:
        """These nodes, in this order."""
        return [self._node(info.node) for name in names if (info := self._snapshot.info(name)) and info.node]

    def _node(self, node: Node) -> msgspec.Raw:
        kept = self._nodes.get(node.metadata.name)
        if kept is None or kept[0] is not node:
            kept = self._nodes[node.metadata.name] = (node, msgspec.Raw(codec.encode(node)))
        return kept[1]
