"""The status of groups of the scheduler-plugins project: phase and counts, as that project's controller writes them.

    Pending ── minMember pods exist ─► Scheduling ── as many run or are done ─► Running ─► Finished, or Failed

The scheduler writes nothing of it. A group without pods is Pending again; Finished and Failed are final. Keys are
groups.
"""

from collections import Counter
from collections.abc import Iterable

from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.controller import Context, Controller
from simulator.controllers.pods import phase_of

GROUPS = "podgroups.scheduling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"


class PodGroupController(Controller):
    """Counts members."""

    name = "pod-group"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = self.informers("pods")
        self._pods.add_index("pod-group", _group_of)
        self._pods.add_handler(self._on_pod)
        self.informers(GROUPS).add_handler(self._on_group)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            for key in _group_of(pod) if pod is not None else ():
                namespace, _, name = key.partition("/")
                self.queue.add((namespace, name))

    def _on_group(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.enqueue(new)

    def sync(self, key: Key) -> None:
        """One step on."""
        group = self.api.get(GROUPS, key)
        status = (group or {}).get("status") or {}
        if group is None or status.get("phase") in (FINISHED, FAILED):
            return
        pods = list(self._pods.by_index("pod-group", "/".join(key)))
        after = _next_status(status, pods, int(group["spec"].get("minMember") or 0))
        if after != status:
            self.api.set_status(GROUPS, group, after)


def _group_of(pod: Object) -> Iterable[str]:
    name = (pod["metadata"].get("labels") or {}).get(LABEL)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()


def _next_status(status: Object, pods: list[Object], wanted: int) -> Object:
    phase = status.get("phase")
    if not phase:
        return {**status, "phase": PENDING}
    if phase == PENDING:
        return {**status, "phase": SCHEDULING, **_occupied_by(pods[0])} if pods and len(pods) >= wanted else status
    phases = Counter(map(phase_of, pods))
    running, succeeded, failed = (phases[name] for name in ("Running", "Succeeded", "Failed"))
    counts = {"running": running, "succeeded": succeeded, "failed": failed}
    if not pods:
        phase = PENDING
    if phase == SCHEDULING and running + succeeded >= wanted:
        phase = RUNNING
    if failed and failed + running + succeeded >= wanted:
        phase = FAILED
    if pods and succeeded >= wanted:
        phase = FINISHED
    return {**status, "phase": phase, **{name: n for name, n in counts.items() if n or name in status}}


def _occupied_by(pod: Object) -> Object:
    """The owners of the members, by the first of them."""
    owners = sorted(owner["name"] for owner in pod["metadata"].get("ownerReferences") or ())
    return {"occupiedBy": ",".join(f"{pod['metadata']['namespace']}/{name}" for name in owners)} if owners else {}
