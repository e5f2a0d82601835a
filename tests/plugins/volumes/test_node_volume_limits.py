"""NodeVolumeLimits: how many volumes a driver can attach to a node, and what counts."""

import pytest

from kube.api.core import (
    AWSElasticBlockStoreVolumeSource,
    CSIVolumeSource,
    GCEPersistentDiskVolumeSource,
    Volume,
)
from plugins.node_volume_limits import (
    LIMIT_EXCEEDED,
    SCALING_GATE,
    NodeVolumeLimits,
    own_claim_added,
    volume_detached,
    volumes_released,
)
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import SKIP, Code, error, unresolvable
from tests.builders import make_node, make_pod, owned_by
from tests.plugins.harness import Bench
from tests.plugins.volumes.builders import (
    DRIVER,
    attachment,
    claim,
    csi_driver,
    csi_node,
    ephemeral,
    storage_class,
    volume,
)

EBS = Volume(name="disk", aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="aws://z/vol-1"))
EBS_PV = {"aws_elastic_block_store": AWSElasticBlockStoreVolumeSource(volume_id="vol-1"), "driver": ""}
BOUND = [obj for i in range(5) for obj in (claim(f"c{i}", volume=f"v{i}"), volume(f"v{i}", bound_to=f"c{i}"))]
NEW = make_pod("new", claims=["c0"])


def bench(limit: int | None = 1, *, pods=(), objects=(), driver: str = DRIVER, gates=None) -> Bench:
    """Node n1 with a limit for one driver, and n2 that knows of no limits."""
    return Bench(
        NodeVolumeLimits,
        nodes=[make_node("n1"), make_node("n2")],
        pods=pods,
        objects=[*BOUND, storage_class(), csi_node("n1", {driver: limit}), *objects],
        gates=gates,
    )


def on_node(*names: str, volumes=(), name: str = "old"):
    return make_pod(name, node_name="n1", claims=names, volumes=volumes)


@pytest.mark.parametrize(
    ("limit", "pods", "new", "fits"),
    [
        pytest.param(1, [], ["c0"], True, id="the last free place"),
        pytest.param(1, [on_node("c1")], ["c0"], False, id="no place left"),
        pytest.param(2, [on_node("c1")], ["c0"], True, id="a second place"),
        pytest.param(0, [], ["c0"], False, id="a driver that cannot attach anything"),
        pytest.param(None, [on_node("c1")], ["c0"], True, id="a driver without a limit"),
        pytest.param(1, [on_node("c0")], ["c0"], True, id="a volume that is there already takes no place"),
        pytest.param(1, [on_node("c0", "c1")], ["c0"], True, id="so also on an overfull node"),
        pytest.param(
            2, [on_node("c1"), on_node("c1", name="o2")], ["c0"], True, id="one volume of two pods counts once"
        ),
        pytest.param(2, [], ["c0", "c1", "c2"], False, id="all new volumes count together"),
        pytest.param(1, [], ["c0", "c0"], True, id="a claim used twice is one volume"),
        pytest.param(1, [on_node("unknown")], ["c0"], True, id="a running pod's missing claim counts nothing"),
    ],
)
def test_the_limit_of_a_driver(limit, pods, new, fits):
    found = bench(limit, pods=pods).filter(make_pod("new", claims=new))
    assert found["n1"].ok is fits
    assert found["n2"].ok
    if not fits:
        assert found["n1"].reasons == (LIMIT_EXCEEDED,)
        assert found["n1"].code is Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("limit", "objects", "fits"),
    [
        pytest.param(1, [attachment("a", "n1", "v1")], False, id="an attached volume of no pod takes a place"),
        pytest.param(1, [attachment("a", "n2", "v1")], True, id="on another node it does not"),
        pytest.param(1, [attachment("a", "n1", "v0")], True, id="the pod's own volume may be attached already"),
        pytest.param(1, [attachment("a", "n1", "gone")], True, id="an attachment of an unknown volume"),
        pytest.param(1, [attachment("a", "n1", None)], True, id="an attachment of an inline volume"),
        pytest.param(1, [attachment("a", "n1", "v1", attacher="other")], True, id="another driver's attachment"),
        pytest.param(2, [attachment("a", "n1", "v1"), attachment("b", "n1", "v2")], False, id="all attachments count"),
    ],
)
def test_attachments_count_beside_pods(limit, objects, fits):
    assert bench(limit, objects=objects).filter(NEW)["n1"].ok is fits


