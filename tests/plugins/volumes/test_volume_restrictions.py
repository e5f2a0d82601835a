"""VolumeRestrictions: who may share a disk on a node, and that a ReadWriteOncePod claim has one user."""

import pytest

from kube.api.core import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    RBDVolumeSource,
    Volume,
)
from plugins.volume_restrictions import (
    CLAIM_IN_USE,
    DISK_CONFLICT,
    VolumeRestrictions,
    disk_or_claim_freed,
    own_claim_added,
)
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import SKIP, Code, unresolvable
from tests.builders import make_node, make_pod
from tests.plugins.harness import Bench
from tests.plugins.volumes.builders import claim, ephemeral


def gce(name: str, *, read_only: bool = False) -> Volume:
    return Volume(name="v", gce_persistent_disk=GCEPersistentDiskVolumeSource(pd_name=name, read_only=read_only))


def ebs(name: str, *, read_only: bool = False) -> Volume:
    source = AWSElasticBlockStoreVolumeSource(volume_id=name, read_only=read_only)
    return Volume(name="v", aws_elastic_block_store=source)


def iscsi(iqn: str, *, lun: int = 0, read_only: bool = False) -> Volume:
    return Volume(name="v", iscsi=ISCSIVolumeSource(iqn=iqn, lun=lun, read_only=read_only))


def rbd(*monitors: str, pool: str = "p", image: str = "i", read_only: bool = False) -> Volume:
    return Volume(name="v", rbd=RBDVolumeSource(monitors=monitors, pool=pool, image=image, read_only=read_only))


@pytest.mark.parametrize(
    ("there", "wanted", "conflict"),
    [
        pytest.param(gce("a"), gce("a"), True, id="a GCE disk is written by one pod"),
        pytest.param(gce("a", read_only=True), gce("a"), True, id="a reader keeps a writer of a GCE disk out"),
        pytest.param(gce("a"), gce("a", read_only=True), True, id="a writer keeps a reader of a GCE disk out"),
        pytest.param(gce("a", read_only=True), gce("a", read_only=True), False, id="readers share a GCE disk"),
        pytest.param(gce("a"), gce("b"), False, id="another GCE disk is free"),
        pytest.param(ebs("a", read_only=True), ebs("a", read_only=True), True, id="even readers never share EBS"),
        pytest.param(ebs("a"), gce("a"), False, id="equal names of different kinds are different disks"),
        pytest.param(iscsi("q", lun=1), iscsi("q", lun=2), True, id="an iSCSI target counts whatever the LUN"),
        pytest.param(iscsi("q", read_only=True), iscsi("q", read_only=True), False, id="readers share iSCSI"),
        pytest.param(rbd("m1", "m2"), rbd("m2", "m3"), True, id="one common monitor makes it the same RBD image"),
        pytest.param(rbd("m1"), rbd("m2"), False, id="without a common monitor it is another RBD image"),
        pytest.param(rbd("m1"), rbd("m1", pool="other"), False, id="the RBD pool tells images apart"),
        pytest.param(rbd("m1", read_only=True), rbd("m1", read_only=True), False, id="readers share an RBD image"),
    ],
)
def test_a_disk_on_the_node(there, wanted, conflict):
    bench = Bench(
        VolumeRestrictions,
        nodes=[make_node("n1"), make_node("n2")],
        pods=[make_pod("user", node_name="n1", volumes=[there])],
    )
    reasons = bench.reasons(make_pod("new", volumes=[wanted]))
    assert reasons == ({"n1": (DISK_CONFLICT,)} if conflict else {})


def test_preemption_may_free_a_disk():
    bench = Bench(VolumeRestrictions, nodes=[make_node("n1")], pods=[make_pod("u", node_name="n1", volumes=[ebs("a")])])
    assert bench.codes(make_pod("new", volumes=[ebs("a")])) == {"n1": Code.UNSCHEDULABLE}


def test_a_disk_is_free_once_its_user_is_gone():
    user = make_pod("user", node_name="n1", volumes=[gce("a"), ebs("b")])
    bench = Bench(VolumeRestrictions, nodes=[make_node("n1")], pods=[user])
    new = make_pod("new", volumes=[gce("a")])
    assert bench.fits(new) == set()
    bench.cache.remove_pod(user.metadata.uid)
    assert bench.fits(new) == {"n1"}


