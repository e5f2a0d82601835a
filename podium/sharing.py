"""Decoded pods share what repeats: replicas differ in name, UID and node, and hardly in anything else.

A transform of the pod informer, called once for each decoded pod, before anybody else has seen it. Equal labels,
owners, containers, tolerations and the like become the same objects; equal namespaces and node names the same strings.
Nothing is ever changed in them, so nobody can tell, but by the memory (50,000 pods of 500 templates: a third).
Quantities are looked at here, too, since replicas need it only once: a pod with one that is none is a bad object.

Owner: the wiring. Bounded: at the bound everything is forgotten, and sharing starts anew.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kube.api.core import Pod
from kube.api.quantity_check import check_containers, check_pod_level

#: templates that are remembered
MAX_PARTS = 16_384


class Sharing:
    """JSON of some fields -> the objects that stand for them from then on."""

    def __init__(self) -> None:
        self._parts: dict[bytes, tuple[Any, ...]] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, pod: Pod) -> Pod:
        """The same pod. It was decoded a moment ago: until it is handed on, its frozen fields may be set.

        Raises DecodeError for a pod with a quantity that is none.
        """
        meta, spec, status = pod.metadata, pod.spec, pod.status
        force_setattr(meta, "namespace", sys.intern(meta.namespace))
        force_setattr(spec, "node_name", sys.intern(spec.node_name))
        force_setattr(spec, "scheduler_name", sys.intern(spec.scheduler_name))
        if meta.labels or meta.owner_references:
            labels, owners = self._shared((meta.labels, meta.owner_references))
            force_setattr(meta, "labels", labels)
            force_setattr(meta, "owner_references", owners)
        containers, init, tolerations, affinity, spread, selector = self._shared(
            (spec.containers, spec.init_containers, spec.tolerations, spec.affinity,
             spec.topology_spread_constraints, spec.node_selector),
            pod,
        )  # fmt: skip
        force_setattr(spec, "containers", containers)
        force_setattr(spec, "init_containers", init)
        force_setattr(spec, "tolerations", tolerations)
        force_setattr(spec, "affinity", affinity)
        force_setattr(spec, "topology_spread_constraints", spread)
        force_setattr(spec, "node_selector", selector)
        check_pod_level(pod)
        if status.container_statuses:
            force_setattr(status, "container_statuses", self._shared((status.container_statuses,))[0])
        return pod

    def _shared(self, values: tuple[Any, ...], of: Pod | None = None) -> tuple[Any, ...]:
        """The values that came first of those that are equal to these; these if they are, and well, `of` this pod."""
        if len(self._parts) > MAX_PARTS:
            self._parts.clear()
        key = self._encode(values)
        known = self._parts.get(key)
        if known is None:
            if of is not None:
                check_containers(of)
            known = self._parts[key] = values
        return known
