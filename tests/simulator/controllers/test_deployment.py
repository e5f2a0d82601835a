"""Deployments in virtual time: rollouts, their arithmetic, scaling, revisions."""

import asyncio

import pytest

from simulator.apiserver.watch_cache import View
from simulator.cluster import Cluster, make_node_template
from simulator.controllers.rolling_update import DESIRED, MAXIMUM, proportional, rolling_update, surge_and_unavailable
from tests.simulator.virtual import images, names, set_image, template, workload

pytestmark = pytest.mark.looptime
EVERYTHING = View()


def a_deployment(replicas, surge="25%", unavailable="25%"):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {"metadata": {"name": "web"}, "spec": {"replicas": replicas, "strategy": strategy}}


def a_set(name, replicas, available=None, was=10, most=13):
    up = replicas if available is None else available
    marks = {DESIRED: str(was), MAXIMUM: str(most)}
    metadata = {"name": name, "uid": name, "annotations": marks, "creationTimestamp": f"2026-01-0{name[-1]}T00:00:00Z"}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": {"availableReplicas": up}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge rounds up, unavailable rounds down"),
        pytest.param(1, "25%", "25%", (1, 0), id="one replica gets a second before it goes"),
        pytest.param(10, 0, 0, (0, 1), id="if neither is allowed one may be away"),
        pytest.param(3, 0, "10%", (0, 1), id="a percentage that rounds to nothing counts as none"),
        pytest.param(4, 5, 9, (5, 4), id="no more can be away than there are"),
    ],
)
def test_surge_and_unavailable(replicas, surge, unavailable, expected):
    assert surge_and_unavailable(a_deployment(replicas, surge, unavailable)) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(a_set("n2", 0), [a_set("o1", 10)], {"n2": 3}, id="first the new one grows by the surge"),
        pytest.param(a_set("n2", 3, 0), [a_set("o1", 10)], {"o1": 8}, id="then old ones go as far as enough are up"),
        pytest.param(a_set("n2", 3, 0), [a_set("o1", 8)], {"n2": 5}, id="and the new one takes their place"),
        pytest.param(a_set("n2", 5, 0), [a_set("o1", 8)], {}, id="nothing moves while the new ones are not up"),
        pytest.param(a_set("n2", 5, 3), [a_set("o1", 8)], {"o1": 5}, id="each new one that is up lets an old one go"),
        pytest.param(a_set("n2", 5, 0), [a_set("o1", 8, 4)], {}, id="broken old ones stay while too few are up"),
        pytest.param(a_set("n3", 3, 3), [a_set("o1", 4, 0), a_set("o2", 6)], {"o1": 0, "o2": 5},
                     id="broken old ones go before sound ones"),
        pytest.param(a_set("n2", 10), [a_set("o1", 0)], {}, id="at the end nothing is left to do"),
    ],
)  # fmt: skip
def test_a_step_of_a_rollout(new, old, expected):
    changes = rolling_update(a_deployment(10), new, old)
    assert {change.replica_set["metadata"]["name"]: change.replicas for change in changes} == expected


@pytest.mark.parametrize(
    ("replicas", "sets", "expected"),
    [
        pytest.param(7, [a_set("n2", 10)], {"n2": 7}, id="a single one takes it all"),
        pytest.param(20, [a_set("o1", 8), a_set("n2", 5)], {"o1": 15, "n2": 10}, id="growing, each by its share"),
        pytest.param(6, [a_set("o1", 8), a_set("n2", 5)], {"o1": 5, "n2": 3}, id="shrinking, each by its share"),
        pytest.param(5, [a_set("o1", 8), a_set("n2", 5)], {"o1": 0}, id="once enough new ones are up, old ones go"),
        pytest.param(0, [a_set("o1", 8), a_set("n2", 5)], {"o1": 0, "n2": 0}, id="to nothing at all"),
    ],
)
def test_scaling_in_the_middle_of_a_rollout(replicas, sets, expected):
    changes = proportional(a_deployment(replicas), sets, sets[-1])
    assert {change.replica_set["metadata"]["name"]: change.replicas for change in changes} == expected


