"""VolumeBinding up to the choice of a node: which claims are usable, which nodes have or can get the volumes."""

import pytest

from kube.api.core import AWSElasticBlockStoreVolumeSource, CSIVolumeSource, Volume
from kube.api.csi_migration import MIGRATED_PLUGINS
from kube.api.meta import LabelSelector
from plugins.volume_binding import VolumeBinding
from plugins.volume_binding.claims import UNBOUND_IMMEDIATE
from plugins.volume_binding.finder import NO_ROOM, NO_VOLUME, NOT_REACHABLE, VOLUME_GONE
from plugins.volume_binding.plugin import (
    capacity_check_dropped,
    class_changed,
    migration_changed,
    own_claim_changed,
    room_grew,
)
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import SKIP, Code, Status, error, unresolvable
from tests.builders import ZONE, In, NotIn, make_node, make_pod, node_selector, node_term, owned_by, requires
from tests.plugins.harness import Bench
from tests.plugins.volumes.builders import (
    DRIVER,
    capacity,
    claim,
    csi_driver,
    csi_node,
    ephemeral,
    storage_class,
    volume,
)

NODES = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b")]
POD = make_pod("p", claims=["c"])
TWO = make_pod("p", claims=["c", "d"])
LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")
ALL = {"a1", "a2", "b1"}


def bench(*objects, nodes=NODES, **kwargs) -> Bench:
    return Bench(VolumeBinding, nodes=nodes, objects=objects, **kwargs)


# --- PreFilter ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "objects", "answer"),
    [
        pytest.param(make_pod("p"), [], SKIP, id="no volumes"),
        pytest.param(make_pod("p", volumes=[Volume(name="config")]), [], SKIP, id="volumes without claims"),
        pytest.param(POD, [claim("c", volume="v")], None, id="a bound claim, whatever became of its volume"),
        pytest.param(POD, [claim("c"), storage_class()], None, id="an unbound claim that waits for its consumer"),
        pytest.param(POD, [], unresolvable('persistentvolumeclaim "c" not found'), id="no claim"),
        pytest.param(
            POD, [claim("c", deleting=True)], unresolvable('persistentvolumeclaim "c" is being deleted'), id="deleting"
        ),
        pytest.param(
            POD,
            [claim("c", volume="v", phase="Lost", deleting=True)],
            unresolvable('persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
            id="lost, which is told before deleting",
        ),
        pytest.param(
            POD, [claim("c"), storage_class(mode="Immediate")], unresolvable(UNBOUND_IMMEDIATE), id="unbound immediate"
        ),
        pytest.param(POD, [claim("c")], unresolvable(UNBOUND_IMMEDIATE), id="unbound, its class unknown"),
        pytest.param(POD, [claim("c", class_name="")], unresolvable(UNBOUND_IMMEDIATE), id="unbound, no class"),
        pytest.param(
            POD,
            [claim("c", volume="v", complete=False), storage_class(), volume("v")],
            unresolvable(UNBOUND_IMMEDIATE),
            id="the author named the volume and the controller is not done",
        ),
        pytest.param(
            POD,
            [claim("c"), storage_class(mode=None)],
            error('VolumeBindingMode not set for StorageClass "wait"'),
            id="a class without a mode",
        ),
        pytest.param(
            make_pod("p", volumes=[ephemeral("e")]),
            [],
            unresolvable('waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'),
            id="an ephemeral claim that is not there yet",
        ),
        pytest.param(
            make_pod("p", volumes=[ephemeral("e")]),
            [claim("p-e", volume="v")],
            unresolvable("PVC default/p-e was not created for pod default/p (pod is not owner)"),
            id="an ephemeral claim of somebody else",
        ),
        pytest.param(
            make_pod("p", uid="uid-p", volumes=[ephemeral("e")]),
            [claim("p-e", volume="v", owner=owned_by("Pod", "p", uid="uid-p"))],
            None,
            id="an ephemeral claim of the pod",
        ),
    ],
)
def test_what_pre_filter_answers(pod, objects, answer):
    assert bench(*objects).pre_filter(pod) == answer


