"""The extender's place in the framework: what a webhook that takes part in scheduling can be asked.

The HTTP implementation lives in `scheduler.extender`; plugins (preemption) know this protocol only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kube.api.core import Pod
from scheduler.snapshot.pod_info import PodInfo


class ExtenderError(Exception):
    """An extender failed, or said that it did; one line for people."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """The nodes an extender left, and its reasons for the others by node name."""

    feasible: tuple[str, ...]
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]


class Extender(Protocol):
    """One configured extender. Its methods raise on errors; whether these count is `ignorable`."""

    name: str
    ignorable: bool
    weight: int

    def is_interested(self, pod: Pod) -> bool:
        """Whether the pod asks for a resource this extender manages."""

    def filters(self) -> bool:
        """Whether it has a filter verb."""

    def prioritizes(self) -> bool:
        """Whether it has a prioritize verb."""

    def supports_preemption(self) -> bool:
        """Whether it has a preempt verb."""

    def binds(self) -> bool:
        """Whether it has a bind verb."""

    async def filter(self, pod: Pod, node_names: Sequence[str]) -> FilterAnswer:
        """Ask which of the nodes can take the pod."""

    async def prioritize(self, pod: Pod, node_names: Sequence[str]) -> Mapping[str, int]:
        """node name -> 0..10."""

    async def process_preemption(
        self, pod: Pod, victims: Mapping[str, tuple[Sequence[PodInfo], int]]
    ) -> Mapping[str, tuple[Sequence[PodInfo], int]]:
        """node name -> (victims, PDB violations), shrunk."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind the pod."""