def test_a_volume_of_a_pod_that_is_attached_counts_once():
    assert bench(2, pods=[on_node("c1")], objects=[attachment("a", "n1", "v1")]).filter(NEW)["n1"].ok


@pytest.mark.parametrize(
    ("objects", "pods", "fits"),
    [
        pytest.param([claim("new")], [], True, id="an unbound claim takes one place"),
        pytest.param([claim("new")], [on_node("c1")], False, id="of the driver that will provision it"),
        pytest.param([claim("new"), claim("more")], [on_node("more")], False, id="unbound claims of pods count too"),
        pytest.param([claim("new", class_name="none")], [on_node("c1")], True, id="without its class it is unknown"),
        pytest.param([claim("new", volume="gone")], [on_node("c1")], False, id="without its volume the class tells"),
        pytest.param(
            [claim("new", volume="nfs"), volume("nfs", driver="")], [on_node("c1")], True, id="no CSI volume, no limit"
        ),
    ],
)
def test_claims_that_have_no_volume_yet(objects, pods, fits):
    assert bench(1, pods=pods, objects=objects).filter(make_pod("p", claims=["new"]))["n1"].ok is fits


@pytest.mark.parametrize(
    ("pods", "new", "fits"),
    [
        pytest.param([on_node("c1")], make_pod("p", volumes=[EBS]), True, id="other drivers' volumes do not count"),
        pytest.param(
            [on_node(volumes=[EBS])],
            make_pod("p", claims=["in-tree"]),
            True,
            id="inline and claimed are one EBS volume",
        ),
        pytest.param(
            [on_node(volumes=[EBS])], make_pod("p", claims=["in-tree", "dynamic"]), False, id="a migrated class counts"
        ),
        pytest.param(
            [],
            make_pod(
                "p", volumes=[EBS, Volume(name="g", gce_persistent_disk=GCEPersistentDiskVolumeSource(pd_name="g"))]
            ),
            True,
            id="a GCE disk is another driver's",
        ),
    ],
)
def test_volumes_of_former_in_tree_plugins(pods, new, fits):
    objects = [
        claim("in-tree", volume="ebs"),
        volume("ebs", **EBS_PV),
        claim("dynamic", class_name="gp2"),
        storage_class("gp2", provisioner="kubernetes.io/aws-ebs"),
    ]
    assert bench(1, driver="ebs.csi.aws.com", pods=pods, objects=objects).filter(new)["n1"].ok is fits


@pytest.mark.parametrize(
    ("pod", "answer"),
    [
        pytest.param(make_pod("p"), SKIP, id="no volumes"),
        pytest.param(
            make_pod("p", volumes=[Volume(name="v", csi=CSIVolumeSource(driver=DRIVER))]), SKIP, id="inline CSI volumes"
        ),
        pytest.param(make_pod("p", claims=["c0"]), None, id="claims"),
        pytest.param(make_pod("p", volumes=[EBS]), None, id="in-tree volumes"),
        pytest.param(make_pod("p", volumes=[ephemeral("e")]), None, id="ephemeral volumes"),
    ],
)
def test_pods_without_attachable_volumes_are_skipped(pod, answer):
    assert bench().pre_filter(pod) == answer


def test_a_missing_claim_of_the_pod_is_nothing_that_eviction_could_help():
    text = 'looking up PVC default/nope: persistentvolumeclaim "nope" not found'
    assert bench().filter(make_pod("p", claims=["nope"])) == {
        name: unresolvable(text).by("NodeVolumeLimits") for name in ("n1", "n2")
    }


def test_an_ephemeral_claim_of_another_pod_is_an_error():
    tested = bench(objects=[claim("p-e")])
    pod = make_pod("p", volumes=[ephemeral("e")])
    state = tested.state(pod)
    tested.pre_filter(pod, state)
    text = "PVC default/p-e was not created for pod default/p (pod is not owner)"
    assert tested.plugin.filter(state, pod, tested.snapshot.nodes) == error(text)