# --- bound claims ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "fits", "reason"),
    [
        pytest.param([volume("v")], ALL, "", id="a volume without affinity is everywhere"),
        pytest.param([volume("v", zone="a")], {"a1", "a2"}, NOT_REACHABLE, id="a volume of a zone"),
        pytest.param([volume("v", host="a2")], {"a2"}, NOT_REACHABLE, id="a local volume"),
        pytest.param(
            [volume("v", nodes=node_selector(requires(ZONE, In, "b"), node_term(requires(ZONE, NotIn, "a", "b"))))],
            {"b1"},
            NOT_REACHABLE,
            id="one of the terms must hold",
        ),
        pytest.param([volume("v", nodes=node_selector())], set(), NOT_REACHABLE, id="no terms reach nothing"),
        pytest.param([], set(), VOLUME_GONE, id="a volume that is gone"),
    ],
)
def test_a_bound_volume_is_reached_from_its_nodes(objects, fits, reason):
    found = bench(claim("c", volume="v"), *objects).filter(POD)
    assert {name for name, status in found.items() if status.ok} == fits
    refused = {status for status in found.values() if not status.ok}
    assert refused == ({Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), "VolumeBinding")} if reason else set())


def test_two_bound_volumes_must_both_be_reached():
    tested = bench(claim("c", volume="v"), claim("d", volume="w"), volume("v", zone="a"), volume("w", host="a2"))
    assert tested.fits(TWO) == {"a2"}


def test_hostnames_are_labels_and_need_not_be_names_of_nodes():
    nodes = [make_node("n1", labels={"kubernetes.io/hostname": "host-1"}), make_node("host-1", labels={"x": "y"})]
    nodes[1].metadata.labels["kubernetes.io/hostname"] = "host-2"
    tested = bench(claim("c", volume="v"), volume("v", host="host-1"), nodes=nodes)
    assert tested.fits(POD) == {"n1"}


def test_an_in_tree_volume_is_where_its_driver_says_once_the_node_has_handed_it_over():
    key = "topology.ebs.csi.aws.com/zone"
    nodes = [
        make_node("old", zone="a"),
        make_node("new", labels={key: "a"}),
        make_node("new-b", zone="a", labels={key: "b"}),
    ]
    migrated = {MIGRATED_PLUGINS: "kubernetes.io/cinder,kubernetes.io/aws-ebs"}
    source = AWSElasticBlockStoreVolumeSource(volume_id="vol-1")
    tested = bench(
        claim("c", volume="v"),
        volume("v", zone="a", driver="", aws_elastic_block_store=source),
        csi_node("old"),
        csi_node("new", annotations=migrated),
        csi_node("new-b", annotations=migrated),
        nodes=nodes,
    )
    assert tested.fits(POD) == {"old", "new"}


# --- unbound claims: existing volumes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        pytest.param({}, {"zone": "a"}, {"a1", "a2"}, id="a free volume that suits"),
        pytest.param({"size": "2Gi"}, {}, set(), id="too small"),
        pytest.param({"size": "1024Mi"}, {"size": "1Gi"}, ALL, id="sizes are amounts, not texts"),
        pytest.param({}, {"class_name": "other"}, set(), id="another class"),
        pytest.param({"modes": ["ReadWriteMany"]}, {}, set(), id="an access mode is missing"),
        pytest.param({"modes": ["ReadOnlyMany"]}, {"modes": ["ReadWriteOnce", "ReadOnlyMany"]}, ALL, id="more modes"),
        pytest.param({"volume_mode": "Block"}, {}, set(), id="a file system is no block device"),
        pytest.param({"volume_mode": "Filesystem"}, {}, ALL, id="no mode means file system"),
        pytest.param({"volume_attributes_class_name": "gold"}, {}, set(), id="another attributes class"),
        pytest.param({}, {"phase": "Released"}, set(), id="not available"),
        pytest.param({}, {"deleting": True}, set(), id="being deleted"),
        pytest.param({}, {"bound_to": "x"}, set(), id="somebody else's"),
        pytest.param({}, {"bound_to": "c", "phase": "Pending"}, ALL, id="reserved for the claim, in any phase"),
        pytest.param({}, {"bound_to": "c", "bound_uid": ""}, ALL, id="reserved by its author, who knows no UID"),
        pytest.param({}, {"bound_to": "c", "bound_uid": "old"}, set(), id="reserved for a claim of that name before"),
        pytest.param({"size": "2Gi"}, {"bound_to": "c"}, set(), id="reserved, but too small"),
        pytest.param(
            {"selector": LabelSelector(match_labels={"disk": "ssd"})}, {"labels": {"disk": "hdd"}}, set(), id="selector"
        ),
        pytest.param(
            {"selector": LabelSelector(match_labels={"disk": "ssd"})}, {"labels": {"disk": "ssd"}}, ALL, id="selected"
        ),
    ],
)
def test_a_volume_that_suits_a_claim(wanted, offered, fits):
    tested = bench(LOCAL, claim("c", class_name="local", **wanted), volume("v", **{"class_name": "local"} | offered))
    assert tested.fits(POD) == fits
    assert set(tested.reasons(POD).values()) == ({(NO_VOLUME,)} if fits != ALL else set())


