"""Traces of the Alibaba GPU cluster of 2023: lists of nodes and of tasks as CSV, turned into Nodes and Pods.

    nodes   sn, cpu_milli, memory_mib, gpu, model
    tasks   name, cpu_milli, memory_mib, num_gpu, gpu_milli, [gpu_spec, qos, pod_phase,
            creation_time, deletion_time, scheduled_time]            the last ones not in every file

A task's GPUs are whole GPUs (`alibabacloud.com/gpu`), as stock Kubernetes has them; with `gpu_share` they are
thousandths (`alibabacloud.com/gpu-milli`), so that several tasks share one as they did in the trace (nobody checks
there that a share comes from one GPU). `gpu_spec` becomes required node affinity, `qos` a priority.

`bodies` is how a file loader reads such a file, `Trace` how a replay does. Raises TraceError, one line each.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.load.problems import LoadError

Body = dict[str, Any]

GPU = "alibabacloud.com/gpu"
GPU_SHARE = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-model"
QOS = "alibabacloud.com/qos"
NAMESPACE = "openb"
_CREATED = "podium.io/trace-created"
_DELETED = "podium.io/trace-deleted"
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_PRIORITIES = {"LS": 1000, "Guaranteed": 1000, "Burstable": 500, "BE": 0}
#: the trace says nothing of it, and no task of it was short of it
_PODS_A_NODE = "1001"


class TraceError(LoadError):
    """A file that is no such trace, or a row that cannot be read; the text is `where: what was expected`."""


@dataclass(frozen=True, slots=True)
class Task:
    """A pod of a trace, and when it came and went, in seconds of the trace."""

    pod: Body
    created: float
    deleted: float

    @property
    def lifetime(self) -> float:
        """How long it was there."""
        return self.deleted - self.created


@dataclass(frozen=True, slots=True)
class Trace:
    """The tasks of a file in the order in which they came."""

    tasks: tuple[Task, ...]

    @property
    def duration(self) -> float:
        """From the first arrival to the last departure."""
        return max(task.deleted for task in self.tasks) - self.tasks[0].created if self.tasks else 0.0


def read_nodes(path: str) -> list[Body]:
    """The Nodes of a node list."""
    nodes = list(_rows(path, _NODE_COLUMNS, _node))
    if not nodes:
        raise TraceError((f"{path}: expected at least one node",))
    return nodes


def read_trace(path: str, *, gpu_share: bool = False) -> Trace:
    """The tasks of a task list that says when they came and went."""
    tasks = list(_rows(path, (*_POD_COLUMNS, "creation_time", "deletion_time"), lambda row: _task(row, gpu_share)))
    if not tasks:
        raise TraceError((f"{path}: expected at least one task",))
    return Trace(tuple(sorted(tasks, key=lambda task: task.created)))


def bodies(name: str, text: str, *, gpu_share: bool = False) -> Iterator[Body]:
    """The objects of a CSV file of either kind."""
    header = next(csv.reader(text.splitlines()[:1]), [])
    if header[:1] == ["sn"]:
        yield from _parsed(name, text, _NODE_COLUMNS, _node)
    else:
        yield from _parsed(name, text, _POD_COLUMNS, lambda row: _pod(row, gpu_share))


def _rows(path: str, columns: tuple[str, ...], make: Callable[[dict[str, str]], Any]) -> Iterator[Any]:
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise TraceError((f"{path}: cannot be read: {error.strerror or error}",)) from error
    except UnicodeDecodeError as error:
        raise TraceError((f"{path}: not UTF-8 text",)) from error
    yield from _parsed(path, text, columns, make)


def _parsed(name: str, text: str, columns: tuple[str, ...], make: Callable[[dict[str, str]], Any]) -> Iterator[Any]:
    reader = csv.DictReader(text.splitlines())
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise TraceError((f"{name}: line 1: not a trace: expected the columns {', '.join(columns)}",))
    for row in reader:
        try:
            yield make(row)
        except _RowError as error:
            raise TraceError((f"{name}: line {reader.line_num}: {error}",)) from error


class _RowError(ValueError):
    """What is wrong with a row."""


def _whole(row: dict[str, str], column: str) -> int:
    text = row.get(column) or ""
    if not text.isascii() or not text.isdigit():
        raise _RowError(f"{column}: {text!r}: expected a whole number")
    return int(text)


def _named(row: dict[str, str], column: str) -> str:
    if not row.get(column):
        raise _RowError(f"{column}: expected a name")
    return row[column]


def _node(row: dict[str, str]) -> Body:
    name, gpus, model = _named(row, "sn"), _whole(row, "gpu"), row.get("model") or ""
    resources = {
        "cpu": f"{_whole(row, 'cpu_milli')}m",
        "memory": f"{_whole(row, 'memory_mib')}Mi",
        "pods": _PODS_A_NODE,
    }
    if gpus:
        resources |= {GPU: str(gpus), GPU_SHARE: str(1000 * gpus)}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if model:
        labels[GPU_MODEL] = model
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": dict(resources),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _requests(row: dict[str, str], gpu_share: bool) -> dict[str, str]:
    requests = {"cpu": f"{_whole(row, 'cpu_milli')}m", "memory": f"{_whole(row, 'memory_mib')}Mi"}
    gpus = _whole(row, "num_gpu")
    if gpus and gpu_share:
        requests[GPU_SHARE] = str(gpus * _whole(row, "gpu_milli"))
    elif gpus:
        requests[GPU] = str(gpus)
    return requests


def _pod(row: dict[str, str], gpu_share: bool) -> Body:
    requests, qos = _requests(row, gpu_share), row.get("qos") or ""
    container = {
        "name": "main",
        "image": "registry.example/openb:1",
        "resources": {"requests": requests, "limits": dict(requests)},
    }
    spec: Body = {"containers": [container], "priority": _PRIORITIES.get(qos, 0)}
    if row.get("gpu_spec"):
        term = {"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": row["gpu_spec"].split("|")}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    times = {_CREATED: row.get("creation_time"), _DELETED: row.get("deletion_time")}
    metadata = {
        "name": _named(row, "name"),
        "namespace": NAMESPACE,
        "labels": {QOS: qos.lower()} if qos else {},
        "annotations": {key: text for key, text in times.items() if text},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _task(row: dict[str, str], gpu_share: bool) -> Task:
    created, deleted = _whole(row, "creation_time"), _whole(row, "deletion_time")
    if deleted < created:
        raise _RowError(f"deletion_time: {deleted}: expected no less than creation_time, {created}")
    return Task(_pod(row, gpu_share), created, deleted)
