"""Slices, classes and claims in one line, and a cluster of them with the real engine around the one plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from config.feature_gates import DEFAULT_GATES
from config.types import DynamicResourcesArgs
from kube.api import resource
from kube.api.codec import convert, to_builtins
from kube.api.core import Node, Pod, PodResourceClaim
from kube.api.meta import ApiObject
from plugins.dynamic_resources import DynamicResources
from plugins.dynamic_resources.state import DevicesState
from scheduler.cache import SchedulerCache
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.plugin_metrics import PluginMetrics
from scheduler.framework.status import Status
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.nominator import Nominator
from scheduler.snapshot.snapshot import Snapshot
from simulator.listers import ObjectListers
from simulator.load import ClusterObjects
from tests.builders import make_node, make_pod

DRIVER = "gpu.example.com"
Json = dict[str, Any]


def a_slice(
    name: str,
    devices: Iterable[str | Json] = (),
    *,
    driver: str = DRIVER,
    pool: str = "",
    node: str | None = None,
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> resource.ResourceSlice:
    """Devices are names or whole devices; for all nodes unless `node` or another node selection is given."""
    body = {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": each} if isinstance(each, str) else each for each in devices],
            **(
                {"nodeName": node}
                if node
                else {}
                if spec.keys() & {"nodeSelector", "perDeviceNodeSelection"}
                else {"allNodes": True}
            ),
            **spec,
        },
    }
    return convert(body, resource.ResourceSlice)


def a_class(name: str, *selectors: str, created: str = "", **spec: Any) -> resource.DeviceClass:
    cel = [{"cel": {"expression": expression}} for expression in selectors]
    body = {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"selectors": cel, **spec}}
    return convert(body, resource.DeviceClass)


def exactly(name: str, count: int = 1, *selectors: str, of: str = "gpu", **more: Any) -> Json:
    """A request for a number of devices; `allocationMode` All wants them all."""
    cel = [{"cel": {"expression": expression}} for expression in selectors]
    mode = more.pop("allocationMode", "ExactCount")
    wanted: Json = {"deviceClassName": of, "allocationMode": mode, "selectors": cel, **more}
    if mode == "ExactCount":
        wanted["count"] = count
    return {"name": name, "exactly": wanted}


def first_of(name: str, *options: Json) -> Json:
    """A request with alternatives, made with `exactly`."""
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in options]}


def a_claim(name: str, *requests: Json, namespace: str = "default", status: Json | None = None, **devices: Any) -> Any:
    body = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"devices": {"requests": list(requests), **devices}},
        "status": status or {},
    }
    return convert(body, resource.ResourceClaim)


def held(*devices: str, node: str = "n1", by: str = "", **result: Any) -> Json:
    """The status of a claim that has these devices, written `driver/pool/device`, and is reserved for a pod's UID."""
    results = [dict(zip(("driver", "pool", "device"), each.split("/"), strict=True)) for each in devices]
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "allocation": {
            "devices": {"results": [{"request": "r", **each, **result} for each in results]},
            "nodeSelector": {"nodeSelectorTerms": [selector]},
        },
        "reservedFor": [{"resource": "pods", "name": by, "uid": by}] if by else [],
    }


def a_pod(name: str, *claims: str, **more: Any) -> Pod:
    uses = tuple(PodResourceClaim(name=claim, resource_claim_name=claim) for claim in claims)
    return make_pod(name, uid=f"uid-{name}", resource_claims=uses, **more)


class RecordingClient:
    """An API server of claims, just large enough: merge patches, conflicts where a test wants them, and a diary."""

    def __init__(self, listers: ObjectListers) -> None:
        self._listers = listers
        self.calls: list[tuple[str, str, Json]] = []
        self.conflicts = 0
        #: called before each write
        self.before: Any = None

    async def patch(self, obj: Any, patch: Mapping[str, Any], subresource: str = "", kind: str = "strategic") -> Any:
        await asyncio.sleep(0)
        self.calls.append((f"patch {kind}", f"{obj.KIND}/{obj.metadata.name}/{subresource}".rstrip("/"), dict(patch)))
        if self.before is not None:
            self.before(obj)
        if isinstance(obj, Pod):
            return obj
        if self.conflicts:
            self.conflicts -= 1
            raise ConflictError
        stored = await self.get(obj.KIND, obj.metadata.name, obj.metadata.namespace)
        return self._store(merged(to_builtins(stored), patch))

    async def create(self, obj: Any) -> Any:
        await asyncio.sleep(0)
        self.calls.append(("create", obj.KIND, to_builtins(obj)))
        body = to_builtins(obj)
        body["metadata"] |= {"name": body["metadata"]["generateName"] + "x", "uid": "uid-created"}
        return self._store(body)

    async def delete(self, obj: Any, *, uid: str = "") -> None:
        await asyncio.sleep(0)
        self.calls.append(("delete", f"{obj.KIND}/{obj.metadata.name}", {"uid": uid}))

    async def get(self, kind: str, name: str, namespace: str = "") -> Any:
        await asyncio.sleep(0)
        return self._listers(kind).get(name, namespace)

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise NotImplementedError

    async def update(self, obj: Any, subresource: str = "") -> Any:
        raise NotImplementedError

    def _store(self, body: Json) -> Any:
        body["metadata"]["resourceVersion"] = str(int(body["metadata"].get("resourceVersion", "1")) + 1)
        stored = convert(body, resource.ResourceClaim)
        self._listers("ResourceClaim").indexer.update(stored)
        return stored