@pytest.mark.parametrize(
    ("pod", "answer"),
    [
        pytest.param(make_pod("p"), SKIP, id="without volumes there is nothing to say"),
        pytest.param(make_pod("p", claims=["shared"]), SKIP, id="other access modes are nobody's business"),
        pytest.param(make_pod("p", claims=["solo"]), SKIP, id="an unused ReadWriteOncePod claim is free"),
        pytest.param(make_pod("p", volumes=[ephemeral("e")]), SKIP, id="ephemeral claims are not looked up"),
        pytest.param(make_pod("p", volumes=[gce("a")]), None, id="a disk is looked at on every node"),
        pytest.param(
            make_pod("p", claims=["gone"]),
            unresolvable('persistentvolumeclaim "gone" not found'),
            id="a missing claim rules out every node",
        ),
    ],
)
def test_what_pre_filter_answers(pod, answer):
    bench = Bench(
        VolumeRestrictions,
        nodes=[make_node("n1")],
        objects=[claim("shared"), claim("solo", modes=["ReadWriteOncePod"])],
    )
    assert bench.pre_filter(pod) == answer


def bench_with_user(namespace: str = "default") -> Bench:
    return Bench(
        VolumeRestrictions,
        nodes=[make_node("n1"), make_node("n2")],
        pods=[
            make_pod("user", namespace=namespace, node_name="n1", claims=["solo"]),
            make_pod("stranger", namespace="third", node_name="n1", claims=["solo"]),
            make_pod("disk", node_name="n2", volumes=[ebs("a")]),
        ],
        objects=[claim("solo", namespace=ns, modes=["ReadWriteOncePod"]) for ns in ("default", "other")],
    )


def test_a_claim_for_one_pod_that_is_in_use_keeps_the_pod_from_every_node():
    found = bench_with_user().filter(make_pod("new", claims=["solo"]))
    assert {s.reasons for s in found.values()} == {(CLAIM_IN_USE,)}
    assert {s.code for s in found.values()} == {Code.UNSCHEDULABLE}


def test_the_disk_is_told_before_the_claim():
    assert bench_with_user().reasons(make_pod("new", claims=["solo"], volumes=[ebs("a")])) == {
        "n1": (CLAIM_IN_USE,),
        "n2": (DISK_CONFLICT,),
    }


def test_a_claim_of_the_same_name_elsewhere_is_another_claim():
    assert bench_with_user("other").fits(make_pod("new", claims=["solo"])) == {"n1", "n2"}


@pytest.mark.parametrize(
    ("victim", "fits"),
    [
        pytest.param("user", True, id="evicting the user frees the claim"),
        pytest.param("disk", False, id="evicting another pod does not"),
        pytest.param("stranger", False, id="evicting the user of another namespace's claim does not"),
    ],
)
def test_dry_runs_take_users_away_and_put_them_back(victim, fits):
    bench = bench_with_user()
    new = make_pod("new", claims=["solo"])
    state = bench.state(new)
    bench.pre_filter(new, state)
    tried = state.clone()
    node = next(
        info for info in bench.snapshot.node_infos() if any(victim in p.key for p in info.pods.values())
    ).clone()
    (removed,) = (pod for pod in node.pods.values() if victim in pod.key)
    node.remove_pod(removed)
    bench.plugin.remove_pod(tried, new, removed, node)
    assert (bench.plugin.filter_node(tried, new, node) is None) is fits
    node.add_pod(removed)
    bench.plugin.add_pod(tried, new, removed, node)
    assert bench.plugin.filter_node(tried, new, node) is not None
    # The cycle's own state is as it was.
    assert bench.plugin.filter_node(state, new, node) is not None


WAITING = make_pod("waiting", claims=["solo"], volumes=[gce("a", read_only=True)])


@pytest.mark.parametrize(
    ("deleted", "hint"),
    [
        pytest.param(make_pod("d", claims=["solo"]), QueueingHint.QUEUE, id="it used the claim"),
        pytest.param(make_pod("d", volumes=[gce("a")]), QueueingHint.QUEUE, id="it wrote the disk"),
        pytest.param(make_pod("d", volumes=[gce("a", read_only=True)]), QueueingHint.SKIP, id="it read the disk"),
        pytest.param(make_pod("d", namespace="other", claims=["solo"]), QueueingHint.SKIP, id="another namespace"),
        pytest.param(make_pod("d", claims=["else"]), QueueingHint.SKIP, id="it used another claim"),
    ],
)
def test_a_deleted_pod_wakes_those_it_kept_out(deleted, hint):
    assert disk_or_claim_freed(WAITING, deleted, None) is hint


@pytest.mark.parametrize(
    ("added", "hint"),
    [
        pytest.param(claim("solo"), QueueingHint.QUEUE, id="the pod's own claim"),
        pytest.param(claim("solo", namespace="other"), QueueingHint.SKIP, id="a claim of another namespace"),
        pytest.param(claim("else"), QueueingHint.SKIP, id="somebody else's claim"),
    ],
)
def test_an_added_claim_wakes_its_pods(added, hint):
    assert own_claim_added(WAITING, None, added) is hint
