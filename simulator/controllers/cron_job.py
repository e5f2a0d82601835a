"""CronJobs: a Job whenever one is due, none twice, and old ones cleared away.

A Job is named after the minute it was due, so that a controller that comes twice makes one. Of times that were missed
only the last is made up for, and only within `startingDeadlineSeconds`. While a Job runs, `concurrencyPolicy` decides:
another beside it, none, or another in its place.
"""

from datetime import UTC, datetime

from simulator.apiserver.cron import next_after
from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.verbs import rfc3339
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import copy_of, key_of, seconds_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.informer import by_controller, controller_of
from simulator.controllers.job import JOBS, has_ended
from simulator.controllers.pods import condition_of, is_terminating, owner_reference

CRON_JOBS = "cronjobs.batch"
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: more missed times than these are not counted through
_MOST_MISSED = 100


class CronJobController(Controller):
    """Makes the Jobs of CronJobs."""

    name = "cronjob"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._crons = self.informers(CRON_JOBS)
        self._jobs = self.informers(JOBS)
        self._jobs.add_index("controller", by_controller)
        self._crons.add_handler(lambda old, new: self.enqueue(new) if new is not None else None)
        self._jobs.add_handler(self._on_job)

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        job = new or old
        owner = None if job is None else controller_of(job)
        if job is not None and owner is not None and owner.get("kind") == "CronJob":
            self.queue.add((job["metadata"]["namespace"], owner["name"]))

    def sync(self, key: Key) -> None:
        """Clear away, make what is due, and come again for the next."""
        cron = self.api.get(CRON_JOBS, key)
        if cron is None or is_terminating(cron):
            return
        jobs = self._jobs.by_index("controller", cron["metadata"]["uid"])
        self._clear_away(cron, jobs)
        active = [job for job in jobs if not has_ended(job) and not is_terminating(job)]
        scheduled = None if cron["spec"].get("suspend") else self._make_due(cron, active)
        self._write_status(cron, jobs, active, scheduled)

    def _make_due(self, cron: Object, active: list[Object]) -> str | None:
        """Make the Job that is due, if one is; gives the time it was due, where one was made or is there."""
        due, following = self._times(cron)
        now = self.api.seconds()
        if following is not None:
            self.queue.add_after(key_of(cron), max(following.timestamp() - now, 0.1))
        if due is None:
            return None
        deadline = cron["spec"].get("startingDeadlineSeconds")
        if deadline is not None and due.timestamp() + deadline < now:
            self.event(cron, "Warning", "MissSchedule", f"Missed scheduled time to start a job: {rfc3339(due)}")
            return None
        policy = cron["spec"].get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.event(cron, "Normal", "JobAlreadyActive", text)
            return None
        for job in active if policy == "Replace" else ():
            self.api.delete(JOBS, job)
            self.event(cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        active[:] = [] if policy == "Replace" else active
        active += self._create(cron, due)
        return rfc3339(due)

    def _times(self, cron: Object) -> tuple[datetime | None, datetime | None]:
        """The last time that is due and has not been dealt with, and the next one to come."""
        spec, metadata = cron["spec"], cron["metadata"]
        now = datetime.fromtimestamp(self.api.seconds(), UTC)
        since = seconds_of((cron.get("status") or {}).get("lastScheduleTime") or metadata["creationTimestamp"])
        if (deadline := spec.get("startingDeadlineSeconds")) is not None:
            since = max(since, self.api.seconds() - deadline)
        moment = next_after(spec["schedule"], spec.get("timeZone"), datetime.fromtimestamp(since, UTC))
        due: datetime | None = None
        for _ in range(_MOST_MISSED):
            if moment is None or moment > now:
                return due, moment
            due, moment = moment, next_after(spec["schedule"], spec.get("timeZone"), moment)
        return due, next_after(spec["schedule"], spec.get("timeZone"), now)

    def _create(self, cron: Object, due: datetime) -> list[Object]:
        template = cron["spec"]["jobTemplate"]
        given, metadata = template.get("metadata") or {}, cron["metadata"]
        body = {
            "metadata": {
                "name": f"{metadata['name']}-{int(due.timestamp()) // 60}",
                "namespace": metadata["namespace"],
                "labels": dict(given.get("labels") or {}),
                "annotations": {**(given.get("annotations") or {}), SCHEDULED: rfc3339(due)},
                "ownerReferences": [owner_reference(cron)],
            },
            "spec": copy_of(template["spec"]),
        }
        try:
            job = self.api.create(JOBS, metadata["namespace"], body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return []
            self.event(cron, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        self.event(cron, "Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}")
        return [job]

    # --- what was ---------------------------------------------------------------------------------------------------

    def _clear_away(self, cron: Object, jobs: list[Object]) -> None:
        ended = sorted((job for job in jobs if has_ended(job)), key=lambda job: str(job["metadata"]["name"]))
        for field, good in (("successfulJobsHistoryLimit", True), ("failedJobsHistoryLimit", False)):
            kept, found = cron["spec"].get(field), [job for job in ended if _succeeded(job) == good]
            for job in found[: max(0, len(found) - int(kept))] if kept is not None else ():
                self.api.delete(JOBS, job)

    def _write_status(self, cron: Object, jobs: list[Object], active: list[Object], scheduled: str | None) -> None:
        known = cron.get("status") or {}
        references = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": job["metadata"]["namespace"],
                "name": job["metadata"]["name"],
                "uid": job["metadata"]["uid"],
                "resourceVersion": job["metadata"]["resourceVersion"],
            }
            for job in active
        ]
        ends = [(job.get("status") or {}).get("completionTime") for job in jobs if _succeeded(job)]
        last = max([end for end in [*ends, known.get("lastSuccessfulTime")] if end], default=None)
        status = {
            "active": references,
            "lastScheduleTime": scheduled or known.get("lastScheduleTime"),
            "lastSuccessfulTime": last,
        }
        status = {key: value for key, value in status.items() if value}
        if _without_versions(status) != _without_versions(known):
            self.api.set_status(CRON_JOBS, cron, status)


def _succeeded(job: Object) -> bool:
    return condition_of(job, "Complete").get("status") == "True"


def _without_versions(status: Object) -> Object:
    """A Job that has merely moved on is no news."""
    return {**status, "active": [reference["uid"] for reference in status.get("active") or ()]}
