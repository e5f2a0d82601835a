"""Workloads into pods, as the controllers of kube-controller-manager would create them, with names that never change.

Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets, Jobs, CronJobs and PodTemplates. Only what
is missing is made: pods of the input that a workload owns count. Works on dicts; pods of one template may share their
spec. Called by `simulator.load.cluster_objects` only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kube.api.codec import DecodeError, convert
from kube.api.core import Node, PersistentVolumeClaim, Pod
from simulator.load.conversion import explain
from simulator.load.daemon_nodes import DaemonNodes
from simulator.load.defaults import Body, mappings, optional, synthetic_uid

MAX_REPLICAS = 1_000_000
HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"
# Names that controllers generate use these letters only, so that they never spell a word.
_SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"

OwnerKey = tuple[str, str, str]  # kind, namespace, name


@dataclass(slots=True)
class Census:
    """What the input already holds: objects counted by the workload that owns them. Owned by one load."""

    active: Counter[OwnerKey] = field(default_factory=Counter)
    succeeded: Counter[OwnerKey] = field(default_factory=Counter)
    nodes_of: dict[OwnerKey, set[str]] = field(default_factory=dict)
    pods: set[tuple[str, str]] = field(default_factory=set)
    claims: set[tuple[str, str]] = field(default_factory=set)

    def count_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        self.pods.add((meta.namespace, meta.name))
        for owner in meta.owner_references:
            key = (owner.kind, meta.namespace, owner.name)
            if pod.status.phase == "Succeeded":
                self.succeeded[key] += 1
            elif pod.status.phase != "Failed" and meta.deletion_timestamp is None:
                self.active[key] += 1
                self.nodes_of.setdefault(key, set()).add(pod.spec.node_name)

    def reserve_names(self, pods: Iterable[Pod], claims: Iterable[PersistentVolumeClaim]) -> None:
        """Names that the cluster already uses; the replicas asked for now come on top of what runs there."""
        self.pods.update((pod.metadata.namespace, pod.metadata.name) for pod in pods)
        self.claims.update((claim.metadata.namespace, claim.metadata.name) for claim in claims)

    def count_owned(self, body: Body) -> None:
        """A ReplicaSet of a Deployment or a Job of a CronJob."""
        meta = optional(body, "metadata")
        for owner in mappings(meta, "ownerReferences"):
            self.active[str(owner.get("kind")), str(meta.get("namespace")), str(owner.get("name"))] += 1


class InvalidWorkloadError(ValueError):
    """A field of the workload that stops its expansion; the text is `path: what was expected`."""


class Expansion:
    """Expands the workloads of one load. Owned by that load."""

    def __init__(self, census: Census, nodes: Iterable[Node]) -> None:
        self._census = census
        self._daemon_nodes = DaemonNodes(nodes)

    def expand(self, body: Body) -> Iterator[Body]:
        """What the controllers make of `body` (defaults filled in): pods, claims, a ReplicaSet."""
        _check_template(body)
        yield from _EXPAND[body["kind"]](self, body)

    def _deployment(self, body: Body) -> Iterator[Body]:
        if self._census.active[_key(body)]:
            return  # its ReplicaSets are in the input and stand for themselves
        meta, spec, template = body["metadata"], body["spec"], _template(body["spec"])
        mark = template_hash(template)
        replica_set = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{mark}",
                "namespace": meta["namespace"],
                "uid": synthetic_uid("ReplicaSet", meta["uid"], mark),
                "labels": {**_labels(template), HASH_LABEL: mark},
                "ownerReferences": [_owner(body)],
            },
            "spec": {
                "replicas": _count(spec, "replicas"),
                "selector": _with_label(optional(spec, "selector"), HASH_LABEL, mark),
                "template": _relabelled(template, {HASH_LABEL: mark}),
            },
        }
        yield replica_set
        yield from self._replicas(replica_set)

    def _replicas(self, body: Body) -> Iterator[Body]:
        """ReplicaSet and ReplicationController."""
        template, name = _template(body["spec"]), body["metadata"]["name"]
        wanted = _count(body["spec"], "replicas") - self._census.active[_key(body)]
        for pod_name in self._free_names(body, name, wanted):
            yield _pod(body, template, pod_name)

    def _free_names(self, body: Body, prefix: str, wanted: int) -> Iterator[str]:
        number, namespace = 0, body["metadata"]["namespace"]
        while wanted > 0:
            name = f"{prefix}-{number}"
            number += 1
            if (namespace, name) not in self._census.pods:
                wanted -= 1
                yield name

    def _stateful_set(self, body: Body) -> Iterator[Body]:
        spec, meta, template = body["spec"], body["metadata"], _template(body["spec"])
        start = _count(optional(spec, "ordinals"), "start", absent=0, path="spec.ordinals")
        revision = f"{meta['name']}-{template_hash(template)}"
        for number in range(start, start + _count(spec, "replicas")):
            name = f"{meta['name']}-{number}"
            claims = {_claim_template_name(t): t for t in mappings(spec, "volumeClaimTemplates")}
            yield from self._claims(meta, claims, name)
            if (meta["namespace"], name) in self._census.pods:
                continue
            labels = {
                REVISION_LABEL: revision,
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(number),
            }
            pod = _pod(body, template, name, labels)
            pod["spec"] = {**pod["spec"], "volumes": _claimed_volumes(pod["spec"], claims, name)}
            yield pod

    def _claims(self, meta: Body, claims: dict[str, Body], pod_name: str) -> Iterator[Body]:
        for claim_name, template in claims.items():
            name = f"{claim_name}-{pod_name}"
            if (meta["namespace"], name) in self._census.claims:
                continue
            own = {"name": name, "namespace": meta["namespace"]}
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {**optional(template, "metadata"), **own},
                "spec": dict(optional(template, "spec")),
            }

    def _daemon_set(self, body: Body) -> Iterator[Body]:
        meta, template = body["metadata"], _template(body["spec"])
        labels = {REVISION_LABEL: template_hash(template), "pod-template-generation": "1"}
        served = self._census.nodes_of.get(_key(body), set())
        base = _pod(body, template, meta["name"], labels)
        for node, spec in self._daemon_nodes.specs(base["spec"]):
            if node in served:
                continue
            name = f"{meta['name']}-{node}"
            uid = synthetic_uid("Pod", meta["uid"], node)
            yield {**base, "metadata": {**base["metadata"], "name": name, "uid": uid}, "spec": spec, "status": {}}

    def _job(self, body: Body) -> Iterator[Body]:
        template, name = _template(body["spec"]), body["metadata"]["name"]
        indexed = body["spec"].get("completionMode") == "Indexed"
        labels = {
            "batch.kubernetes.io/job-name": name,
            "job-name": name,
            "batch.kubernetes.io/controller-uid": body["metadata"]["uid"],
            "controller-uid": body["metadata"]["uid"],
        }
        for number, pod_name in enumerate(self._free_names(body, name, self._missing_job_pods(body))):
            index = {"batch.kubernetes.io/job-completion-index": str(number)} if indexed else {}
            pod = _pod(body, template, pod_name, {**labels, **index})
            yield {**pod, "spec": dict(pod["spec"])} if indexed else pod

    def _missing_job_pods(self, body: Body) -> int:
        spec, status = body["spec"], optional(body, "status")
        ended = any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in _conditions(status))
        if ended or spec.get("suspend") is True:
            return 0
        parallelism = _count(spec, "parallelism")
        succeeded = max(_count(status, "succeeded", absent=0, path="status"), self._census.succeeded[_key(body)])
        if spec.get("completions") is not None:
            parallelism = min(parallelism, _count(spec, "completions") - succeeded)
        elif succeeded:
            return 0  # a work queue that one pod has finished gets no new workers
        return parallelism - self._census.active[_key(body)]

    def _cron_job(self, body: Body) -> Iterator[Body]:
        """The job of the next run, unless one of its jobs is in the input."""
        if self._census.active[_key(body)] or body["spec"].get("suspend") is True:
            return
        meta, template = body["metadata"], optional(body["spec"], "jobTemplate")
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **optional(template, "metadata"),
                "name": f"{meta['name']}-0",
                "namespace": meta["namespace"],
                "uid": synthetic_uid("Job", meta["uid"], "0"),
            },
            "spec": optional(template, "spec"),
        }
        yield from self._job(job)

    def _pod_template(self, body: Body) -> Iterator[Body]:
        for name in self._free_names(body, body["metadata"]["name"], 1):
            pod = _pod(body, optional(body, "template"), name)
            del pod["metadata"]["ownerReferences"]
            yield pod


_EXPAND: dict[str, Callable[[Expansion, Body], Iterator[Body]]] = {
    "Deployment": Expansion._deployment,
    "ReplicaSet": Expansion._replicas,
    "ReplicationController": Expansion._replicas,
    "StatefulSet": Expansion._stateful_set,
    "DaemonSet": Expansion._daemon_set,
    "Job": Expansion._job,
    "CronJob": Expansion._cron_job,
    "PodTemplate": Expansion._pod_template,
}
WORKLOADS = frozenset(_EXPAND)

_TEMPLATE_PATHS = {"CronJob": "spec.jobTemplate.spec.template.", "PodTemplate": "template."}


def template_path(kind: str) -> str:
    """Where the pod's fields are found in a workload of this kind, for messages."""
    return _TEMPLATE_PATHS.get(kind, "spec.template.")


