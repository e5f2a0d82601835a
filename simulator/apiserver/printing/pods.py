"""How pods are printed: the one column STATUS tells what matters of phase, conditions and all containers.

Pure functions from a pod to cells.
"""

from datetime import datetime
from typing import NamedTuple

from simulator.apiserver.errors import Object
from simulator.apiserver.printing.columns import NONE, Printer, Row, age, columns, created, duration, parse_time

_FINAL = ("Succeeded", "Failed")


class _Count(NamedTuple):
    """What the containers of a pod add up to."""

    ready: int
    restarts: int
    last_restart: datetime | None


def pod_row(pod: Object, now: datetime) -> Row:
    """Give the cells of a pod."""
    spec, status = pod["spec"], pod.get("status") or {}
    restartable = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    reason, initializing = _phase(pod), False
    init = _init_reason(pod, restartable)
    if init:
        reason, initializing = init, True
    if not initializing or _condition(status, "Initialized") == "True":
        reason = _container_reason(status, reason)
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") not in _FINAL:
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    count = _count(status, restartable, initializing)
    total = len(spec.get("containers") or ()) + len(restartable)
    return [
        pod["metadata"]["name"],
        f"{count.ready}/{total}",
        reason,
        _restarts(count, now),
        created(pod, now),
        next((one["ip"] for one in status.get("podIPs") or () if one.get("ip")), status.get("podIP") or NONE),
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _phase(pod: Object) -> str:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "")


def _init_reason(pod: Object, restartable: set[str]) -> str:
    """Tell which init container holds the pod up, and how; "" when none does."""
    status = pod.get("status") or {}
    total = len(pod["spec"].get("initContainers") or ())
    for i, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if container["name"] in restartable and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{i}/{total}"
    return ""


def _ended(state: Object) -> str:
    if state.get("reason"):
        return str(state["reason"])
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(status: Object, reason: str) -> str:
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ended(ended)
        elif container.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        return "Running" if _condition(status, "Ready") == "True" else "NotReady"
    return reason


def _condition(status: Object, kind: str) -> str:
    return next((str(c.get("status")) for c in status.get("conditions") or () if c.get("type") == kind), "")


def _count(status: Object, restartable: set[str], initializing: bool) -> _Count:
    init = status.get("initContainerStatuses") or []
    sidecars = [one for one in init if one["name"] in restartable]
    main = status.get("containerStatuses") or []
    restarted = init if initializing else sidecars + main
    ready = [c for c in main if c.get("ready") and (c.get("state") or {}).get("running") is not None]
    ready += [c for c in sidecars if c.get("ready") and c.get("started")]
    ends = [parse_time(((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt")) for c in restarted]
    times = [end for end in ends if end is not None]
    return _Count(len(ready), sum(c.get("restartCount", 0) for c in restarted), max(times) if times else None)


def _restarts(count: _Count, now: datetime) -> str:
    if count.restarts and count.last_restart is not None:
        return f"{count.restarts} ({duration((now - count.last_restart).total_seconds())} ago)"
    return str(count.restarts)


def _gates(spec: Object, status: Object) -> str:
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    return f"{sum(_condition(status, gate) == 'True' for gate in gates)}/{len(gates)}" if gates else NONE


POD = Printer(columns("Name|Ready|Status|Restarts|Age", "IP|Node|Nominated Node|Readiness Gates"), pod_row)


# --- events --------------------------------------------------------------------------------------------------------


def event_row(event: Object, now: datetime) -> Row:
    """Give the cells of an event, in the form of the core group, in which the store keeps them."""
    series = event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    component = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return [
        age(last or first, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (event.get("message") or "").strip(),
        age(first, now),
        series.get("count") or event.get("count") or 1,
        event["metadata"]["name"],
    ]


EVENT = Printer(
    (
        *columns("Last Seen|Type|Reason|Object", "Subobject|Source"),
        *columns("Message", "First Seen|Count|Name", "Count"),
    ),
    event_row,
)
