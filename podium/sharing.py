"""Decoded pods share what repeats: replicas differ in name, UID and node, and hardly in anything else.

A transform of the pod informer, called once for each decoded pod, before anybody else has seen it. Equal labels,
owners, containers, tolerations and the like become the same objects; equal namespaces and node names the same strings.
Nothing is ever changed in them, so nobody can tell, but by the memory (50,000 pods of 500 templates: a third).

Owner: the wiring. Bounded: at the bound everything is forgotten, and sharing starts anew.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kube.api.core import Pod

#: templates that are remembered
MAX_PARTS = 16_384


class Sharing:
    """JSON of some fields -> the objects that stand for them from then on."""

    def __init__(self) -> None:
        self._parts: dict[bytes, tuple[Any, ...]] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, pod: Pod) -> Pod:
        """The same pod. It was decoded a moment ago: until it is handed on, its frozen fields may be set."""
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
             spec.topology_spread_constraints, spec.node_selector)
        )  # fmt: skip
        force_setattr(spec, "containers", containers)
        force_setattr(spec, "init_containers", init)
        force_setattr(spec, "tolerations", tolerations)
        force_setattr(spec, "affinity", affinity)
        force_setattr(spec, "topology_spread_constraints", spread)
        force_setattr(spec, "node_selector", selector)
        if status.container_statuses:
            force_setattr(status, "container_statuses", self._shared((status.container_statuses,))[0])
        return pod

    def _shared(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values that came first of those that are equal to these."""
        if len(self._parts) > MAX_PARTS:
            self._parts.clear()
        return self._parts.setdefault(self._encode(values), values)
