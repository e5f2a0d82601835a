"""Jobs: pods that run to their end, so many at a time, until enough have succeeded or too many have failed.

Each pod carries a finalizer until its end has been counted in the Job's status, so none is counted twice or forgotten,
whoever deletes it. After failures new pods wait: 10 s, doubled with each up to six minutes. Indexed Jobs give each pod
an index; pod failure and success policies are not carried out.
"""

from dataclasses import dataclass
from typing import Any

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of, seconds_of
from simulator.controllers.controller import Context
from simulator.controllers.pod_owner import PodOwner
from simulator.controllers.pods import (
    FINISHED,
    condition_of,
    is_active,
    is_ready,
    is_terminating,
    phase_of,
    pod_from_template,
)

JOBS = "jobs.batch"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BURST = 500
BACKOFF_BASE = 10.0
BACKOFF_MAX = 360.0


@dataclass(slots=True)
class Tally:
    """The state of a Job within one sync."""

    job: Object
    active: list[Object]
    succeeded: int
    failed: int
    indexes: set[int]
    last_failure: float = 0.0

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
    def done(self) -> bool:
        """Whether enough have succeeded."""
        completions = self.spec.get("completions")
        if completions is None:
            return self.succeeded > 0 and not self.active
        return bool(self.succeeded >= completions)

    @property
    def wanted(self) -> int:
        """How many pods should run now."""
        if self.spec.get("suspend"):
            return 0
        completions = self.spec.get("completions")
        if completions is None:
            return len(self.active) if self.succeeded else int(self.spec["parallelism"])
        return min(int(self.spec["parallelism"]), int(completions) - self.succeeded)


