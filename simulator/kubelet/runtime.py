"""A container runtime that runs nothing: containers are states and times, and end when a timer says so.

What a pod's containers do is written on the pod:

    podium.io/run-seconds    run so long and exit (absent: for ever)
    podium.io/exit-code      with this code (default 0)
    podium.io/start-seconds  take so long to start, podium.io/stop-seconds to stop (default: the cluster's)

Each change is told to whoever made the runtime, as the real kubelet's lifecycle event generator does. Owner:
`HollowKubelet`. Thousands of pods share one runtime; a pod is known by its UID.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.apiserver.errors import Object
from simulator.kubelet.timers import Timers

RUN_SECONDS = "podium.io/run-seconds"
EXIT_CODE = "podium.io/exit-code"
START_SECONDS = "podium.io/start-seconds"
STOP_SECONDS = "podium.io/stop-seconds"
KILLED = 137
#: by SIGTERM, before its work was done; what serves for ever ends well when it is stopped
INTERRUPTED = 143


@dataclass(slots=True)
class Container:
    """One container of a pod."""

    name: str
    image: str
    running: bool = False
    started_at: str = ""
    started: float = 0.0
    finished_at: str = ""
    exit_code: int | None = None
    restarts: int = 0
    last: Object | None = None
    waiting: str = "ContainerCreating"

    def state(self) -> Object:
        """The state as the API spells it."""
        if self.running:
            return {"running": {"startedAt": self.started_at}}
        if self.exit_code is not None and not self.waiting:
            return {"terminated": self.terminated()}
        return {"waiting": {"reason": self.waiting}}

    def terminated(self) -> Object:
        """Its end."""
        return {
            "exitCode": self.exit_code,
            "reason": "Error" if self.exit_code else "Completed",
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
        }


@dataclass(slots=True)
class Sandbox:
    """What there is of a pod on its node. `epoch` tells timers of earlier lives that they are late."""

    uid: str
    node: str
    run_seconds: float | None
    exit_code: int
    containers: list[Container] = field(default_factory=list)
    up: bool = False
    killed: bool = False
    epoch: int = 0
    address: str = ""


class FakeRuntime:
    """All containers of all nodes."""

    def __init__(self, timers: Timers, now: Callable[[], tuple[str, float]], tell: Callable[[str, str], None]) -> None:
        self._timers = timers
        self._now = now
        self._tell = tell
        self._sandboxes: dict[str, Sandbox] = {}

    def __len__(self) -> int:
        """Count the pods."""
        return len(self._sandboxes)

    def get(self, uid: str) -> Sandbox | None:
        """What there is of a pod."""
        return self._sandboxes.get(uid)

    def start(self, pod: Object, delay: float) -> Sandbox:
        """Set a pod up; its containers run once the delay is over, or at once."""
        box = self._make(pod)
        if delay > 0:
            self._timers.after(delay, self._start_all, box.uid, box.epoch)
        else:
            self._run_all(box)
        return box

    def adopt(self, pod: Object) -> None:
        """Take over a pod that is said to run already."""
        self._run_all(self._make(pod))

    def restart(self, uid: str, name: str, delay: float) -> None:
        """Run a container that has ended again after the delay."""
        box = self._sandboxes[uid]
        container = next(one for one in box.containers if one.name == name)
        container.last = {"terminated": container.terminated()}
        if delay > 0:
            container.waiting = "CrashLoopBackOff"
            self._timers.after(delay, self._restart, uid, box.epoch, name)
        else:
            container.restarts += 1
            self._run(box, container)

    def kill(self, uid: str, delay: float, *, forced: bool) -> None:
        """Stop all containers after the delay; `forced`: they did not go by themselves."""
        box = self._sandboxes[uid]
        box.epoch += 1
        code = KILLED if forced else INTERRUPTED if box.run_seconds is not None else 0
        self._timers.after(delay, self._killed, uid, box.epoch, code)

    def remove(self, uid: str) -> None:
        """Clear a pod away."""
        self._sandboxes.pop(uid, None)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _make(self, pod: Object) -> Sandbox:
        metadata, spec = pod["metadata"], pod["spec"]
        annotations = metadata.get("annotations") or {}
        box = Sandbox(metadata["uid"], spec["nodeName"], number(annotations, RUN_SECONDS), _code(annotations))
        box.containers = [Container(c["name"], c.get("image", "")) for c in spec.get("containers") or ()]
        self._sandboxes[box.uid] = box
        return box

    def _start_all(self, uid: str, epoch: int) -> None:
        box = self._sandboxes.get(uid)
        if box is not None and box.epoch == epoch:
            self._run_all(box)
            self._tell(uid, "ContainerStarted")

    def _run_all(self, box: Sandbox) -> None:
        box.up = True
        for container in box.containers:
            self._run(box, container)

    def _run(self, box: Sandbox, container: Container) -> None:
        container.running, container.waiting, container.exit_code = True, "", None
        container.started_at, container.started = self._now()
        if box.run_seconds is not None:
            self._timers.after(box.run_seconds, self._exit, box.uid, box.epoch, container.name)

    def _restart(self, uid: str, epoch: int, name: str) -> None:
        box = self._sandboxes.get(uid)
        if box is None or box.epoch != epoch:
            return
        container = next(one for one in box.containers if one.name == name)
        container.restarts += 1
        self._run(box, container)
        self._tell(uid, "ContainerStarted")

    def _exit(self, uid: str, epoch: int, name: str) -> None:
        box = self._sandboxes.get(uid)
        if box is None or box.epoch != epoch:
            return
        for container in box.containers:
            if container.name == name and container.running:
                self._end(container, box.exit_code)
        self._tell(uid, "ContainerDied")

    def _killed(self, uid: str, epoch: int, code: int) -> None:
        box = self._sandboxes.get(uid)
        if box is None or box.epoch != epoch:
            return
        box.killed = True
        for container in box.containers:
            if container.running:
                self._end(container, code)
            container.waiting = "" if container.exit_code is not None else container.waiting
        self._tell(uid, "ContainerDied")

    def _end(self, container: Container, code: int) -> None:
        container.running, container.exit_code = False, code
        container.finished_at = self._now()[0]


def number(annotations: dict[str, str], name: str) -> float | None:
    """A number of seconds that is written on a pod; what is no number is as if it were not there."""
    try:
        return max(0.0, float(annotations[name]))
    except (KeyError, ValueError):
        return None


def _code(annotations: dict[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    return int(text) if text.isdigit() else 0
