"""From manifest files to objects that an embedded API server can be given, for `podium demo -f`.

The files are checked as `podium simulate` checks them. Workloads are handed over as they are: the embedded controllers
make pods of them. What a controller in the same files made, it will make again, and is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from simulator.apiserver import ApiError, ApiServer
from simulator.load import LoadError, load
from simulator.load.files import Document, read
from simulator.load.problems import Problems

Object = dict[str, Any]

#: a reference to another object must find it there
_FIRST = ("Namespace", "PriorityClass", "StorageClass", "Node")
#: what only a server may set, or what speaks of another cluster
_FOREIGN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink", "ownerReferences")
_WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
#: kinds that no controller of the embedded cluster carries out
_NOT_CARRIED_OUT = ("CronJob", "PodTemplate", "ReplicationController")


def objects_for_cluster(paths: Sequence[str], scheduler_name: str = "podium") -> list[Object]:
    """Plain objects in an order that can be created; every pod names podium as its scheduler. Raises LoadError."""
    load(paths)
    problems = Problems()
    bodies = [_body(document) for document in read(paths, problems)]
    problems.raise_if_any()
    known = {(body["kind"], _namespace(body), body["metadata"].get("name")) for body in bodies}
    server = ApiServer()
    wanted = [body for body in bodies if _is_served(server, body) and not _is_made_by(known, body)]
    made = [_foreign_removed(body, scheduler_name) for body in wanted]
    made.sort(key=lambda body: _FIRST.index(body["kind"]) if body["kind"] in _FIRST else len(_FIRST))
    made = _namespaces(server, made) + made
    _check(server, made)
    return made


def _is_served(server: ApiServer, body: Object) -> bool:
    served = server.registry.by_kind(body["apiVersion"], body["kind"]) is not None
    if body["kind"] in _NOT_CARRIED_OUT:
        text = f"{body['kind']} {body['metadata'].get('name')} is left out: no controller carries it out"
        print(f"warning: {text}", file=sys.stderr)
        return False
    return served


def _check(server: ApiServer, bodies: list[Object]) -> None:
    """Let a server that nobody listens to judge them first, so that all that is wrong is said before anything runs."""
    wrong = []
    for body in bodies:
        try:
            server.create(body)
        except ApiError as error:
            wrong.append(f"{body['kind']} {_namespace(body)}/{body['metadata'].get('name')}: {error}")
    if wrong:
        raise LoadError(tuple(wrong))


def _body(document: Document) -> Object:
    body = document.body()
    body["metadata"] = dict(body.get("metadata") or {})
    return body


def _namespace(body: Object) -> str:
    return str(body["metadata"].get("namespace") or "default")


def _is_made_by(known: set[tuple[Any, ...]], body: Object) -> bool:
    owners = body["metadata"].get("ownerReferences") or ()
    return any((owner.get("kind"), _namespace(body), owner.get("name")) in known for owner in owners)


def _foreign_removed(body: Object, scheduler_name: str) -> Object:
    body["metadata"] = {key: value for key, value in body["metadata"].items() if key not in _FOREIGN}
    if body["kind"] not in ("Node", "PersistentVolume", "PersistentVolumeClaim"):
        body.pop("status", None)
    if body["kind"] == "Pod":
        _choose_scheduler(body, scheduler_name)
    elif body["kind"] in _WORKLOADS:
        _choose_scheduler(body["spec"]["template"], scheduler_name)
    return body


def _choose_scheduler(pod: Object, scheduler_name: str) -> None:
    spec = pod.setdefault("spec", {})
    spec["schedulerName"] = scheduler_name
    # What another server computed of a priority class; this one computes it anew.
    for field in ("nodeName", "priority", "preemptionPolicy"):
        if field == "nodeName" or spec.get("priorityClassName"):
            spec.pop(field, None)


def _namespaces(server: ApiServer, bodies: list[Object]) -> list[Object]:
    """The namespaces that are used and neither declared nor there from the beginning."""
    used = {_namespace(body) for body in bodies if body["metadata"].get("namespace")}
    declared = {body["metadata"].get("name") for body in bodies if body["kind"] == "Namespace"}
    there = {namespace["metadata"]["name"] for namespace in server.list("namespaces")}
    missing = sorted(used - declared - there)
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in missing]