class JobController(PodOwner):
    """Runs Jobs."""

    name = "job"
    owner_kind = "Job"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = self.informers(JOBS)
        self._jobs.add_handler(self._on_job)

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        if changed is not None:
            self.enqueue(changed)

    # --- a sync ----------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Count what has ended, finish or go on."""
        job = self._jobs.get(key)
        if job is None:
            self._let_go(key)
            return
        if _ended(job):
            self._release_all(job)
            self._expire(key, job)
            return
        tally = self._count(job)
        end = None if is_terminating(job) else self._end_of(tally)
        if end is not None:
            for pod in tally.active:
                self.api.delete("pods", pod)
            self._write(tally, [end])
            self._release_all(job)
            return
        refusal = None
        if not is_terminating(job) and self.expectations.satisfied(key):
            refusal = self._manage(key, tally)
        self._write(tally, [])
        if refusal is not None:
            raise refusal

    def _let_go(self, key: Key) -> None:
        """The Job is gone: what is left of its pods is held by nobody."""
        self.expectations.forget(key)
        for pod in self._pods.all():
            if self.owner_key(pod) == key:
                self._release(pod)

    def _count(self, job: Object) -> Tally:
        """Count the newly ended pods into the status, then let them go."""
        status = job.get("status") or {}
        pods = self._pods.by_index("controller", job["metadata"]["uid"])
        tally = Tally(job, [], status.get("succeeded", 0), status.get("failed", 0), _read_indexes(status))
        ended = []
        for pod in pods:
            if is_active(pod):
                tally.active.append(pod)
            elif TRACKING in (pod["metadata"].get("finalizers") or ()) and _has_ended(pod):
                ended.append(pod)
                self._count_one(tally, pod)
        failures = [_finished_at(pod) for pod in pods if phase_of(pod) == "Failed"]
        tally.last_failure = max(failures, default=0.0)
        if ended:
            self._write(tally, [])
            for pod in ended:
                self._release(pod)
        return tally

    def _count_one(self, tally: Tally, pod: Object) -> None:
        if phase_of(pod) != "Succeeded":
            tally.failed += 1
        elif not tally.indexed:
            tally.succeeded += 1
        elif (index := _index_of(pod)) is not None and index not in tally.indexes:
            tally.indexes.add(index)
            tally.succeeded += 1

    def _end_of(self, tally: Tally) -> Object | None:
        """The condition that ends the Job, if it ends now."""
        limit = tally.spec.get("backoffLimit", 6)
        if tally.failed > limit or self._restarted_too_often(tally, limit):
            return self._ending("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        deadline, started = tally.spec.get("activeDeadlineSeconds"), (tally.job.get("status") or {}).get("startTime")
        if deadline is not None and started:
            left = seconds_of(started) + deadline - self.api.seconds()
            if left <= 0:
                return self._ending("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
            self.queue.add_after(key_of(tally.job), left)
        if tally.done:
            return self._ending("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        return None

    def _restarted_too_often(self, tally: Tally, limit: int) -> bool:
        """With restartPolicy OnFailure the kubelet does the retries."""
        if tally.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            status.get("restartCount", 0)
            for pod in tally.active
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
        )
        return bool(restarts > 0 and restarts >= limit)

    def _ending(self, kind: str, reason: str, message: str) -> Object:
        now = self.api.now()
        return {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": now,
            "lastTransitionTime": now,
        }

    def _manage(self, key: Key, tally: Tally) -> ApiError | None:
        difference = tally.wanted - len(tally.active)
        if difference < 0:
            doomed = sorted(tally.active, key=lambda pod: (is_ready(pod), bool(pod["spec"].get("nodeName"))))
            doomed = doomed[:-difference]
            tally.active = [pod for pod in tally.active if pod not in doomed]
            return self.delete_many(key, doomed)
        if difference == 0:
            return None
        wait = self._backoff(tally)
        if wait > 0:
            self.queue.add_after(key, wait)
            return None
        return self._create(key, tally, min(difference, BURST))

    def _backoff(self, tally: Tally) -> float:
        if not tally.failed or not tally.last_failure:
            return 0.0
        delay = min(BACKOFF_MAX, BACKOFF_BASE * 2.0 ** min(tally.failed - 1, 16))
        return tally.last_failure + delay - self.api.seconds()

    def _create(self, key: Key, tally: Tally, count: int) -> ApiError | None:
        indexes = _free_indexes(tally, count) if tally.indexed else [None] * count
        left = iter(indexes)
        return self.create_many(key, len(indexes), lambda: self._create_one(tally, next(left)))

    def _create_one(self, tally: Tally, index: int | None) -> None:
        name, uid = tally.job["metadata"]["name"], tally.job["metadata"]["uid"]
        labels = {
            "batch.kubernetes.io/job-name": name,
            "job-name": name,
            "batch.kubernetes.io/controller-uid": uid,
            "controller-uid": uid,
        }
        metadata: dict[str, Any] = {"labels": labels, "finalizers": [TRACKING]}
        if index is not None:
            labels[INDEX] = str(index)
            metadata |= {"annotations": {INDEX: str(index)}, "generateName": f"{name}-{index}-"}
        pod = pod_from_template(tally.job, tally.spec["template"], **metadata)
        if index is not None:
            pod["spec"]["hostname"] = f"{name}-{index}"
        created = self.api.create("pods", tally.job["metadata"]["namespace"], pod)
        tally.active.append(created)
        self.event(tally.job, "Normal", "SuccessfulCreate", f"Created pod: {created['metadata']['name']}")

    # --- writing ---------------------------------------------------------------------------------------------------

    def _write(self, tally: Tally, ending: list[Object]) -> None:
        job = self.api.get(JOBS, key_of(tally.job))
        if job is None or job["metadata"]["uid"] != tally.job["metadata"]["uid"]:
            return
        known = job.get("status") or {}
        active = [] if ending else tally.active
        status: dict[str, Any] = {
            "startTime": known.get("startTime") or (None if tally.spec.get("suspend") else self.api.now()),
            "active": len(active),
            "ready": sum(is_ready(pod) for pod in active),
            "succeeded": tally.succeeded,
            "failed": tally.failed,
            "uncountedTerminatedPods": {},
            "completedIndexes": _spell_indexes(tally.indexes) if tally.indexed else None,
            "conditions": [*(known.get("conditions") or ()), *ending],
        }
        if ending and ending[0]["type"] == "Complete":
            status["completionTime"] = self.api.now()
        kept = ("uncountedTerminatedPods", "ready")
        status = {name: value for name, value in status.items() if value or name in kept}
        if status != known:
            self.api.set_status(JOBS, tally.job, status)
        if ending:
            kind = "Normal" if ending[0]["type"] == "Complete" else "Warning"
            reason = "Completed" if kind == "Normal" else ending[0]["reason"]
            self.event(tally.job, kind, reason, "Job completed" if kind == "Normal" else ending[0]["message"])

    def _release_all(self, job: Object) -> None:
        for pod in self._pods.by_index("controller", job["metadata"]["uid"]):
            if _has_ended(pod) or is_terminating(pod):
                self._release(pod)

    def _release(self, pod: Object) -> None:
        current = self.api.get("pods", key_of(pod))
        if current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]:
            return
        finalizers = current["metadata"].get("finalizers") or []
        if TRACKING in finalizers:
            self.api.set_metadata("pods", pod, finalizers=[one for one in finalizers if one != TRACKING] or None)

    def _expire(self, key: Key, job: Object) -> None:
        """A finished Job goes after its time to live."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None or is_terminating(job):
            return
        finished = max(seconds_of(c["lastTransitionTime"]) for c in job["status"]["conditions"])
        left = finished + seconds - self.api.seconds()
        if left > 0:
            self.queue.add_after(key, left)
        else:
            self.api.delete(JOBS, job)


def _ended(job: Object) -> bool:
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def _has_ended(pod: Object) -> bool:
    """Finished, or deleted with nothing left of it but the finalizer."""
    if phase_of(pod) in FINISHED:
        return True
    return is_terminating(pod) and not pod["metadata"].get("deletionGracePeriodSeconds")


def _finished_at(pod: Object) -> float:
    status = pod.get("status") or {}
    ends = [
        container["state"]["terminated"].get("finishedAt") or ""
        for container in status.get("containerStatuses") or ()
        if "terminated" in container.get("state", {})
    ]
    return max((seconds_of(end) for end in ends), default=seconds_of(pod["metadata"]["creationTimestamp"]))


def _index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def _free_indexes(tally: Tally, count: int) -> list[int | None]:
    taken = tally.indexes | {index for pod in tally.active if (index := _index_of(pod)) is not None}
    free = (index for index in range(int(tally.spec.get("completions") or 0)) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


def _read_indexes(status: Object) -> set[int]:
    """Read `0-3,7`."""
    found: set[int] = set()
    for part in (status.get("completedIndexes") or "").split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def _spell_indexes(indexes: set[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
