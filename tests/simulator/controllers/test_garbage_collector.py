"""Garbage collection by owner references: background, foreground, orphans, and owners that never were."""

import asyncio

import pytest

from simulator.apiserver.deletion import DeleteOptions
from simulator.cluster import Cluster
from simulator.controllers.garbage_collector import FOREGROUND, ORPHAN
from tests.simulator.virtual import names

pytestmark = pytest.mark.looptime


def config_map(name, *owners, block=False, finalizers=()):
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def owners_of(cluster, name):
    references = cluster.server.get("configmaps", name)["metadata"].get("ownerReferences") or ()
    return [reference["name"] for reference in references]


def delete(cluster, name):
    cluster.server.verbs.delete(cluster.server.resource("configmaps"), "default", name, DeleteOptions())


async def test_dependents_go_with_their_owner_and_theirs_with_them(cluster: Cluster):
    owner = cluster.server.create(config_map("owner"))
    child = cluster.server.create(config_map("child", owner))
    cluster.server.create(config_map("grandchild", child))
    cluster.server.create(config_map("stranger"))
    delete(cluster, "owner")
    await asyncio.sleep(1)
    assert names(cluster.server, "configmaps") == ["stranger"]


async def test_another_owner_keeps_a_dependent_which_loses_only_the_reference(cluster: Cluster):
    one, other = (cluster.server.create(config_map(name)) for name in ("one", "other"))
    cluster.server.create(config_map("child", one, other))
    delete(cluster, "one")
    await asyncio.sleep(1)
    assert owners_of(cluster, "child") == ["other"]
    delete(cluster, "other")
    await asyncio.sleep(1)
    assert names(cluster.server, "configmaps") == []


@pytest.mark.parametrize(
    ("reference", "left"),
    [
        pytest.param({"uid": "never-was"}, [], id="an owner that never existed counts as deleted"),
        pytest.param({"kind": "Unheard", "apiVersion": "example.com/v1"}, ["child", "owner"],
                     id="an owner of a kind that is not served is left alone"),
        pytest.param({}, ["child", "owner"], id="an owner that is there keeps its dependent"),
    ],
)  # fmt: skip
async def test_an_owner_from_before(cluster: Cluster, reference, left):
    child = config_map("child", cluster.server.create(config_map("owner")))
    child["metadata"]["ownerReferences"][0] |= reference
    cluster.server.create(child)
    await asyncio.sleep(1)
    assert sorted(set(names(cluster.server, "configmaps"))) == (left or ["owner"])


async def test_in_the_foreground_the_owner_goes_last(cluster: Cluster):
    owner = cluster.server.create(config_map("owner", finalizers=[FOREGROUND]))
    cluster.server.create(config_map("held", owner, block=True, finalizers=["example.com/hold"]))
    cluster.server.create(config_map("free", owner))
    delete(cluster, "owner")
    await asyncio.sleep(1)
    assert names(cluster.server, "configmaps") == ["held", "owner"]
    held = cluster.server.get("configmaps", "held")
    assert "deletionTimestamp" in held["metadata"]
    cluster.server.update({**held, "metadata": {**held["metadata"], "finalizers": []}})
    await asyncio.sleep(1)
    assert names(cluster.server, "configmaps") == []


async def test_orphans_stay_and_lose_their_reference(cluster: Cluster):
    owner = cluster.server.create(config_map("owner", finalizers=[ORPHAN]))
    cluster.server.create(config_map("child", owner))
    delete(cluster, "owner")
    await asyncio.sleep(1)
    assert names(cluster.server, "configmaps") == ["child"]
    assert owners_of(cluster, "child") == []
