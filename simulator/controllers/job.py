"""Jobs: pods that run to their end, so many at a time, until enough have succeeded or too many have failed.

Each pod carries a finalizer until its end has been counted in the Job's status, so none is counted twice or forgotten,
whoever deletes it. After failures new pods wait: 10 s, doubled with each up to six minutes, by Job or by index.
Indexed Jobs give each pod an index; `successPolicy` and `podReplacementPolicy` are not carried out.
"""

from typing import Any

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of, seconds_of
from simulator.controllers.controller import Context
from simulator.controllers.job_tally import FAILURES, INDEX, Tally, has_gone, spell_indexes
from simulator.controllers.pod_owner import PodOwner
from simulator.controllers.pods import (
    condition_of,
    is_active,
    is_ready,
    is_terminating,
    phase_of,
    pod_from_template,
)

JOBS = "jobs.batch"
TRACKING = "batch.kubernetes.io/job-tracking"
BURST = 500


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
        if has_ended(job):
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
        tally, ended = Tally.begin(job), []
        for pod in self._pods.by_index("controller", job["metadata"]["uid"]):
            if is_active(pod):
                tally.active.append(pod)
            elif TRACKING in (pod["metadata"].get("finalizers") or ()) and has_gone(pod):
                ended.append(pod)
                tally.count(pod)
            if phase_of(pod) == "Failed":
                tally.remember(pod)
        if ended:
            self._write(tally, [])
            for pod in ended:
                self._release(pod)
        return tally

    def _end_of(self, tally: Tally) -> Object | None:
        """The condition that ends the Job, if it ends now."""
        if tally.failing:
            return self._ending("Failed", "PodFailurePolicy", tally.failing)
        limit = tally.spec.get("backoffLimit", 6)
        if tally.failed > limit or self._restarted_too_often(tally, limit):
            return self._ending("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        most = tally.spec.get("maxFailedIndexes")
        if most is not None and len(tally.failed_indexes) > most:
            why = "Job has exceeded the specified maximal number of failed indexes"
            return self._ending("Failed", "MaxFailedIndexesExceeded", why)
        deadline, started = tally.spec.get("activeDeadlineSeconds"), (tally.job.get("status") or {}).get("startTime")
        if deadline is not None and started:
            left = seconds_of(started) + deadline - self.api.seconds()
            if left <= 0:
                return self._ending("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
            self.queue.add_after(key_of(tally.job), left)
        if tally.done and tally.failed_indexes:
            return self._ending("Failed", "FailedIndexes", "Job has failed indexes")
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
        wait = tally.wait(self.api.seconds())
        if wait > 0:
            self.queue.add_after(key, wait)
            return None
        return self._create(key, tally, min(difference, BURST))

    def _create(self, key: Key, tally: Tally, count: int) -> ApiError | None:
        indexes = self._indexes_to_start(key, tally, count) if tally.indexed else [None] * count
        left = iter(indexes)
        return self.create_many(key, len(indexes), lambda: self._create_one(tally, next(left)))

    def _indexes_to_start(self, key: Key, tally: Tally, count: int) -> list[int | None]:
        """The first free indexes that need not wait; for the others the Job is looked at again."""
        now, found = self.api.seconds(), list[int | None]()
        for index in tally.free_indexes():
            wait = tally.index_wait(index, now)
            if wait > 0:
                self.queue.add_after(key, wait)
            elif len(found) < count:
                found.append(index)
        return found

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
            annotations = {INDEX: str(index)}
            if tally.limit_per_index is not None:
                annotations[FAILURES] = str(tally.index_failures.get(index, 0))
            metadata |= {"annotations": annotations, "generateName": f"{name}-{index}-"}
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
            "completedIndexes": spell_indexes(tally.indexes) if tally.indexed else None,
            "failedIndexes": spell_indexes(tally.failed_indexes) if tally.limit_per_index is not None else None,
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
            if has_gone(pod) or is_terminating(pod):
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


def has_ended(job: Object) -> bool:
    """Whether a Job is complete or has failed."""
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))
