"""From manifest files to objects that an embedded API server can be given: workloads expanded to their pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kube.api import codec
from simulator.load import load

#: a reference to another object must find it there
_FIRST = ("Namespace", "PriorityClass", "StorageClass")


def objects_for_cluster(paths: Sequence[str], scheduler_name: str = "podium") -> list[dict[str, Any]]:
    """Plain objects in an order that can be created; every pod names podium as its scheduler. Raises LoadError."""
    objects = load(paths)
    typed = [item for kind in _FIRST for item in objects.of_kind(kind)]
    typed += [item for kind, items in objects.others.items() if kind not in _FIRST for item in items]
    typed += [*objects.nodes, *objects.pods]
    plain = [msgspec.json.decode(codec.encode(item)) for item in typed]
    namespaces = {item["metadata"].get("namespace", "") for item in plain} - {"", "default"}
    declared = {item["metadata"]["name"] for item in plain if item["kind"] == "Namespace"}
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in sorted(namespaces - declared)]
    for item in plain:
        if item["kind"] == "Pod":
            item.setdefault("spec", {})["schedulerName"] = scheduler_name
    return made + plain