def test_an_ephemeral_claim_counts_like_any_other():
    pod = make_pod("p", uid="uid-p", volumes=[ephemeral("e")])
    tested = bench(1, pods=[on_node("c1")], objects=[claim("p-e", owner=owned_by("Pod", "p", uid="uid-p"))])
    assert not tested.filter(pod)["n1"].ok


@pytest.mark.parametrize(
    ("must", "gate", "reason"),
    [
        pytest.param(True, True, f"{DRIVER} CSI driver is not installed on the node", id="a driver that pods wait for"),
        pytest.param(False, True, "", id="a driver that does not ask for it"),
        pytest.param(True, False, "", id="without the gate"),
    ],
)
def test_a_driver_that_is_not_on_the_node(must, gate, reason):
    tested = bench(5, objects=[csi_driver(prevent_pod_scheduling_if_missing=must)], gates={SCALING_GATE: gate})
    assert tested.reasons(NEW) == ({"n2": (reason,)} if reason else {})


def test_news_of_limits_and_pods_is_seen():
    tested = bench(1, pods=[on_node("c1")])
    assert tested.fits(NEW) == {"n2"}
    tested.lister("CSINode").put(csi_node("n1", {DRIVER: 2}))
    assert tested.fits(NEW) == {"n1", "n2"}
    tested.cache.add_pod(on_node("c2", name="more"))
    assert tested.fits(NEW) == {"n2"}
    for state in list(tested.cache.pods.values()):
        tested.cache.remove_pod(state.info.uid)
    assert tested.fits(NEW) == {"n1", "n2"}


@pytest.mark.parametrize(
    ("old", "new", "gate", "answer"),
    [
        pytest.param({DRIVER: 1}, {DRIVER: 2}, False, QueueingHint.QUEUE, id="raised"),
        pytest.param({DRIVER: 2}, {DRIVER: 1}, False, QueueingHint.SKIP, id="lowered"),
        pytest.param({DRIVER: 1}, {DRIVER: None}, False, QueueingHint.QUEUE, id="fell away"),
        pytest.param({"x": 1}, {"x": 1, DRIVER: 2}, False, QueueingHint.SKIP, id="a driver came"),
        pytest.param({"x": 1}, {"x": 1, DRIVER: 2}, True, QueueingHint.QUEUE, id="a driver came that pods wait for"),
    ],
)
def test_a_changed_limit_wakes_pods_when_it_gives_room(old, new, gate, answer):
    tested = bench(gates={SCALING_GATE: gate})
    assert tested.plugin.limit_raised(NEW, csi_node("n1", old), csi_node("n1", new)) is answer


@pytest.mark.parametrize(
    ("hint", "old", "new", "answer"),
    [
        pytest.param(volumes_released, on_node("c1"), None, QueueingHint.QUEUE, id="a pod with a claim went"),
        pytest.param(volumes_released, on_node(volumes=[EBS]), None, QueueingHint.QUEUE, id="one with a disk"),
        pytest.param(volumes_released, on_node(), None, QueueingHint.SKIP, id="one without volumes"),
        pytest.param(volumes_released, make_pod("x", claims=["c"]), None, QueueingHint.SKIP, id="one without a place"),
        pytest.param(own_claim_added, None, claim("c0"), QueueingHint.QUEUE, id="the pod's claim came"),
        pytest.param(own_claim_added, None, claim("x"), QueueingHint.SKIP, id="another claim came"),
        pytest.param(
            volume_detached, attachment("a", "n1", "v9"), None, QueueingHint.QUEUE, id="a volume was detached"
        ),
    ],
)
def test_what_wakes_a_pod(hint, old, new, answer):
    assert hint(NEW, old, new) is answer


def test_a_detached_volume_is_nothing_to_a_pod_of_another_driver():
    pod = make_pod("p", volumes=[EBS])
    assert volume_detached(pod, attachment("a", "n1", "v"), None) is QueueingHint.SKIP
    assert volume_detached(pod, attachment("a", "n1", "v", attacher="ebs.csi.aws.com"), None) is QueueingHint.QUEUE
