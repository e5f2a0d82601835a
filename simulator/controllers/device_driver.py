"""A device driver that drives nothing: it publishes the devices that nodes are said to have, and prepares claims.

    metadata:
      annotations:
        podium.io/devices: h100*4:memory=80Gi, a30*2:memory=24Gi

It stands for both halves of a real driver: the part that writes a ResourceSlice for each node, and the plugin that the
kubelet of a node calls before it starts a pod. Preparing takes a moment, and is told in the claim's `status.devices`.
Keys are nodes. Owner: the manager; the kubelets call `prepare` and `unprepare`.
"""

import asyncio
import re
from typing import Any

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.controller import Context, Controller

SLICES = "resourceslices.resource.k8s.io"
CLAIMS = "resourceclaims.resource.k8s.io"
DEVICES = "podium.io/devices"
DRIVER = "gpu.example.com"
#: as many as a ResourceSlice may hold
_PER_SLICE = 128
_PART = re.compile(r"(?P<model>[a-z0-9.-]+)\*(?P<count>\d+)(?::memory=(?P<memory>[0-9A-Za-z.]+))?")


class DeviceDriver(Controller):
    """The driver `gpu.example.com` on all nodes."""

    name = "device-driver"

    def __init__(self, context: Context, *, prepare_seconds: float = 0.0) -> None:
        super().__init__(context)
        self.driver = DRIVER
        self._seconds = prepare_seconds
        self._ready_at: dict[tuple[str, str], float] = {}
        self._nodes = self.informers("nodes")
        self._slices = self.informers(SLICES)
        self._slices.add_index("node", lambda one: [one["spec"].get("nodeName") or ""])
        self._nodes.add_handler(self._on_node)

    # --- publishing ------------------------------------------------------------------------------------------------

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is not None and _said(new) != _said(old):
            self.enqueue(new)

    def sync(self, key: Key) -> None:
        """Publish the devices of a node; those of a node that is gone are collected with it."""
        node = self.api.get("nodes", key)
        if node is None:
            return
        try:
            devices = parse_devices(_said(node))
        except ValueError as problem:
            self.event(node, "Warning", "InvalidDevices", str(problem))
            return
        known = [one for one in self._slices.by_index("node", key[1]) if one["spec"]["driver"] == self.driver]
        parts = [devices[i : i + _PER_SLICE] for i in range(0, len(devices), _PER_SLICE)]
        generation = 1 + max((one["spec"]["pool"]["generation"] for one in known), default=0)
        wanted = [self._slice(node, i, part, generation, len(parts)) for i, part in enumerate(parts)]
        if [_lasting(one) for one in known] == [_lasting(one) for one in wanted]:
            return
        names = {one["metadata"]["name"] for one in wanted}
        for one in known:
            if one["metadata"]["name"] not in names:
                self.api.delete(SLICES, one)
        for body in wanted:
            self._publish(body)

    def _publish(self, body: Object) -> None:
        current = self.api.get(SLICES, ("", body["metadata"]["name"]))
        if current is None:
            self.api.create(SLICES, "", body)
        else:
            self.api.change(SLICES, current, lambda changed: changed.update(spec=body["spec"]))

    def _slice(self, node: Object, number: int, devices: list[Object], generation: int, count: int) -> Object:
        name = node["metadata"]["name"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"], "controller": True}
        pool = {"name": name, "generation": generation, "resourceSliceCount": count}
        return {
            "metadata": {"name": f"{name}-{self.driver}-{number}", "ownerReferences": [owner]},
            "spec": {"driver": self.driver, "nodeName": name, "pool": pool, "devices": devices},
        }

    # --- preparing, as the kubelets ask ----------------------------------------------------------------------------

    def prepare(self, node: str, claim: Object) -> float:
        """Prepare a claim's devices on a node, once; gives the seconds until they are ready (0: they are)."""
        key = (node, claim["metadata"]["uid"])
        now = asyncio.get_running_loop().time()
        ready_at = self._ready_at.setdefault(key, now + self._seconds)
        if ready_at > now:
            return ready_at - now
        self._report(claim)
        return 0.0

    def unprepare(self, node: str, claim_uid: str) -> None:
        """Nothing on the node uses the claim any more."""
        self._ready_at.pop((node, claim_uid), None)

    def _report(self, claim: Object) -> None:
        status = claim["status"]
        given = [one for one in status["allocation"]["devices"]["results"] if one["driver"] == self.driver]
        known = status.get("devices") or []
        told = {(one["pool"], one["device"]) for one in known if one["driver"] == self.driver}
        missing = [one for one in given if (one["pool"], one["device"]) not in told]
        if not missing:
            return
        reported = [*known, *(self._prepared(one) for one in missing)]
        try:
            self.api.set_status(CLAIMS, claim, {**status, "devices": reported})
        except ApiError as error:
            if error.code != 404:  # the claim went while it was prepared
                raise

    def _prepared(self, result: Object) -> Object:
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Prepared",
            "message": "device is prepared",
            "lastTransitionTime": self.api.now(),
        }
        share = {"shareID": result["shareID"]} if result.get("shareID") else {}
        named = {key: result[key] for key in ("driver", "pool", "device")}
        return {**named, **share, "conditions": [condition]}


def parse_devices(text: str) -> list[Object]:
    """Give the devices of `MODEL*COUNT[:memory=SIZE], …`; raises a ValueError that says what was expected."""
    devices: list[Object] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"annotation {DEVICES}: MODEL*COUNT or MODEL*COUNT:memory=SIZE is expected, got {part!r}")
        for _ in range(int(match["count"])):
            devices.append(_device(len(devices), match["model"], match["memory"]))
    return devices


def _device(number: int, model: str, memory: str | None) -> Object:
    attributes: dict[str, Any] = {
        "model": {"string": model},
        "index": {"int": number},
        "numa": {"int": number % 2},
        "driverVersion": {"version": "1.0.0"},
    }
    device: Object = {"name": f"gpu-{number}", "attributes": attributes}
    return {**device, "capacity": {"memory": {"value": memory}}} if memory else device


def _said(node: Object | None) -> str:
    return str(((node or {"metadata": {}})["metadata"].get("annotations") or {}).get(DEVICES, ""))


def _lasting(resource_slice: Object) -> tuple[str, Any, Any]:
    """What of a slice is worth a new generation."""
    spec = resource_slice["spec"]
    return resource_slice["metadata"]["name"], spec.get("devices"), spec["pool"]["resourceSliceCount"]