def template_hash(template: Body) -> str:
    """A stand-in for the controller's hash: same template, same hash, in the letters that it uses (FNV-1a, 32 bits)."""
    value = 0x811C9DC5
    for byte in json.dumps(template, sort_keys=True, default=str).encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_SAFE_LETTERS[int(digit) % len(_SAFE_LETTERS)] for digit in str(value))


def _key(body: Body) -> OwnerKey:
    return body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]


def _count(parent: Body, name: str, *, absent: int = 1, path: str = "spec") -> int:
    value = parent.get(name)
    if value is None:
        return absent
    if type(value) is not int or not 0 <= value <= MAX_REPLICAS:
        raise InvalidWorkloadError(f"{path}.{name}: {value!r}: expected a whole number from 0 to {MAX_REPLICAS}")
    return value


def _check_template(body: Body) -> None:
    """The template must be a pod in all its types, or nothing is made of it."""
    spec = body if body["kind"] == "PodTemplate" else optional(body, "spec")
    spec = optional(optional(spec, "jobTemplate"), "spec") if body["kind"] == "CronJob" else spec
    template = _template(spec, template_path(body["kind"]))
    try:
        convert(template, Pod)
    except DecodeError as error:
        raise InvalidWorkloadError(template_path(body["kind"]) + explain(error, template)) from error


