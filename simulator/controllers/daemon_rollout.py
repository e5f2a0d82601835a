"""Which pods of a DaemonSet an update replaces next: pure functions over its pods by node.

maxUnavailable   old pods go, so many at a time; a new one comes where none is left
maxSurge         new pods come beside old ones, so many at a time; an old one goes once its successor is available
"""

from dataclasses import dataclass

from simulator.apiserver.errors import Object
from simulator.controllers.pods import is_available, is_terminating
from simulator.controllers.revisions import HASH_LABEL
from simulator.controllers.rolling_update import share


@dataclass(frozen=True, slots=True)
class Rollout:
    """What decides: the update strategy, the hash of the present template, and when a pod counts as available."""

    strategy: Object
    mark: str
    min_ready_seconds: int
    now: float

    @property
    def surging(self) -> bool:
        """Whether a node may have an old and a new pod at once."""
        return self.limit("maxSurge", 0, 100) > 0

    def limit(self, name: str, default: int, nodes: int) -> int:
        """A limit of the rolling update in pods."""
        if self.strategy["type"] != "RollingUpdate":
            return 0
        return share((self.strategy.get("rollingUpdate") or {}).get(name, default), nodes, up=True)

    def is_new(self, pod: Object) -> bool:
        """Whether a pod has the present template."""
        return hash_of(pod) == self.mark

    def is_up(self, pod: Object) -> bool:
        """Whether a pod is there and available."""
        return not is_terminating(pod) and is_available(pod, self.min_ready_seconds, self.now)


def hash_of(pod: Object) -> str:
    """The hash of the template that a pod was made from."""
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def next_step(rollout: Rollout, on_node: dict[str, list[Object]], wanted: set[str]) -> tuple[list[str], list[Object]]:
    """The nodes that get a new pod now, and the old pods that go now."""
    if rollout.strategy["type"] != "RollingUpdate":
        return [], []
    if rollout.surging:
        return _surge(rollout, on_node, wanted)
    return [], _outdated(rollout, on_node, wanted)


def _outdated(rollout: Rollout, on_node: dict[str, list[Object]], wanted: set[str]) -> list[Object]:
    """Old pods, as many as may be away at once; those that are not up are no loss and go first."""
    broken: list[Object] = []
    sound: list[Object] = []
    away = 0
    for node in sorted(wanted):
        for pod in on_node.get(node, ()):
            up = rollout.is_up(pod)
            away += not up
            if not rollout.is_new(pod) and not is_terminating(pod):
                (sound if up else broken).append(pod)
    return broken + sound[: max(0, rollout.limit("maxUnavailable", 1, len(wanted)) - away)]


def _surge(rollout: Rollout, on_node: dict[str, list[Object]], wanted: set[str]) -> tuple[list[str], list[Object]]:
    free: list[str] = []
    candidates: list[str] = []
    doomed: list[Object] = []
    surging = 0
    for node in sorted(wanted):
        staying = [pod for pod in on_node.get(node, ()) if not is_terminating(pod)]
        old = [pod for pod in staying if not rollout.is_new(pod)]
        new = [pod for pod in staying if rollout.is_new(pod)]
        if not old:
            continue
        if not new:
            (candidates if rollout.is_up(old[0]) else free).append(node)
        elif rollout.is_up(new[0]):
            doomed += old
        else:
            surging += 1
    return free + candidates[: max(0, rollout.limit("maxSurge", 0, len(wanted)) - surging)], doomed
