"""Replay: decide a recording again, decision by decision, each on the state that it was made on.

The state follows the recording: a pod goes where it went, whatever is decided now, so that one difference does not
bring about the next. The same recording, configuration and seed make the same answer.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from config.load import loads
from kube.api.codec import DecodeError, convert
from kube.api.core import Node, Pod
from kube.api.resources import by_kind, by_type
from plugins.registry import Registry
from podium.configuration import Effective
from podium.recording import PATTERN, VERSION
from podium.what_if.recorded_extenders import RecordedExtenders, Saying
from scheduler.event_handlers import EventHandlers
from scheduler.extender_cycle import schedule_pod_with_extenders
from scheduler.framework.runtime import Framework
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.pod_info import PodInfo, uid_of
from simulator.load import ClusterObjects, LoadError
from simulator.offline import Simulation


class _Line(msgspec.Struct):
    k: str
    t: float
    v: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Redecided:
    """One decision, then and now. Nodes are "" where there is none."""

    time: float
    pod: str
    attempt: int
    #: "same", "tie" (another node that is as good), "different" or "skipped"
    outcome: str
    before: str
    after: str
    nominated_before: str
    nominated_after: str
    victims_before: tuple[str, ...]
    victims_after: tuple[str, ...]
    message_before: str
    message_after: str
    #: what is now thought of the node of then, and of the node of now
    score_before: int | None = None
    score_after: int | None = None


@dataclass(slots=True)
class Summary:
    """How a replay went."""

    segments: int = 0
    #: questions to extenders that nobody had asked when it was recorded
    unanswered: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def decisions(self) -> int:
        """All of them."""
        return sum(self.outcomes.values())


def segments_of(directory: str) -> list[Path]:
    """The segments, the oldest first. Raises LoadError."""
    found = sorted(Path(directory).glob(PATTERN))
    if not found:
        raise LoadError((f"{directory}: no recording in there (expected {PATTERN})",))
    return found


class Replay:
    """Owner: the command. `effective` None: under the configuration that was recorded."""

    def __init__(self, effective: Effective | None, seed: int = 0) -> None:
        self._effective = effective
        self._seed = seed
        self.summary = Summary()

    def run(self, paths: Iterable[Path]) -> Iterator[Redecided]:
        """Every decision of these segments. Raises LoadError."""
        for path in paths:
            self.summary.segments += 1
            for redecided in self._segment(path):
                self.summary.outcomes[redecided.outcome] += 1
                yield redecided

    def _segment(self, path: Path) -> Iterator[Redecided]:
        lines = _lines(path)
        head = next(lines, None)
        if head is None or head.k != "segment":
            raise LoadError((f"{path}: not a segment of a recording",))
        effective = self._effective or _recorded(path, msgspec.json.decode(head.v))
        extenders = RecordedExtenders(effective.value)
        state: _State | None = None
        before: list[_Line] = []
        with closing(extenders):
            for line in lines:
                if line.k == "begin":
                    state = _State(effective, self._seed, before, extenders)
                elif state is None:
                    before.append(line)
                elif line.k == "decision":
                    yield state.decide(line.t, msgspec.json.decode(line.v))
                elif line.k == "extender":
                    extenders.hear(msgspec.json.decode(line.v, type=Saying))
                else:
                    state.apply(line)
            self.summary.unanswered += extenders.unanswered


def _lines(path: Path) -> Iterator[_Line]:
    """A segment whose writer was killed ends in the middle: what is there counts."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        with gzip.open(path, "rb") as file:
            for text in file:
                yield decoder.decode(text)
    except (EOFError, zlib.error, msgspec.DecodeError):
        return
    except OSError as problem:
        raise LoadError((f"{path}: cannot be read: {problem}",)) from problem


def _recorded(path: Path, head: dict[str, Any]) -> Effective:
    if head.get("recording") != VERSION:
        raise LoadError((f"{path}: a recording of version {head.get('recording')}, expected {VERSION}",))
    registry = Registry()
    configuration = loads(msgspec.json.encode(head["configuration"]).decode()).configuration
    return Effective(configuration, head["gates"], registry)


