"""VolumeBinding's PreBind: what it writes, how long it waits, and when it gives up. In virtual time."""

import asyncio

import pytest

from config.types import VolumeBindingArgs
from kube.api.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from plugins.volume_binding import VolumeBinding
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import SKIP, Code
from tests.builders import make_node, make_pod
from tests.plugins.harness import Bench
from tests.plugins.volumes.builders import claim, storage_class, volume
from tests.plugins.volumes.store import ServerError, Store

pytestmark = pytest.mark.looptime

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
POD = make_pod("p", uid="uid-p", claims=["c"])
STATIC = (claim("c", version="5"), volume("v", zone="a", version="6"))
DYNAMIC = (claim("c", version="5"),)


class Cycle:
    """A pod that was given node a1; PreBind runs while the test plays the controllers."""

    def __init__(self, *objects, timeout: int = 600) -> None:
        self.store = Store()
        self.bench = self.store.bench = Bench(
            VolumeBinding,
            nodes=[make_node("a1", zone="a"), make_node("b1", zone="b")],
            objects=[storage_class(), POD, *objects],
            args=VolumeBindingArgs(bind_timeout_seconds=timeout),
            client=self.store,
        )
        self.plugin = self.bench.plugin
        self.state: CycleState = self.bench.state(POD)
        assert self.bench.pre_filter(POD, self.state) is None
        assert self.plugin.reserve(self.state, POD, "a1") is None
        assert self.plugin.pre_bind_pre_flight(self.state, POD, "a1") is None

    async def run(self, *events):
        """PreBind with events at their times: (seconds, kind, name, patch or None for a deletion).

        Returns the message, "" for success, and the seconds it took.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        for at, kind, name, patch in events:
            namespace = "" if kind == VOLUME else "default"
            if patch is None:
                loop.call_later(at, self.store.remove, kind, name, namespace)
            else:
                loop.call_later(at, self.store.change, kind, name, patch, namespace)
        status = await self.plugin.pre_bind(self.state, POD, "a1")
        assert status is None or status.code is Code.ERROR
        return ("" if status is None else status.message), round(loop.time() - started, 3)

    def claim(self):
        return self.bench.lister(CLAIM).get("c", "default")


def bound(volume_name: str):
    return {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume_name}}


async def test_a_volume_is_bound_to_the_claim_and_the_controller_completes_it():
    cycle = Cycle(*STATIC)
    assert await cycle.run((2.5, CLAIM, "c", bound("v"))) == ("", 3.0)
    assert cycle.store.writes == [
        (
            VOLUME,
            "v",
            {
                "metadata": {"resourceVersion": "6", "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                "spec": {
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "apiVersion": "v1",
                        "namespace": "default",
                        "name": "c",
                        "uid": "uid-c",
                        "resourceVersion": "5",
                    }
                },
            },
        )
    ]


async def test_provisioning_is_asked_for_by_the_selected_node():
    cycle = Cycle(*DYNAMIC)
    cycle.bench.lister(VOLUME).put(volume("made", zone="a", bound_to="c"))
    assert await cycle.run((61.2, CLAIM, "c", bound("made"))) == ("", 62.0)
    assert cycle.store.writes == [
        (CLAIM, "c", {"metadata": {"resourceVersion": "5", "annotations": {SELECTED_NODE: "a1"}}})
    ]


async def test_what_is_written_already_is_not_written_again():
    cycle = Cycle(claim("c", version="5", selected_node="a1"), volume("made", zone="a", bound_to="c"))
    assert await cycle.run((0.5, CLAIM, "c", bound("made"))) == ("", 1.0)
    assert cycle.store.writes == []


async def test_a_reference_that_the_author_wrote_gets_its_uid_and_stays_the_authors():
    cycle = Cycle(claim("c", version="5"), volume("v", zone="a", bound_to="c", bound_uid="", version="6"))
    assert await cycle.run((0.5, CLAIM, "c", bound("v"))) == ("", 1.0)
    ((_, _, patch),) = cycle.store.writes
    assert patch["spec"]["claimRef"]["uid"] == "uid-c"
    assert patch["metadata"]["annotations"] == {}


async def test_nothing_is_assumed_any_more_once_all_is_bound():
    cycle = Cycle(*STATIC)
    await cycle.run((0.5, CLAIM, "c", bound("v")))
    assert (len(cycle.plugin.reader.volumes), len(cycle.plugin.reader.claims)) == (0, 0)


@pytest.mark.parametrize(
    ("objects", "event", "message"),
    [
        pytest.param(
            DYNAMIC,
            (4.5, CLAIM, "c", {"metadata": {"annotations": {SELECTED_NODE: None, "x": "y"}}}),
            'binding volumes: provisioning failed for PVC "c"',
            id="the provisioner takes the selected node away",
        ),
        pytest.param(
            DYNAMIC,
            (4.5, CLAIM, "c", {"metadata": {"annotations": None}}),
            'binding volumes: selectedNode annotation reset for PVC "c"',
            id="all annotations are gone",
        ),
        pytest.param(
            DYNAMIC,
            (4.5, CLAIM, "c", None),
            'binding volumes: failed to check provisioning pvc: persistentvolumeclaim "c" not found',
            id="the claim is deleted",
        ),
        pytest.param(
            (*DYNAMIC, volume("far", zone="b", bound_to="c")),
            (4.5, CLAIM, "c", bound("far")),
            'binding volumes: pv "far" node affinity doesn\'t match node "a1": no matching NodeSelectorTerms',
            id="the volume was made where the node does not reach it",
        ),
        pytest.param(
            STATIC,
            (4.5, VOLUME, "v", None),
            'binding volumes: failed to check binding: persistentvolume "v" not found',
            id="the volume is deleted",
        ),
        pytest.param(
            STATIC,
            (4.5, VOLUME, "v", {"spec": {"claimRef": None}}),
            'binding volumes: ClaimRef got reset for pv "v"',
            id="the controller unbinds the volume",
        ),
        pytest.param(
            STATIC,
            (4.5, "Pod", "p", None),
            'binding volumes: pod does not exist any more: pod "p" not found',
            id="the pod is deleted",
        ),
        pytest.param(
            STATIC,
            (4.5, "Pod", "p", {"metadata": {"uid": "another"}}),
            'binding volumes: pod does not exist any more: pod "p" not found',
            id="the pod was made anew",
        ),
    ],
)
async def test_binding_ends_at_the_next_look_once_it_cannot_succeed(objects, event, message):
    cycle = Cycle(*objects)
    assert await cycle.run(event) == (message, 5.0)


async def test_a_node_that_is_removed_ends_the_wait():
    cycle = Cycle(*STATIC)
    asyncio.get_running_loop().call_later(1.5, cycle.bench.cache.remove_node, "a1")
    assert await cycle.run() == ('binding volumes: failed to get node "a1": node "a1" not found', 2.0)


@pytest.mark.parametrize("timeout", [600, 30])
async def test_the_wait_has_an_end(timeout):
    assert await Cycle(*DYNAMIC, timeout=timeout).run() == ("binding volumes: context deadline exceeded", timeout)


async def test_a_volume_that_is_not_shown_yet_is_waited_for():
    cycle = Cycle(*DYNAMIC)
    asyncio.get_running_loop().call_later(3.5, cycle.bench.lister(VOLUME).put, volume("made", zone="a", bound_to="c"))
    assert await cycle.run((1.5, CLAIM, "c", bound("made"))) == ("", 4.0)


@pytest.mark.parametrize(
    ("objects", "volume_name"),
    [pytest.param(STATIC, "v", id="a volume"), pytest.param(DYNAMIC, "made", id="a claim")],
)
async def test_what_was_written_is_not_judged_before_the_informer_shows_it(objects, volume_name):
    cycle = Cycle(*objects)
    cycle.bench.lister(VOLUME).put(volume("made", zone="a"))
    cycle.store.lag = 2.5

    def bind() -> None:
        cycle.store.lag = 0
        cycle.store.change(CLAIM, "c", bound(volume_name), "default")

    asyncio.get_running_loop().call_later(3.5, bind)
    assert await cycle.run() == ("", 4.0)


async def test_one_volume_that_has_failed_is_not_hidden_by_one_that_is_not_ready():
    pod = make_pod("p", uid="uid-p", claims=["c", "d"])
    cycle = Cycle(*DYNAMIC, claim("d", version="5"))
    cycle.state = cycle.bench.state(pod)
    cycle.bench.pre_filter(pod, cycle.state)
    cycle.plugin.reserve(cycle.state, pod, "a1")
    event = (0.5, CLAIM, "d", {"metadata": {"annotations": {SELECTED_NODE: "b1"}}})
    assert await cycle.run(event) == ('binding volumes: provisioning failed for PVC "d"', 1.0)


# --- conflicts ---------------------------------------------------------------------------------------------------


def meanwhile(cycle: Cycle, kind: str, name: str, patch) -> None:
    """Somebody changes the object just before the first write."""

    def change(obj) -> None:
        cycle.store.before = lambda obj: None
        cycle.store.change(kind, name, patch, "" if kind == VOLUME else "default")

    cycle.store.before = change


@pytest.mark.parametrize(
    ("objects", "kind", "name", "patch", "written"),
    [
        pytest.param(STATIC, VOLUME, "v", {"metadata": {"labels": {"x": "y"}}}, "101", id="a volume got a label"),
        pytest.param(DYNAMIC, CLAIM, "c", {"metadata": {"annotations": {"x": "y"}}}, "101", id="a claim got a note"),
    ],
)
async def test_after_a_conflict_that_changes_nothing_the_write_is_repeated(objects, kind, name, patch, written):
    cycle = Cycle(*objects)
    cycle.bench.lister(VOLUME).put(volume("made", zone="a", bound_to="c"))
    meanwhile(cycle, kind, name, patch)
    assert await cycle.run((0.5, CLAIM, "c", bound("v" if kind == VOLUME else "made"))) == ("", 1.0)
    ((_, _, stored),) = cycle.store.writes
    assert stored["metadata"]["resourceVersion"] == written


@pytest.mark.parametrize(
    ("objects", "kind", "name", "patch", "message"),
    [
        pytest.param(
            STATIC,
            VOLUME,
            "v",
            {"spec": {"claimRef": {"namespace": "default", "name": "x", "uid": "uid-x"}}},
            'PersistentVolume "v" was bound to another claim than default/c',
            id="the volume went to another claim",
        ),
        pytest.param(
            DYNAMIC,
            CLAIM,
            "c",
            {"metadata": {"annotations": {SELECTED_NODE: "b1"}}},
            'PersistentVolumeClaim "default/c" cannot be provisioned for node a1 any more',
            id="another scheduler selected another node",
        ),
        pytest.param(
            DYNAMIC,
            CLAIM,
            "c",
            {"metadata": {"uid": "uid-new"}},
            'PersistentVolumeClaim "default/c" cannot be provisioned for node a1 any more',
            id="the claim was made anew",
        ),
    ],
)
async def test_after_a_conflict_that_changes_everything_the_pod_is_scheduled_anew(objects, kind, name, patch, message):
    cycle = Cycle(*objects)
    meanwhile(cycle, kind, name, patch)
    assert await cycle.run() == (message, 0.0)
    assert cycle.store.writes == []


async def test_two_pods_with_one_claim_do_not_undo_each_others_decision():
    cycle = Cycle(*STATIC)
    other = make_pod("other", claims=["c"])
    second = cycle.bench.state(other)
    cycle.bench.pre_filter(other, second)
    assert cycle.plugin.reserve(second, other, "a1") is None
    cycle.plugin.unreserve(second, other, "a1")
    assert cycle.plugin.reader.volumes.get("v").spec.claim_ref.name == "c"
    assert await cycle.run((0.5, CLAIM, "c", bound("v"))) == ("", 1.0)


async def test_a_volume_that_another_pod_assumed_and_has_not_written_is_written():
    cycle = Cycle(*STATIC)
    cycle.bench.pre_filter(POD, second := cycle.bench.state(POD))
    cycle.plugin.reserve(second, POD, "a1")
    cycle.state = second
    assert await cycle.run((0.5, CLAIM, "c", bound("v"))) == ("", 1.0)
    assert [name for _, name, _ in cycle.store.writes] == ["v"]


async def test_endless_conflicts_are_given_up_on():
    cycle = Cycle(*STATIC)
    cycle.store.before = lambda obj: cycle.store.change(VOLUME, "v", {"metadata": {"labels": {"x": "y"}}})
    assert await cycle.run() == ('PersistentVolume "v" keeps changing while it is written', 0.0)


async def test_other_api_errors_reach_the_binding_cycle_as_they_are():
    cycle = Cycle(*STATIC)

    def fail(obj) -> None:
        raise ServerError("no leader")

    cycle.store.before = fail
    with pytest.raises(ServerError, match="no leader"):
        await cycle.run()
    cycle.plugin.unreserve(cycle.state, POD, "a1")
    assert len(cycle.plugin.reader.volumes) == 0


# --- nothing to do -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "objects"),
    [
        pytest.param(make_pod("p"), (), id="a pod without claims"),
        pytest.param(POD, (claim("c", volume="v"), volume("v")), id="a pod whose claims are bound"),
    ],
)
async def test_pods_with_nothing_to_bind_skip_pre_bind(pod, objects):
    bench = Bench(VolumeBinding, nodes=[make_node("a1")], objects=objects)
    state = bench.state(pod)
    bench.pre_filter(pod, state)
    assert bench.plugin.reserve(state, pod, "a1") is None
    assert bench.plugin.pre_bind_pre_flight(state, pod, "a1") == SKIP
    bench.plugin.unreserve(state, pod, "a1")


async def test_without_an_api_server_nothing_can_be_bound():
    cycle = Cycle(*STATIC)
    cycle.bench.handle.client = None
    assert await cycle.run() == ("there is no API server to bind volumes with", 0.0)
