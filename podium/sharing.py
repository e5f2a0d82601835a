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

_META = ("labels", "annotations", "owner_references", "finalizers")
_SPEC = (
    "containers", "init_containers", "overhead", "node_selector", "affinity", "tolerations",
    "topology_spread_constraints",
)  # fmt: skip
_STATUS = ("container_statuses", "init_container_statuses")


class Sharing:
    """JSON of some fields -> the objects that stand for them from then on."""

    def __init__(self) -> None:
        self._parts: dict[bytes, tuple[Any, ...]] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, pod: Pod) -> Pod:
        """The same pod. It was decoded a moment ago: until it is handed on, its frozen fields may be set."""
        self._share(pod.metadata, _META)
        self._share(pod.spec, _SPEC)
        self._share(pod.status, _STATUS)
        force_setattr(pod.metadata, "namespace", sys.intern(pod.metadata.namespace))
        force_setattr(pod.spec, "node_name", sys.intern(pod.spec.node_name))
        force_setattr(pod.spec, "scheduler_name", sys.intern(pod.spec.scheduler_name))
        return pod

    def _share(self, struct: msgspec.Struct, fields: tuple[str, ...]) -> None:
        values = tuple([getattr(struct, name) for name in fields])
        if not any(values):
            return
        shared = self._parts.setdefault(self._encode(values), values)
        if shared is values:
            if len(self._parts) > MAX_PARTS:
                self._parts.clear()
            return
        for name, value in zip(fields, shared, strict=True):
            if value:
                force_setattr(struct, name, value)