class _State:
    """The scheduler's state at one moment of the recording. Owner: the replay of a segment."""

    def __init__(self, effective: Effective, seed: int, lines: Iterable[_Line], extenders: RecordedExtenders) -> None:
        objects, assumed, nominated = _known(lines)
        self._extenders = extenders
        self._simulation = Simulation(
            objects,
            effective.value,
            effective.registry,
            effective.gates,
            seed=seed,
            any_scheduler_name=False,
            extenders=extenders,
        )
        self._time = 0.0
        frameworks = self._simulation.frameworks
        for framework in frameworks.values():
            framework.handle.now = lambda: self._time
        queue = self._simulation.queue()
        self._handlers = EventHandlers(self._simulation.cache, queue, WaitingPods(), frameworks.keys())
        self._pods = self._simulation.listers("Pod").indexer
        #: uid -> the attempt by which an assumed pod was reserved
        self._reserved: dict[str, tuple[Attempt, Pod, str]] = {}
        by_uid = {uid_of(pod): pod for pod in objects.pods}
        for uid, node in assumed:
            if uid in by_uid:
                self._simulation.cache.assume_pod(self._info(by_uid[uid]).on_node(node), node)
        for uid, node in nominated:
            if uid in by_uid:
                self._simulation.nominator.add(self._info(by_uid[uid]), node)

    def _info(self, pod: Pod) -> PodInfo:
        return self._simulation.snapshot.shapes.pod_info(pod)

    # --- what came in -------------------------------------------------------------------------------------

    def apply(self, line: _Line) -> None:
        """An event, as the informers told it."""
        self._time = line.t
        if line.k == "forget":
            self._forget(msgspec.json.decode(line.v))
            return
        obj = _object(line.v)
        if obj is None:
            return
        indexer = self._simulation.listers(by_type(type(obj)).listed_as).indexer
        old = indexer.get(obj.key if obj.metadata.namespace else obj.metadata.name)
        if line.k == "delete":
            indexer.delete(obj.key if obj.metadata.namespace else obj.metadata.name)
            self._tell_deleted(old if old is not None else obj)
        else:
            indexer.add(obj)
            self._tell(old, obj)

    def _tell(self, old: Any, new: Any) -> None:
        handlers = self._handlers
        if isinstance(new, Pod):
            handlers.add_pod(new) if old is None else handlers.update_pod(old, new)
            if new.spec.node_name:
                self._reserved.pop(uid_of(new), None)
        elif isinstance(new, Node):
            handlers.add_node(new) if old is None else handlers.update_node(old, new)

    def _tell_deleted(self, old: Any) -> None:
        if isinstance(old, Pod):
            self._handlers.delete_pod(old, final_state_unknown=False)
            self._unreserve(uid_of(old))
        elif isinstance(old, Node):
            self._handlers.delete_node(old, final_state_unknown=False)

    def _forget(self, uid: str) -> None:
        state = self._simulation.cache.pods.get(uid)
        if state is not None:
            self._simulation.cache.forget_pod(state.info)
        self._unreserve(uid)

    def _unreserve(self, uid: str) -> None:
        reserved = self._reserved.pop(uid, None)
        if reserved is not None:
            attempt, pod, node = reserved
            framework = self._simulation.frameworks.get(pod.spec.scheduler_name)
            if framework is not None:
                framework.run_unreserve(attempt.state, pod, node)

    # --- what was decided ---------------------------------------------------------------------------------

    def decide(self, moment: float, then: dict[str, Any]) -> Redecided:
        """Decide again, compare, and go on as it went."""
        self._time = moment
        pod: Pod | None = self._pods.get_by(then["namespace"], then["name"])
        framework = self._simulation.frameworks.get(pod.spec.scheduler_name) if pod is not None else None
        if pod is None or framework is None or uid_of(pod) != then["uid"]:
            why = "no profile of that name now" if pod is not None and framework is None else "the pod is gone"
            return _redecided(moment, then, "skipped", _Now(message=why))
        info = self._info(pod)
        if info.uid in self._simulation.cache.pods:
            self._forget(info.uid)
        attempt = self._attempt(framework, info)
        redecided = _compare(moment, then, attempt, self._priorities)
        self._follow(then, info, attempt)
        return redecided

    def _attempt(self, framework: Framework, info: PodInfo) -> Attempt:
        percentage = self._simulation.percentage_of(framework.profile)
        asked = framework.interested_extenders(info.pod)
        if not asked:
            return schedule_pod(framework, info, percentage)
        attempt = self._extenders.ask(schedule_pod_with_extenders(framework, info, asked, percentage))
        self._extenders.forget(info.uid)
        return attempt

    def _priorities(self, victims: Iterable[str]) -> list[int]:
        pods = [self._pods.get(key) for key in victims]
        return sorted((pod.spec.priority or 0) if pod is not None else 0 for pod in pods)

    def _follow(self, then: dict[str, Any], info: PodInfo, attempt: Attempt) -> None:
        simulation, node = self._simulation, then["node"]
        if node:
            assumed = info.on_node(node)
            simulation.cache.assume_pod(assumed, node)
            simulation.nominator.delete(info.uid)
            framework = simulation.frameworks[info.pod.spec.scheduler_name]
            if framework.run_reserve(attempt.state, assumed.pod, node) is None:
                self._reserved[info.uid] = attempt, assumed.pod, node
        elif then["nominated_node"]:
            simulation.nominator.add(info, then["nominated_node"])


