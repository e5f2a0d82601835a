"""How the workload kinds are printed: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and their like.

Pure functions from an object to cells.
"""

from datetime import datetime

from simulator.apiserver.errors import Object
from simulator.apiserver.printing.columns import (
    Printer,
    Row,
    age,
    columns,
    created,
    duration,
    pairs,
    parse_time,
    selector,
    template_columns,
)

_WIDE = "Containers|Images|Selector"


def _deployment(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [obj["metadata"]["name"], ready, *counts, created(obj, now), *_wide(spec)]


def _replica_set(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    counts = [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [obj["metadata"]["name"], *counts, created(obj, now), *_wide(spec)]


def _replication_controller(obj: Object, now: datetime) -> Row:
    return [*_replica_set({**obj, "spec": {**obj["spec"], "selector": None}}, now)[:-1], pairs(obj["spec"]["selector"])]


def _stateful_set(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [obj["metadata"]["name"], ready, created(obj, now), *template_columns(spec.get("template"))]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    counts = [status.get(key, 0) for key in _DAEMON_COUNTS]
    nodes = pairs(((spec.get("template") or {}).get("spec") or {}).get("nodeSelector"))
    return [obj["metadata"]["name"], *counts, nodes, created(obj, now), *_wide(spec)]


def _wide(spec: Object) -> tuple[str, str, str]:
    return *template_columns(spec.get("template")), selector(spec.get("selector"))


def _job(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    completions = _completions(spec, status)
    took = _took(status, now)
    return [obj["metadata"]["name"], _job_status(obj), completions, took, created(obj, now), *_wide(spec)]


def _job_status(obj: Object) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    held = {condition["type"] for condition in conditions if condition.get("status") == "True"}
    for kind, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in held:
            return shown
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in held), "Running")


def _completions(spec: Object, status: Object) -> str:
    done, parallel = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _took(status: Object, now: datetime) -> str:
    start, end = parse_time(status.get("startTime")), parse_time(status.get("completionTime"))
    return "" if start is None else duration(((end or now) - start).total_seconds())


def _cron_job(obj: Object, now: datetime) -> Row:
    spec, status = obj["spec"], obj.get("status") or {}
    last = status.get("lastScheduleTime")
    return [
        obj["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        str(bool(spec.get("suspend"))),
        len(status.get("active") or ()),
        age(last, now) if last else "<none>",
        created(obj, now),
        *_wide(spec["jobTemplate"]["spec"]),
    ]


def _controller_revision(obj: Object, now: datetime) -> Row:
    owner = next((one for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    group = (owner or {}).get("apiVersion", "").rpartition("/")[0]
    named = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}" if owner else "<none>"
    return [obj["metadata"]["name"], named, obj.get("revision", 0), created(obj, now)]


_REPLICAS = columns("Name|Desired|Current|Ready|Age", _WIDE, "Desired|Current|Ready")
DEPLOYMENT = Printer(columns("Name|Ready|Up-to-date|Available|Age", _WIDE, "Up-to-date|Available"), _deployment)
REPLICA_SET = Printer(_REPLICAS, _replica_set)
REPLICATION_CONTROLLER = Printer(_REPLICAS, _replication_controller)
STATEFUL_SET = Printer(columns("Name|Ready|Age", "Containers|Images"), _stateful_set)
DAEMON_SET = Printer(
    columns(
        "Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age",
        _WIDE,
        "Desired|Current|Ready|Up-to-date|Available",
    ),
    _daemon_set,
)
JOB = Printer(columns("Name|Status|Completions|Duration|Age", _WIDE), _job)
CRON_JOB = Printer(
    columns("Name|Schedule|Timezone|Suspend|Active|Last Schedule|Age", _WIDE, "Active"),
    _cron_job,
)
CONTROLLER_REVISION = Printer(columns("Name|Controller|Revision|Age", "", "Revision"), _controller_revision)