def test_where_a_reserved_volume_cannot_be_reached_no_other_will_do():
    tested = bench(
        LOCAL,
        claim("c", class_name="local"),
        volume("mine", class_name="local", bound_to="c", zone="a"),
        volume("free", class_name="local"),
    )
    assert tested.fits(POD) == {"a1", "a2"}


def chosen(tested: Bench, pod, node: str) -> dict[str, str]:
    """claim -> volume that the pod would get on a node."""
    state = tested.state(pod)
    tested.pre_filter(pod, state)
    assert tested.plugin.filter_node(state, pod, tested.snapshot.info(node)) is None
    assert tested.plugin.reserve(state, pod, node) is None
    return {b.claim.metadata.name: b.volume.metadata.name for b in state.read("VolumeBinding").bindings}


def test_the_smallest_volume_is_taken_and_small_claims_choose_first():
    tested = bench(
        LOCAL,
        claim("c", class_name="local", size="5Gi"),
        claim("d", class_name="local", size="1Gi"),
        volume("large", class_name="local", size="20Gi"),
        volume("medium", class_name="local", size="10Gi"),
        volume("small", class_name="local", size="2Gi"),
    )
    assert chosen(tested, TWO, "a1") == {"c": "medium", "d": "small"}


def test_a_volume_is_not_given_to_two_claims_of_a_pod():
    tested = bench(
        LOCAL,
        claim("c", class_name="local"),
        claim("d", class_name="local"),
        volume("everywhere", class_name="local"),
        volume("in-a", class_name="local", zone="a", size="2Gi"),
    )
    assert tested.fits(TWO) == {"a1", "a2"}


def test_an_assumed_volume_is_kept_from_other_pods_until_it_is_given_back():
    tested = bench(
        LOCAL, claim("c", class_name="local"), claim("x", class_name="local"), volume("v", class_name="local")
    )
    other = make_pod("other", claims=["x"])
    state = tested.state(POD)
    tested.pre_filter(POD, state)
    assert tested.plugin.reserve(state, POD, "a1") is None
    assert tested.fits(other) == set()
    tested.plugin.unreserve(state, POD, "a1")
    tested.plugin.unreserve(state, POD, "a1")
    assert tested.fits(other) == ALL


def test_news_of_a_volume_covers_what_was_assumed():
    tested = bench(
        LOCAL,
        claim("c", class_name="local"),
        claim("x", class_name="local"),
        volume("v", class_name="local", version="7"),
    )
    assert chosen(tested, POD, "a1") == {"c": "v"}
    assert tested.fits(make_pod("other", claims=["x"])) == set()
    tested.lister("PersistentVolume").put(volume("v", class_name="local", version="8"))
    assert tested.fits(make_pod("other", claims=["x"])) == ALL


def test_a_decision_that_is_out_of_date_takes_nobody_elses_back():
    tested = bench(LOCAL, claim("c", class_name="local"), volume("v", class_name="local", version="7"))
    first, second = tested.state(POD), tested.state(POD)
    for state, version in ((first, "8"), (second, "9")):
        tested.pre_filter(POD, state)
        assert tested.plugin.reserve(state, POD, "a1") is None
        if state is first:
            tested.lister("PersistentVolume").put(volume("v", class_name="local", version=version))
    tested.plugin.unreserve(first, POD, "a1")
    assert tested.plugin.reader.volumes.get("v").spec.claim_ref is not None
    tested.plugin.unreserve(second, POD, "a1")
    assert tested.plugin.reader.volumes.get("v").spec.claim_ref is None