class ConflictError(Exception):
    """As the client's: it carries the HTTP status."""

    status = 409


def merged(body: Any, patch: Any) -> Any:
    """RFC 7386, and of strategic merge patches the removal of a list's entry by UID."""
    if not isinstance(patch, Mapping):
        return patch
    if isinstance(patch.get("reservedFor"), list) and any("$patch" in each for each in patch["reservedFor"]):
        gone = {each["uid"] for each in patch["reservedFor"]}
        return {**body, "reservedFor": [each for each in body.get("reservedFor", []) if each["uid"] not in gone]}
    result = dict(body) if isinstance(body, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class Cluster:
    """Nodes n1, n2 ..., device objects, and the plugin; objects come and go through `put` and `drop`."""

    def __init__(
        self,
        *objects: ApiObject,
        nodes: int | Iterable[Node] = 1,
        gates: Mapping[str, bool] | None = None,
        args: DynamicResourcesArgs | None = None,
        now: float = 0.0,
    ) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.listers = ObjectListers(ClusterObjects())
        for obj in objects:
            self.put(obj)
        self.client = RecordingClient(self.listers)
        self.events: list[str] = []
        self.reported: list[tuple[ClusterEvent, Any, Any]] = []
        self.spawned: list[Any] = []
        self.registry = CollectorRegistry()
        handle = Handle(
            snapshot=self.snapshot,
            profile="podium",
            listers=self.listers,
            nominator=Nominator(),
            waiting_pods=WaitingPods(),
            feature_gates=DEFAULT_GATES.as_dict() | dict(gates or {}),
            client=self.client,
            now=lambda: now,
            event=lambda pod, related, kind, reason, action, note: self.events.append(f"{reason}: {note}"),
            report=lambda event, old, new: self.reported.append((event, old, new)),
            spawn=self.spawned.append,
            metrics=PluginMetrics(self.registry),
        )
        self.plugin = DynamicResources(args, handle)
        for node in [make_node(f"n{i + 1}") for i in range(nodes)] if isinstance(nodes, int) else nodes:
            self.cache.add_node(node)
        self.snapshot.refresh()

    def put(self, obj: ApiObject) -> None:
        self.listers(obj.KIND).indexer.update(obj)

    def drop(self, obj: ApiObject) -> None:
        self.listers(obj.KIND).indexer.delete(obj.key)

    def claim(self, name: str) -> resource.ResourceClaim:
        found: resource.ResourceClaim | None = self.listers("ResourceClaim").get(name, "default")
        assert found is not None
        return found

    def cycle(self, pod: Pod) -> tuple[CycleState, Any]:
        """PreFilter and Filter over all nodes; the state, and a mask or the status that ended it."""
        self.snapshot.refresh()
        state = CycleState(self.snapshot.shapes.pod_info(pod))
        status = self.plugin.pre_filter(state, pod, self.snapshot.nodes)
        if status is not None:
            return state, status
        return state, self.plugin.filter(state, pod, self.snapshot.nodes)

    def devices(self, pod: Pod) -> dict[str, list[str]]:
        """node -> `request=device` of every claim, in order, for the nodes that fit."""
        state, outcome = self.cycle(pod)
        assert not isinstance(outcome, Status), outcome
        by_node = {
            name: [f"{d['request']}={d['device']}" for c in claims for d in c["devices"]]
            for name, claims in self.found(state).items()
        }
        assert set(by_node) <= {info.name for i, info in self.snapshot.nodes.infos() if outcome[i]}
        return by_node

    def found(self, state: CycleState) -> dict[str, list[Json]]:
        devices: DevicesState = state.read("DynamicResources")
        return devices.allocations_by_node()

    def refusals(self, pod: Pod) -> dict[str, str]:
        """node -> why not, by the one-node form, held against the vectorised one."""
        state, outcome = self.cycle(pod)
        assert not isinstance(outcome, Status), outcome
        reasons = {}
        for i, info in self.snapshot.nodes.infos():
            status = self.plugin.filter_node(state, pod, info)
            assert (status is None) == bool(outcome[i])
            if status is not None:
                reasons[info.name] = status.message
        refused = self.snapshot.select((~outcome).nonzero()[0])
        if refused.size:
            told = self.plugin.refusals(state, pod, refused)
            assert [told.statuses[i].message for i in told.which] == [reasons[i.name] for _, i in refused.infos()]
            assert {status.plugin for status in told.statuses} == {self.plugin.name}
        return reasons

    def problem(self, pod: Pod) -> str:
        """The text of a status that ended the cycle."""
        _, outcome = self.cycle(pod)
        assert isinstance(outcome, Status), "nothing ended the cycle"
        return outcome.message

    def post_filter(self, state: CycleState, pod: Pod) -> tuple[Any, Status]:
        return self.plugin.post_filter(state, pod, Diagnosis(self.snapshot, self.snapshot.count))

    def close(self) -> None:
        for work in self.spawned:
            work.close()


def renamed(pod: Pod, name: str) -> Pod:
    """Another pod of the same template."""
    meta = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{name}")
    return msgspec.structs.replace(pod, metadata=meta)
