"""On random clusters the volume plugins say of all nodes at once what they say of each node by itself.

`Bench.filter` asks all nodes, views of some, and one node at a time, and fails where these differ. Clusters live:
nodes, pods, volumes and claims come and go between questions, so that indexes and kept masks must follow.
"""

from random import Random

import pytest

from kube.api.core import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    RBDVolumeSource,
    Volume,
)
from kube.api.csi_migration import BETA_ZONE, MIGRATED_PLUGINS, REGION
from kube.api.meta import LabelSelector
from plugins.node_volume_limits import SCALING_GATE, NodeVolumeLimits
from plugins.volume_binding import VolumeBinding
from plugins.volume_restrictions import VolumeRestrictions
from plugins.volume_zone import VolumeZone
from scheduler.framework.status import Status
from tests.builders import ZONE, Exists, Gt, In, NotIn, make_node, make_pod, node_selector, node_term, requires
from tests.plugins.harness import Bench
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

CLASSES = [
    storage_class(),
    storage_class("local", provisioner="kubernetes.io/no-provisioner"),
    storage_class("zonal", provisioner="measured", topologies=[{ZONE: ["a", "b"]}, {"disk": ["ssd"]}]),
    storage_class("ebs", provisioner="kubernetes.io/aws-ebs"),
]
DRIVERS = [csi_driver("measured", storage_capacity=True), csi_driver(prevent_pod_scheduling_if_missing=True)]
PLUGINS = [VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone]


def random_node(rng: Random, name: str):
    labels = {key: value for key, value in ((BETA_ZONE, "a"), (REGION, "r"), ("disk", "ssd")) if rng.random() < 0.3}
    return make_node(name, zone=rng.choice(["a", "b", "c", None]), labels=labels)


def random_csi_node(rng: Random, name: str):
    limits = {driver: rng.choice([0, 1, 2, None]) for driver in (DRIVER, "ebs.csi.aws.com") if rng.random() < 0.7}
    migrated = {MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"} if rng.random() < 0.5 else {}
    return csi_node(name, limits, annotations=migrated)


def random_affinity(rng: Random):
    expressions = [
        requires(ZONE, In, *rng.sample("abc", 2)),
        requires(ZONE, NotIn, "a"),
        requires("disk", Exists),
        requires("kubernetes.io/hostname", In, f"n{rng.randrange(6)}"),
        requires("disk", Gt, "1"),
    ]
    return node_selector(*(node_term(*rng.sample(expressions, rng.randint(0, 2))) for _ in range(rng.randint(0, 2))))


def random_volume(rng: Random, name: str):
    fields = {}
    if rng.random() < 0.2:
        source = AWSElasticBlockStoreVolumeSource(volume_id=f"vol-{rng.randrange(3)}")
        fields = {"driver": "", "aws_elastic_block_store": source}
    return volume(
        name,
        class_name=rng.choice(["wait", "local", "zonal"]),
        size=f"{rng.randint(1, 4)}Gi",
        host=f"n{rng.randrange(6)}" if rng.random() < 0.3 else None,
        nodes=random_affinity(rng) if rng.random() < 0.6 else None,
        bound_to=f"c{rng.randrange(6)}" if rng.random() < 0.3 else "",
        labels={ZONE: rng.choice(["a", "a__b", "a__"])} if rng.random() < 0.3 else {},
        **fields,
    )


def random_claim(rng: Random, name: str):
    return claim(
        name,
        class_name=rng.choice(["wait", "local", "zonal", "ebs"]),
        size=f"{rng.randint(1, 4)}Gi",
        volume=f"v{rng.randrange(9)}" if rng.random() < 0.4 else "",
        selected_node=f"n{rng.randrange(6)}" if rng.random() < 0.15 else None,
        modes=["ReadWriteOncePod" if rng.random() < 0.2 else "ReadWriteOnce"],
    )


def random_disk(rng: Random) -> Volume:
    read_only = rng.random() < 0.5
    return rng.choice(
        [
            Volume(gce_persistent_disk=GCEPersistentDiskVolumeSource(pd_name="d", read_only=read_only)),
            Volume(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id=f"vol-{rng.randrange(3)}")),
            Volume(iscsi=ISCSIVolumeSource(iqn="q", read_only=read_only)),
            Volume(rbd=RBDVolumeSource(monitors=tuple(rng.sample("xyz", 2)), pool="p", image="i", read_only=read_only)),
        ]
    )