def assume_counts(body: Body) -> Iterator[str]:
    """Where a tool was to put a number for a placeholder (NUM_NODES), one is assumed, with a word about it."""
    spec = optional(body, "spec")
    for name in ("replicas", "parallelism", "completions"):
        value = spec.get(name)
        if isinstance(value, str):
            spec[name] = 1
            yield f"spec.{name}: {value!r}: expected a whole number, 1 is assumed"


def _template(spec: Body, path: str = "spec.template.") -> Body:
    template = spec.get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise InvalidWorkloadError(f"{path}spec: expected the spec of a pod")
    return template


def _labels(template: Body) -> Body:
    return optional(optional(template, "metadata"), "labels")


def _relabelled(template: Body, labels: Body) -> Body:
    meta = {**optional(template, "metadata"), "labels": {**_labels(template), **labels}}
    return {**template, "metadata": meta}


def _with_label(selector: Body, key: str, value: str) -> Body:
    return {**selector, "matchLabels": {**optional(selector, "matchLabels"), key: value}}


def _owner(body: Body) -> Body:
    meta = body["metadata"]
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod(owner: Body, template: Body, name: str, labels: Body | None = None) -> Body:
    meta = owner["metadata"]
    own = _labels(template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": synthetic_uid("Pod", meta["uid"], name),
            "labels": {**own, **labels} if labels else own,
            "annotations": optional(optional(template, "metadata"), "annotations"),
            "ownerReferences": [_owner(owner)],
        },
        "spec": optional(template, "spec"),
        "status": {},
    }


def _claim_template_name(template: Body) -> str:
    name = optional(template, "metadata").get("name")
    if not isinstance(name, str) or not name:
        raise InvalidWorkloadError("spec.volumeClaimTemplates: each needs a metadata.name")
    return name


def _claimed_volumes(spec: Body, claims: dict[str, Body], pod_name: str) -> list[Any]:
    """The claims of the set replace volumes of the same name that the template has."""
    kept = [volume for volume in mappings(spec, "volumes") if volume.get("name") not in claims]
    made = [{"name": n, "persistentVolumeClaim": {"claimName": f"{n}-{pod_name}"}} for n in claims]
    return [*made, *kept]


def _conditions(status: Body) -> list[Body]:
    return mappings(status, "conditions")
