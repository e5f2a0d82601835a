"""VolumeZone: nodes must carry the zone and region labels of bound volumes."""

import pytest

from kube.api.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from plugins.volume_zone import VolumeZone, delayed_class_added, own_claim_changed, zones_changed
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import SKIP, Code, unresolvable
from tests.builders import make_node, make_pod
from tests.plugins.harness import Bench
from tests.plugins.volumes.builders import claim, ephemeral, storage_class, volume

NODES = [
    make_node("a", labels={ZONE: "a", REGION: "r1"}),
    make_node("b", labels={ZONE: "b", REGION: "r1"}),
    make_node("old-a", labels={BETA_ZONE: "a", BETA_REGION: "r1"}),
    make_node("far", labels={ZONE: "a", REGION: "r2"}),
    make_node("region-only", labels={REGION: "r1"}),
    make_node("plain"),
]


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        pytest.param({ZONE: "a"}, {"a", "far", "plain"}, id="the zone must be the same; an unlabelled node will do"),
        pytest.param({ZONE: "a__b"}, {"a", "b", "far", "plain"}, id="one of several zones"),
        pytest.param({ZONE: "a", REGION: "r1"}, {"a", "plain"}, id="zone and region must both be right"),
        pytest.param(
            {BETA_ZONE: "a"}, {"a", "old-a", "far", "plain"}, id="an old label of the volume means the new one"
        ),
        pytest.param({BETA_REGION: "r1"}, {"a", "b", "old-a", "region-only", "plain"}, id="so does an old region"),
        pytest.param({ZONE: "c"}, {"plain"}, id="a zone without nodes"),
    ],
)
def test_nodes_in_the_zones_of_a_volume(labels, fits):
    bench = Bench(VolumeZone, nodes=NODES, objects=[claim("c", volume="v"), volume("v", labels=labels)])
    pod = make_pod("p", claims=["c"])
    assert bench.fits(pod) == fits
    refused = {name: status for name, status in bench.filter(pod).items() if not status.ok}
    assert {s.code for s in refused.values()} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    assert {s.reasons for s in refused.values()} == {("node(s) had no available volume zone",)}


@pytest.mark.parametrize(
    ("objects", "answer"),
    [
        pytest.param([claim("c", volume="v"), volume("v")], SKIP, id="a volume without labels says nothing"),
        pytest.param(
            [claim("c", volume="v"), volume("v", labels={ZONE: "a__"})],
            SKIP,
            id="a label with an empty zone is ignored",
        ),
        pytest.param([claim("c"), storage_class()], SKIP, id="an unbound claim that waits for its consumer"),
        pytest.param([], unresolvable('persistentvolumeclaim "c" not found'), id="no claim"),
        pytest.param([claim("c", volume="v")], unresolvable('persistentvolume "v" not found'), id="no volume"),
        pytest.param(
            [claim("c")], unresolvable('storageclass.storage.k8s.io "wait" not found'), id="unbound, and no class"
        ),
        pytest.param(
            [claim("c", class_name=None)],
            unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
            id="unbound, and it names no class",
        ),
        pytest.param(
            [claim("c"), storage_class(mode="Immediate")],
            unresolvable("PersistentVolume had no name"),
            id="unbound, though its class binds at once",
        ),
        pytest.param(
            [claim("c"), storage_class(mode=None)],
            unresolvable('VolumeBindingMode not set for StorageClass "wait"'),
            id="a class without a mode",
        ),
    ],
)
def test_what_pre_filter_answers(objects, answer):
    bench = Bench(VolumeZone, nodes=NODES, objects=objects)
    assert bench.pre_filter(make_pod("p", claims=["c"])) == answer


def test_ephemeral_volumes_are_not_looked_at():
    assert Bench(VolumeZone, nodes=NODES).pre_filter(make_pod("p", volumes=[ephemeral("e")])) == SKIP


POD = make_pod("p", claims=["c"])


@pytest.mark.parametrize(
    ("hint", "old", "new", "answer"),
    [
        pytest.param(delayed_class_added, None, storage_class(), QueueingHint.QUEUE, id="a class that binds late"),
        pytest.param(
            delayed_class_added, None, storage_class(mode="Immediate"), QueueingHint.SKIP, id="a class that does not"
        ),
        pytest.param(own_claim_changed, None, claim("c"), QueueingHint.QUEUE, id="the pod's claim was added"),
        pytest.param(
            own_claim_changed, claim("c"), claim("c", volume="v"), QueueingHint.QUEUE, id="the pod's claim was bound"
        ),
        pytest.param(own_claim_changed, None, claim("x"), QueueingHint.SKIP, id="somebody else's claim"),
        pytest.param(zones_changed, None, volume("v"), QueueingHint.QUEUE, id="a volume was added"),
        pytest.param(
            zones_changed, volume("v"), volume("v", labels={ZONE: "a"}), QueueingHint.QUEUE, id="a volume got a zone"
        ),
        pytest.param(
            zones_changed, volume("v"), volume("v", labels={"x": "y"}), QueueingHint.SKIP, id="another label changed"
        ),
    ],
)
def test_what_wakes_a_pod(hint, old, new, answer):
    assert hint(POD, old, new) is answer
