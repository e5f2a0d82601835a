"""The state of a Job within one sync: what has ended, what runs, which indexes are done or given up.

Pure bookkeeping over the Job and its pods; the controller writes. With `backoffLimitPerIndex` each pod carries how
often its index has failed before, so that nothing is lost while the last failed pod is still there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from simulator.apiserver.errors import Object
from simulator.controllers.api import seconds_of
from simulator.controllers.job_policy import judge
from simulator.controllers.pods import FINISHED, is_terminating, phase_of

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
BACKOFF_BASE = 10.0
BACKOFF_MAX = 360.0


@dataclass(slots=True)
class Tally:
    """One Job's."""

    job: Object
    active: list[Object]
    succeeded: int
    failed: int
    indexes: set[int]
    failed_indexes: set[int]
    last_failure: float = 0.0
    failing: str = ""
    """Why the Job's policy makes it fail."""
    index_failures: dict[int, int] = field(default_factory=dict)
    index_failed_at: dict[int, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, job: Object) -> "Tally":
        """What was counted before."""
        status = job.get("status") or {}
        done, given_up = (read_indexes(status.get(key)) for key in ("completedIndexes", "failedIndexes"))
        return cls(job, [], status.get("succeeded", 0), status.get("failed", 0), done, given_up)

    @property
    def spec(self) -> Object:
        """The Job's spec."""
        spec: Object = self.job["spec"]
        return spec

    @property
    def indexed(self) -> bool:
        """Whether its pods have indexes."""
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def limit_per_index(self) -> int | None:
        """How often an index may fail; None where failures are counted together."""
        found: int | None = self.spec.get("backoffLimitPerIndex")
        return found

    @property
    def done(self) -> bool:
        """Whether enough have succeeded, or there is nothing more to try."""
        completions = self.spec.get("completions")
        if completions is None:
            return self.succeeded > 0 and not self.active
        return bool(self.succeeded + len(self.failed_indexes) >= completions)

    @property
    def wanted(self) -> int:
        """How many pods should run now."""
        if self.spec.get("suspend"):
            return 0
        completions = self.spec.get("completions")
        if completions is None:
            return len(self.active) if self.succeeded else int(self.spec["parallelism"])
        return min(int(self.spec["parallelism"]), int(completions) - self.succeeded - len(self.failed_indexes))

    # --- counting --------------------------------------------------------------------------------------------------

    def count(self, pod: Object) -> None:
        """Count a pod that has ended, once."""
        index = index_of(pod) if self.indexed else None
        if phase_of(pod) == "Succeeded":
            if not self.indexed:
                self.succeeded += 1
            elif index is not None and index not in self.indexes:
                self.indexes.add(index)
                self.succeeded += 1
            return
        judgement = judge(self.job, pod)
        if judgement.action == "Ignore":
            return
        self.failed += 1
        if judgement.action == "FailJob":
            self.failing = judgement.message
        limit = self.limit_per_index
        given_up = limit is not None and (judgement.action == "FailIndex" or failures_of(pod) + 1 > limit)
        if given_up and index is not None and index not in self.indexes:
            self.failed_indexes.add(index)

    def remember(self, pod: Object) -> None:
        """Note how often an index has failed, and when, by a failed pod that is still there."""
        at = finished_at(pod)
        self.last_failure = max(self.last_failure, at)
        index = index_of(pod)
        if index is not None:
            failures = failures_of(pod) + (judge(self.job, pod).action != "Ignore")
            self.index_failures[index] = max(failures, self.index_failures.get(index, 0))
            self.index_failed_at[index] = max(at, self.index_failed_at.get(index, 0.0))

    # --- what is next ----------------------------------------------------------------------------------------------

    def wait(self, now: float) -> float:
        """How long new pods wait after failures that are counted together."""
        if not self.failed or not self.last_failure or self.limit_per_index is not None:
            return 0.0
        return self.last_failure + _delay(self.failed) - now

    def index_wait(self, index: int, now: float) -> float:
        """How long a pod of an index waits after the failures of that index."""
        failures = self.index_failures.get(index, 0)
        if self.limit_per_index is None or not failures:
            return 0.0
        return self.index_failed_at[index] + _delay(failures) - now

    def free_indexes(self) -> Iterator[int]:
        """The indexes that have no pod and need one, lowest first."""
        taken = self.indexes | self.failed_indexes
        taken |= {index for pod in self.active if (index := index_of(pod)) is not None}
        return (index for index in range(int(self.spec.get("completions") or 0)) if index not in taken)


def _delay(failures: int) -> float:
    return min(BACKOFF_MAX, BACKOFF_BASE * 2.0 ** min(failures - 1, 16))


# --- pods ----------------------------------------------------------------------------------------------------------


def has_gone(pod: Object) -> bool:
    """Finished, or deleted with nothing left of it but the finalizer."""
    if phase_of(pod) in FINISHED:
        return True
    return is_terminating(pod) and not pod["metadata"].get("deletionGracePeriodSeconds")


def finished_at(pod: Object) -> float:
    """When a pod ended, in seconds since the epoch."""
    status = pod.get("status") or {}
    ends = [
        container["state"]["terminated"].get("finishedAt") or ""
        for container in status.get("containerStatuses") or ()
        if "terminated" in container.get("state", {})
    ]
    return max((seconds_of(end) for end in ends), default=seconds_of(pod["metadata"]["creationTimestamp"]))


def index_of(pod: Object) -> int | None:
    """A pod's completion index."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def failures_of(pod: Object) -> int:
    """How often a pod's index had failed before it."""
    text = (pod["metadata"].get("annotations") or {}).get(FAILURES, "")
    return int(text) if text.isdigit() else 0


# --- indexes -------------------------------------------------------------------------------------------------------


def read_indexes(text: str | None) -> set[int]:
    """Read `0-3,7`."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def spell_indexes(indexes: set[int]) -> str:
    """Write `0-3,7`."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