def random_pod(rng: Random, name: str, node: str = ""):
    claims = rng.sample([f"c{i}" for i in range(6)], rng.randint(0, 3))
    disks = [random_disk(rng)] if rng.random() < 0.4 else []
    return make_pod(name, claims=claims, volumes=disks, node_name=node)


def random_capacity(rng: Random, name: str):
    topology = rng.choice([None, LabelSelector(), LabelSelector(match_labels={ZONE: rng.choice("abc")})])
    return capacity(name, f"{rng.randint(1, 5)}Gi", class_name="zonal", topology=topology)


def shake(rng: Random, bench: Bench, round_: int) -> None:
    """Change the cluster a little; the first round fills it."""
    for i in range(6):
        if round_ == 0 or rng.random() < 0.2:
            bench.cache.add_node(random_node(rng, f"n{i}"))
            bench.lister("CSINode").put(random_csi_node(rng, f"n{i}"))
        elif rng.random() < 0.1:
            bench.cache.remove_node(f"n{i}")
        if round_ == 0 or rng.random() < 0.3:
            bench.lister("PersistentVolumeClaim").put(random_claim(rng, f"c{i}"))
            bench.lister("CSIStorageCapacity").put(random_capacity(rng, f"s{i}"))
        if rng.random() < 0.3:
            bench.cache.add_pod(random_pod(rng, f"old-{round_}-{i}", f"n{rng.randrange(6)}"))
    for i in range(9):
        if round_ == 0 or rng.random() < 0.3:
            bench.lister("PersistentVolume").put(random_volume(rng, f"v{i}"))
    for state in list(bench.cache.pods.values()):
        if rng.random() < 0.2:
            bench.cache.remove_pod(state.info.uid)
    bench.lister("VolumeAttachment").put(attachment(f"a{round_}", f"n{rng.randrange(6)}", f"v{rng.randrange(9)}"))


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_all_forms_agree(plugin):
    outcomes = set()
    for seed in range(12):
        rng = Random(seed)
        bench = Bench(plugin, objects=[*CLASSES, *DRIVERS], gates={SCALING_GATE: seed % 2 == 0})
        for round_ in range(8):
            shake(rng, bench, round_)
            for i in range(6):
                pod = random_pod(rng, f"new-{i}")
                answer = bench.pre_filter(pod)
                if not (isinstance(answer, Status) and not answer.ok):
                    outcomes |= {status.reasons for status in bench.filter(pod).values()}
    assert len(outcomes) > (3 if plugin is VolumeBinding else 1)


def test_both_forms_give_a_node_the_same_volumes():
    compared = 0
    for seed in range(12):
        rng = Random(seed)
        bench = Bench(VolumeBinding, objects=[*CLASSES, *DRIVERS])
        for round_ in range(8):
            shake(rng, bench, round_)
            for i in range(6):
                pod = random_pod(rng, f"new-{i}")
                state = bench.state(pod)
                if bench.pre_filter(pod, state) is None:
                    compared += compare_choices(bench, state.read("VolumeBinding").claims)
    assert compared > 50


def compare_choices(bench: Bench, claims) -> int:
    """Hold the volumes that each form gives each node against each other; returns how many there were."""
    finder, count = bench.plugin.finder, 0
    choices = finder.choices(claims.to_match, bench.snapshot.nodes)
    for info in bench.snapshot.node_infos():
        one = finder.find(claims, info)
        if claims.selected or one.problems:
            continue
        given = {
            delayed.claim.metadata.name: (delayed.reserved or delayed.free.volumes[chosen[info.row]]).metadata.name
            for delayed, chosen in zip(claims.to_match, choices, strict=True)
            if chosen[info.row] >= 0
        }
        assert given == {b.claim.metadata.name: b.volume.metadata.name for b in one.bindings}
        count += len(given)
    return count