def _known(lines: Iterable[_Line]) -> tuple[ClusterObjects, list[list[str]], list[list[str]]]:
    nodes: list[Node] = []
    pods: list[Pod] = []
    others: dict[str, list[Any]] = {}
    pairs: dict[str, list[list[str]]] = {"assumed": [], "nominated": []}
    for line in lines:
        if line.k in pairs:
            pairs[line.k].append(msgspec.json.decode(line.v, type=list[str]))
            continue
        obj = _object(line.v)
        if isinstance(obj, Pod):
            pods.append(obj)
        elif isinstance(obj, Node):
            nodes.append(obj)
        elif obj is not None:
            others.setdefault(by_type(type(obj)).listed_as, []).append(obj)
    frozen = {kind: tuple(items) for kind, items in others.items()}
    return ClusterObjects(tuple(nodes), tuple(pods), frozen), pairs["assumed"], pairs["nominated"]


def _object(raw: msgspec.Raw) -> Any:
    """The typed object; None for kinds that are not known any more."""
    body = msgspec.json.decode(raw)
    known = by_kind(body.get("apiVersion", ""), body.get("kind", "")) if isinstance(body, dict) else None
    try:
        return convert(body, known.type) if known is not None else None
    except DecodeError:
        return None


# --- comparing --------------------------------------------------------------------------------------------------------


def _compare(
    moment: float, then: dict[str, Any], attempt: Attempt, priorities: Callable[[Iterable[str]], list[int]]
) -> Redecided:
    now = _Now.of(attempt)
    scores = _totals(attempt)
    before, after = then["node"], attempt.node_name
    if before or after:
        as_good = bool(before and after) and scores.get(before) == max(scores.values(), default=None)
        outcome = "same" if before == after else "tie" if as_good else "different"
    elif (now.nominated, sorted(now.victims)) == (then["nominated_node"], sorted(then["victims"])):
        outcome = "same"
    else:
        # Victims on another node that are as many and as important cost the same.
        both = now.nominated and then["nominated_node"]
        outcome = "tie" if both and priorities(now.victims) == priorities(then["victims"]) else "different"
    return _redecided(moment, then, outcome, now, (scores.get(before), scores.get(after)))


def _totals(attempt: Attempt) -> dict[str, int]:
    if attempt.scores is None:
        return {}
    return {info.name: int(attempt.scores.total[i]) for i, info in attempt.scores.view.infos()}


@dataclass(frozen=True, slots=True)
class _Now:
    """What is decided now."""

    node: str = ""
    nominated: str = ""
    victims: tuple[str, ...] = ()
    message: str = ""

    @classmethod
    def of(cls, attempt: Attempt) -> _Now:
        """The outcome of an attempt."""
        post = attempt.post_filter
        if post is None:
            return cls(attempt.node_name, message=attempt.message())
        victims = tuple(victim.key for victim in post.victims)
        return cls(attempt.node_name, post.nominated_node_name or "", victims, attempt.message())


def _redecided(
    moment: float, then: dict[str, Any], outcome: str, now: _Now, scores: tuple[int | None, int | None] = (None, None)
) -> Redecided:
    return Redecided(
        time=moment,
        pod=f"{then['namespace']}/{then['name']}",
        attempt=then["attempt"],
        outcome=outcome,
        before=then["node"],
        after=now.node,
        nominated_before=then["nominated_node"],
        nominated_after=now.nominated,
        victims_before=tuple(then["victims"]),
        victims_after=now.victims,
        message_before=then["message"],
        message_after=now.message,
        score_before=scores[0],
        score_after=scores[1],
    )