def test_a_local_volume_is_found_on_its_node_when_nodes_have_changed_rows():
    tested = bench(LOCAL, claim("c", class_name="local"), volume("v", class_name="local", host="a1"))
    assert tested.fits(POD) == {"a1"}
    tested.cache.remove_node("a1")
    tested.cache.remove_node("b1")
    tested.cache.add_node(NODES[0])
    tested.cache.add_node(NODES[2])
    assert tested.fits(POD) == {"a1"}


# --- unbound claims: provisioning --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "fits"),
    [
        pytest.param(storage_class(), ALL, id="made anywhere"),
        pytest.param(storage_class(provisioner="kubernetes.io/no-provisioner"), set(), id="nobody makes them"),
        pytest.param(storage_class(topologies=[{ZONE: ["b"]}]), {"b1"}, id="made in some zones"),
        pytest.param(storage_class(topologies=[{ZONE: ["b"]}, {ZONE: ["a"]}]), ALL, id="any term will do"),
        pytest.param(
            storage_class(topologies=[{ZONE: ["a"], "kubernetes.io/hostname": ["a2", "b1"]}]),
            {"a2"},
            id="all labels of a term must be right",
        ),
        pytest.param(storage_class(topologies=[{}]), set(), id="an empty term allows nothing"),
    ],
)
def test_volumes_are_made_where_the_class_allows(made, fits):
    tested = bench(made, claim("c"))
    assert tested.fits(POD) == fits
    assert set(tested.reasons(POD).values()) == ({(NO_VOLUME,)} if fits != ALL else set())


MEASURED = csi_driver(storage_capacity=True)


@pytest.mark.parametrize(
    ("objects", "fits"),
    [
        pytest.param([], ALL, id="an unknown driver measures nothing"),
        pytest.param([csi_driver(storage_capacity=False)], ALL, id="a driver that does not measure"),
        pytest.param([MEASURED], set(), id="nothing measured, no room"),
        pytest.param([MEASURED, capacity("x", "10Gi", zone="a")], {"a1", "a2"}, id="room in a zone"),
        pytest.param([MEASURED, capacity("x", "4Gi", zone="a")], set(), id="not enough room"),
        pytest.param([MEASURED, capacity("x", "9Gi", zone="a", maximum="4Gi")], set(), id="the largest volume counts"),
        pytest.param([MEASURED, capacity("x", None, zone="a")], set(), id="no amount is no room"),
        pytest.param([MEASURED, capacity("x", "9Gi", topology=None)], set(), id="storage that nobody reaches"),
        pytest.param([MEASURED, capacity("x", "9Gi", topology=LabelSelector())], ALL, id="storage for all"),
        pytest.param([MEASURED, capacity("x", "9Gi", zone="a", class_name="y")], set(), id="another class"),
    ],
)
def test_room_for_a_volume(objects, fits):
    tested = bench(storage_class(), claim("c", size="5Gi"), *objects)
    assert tested.fits(POD) == fits
    assert set(tested.reasons(POD).values()) == ({(NO_ROOM,)} if fits != ALL else set())


def test_a_claim_without_a_size_needs_no_room():
    assert bench(storage_class(), claim("c", size=""), MEASURED).fits(POD) == ALL


def test_an_existing_volume_is_preferred_to_a_new_one():
    tested = bench(storage_class(topologies=[{ZONE: ["b"]}]), claim("c"), volume("v", zone="a"))
    assert tested.fits(POD) == ALL
    assert chosen(tested, POD, "a1") == {"c": "v"}
    assert chosen(bench(storage_class(), claim("c"), volume("v", zone="a")), POD, "b1") == {}


def test_a_claim_with_a_selected_node_goes_there_and_nowhere_else():
    tested = bench(storage_class(), claim("c", selected_node="a2"), volume("free"))
    assert tested.fits(POD) == {"a2"}
    assert set(tested.reasons(POD).values()) == {(NO_VOLUME,)}
    assert bench(storage_class(), claim("c", selected_node="gone")).fits(POD) == set()


def test_a_claim_that_another_pod_has_provisioned_ties_the_next_pod_to_that_node():
    tested = bench(storage_class(), claim("c"))
    assert chosen(tested, POD, "b1") == {}
    assert tested.fits(make_pod("next", claims=["c"])) == {"b1"}