async def rolled_out(cluster, seconds=120):
    """Wait, and note how many pods there were and were ready meanwhile."""
    most, fewest = 0, 10**6
    for _ in range(seconds * 2):
        await asyncio.sleep(0.5)
        pods = [pod for pod in cluster.server.list("pods") if "deletionTimestamp" not in pod["metadata"]]
        ready = sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            for pod in pods
        )
        most, fewest = max(most, len(pods)), min(fewest, ready)
    return most, fewest


async def test_a_rolling_update_keeps_its_bounds(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 3)
    cluster.server.create(workload("Deployment", "web", replicas=10))
    await asyncio.sleep(10)
    set_image(cluster.server, "deployments.apps", "web", "app:2")
    assert await rolled_out(cluster) == (13, 8)
    assert images(cluster.server) == ["app:2"] * 10
    deployment = cluster.server.get("deployments.apps", "web")
    status = deployment["status"]
    counts = [status[key] for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    assert counts == [10, 10, 10, 10]
    reasons = {condition["type"]: condition["reason"] for condition in status["conditions"]}
    assert reasons == {"Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    hashes = {obj["metadata"]["labels"]["pod-template-hash"] for obj in cluster.server.list("pods")}
    assert len(hashes) == 1


async def test_recreate_never_lets_old_and_new_run_together(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("Deployment", "web", replicas=3, strategy={"type": "Recreate"}))
    await asyncio.sleep(10)
    seen = set()
    cluster.server.store.listen("pods", lambda event: seen.add(tuple(sorted({
        revision.obj["spec"]["containers"][0]["image"]
        for revision in cluster.server.store.collection("pods").seen(EVERYTHING)
    }))))  # fmt: skip
    set_image(cluster.server, "deployments.apps", "web", "app:2")
    await asyncio.sleep(30)
    assert ("app:1", "app:2") not in seen
    assert images(cluster.server) == ["app:2"] * 3


async def test_a_rollout_that_gets_nowhere_says_so_after_its_deadline(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    never = template("web", schedulingGates=[{"name": "example.com/never"}])
    cluster.server.create(workload("Deployment", "web", never, replicas=2, progressDeadlineSeconds=60))
    await asyncio.sleep(90)
    conditions = {c["type"]: c for c in cluster.server.get("deployments.apps", "web")["status"]["conditions"]}
    assert (conditions["Progressing"]["status"], conditions["Progressing"]["reason"]) == (
        "False",
        "ProgressDeadlineExceeded",
    )
    assert conditions["Available"]["status"] == "False"


async def test_going_back_to_an_old_template_reuses_its_replica_set_as_the_newest_revision(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("Deployment", "web", replicas=2))
    for image in ("app:2", "app:1"):
        await asyncio.sleep(30)
        set_image(cluster.server, "deployments.apps", "web", image)
    await asyncio.sleep(30)
    revisions = {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["metadata"]["annotations"][
            "deployment.kubernetes.io/revision"
        ]
        for one in cluster.server.list("replicasets.apps")
    }
    assert revisions == {"app:1": "3", "app:2": "2"}


async def test_old_revisions_beyond_the_limit_go(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("Deployment", "web", replicas=1, revisionHistoryLimit=2))
    for number in range(2, 7):
        await asyncio.sleep(30)
        set_image(cluster.server, "deployments.apps", "web", f"app:{number}")
    await asyncio.sleep(30)
    kept = [
        one["spec"]["template"]["spec"]["containers"][0]["image"] for one in cluster.server.list("replicasets.apps")
    ]
    assert sorted(kept) == ["app:4", "app:5", "app:6"]


async def test_a_paused_deployment_scales_but_does_not_roll(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("Deployment", "web", replicas=2))
    await asyncio.sleep(10)
    cluster.server.patch("deployments.apps", "web", {"spec": {"paused": True, "replicas": 4}})
    set_image(cluster.server, "deployments.apps", "web", "app:2")
    await asyncio.sleep(30)
    assert images(cluster.server) == ["app:1"] * 4
    cluster.server.patch("deployments.apps", "web", {"spec": {"paused": False}})
    await asyncio.sleep(60)
    assert images(cluster.server) == ["app:2"] * 4


async def test_deleting_a_deployment_takes_all_it_made_along(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(workload("Deployment", "web", replicas=3))
    await asyncio.sleep(10)
    cluster.server.delete("deployments.apps", "web")
    await asyncio.sleep(10)
    assert names(cluster.server, "replicasets.apps") == names(cluster.server) == []
