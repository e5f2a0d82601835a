"""Extenders in recordings: what they answered is written down, and given again when the decision is replayed.

Only what an extender took away, or added to a score, is kept, by node name. Nodes that it was not asked about then have
nothing against them now: a replay under another configuration may look at other nodes.

`Heard` is put around the extenders of a running podium by the recorder; `RecordedExtenders` belongs to a replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from config.types import Configuration
from config.types import Extender as ExtenderConfig
from kube.api.core import Pod
from podium.what_if.extenders import SimulatedObjects
from scheduler.extender import HTTPExtender, in_order
from scheduler.framework.extender import Extender, ExtenderError, FilterAnswer
from scheduler.snapshot.pod_info import PodInfo, uid_of
from scheduler.snapshot.snapshot import Snapshot

T = TypeVar("T")
Victims = Mapping[str, tuple[Sequence[PodInfo], int]]


class Saying(msgspec.Struct):
    """One answer of one extender about one pod."""

    extender: str
    uid: str
    #: filter, prioritize or preempt
    verb: str
    error: str = ""
    #: nodes that it took away; with the reason, where it gave one
    gone: dict[str, str] = {}
    #: those of them that no eviction can mend
    final: list[str] = []
    scores: dict[str, int] = {}
    #: node -> UIDs of the victims, PDB violations
    victims: dict[str, tuple[list[str], int]] = {}


class Heard:
    """An extender whose answers somebody else hears, too. Implements `Extender`."""

    def __init__(self, extender: Extender, hear: Callable[[Saying], None]) -> None:
        self.inner = extender
        self._hear = hear
        self.name = extender.name
        self.ignorable = extender.ignorable
        self.weight = extender.weight
        self.is_interested = extender.is_interested
        self.filters = extender.filters
        self.prioritizes = extender.prioritizes
        self.supports_preemption = extender.supports_preemption
        self.binds = extender.binds
        self.bind = extender.bind

    async def filter(self, pod: Pod, node_names: Sequence[str]) -> FilterAnswer:
        """See Extender."""
        saying = Saying(self.name, uid_of(pod), "filter")
        answer = await self._heard(saying, self.inner.filter(pod, node_names))
        left = set(answer.feasible)
        reasons = {**answer.failed, **answer.failed_and_unresolvable}
        saying.gone = {name: reasons.get(name, "") for name in node_names if name not in left}
        saying.final = [name for name in saying.gone if name in answer.failed_and_unresolvable]
        self._hear(saying)
        return answer

    async def prioritize(self, pod: Pod, node_names: Sequence[str]) -> Mapping[str, int]:
        """See Extender."""
        saying = Saying(self.name, uid_of(pod), "prioritize")
        answer = await self._heard(saying, self.inner.prioritize(pod, node_names))
        saying.scores = {name: score for name, score in answer.items() if score}
        self._hear(saying)
        return answer

    async def process_preemption(self, pod: Pod, victims: Victims) -> Victims:
        """See Extender."""
        saying = Saying(self.name, uid_of(pod), "preempt")
        answer = await self._heard(saying, self.inner.process_preemption(pod, victims))
        saying.gone = {name: "" for name in victims if name not in answer}
        saying.victims = {name: ([pod.uid for pod in pods], count) for name, (pods, count) in answer.items()}
        self._hear(saying)
        return answer

    async def _heard(self, saying: Saying, asking: Coroutine[Any, Any, T]) -> T:
        try:
            return await asking
        except ExtenderError as failure:
            saying.error = str(failure)
            self._hear(saying)
            raise


class RecordedExtenders:
    """The extenders of a configuration, who say what they said then. Use as a context manager; owner: the replay."""

    def __init__(self, configuration: Configuration) -> None:
        self._configs = configuration.extenders
        self._runner = asyncio.Runner()
        self._said: dict[tuple[str, str, str], Saying] = {}
        #: questions that nobody asked then
        self.unanswered = 0

    def close(self) -> None:
        """The end."""
        self._runner.close()

    def hear(self, saying: Saying) -> None:
        """A line of the recording; the latest answer counts."""
        self._said[saying.extender, saying.uid, saying.verb] = saying

    def forget(self, uid: str) -> None:
        """The decision is made."""
        for key in [key for key in self._said if key[1] == uid]:
            del self._said[key]

    def answer(self, extender: str, pod: Pod, verb: str) -> Saying:
        """What was said then; nothing against anything, where nothing was."""
        saying = self._said.get((extender, uid_of(pod), verb))
        if saying is None:
            self.unanswered += 1
            return Saying(extender, uid_of(pod), verb)
        if saying.error:
            raise ExtenderError(saying.error)
        return saying

    def of(self, snapshot: Snapshot) -> Sequence[Extender]:
        """See `simulator.offline.Extenders`."""
        objects = SimulatedObjects(snapshot)
        by_wire = in_order(HTTPExtender(config, _nowhere(config), objects, snapshot) for config in self._configs)
        return tuple(_Recorded(extender, self, snapshot) for extender in by_wire)

    def ask(self, cycle: Coroutine[Any, Any, T]) -> T:
        """See `simulator.offline.Extenders`."""
        return self._runner.run(cycle)


def _nowhere(config: ExtenderConfig) -> Callable[[str, bytes], Coroutine[Any, Any, bytes]]:
    async def post(url: str, body: bytes) -> bytes:
        raise ExtenderError(f"extender {url} is not asked in a replay")

    return post


class _Recorded(Heard):
    """One extender of a replay."""

    def __init__(self, extender: Extender, recorded: RecordedExtenders, snapshot: Snapshot) -> None:
        super().__init__(extender, lambda saying: None)
        self._recorded = recorded
        self._snapshot = snapshot

    async def filter(self, pod: Pod, node_names: Sequence[str]) -> FilterAnswer:
        """See Extender."""
        saying = self._recorded.answer(self.name, pod, "filter")
        gone, final = saying.gone, set(saying.final)
        return FilterAnswer(
            tuple(name for name in node_names if name not in gone),
            {name: why for name, why in gone.items() if why and name not in final},
            {name: why for name, why in gone.items() if name in final},
        )

    async def prioritize(self, pod: Pod, node_names: Sequence[str]) -> Mapping[str, int]:
        """See Extender."""
        return self._recorded.answer(self.name, pod, "prioritize").scores

    async def process_preemption(self, pod: Pod, victims: Victims) -> Victims:
        """See Extender."""
        saying = self._recorded.answer(self.name, pod, "preempt")
        return {
            name: self._victims(name, saying.victims[name]) if name in saying.victims else each
            for name, each in victims.items()
            if name not in saying.gone
        }

    def _victims(self, node_name: str, told: tuple[list[str], int]) -> tuple[Sequence[PodInfo], int]:
        """Other victims on the node than ours, where they are still there."""
        info = self._snapshot.info(node_name)
        pods = info.pods if info is not None else {}
        return [pods[uid] for uid in told[0] if uid in pods], told[1]