def test_all_problems_of_a_node_are_told():
    tested = bench(storage_class(topologies=[{ZONE: ["b"]}]), claim("c", volume="v"), claim("d"), volume("v", zone="b"))
    assert tested.reasons(TWO) == {"a1": (NOT_REACHABLE, NO_VOLUME), "a2": (NOT_REACHABLE, NO_VOLUME)}


def test_the_first_claim_that_cannot_be_provisioned_decides():
    full = storage_class("full", provisioner="full")
    objects = [full, csi_driver("full", storage_capacity=True), LOCAL]
    room_first = bench(*objects, claim("c", class_name="full"), claim("d", class_name="local", size="2Gi"))
    assert set(room_first.reasons(TWO).values()) == {(NO_ROOM,)}
    volume_first = bench(*objects, claim("c", class_name="full", size="2Gi"), claim("d", class_name="local"))
    assert set(volume_first.reasons(TWO).values()) == {(NO_VOLUME,)}


# --- hints -------------------------------------------------------------------------------------------------------

INLINE = make_pod("p", volumes=[Volume(name="v", csi=CSIVolumeSource(driver=DRIVER))])
QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP


@pytest.mark.parametrize(
    ("hint", "pod", "old", "new", "answer"),
    [
        pytest.param(class_changed, POD, None, storage_class(), QUEUE, id="a class came"),
        pytest.param(
            class_changed, POD, storage_class(), storage_class(topologies=[{ZONE: ["a"]}]), QUEUE, id="its topologies"
        ),
        pytest.param(class_changed, POD, storage_class(), storage_class(), SKIPPED, id="something else of a class"),
        pytest.param(own_claim_changed, POD, None, claim("c"), QUEUE, id="the pod's claim came"),
        pytest.param(own_claim_changed, POD, claim("c"), claim("c", volume="v"), QUEUE, id="the pod's claim changed"),
        pytest.param(own_claim_changed, POD, None, claim("c", namespace="x"), SKIPPED, id="another namespace's claim"),
        pytest.param(own_claim_changed, POD, None, claim("x"), SKIPPED, id="somebody else's claim"),
        pytest.param(
            own_claim_changed, make_pod("p", volumes=[ephemeral("e")]), None, claim("p-e"), QUEUE, id="ephemeral claim"
        ),
        pytest.param(migration_changed, POD, None, csi_node("n"), QUEUE, id="a CSINode came"),
        pytest.param(
            migration_changed,
            POD,
            csi_node("n"),
            csi_node("n", annotations={MIGRATED_PLUGINS: "kubernetes.io/aws-ebs"}),
            QUEUE,
            id="a plugin was migrated",
        ),
        pytest.param(migration_changed, POD, csi_node("n"), csi_node("n", {DRIVER: 5}), SKIPPED, id="a limit changed"),
        pytest.param(
            capacity_check_dropped, INLINE, MEASURED, csi_driver(storage_capacity=False), QUEUE, id="no more measuring"
        ),
        pytest.param(capacity_check_dropped, INLINE, csi_driver(), MEASURED, SKIPPED, id="measuring began"),
        pytest.param(capacity_check_dropped, POD, MEASURED, csi_driver(), SKIPPED, id="a driver not named inline"),
        pytest.param(room_grew, POD, None, capacity("x", "1Gi"), QUEUE, id="storage came"),
        pytest.param(room_grew, POD, capacity("x", "1Gi"), capacity("x", "2Gi"), QUEUE, id="storage grew"),
        pytest.param(room_grew, POD, capacity("x", None), capacity("x", "1Gi"), QUEUE, id="storage was measured"),
        pytest.param(room_grew, POD, capacity("x", "2Gi"), capacity("x", "1Gi"), SKIPPED, id="storage shrank"),
        pytest.param(
            room_grew,
            POD,
            capacity("x", "1Gi", maximum="1Gi"),
            capacity("x", "9Gi", maximum="1Gi"),
            SKIPPED,
            id="there is more, but not for larger volumes",
        ),
    ],
)
def test_what_wakes_a_pod(hint, pod, old, new, answer):
    assert hint(pod, old, new) is answer
