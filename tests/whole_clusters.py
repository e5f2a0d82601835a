"""Random clusters with something for every plugin: the same seed makes the same cluster, and the same changes to it.

    maker = ClusterMaker(7)
    objects = maker.objects()               -> ClusterObjects, as files would give them
    pending = [maker.pending(i) for i in range(4)]

What concerns neighbours (affinity, spreading, labels) comes from `tests.plugins.random_clusters`.
"""

from random import Random
from typing import Any

from kube.api.core import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    Node,
    Pod,
    Service,
    ServiceSpec,
    Volume,
)
from kube.api.meta import ObjectMeta
from simulator.load import ClusterObjects
from tests.builders import (
    ZONE,
    DoesNotExist,
    Exists,
    In,
    NotIn,
    affinity,
    equal,
    exists,
    host_port,
    make_container,
    make_node,
    make_pod,
    node_term,
    requires,
    selector,
    taint,
)
from tests.plugins.random_clusters import EVICTED, NAMESPACES, Maker
from tests.plugins.volumes.builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    volume,
)
from tests.scheduler.framework.preempting import budget

GPU = "example.com/gpu"
PRIORITIES = (-5, 0, 0, 10, 100)
STARTED = ("", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
IMAGES = {"app:1": 400 * 2**20, "tool:latest": 90 * 2**20}
#: names of claims that some node may satisfy, and of those that none will
CLAIMS = ("zonal", "labelled", "local", "free", "made", "any", "small-room", "once")
HOPELESS = ("soon", "gone", "missing")

#: what there is beside nodes and pods
OTHERS = (
    "Namespace", "PodDisruptionBudget", "StorageClass", "CSIDriver", "CSIStorageCapacity", "CSINode",
    "VolumeAttachment", "PersistentVolume", "PersistentVolumeClaim", "Service",
)  # fmt: skip


class ClusterMaker:
    """Makes one cluster, pods to come, and changes. Owner: a test."""

    def __init__(self, seed: int) -> None:
        self.rng: Random = Random(seed)
        self._neighbours = Maker(seed)
        self._made = 0
        self.node_names = [f"n{i}" for i in range(self.rng.randint(2, 7))]

    # --- what is there ------------------------------------------------------------------------------------

    def objects(self) -> ClusterObjects:
        """Nodes, running pods, one or two promised a place, and all that plugins look up beside."""
        nominated = [
            self.pod(nominated_node_name=self.rng.choice(self.node_names)) for _ in range(self.rng.randint(0, 2))
        ]
        return ClusterObjects(
            nodes=tuple(self.node(name) for name in self.node_names),
            pods=(*(self.running() for _ in range(self.rng.randint(0, 20))), *nominated),
            others=self._others(),
        )

    def node(self, name: str) -> Node:
        """Small enough to be full."""
        labels = {"rack": f"r{self.rng.randrange(3)}", "disk": self.rng.choice(["ssd", "hdd"]), "gen": "7"}
        return make_node(
            name,
            cpu=self.rng.choice(["1", "2", "4", "8"]),
            memory=self.rng.choice(["2Gi", "8Gi", "8Gi"]),
            pods=self.rng.choice(["4", "110", "110"]),
            extra={GPU: "2"} if self.chance(0.3) else {},
            zone=self.rng.choice([None, "a", "b", "c"]),
            labels=dict(self.some(list(labels.items()), 3)),
            taints=self.some([taint("t"), taint("t", "x", "NoExecute"), taint("u", "", "PreferNoSchedule")], 1)
            if self.chance(0.5)
            else [],
            unschedulable=self.chance(0.1),
            images=dict(self.some(list(IMAGES.items()), 2)),
        )

    def running(self) -> Pod:
        """A pod on a node; now and then one that is being deleted."""
        deleted = EVICTED if self.chance(0.1) else None
        return self.pod(
            node_name=self.rng.choice(self.node_names), deletion_timestamp=deleted, start_time=self.rng.choice(STARTED)
        )

    def pending(self) -> Pod:
        """A pod that wants a place, and asks for more than running ones do."""
        return self.pod(
            eager=True,
            tolerations=self.some([exists("t"), equal("t", "x"), exists(), exists("u", "PreferNoSchedule")], 1),
            node_selector={"disk": "ssd"} if self.chance(0.1) else {},
            preemption_policy="Never" if self.chance(0.1) else None,
        )

    def pod(self, *, eager: bool = False, **fields: Any) -> Pod:
        """Any pod; an eager one is larger and knows which nodes it wants."""
        self._made += 1
        rng, neighbours = self.rng, self._neighbours
        requests = dict(self.some([("cpu", "250m"), ("cpu", "900m"), ("memory", "700Mi"), ("cpu", "0")], 3))
        if self.chance(0.1):
            requests[GPU] = "1"
        wants = neighbours.affinity() if self.chance(0.35) else None
        if eager and self.chance(0.3):
            wants = affinity(
                node_required=self._node_terms(), node_preferred=[(rng.randint(1, 9), t) for t in self._node_terms()]
            )
        claims = self._claims(0.5 if eager else 0.2)
        return make_pod(
            f"p{self._made}",
            uid=f"uid-p{self._made}",
            namespace="default" if claims or self.chance(0.4) else rng.choice(NAMESPACES),
            labels=neighbours.labels(),
            containers=[make_container(requests=requests, image=rng.choice([*IMAGES, "none"]), ports=self._ports())],
            init_containers=[make_container("side", cpu="100m", sidecar=True)] if self.chance(0.1) else [],
            claims=claims,
            volumes=self._disks(),
            affinity=wants,
            spread=[neighbours.constraint() for _ in range(rng.randint(1, 2))] if self.chance(0.3) else [],
            priority=rng.choice(PRIORITIES),
            **fields,
        )  # fmt: skip

    def _node_terms(self) -> list[Any]:
        one = [requires(ZONE, In, "a", "b"), requires("rack", NotIn, "r1"), requires("disk", Exists),
               requires("rack", DoesNotExist), requires("gen", "Gt", "3")]  # fmt: skip
        named = [requires("metadata.name", In, self.rng.choice(self.node_names))] if self.chance(0.15) else []
        return [node_term(*self.some(one, 2), fields=named) for _ in range(self.rng.randint(1, 2))]

    def _claims(self, share: float) -> list[str]:
        if not self.chance(share):
            return []
        return [self.rng.choice(HOPELESS)] if self.chance(0.1) else self.some(list(CLAIMS), 2)

    def _ports(self) -> list[Any]:
        return [host_port(80, ip=self.rng.choice(["", "10.0.0.1"]))] if self.chance(0.15) else []

    def _disks(self) -> list[Volume]:
        read_only = self.chance(0.5)
        disks = [
            Volume(name="d", gce_persistent_disk=GCEPersistentDiskVolumeSource(pd_name="d", read_only=read_only)),
            Volume(name="e", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="vol-1")),
        ]
        return self.some(disks, 1) if self.chance(0.15) else []

    def _others(self) -> dict[str, tuple[Any, ...]]:
        full = self.some(self.node_names, 2)
        return {
            "Namespace": tuple(self._neighbours.namespace(name) for name in NAMESPACES),
            "PodDisruptionBudget": tuple(
                budget(f"b{i}", {"app": self.rng.choice("abc")}, allowed=self.rng.randint(0, 1)) for i in range(2)
            ),
            "StorageClass": (
                storage_class("wait"),
                storage_class("zonal", topologies=[{ZONE: ["a", "b"]}]),
                storage_class("now", mode="Immediate"),
                storage_class("static", provisioner="kubernetes.io/no-provisioner"),
            ),
            "CSIDriver": (csi_driver(storage_capacity=True),),
            "CSIStorageCapacity": (
                capacity("cap-a", "2Gi", class_name="zonal", zone="a"),
                capacity("cap", "9Gi", topology=selector()),
            ),
            "CSINode": tuple(csi_node(name, {DRIVER: self.rng.randint(0, 2)}) for name in full),
            "VolumeAttachment": (attachment("at", self.node_names[0], "v-zonal"),),
            "PersistentVolume": (
                volume("v-zonal", zone="a", bound_to="default/zonal"),
                volume("v-labelled", bound_to="default/labelled", labels={ZONE: self.rng.choice(["a__b", "c"])}),
                volume("v-local", host=self.node_names[-1], bound_to="default/local"),
                volume("v-once", bound_to="default/once", modes=["ReadWriteOncePod"]),
                *(volume(f"v-free-{i}", class_name="static", host=name) for i, name in enumerate(full)),
            ),
            "PersistentVolumeClaim": (
                claim("zonal", volume="v-zonal"),
                claim("labelled", volume="v-labelled"),
                claim("local", volume="v-local"),
                claim("once", volume="v-once", modes=["ReadWriteOncePod"]),
                claim("gone", volume="v-gone"),
                claim("free", class_name="static"),
                claim("any", class_name="wait"),
                claim("made", class_name="zonal"),
                claim("small-room", class_name="zonal", size="5Gi"),
                claim("soon", class_name="now"),
            ),
        }

    # --- what changes -------------------------------------------------------------------------------------

    def change(self, cache: Any) -> None:
        """Pods come and go; now and then a node becomes another one."""
        for _ in range(self.rng.randint(1, 3)):
            cache.add_pod(self.running())
        for uid in self.some(list(cache.pods), 2):
            cache.remove_pod(uid)
        name = self.rng.choice(self.node_names)
        if self.chance(0.4):
            cache.update_node(self.node(name))

    def change_others(self, listers: Any) -> None:
        """Namespaces, volumes, claims, classes, services… come, change and go."""
        made = self._others() | {"Service": (self._service(),)}
        for kind in ("Namespace", *self.some(sorted(made), 4)):
            objects = listers(kind).indexer
            known = sorted(objects.keys())
            if known and self.chance(0.3):
                objects.delete(self.rng.choice(known))
            elif made[kind]:
                objects.update(self.rng.choice(made[kind]))

    def _service(self) -> Service:
        meta = ObjectMeta(name="s", namespace=self.rng.choice(NAMESPACES))
        return Service(metadata=meta, spec=ServiceSpec(selector={"app": self.rng.choice("abc")}))

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.rng.random() < share

    def some(self, choices: list[Any], most: int) -> list[Any]:
        """A few of these."""
        return self.rng.sample(choices, self.rng.randint(0, min(most, len(choices))))
