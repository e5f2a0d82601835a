"""Tables for people, metadata alone, packed answers, YAML: the forms in which things come and go."""

import asyncio
import gzip
import json
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from simulator.apiserver import ApiServer
from simulator.apiserver.printing import printer_of
from simulator.apiserver.printing.columns import duration
from tests.fixtures_apiserver import node, pod
from tests.simulator.apiserver.test_watch import watching

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
META = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
META_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}
PODS = "/api/v1/namespaces/default/pods"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def get(http, path, headers):
    async with http.get(path, headers=headers) as response:
        return response, json.loads(await response.read())


async def test_a_list_as_a_table(http, api_server):
    api_server.create(pod("a"))
    api_server.create(pod("b"))
    _, table = await get(http, f"{PODS}?limit=1", TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert set(table["metadata"]) == {"resourceVersion", "continue", "remainingItemCount"}
    assert [column["name"] for column in table["columnDefinitions"] if not column["priority"]] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    [row] = table["rows"]
    assert row["cells"] == ["a", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"]
    assert (row["object"]["kind"], row["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "spec" not in row["object"]


@pytest.mark.parametrize(("included", "shown"), [("Object", "Pod"), ("None", None)])
async def test_a_row_carries_what_was_asked_for(http, api_server, included, shown):
    api_server.create(pod("a"))
    _, table = await get(http, f"{PODS}/a?includeObject={included}", TABLE)
    [row] = table["rows"]
    assert (row["object"] or {}).get("kind") == shown


async def test_metadata_alone(http, api_server):
    created = api_server.create(pod("a"))
    _, one = await get(http, f"{PODS}/a", META)
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert one == {**head, "metadata": created["metadata"]}
    _, listed = await get(http, PODS, META_LIST)
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [one])


async def test_a_form_that_is_not_served_is_not_acceptable(http, api_server):
    api_server.create(pod("a"))
    response, refusal = await get(http, f"{PODS}/a", {"Accept": "application/vnd.kubernetes.protobuf"})
    assert (response.status, refusal["reason"]) == (406, "NotAcceptable")


async def test_a_watch_as_tables(http, api_server):
    api_server.create(pod("a"))
    async with watching(http, PODS, headers=TABLE, allowWatchBookmarks="true", timeoutSeconds="1") as next_event:
        first = await next_event()
        api_server.bind("a", "n")
        second = await next_event()
        last = await next_event()
    assert (first["type"], first["object"]["rows"][0]["cells"][:3]) == ("ADDED", ["a", "0/1", "Pending"])
    assert (second["type"], second["object"]["rows"][0]["cells"][6]) == ("MODIFIED", "n")
    bookmarked = last["object"]["rows"][0]["object"]["metadata"]["resourceVersion"]
    assert (last["type"], last["object"]["kind"], bookmarked) == ("BOOKMARK", "Table", str(api_server.store.version))


async def test_a_large_list_is_packed_for_those_who_take_it(api_server):
    for i in range(200):
        api_server.create(node(f"n{i}", taints=[{"key": f"k{i}", "effect": "NoSchedule"} for i in range(20)]))

    async def listed(path, encoding):
        async with session.get(path, headers={"Accept-Encoding": encoding}) as response:
            return response.headers.get("Content-Encoding"), await response.read()

    async with aiohttp.ClientSession(api_server.url, auto_decompress=False) as session:
        plain = await listed("/api/v1/nodes", "identity")
        packed = await listed("/api/v1/nodes", "gzip")
        assert (plain[0], packed[0], await listed("/healthz", "gzip")) == (None, "gzip", (None, b"ok"))
        assert json.loads(gzip.decompress(packed[1])) == json.loads(plain[1])
        assert (await listed("/api/v1/nodes?limit=1", "gzip"))[0] is None


async def test_yaml_is_taken_and_its_times_are_words(http):
    text = "metadata: {name: c, annotations: {since: '2020-01-01'}}\ndata: {day: 2020-01-01, flag: 'yes'}\n"
    headers = {"Content-Type": "application/yaml"}
    async with http.post("/api/v1/namespaces/default/configmaps", data=text, headers=headers) as response:
        assert (response.status, (await response.json())["data"]) == (201, {"day": "2020-01-01", "flag": "yes"})
    async with http.post("/api/v1/namespaces/default/configmaps", data="a: [", headers=headers) as response:
        assert response.status == 400


# --- cells ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "spelled"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (10799, "179m"), (10800, "3h"), (11100, "3h5m"), (28800, "8h"), (172799, "47h"), (172800, "2d"),
        (176400, "2d1h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"), (63158400, "2y1d"), (10**9, "31y"),
    ],
)  # fmt: skip
def test_ages_have_two_units_where_they_are_short(seconds, spelled):
    assert duration(seconds) == spelled


def running(name="main", ready=True, restarts=0, **more):
    return {"name": name, "ready": ready, "restartCount": restarts, "state": {"running": {}}, **more}


def ended(code=0, reason="", name="main", **state):
    state = {"exitCode": code, **({"reason": reason} if reason else {}), **state}
    return {"name": name, "ready": False, "restartCount": 0, "state": {"terminated": state}}


def waiting(reason, name="main", restarts=0, **more):
    return {"name": name, "ready": False, "restartCount": restarts, "state": {"waiting": {"reason": reason}}, **more}


READY = [{"type": "Ready", "status": "True"}]
LAST = {"lastState": {"terminated": {"finishedAt": (NOW - timedelta(minutes=5)).isoformat()}}}


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        pytest.param({}, {"phase": "Running", "containerStatuses": [running()]}, ["1/1", "Running", "0"], id="running"),
        pytest.param({}, {"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"], id="a reason of the pod"),
        pytest.param(
            {},
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ["0/1", "SchedulingGated", "0"],
            id="gated",
        ),
        pytest.param(
            {},
            {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff", restarts=3, **LAST)]},
            ["0/1", "CrashLoopBackOff", "3 (5m ago)"],
            id="crashing, and when last",
        ),
        pytest.param(
            {}, {"phase": "Succeeded", "containerStatuses": [ended(reason="Completed")]}, ["0/1", "Completed", "0"],
            id="completed",
        ),
        pytest.param(
            {}, {"phase": "Failed", "containerStatuses": [ended(137)]}, ["0/1", "ExitCode:137", "0"], id="no reason",
        ),
        pytest.param(
            {}, {"phase": "Failed", "containerStatuses": [ended(1, signal=9)]}, ["0/1", "Signal:9", "0"], id="a signal",
        ),
        pytest.param(
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {
                "phase": "Running",
                "conditions": READY,
                "containerStatuses": [ended(reason="Completed", name="a"), running("b")],
            },
            ["1/2", "Running", "0"],
            id="one of two has completed",
        ),
        pytest.param(
            {"initContainers": [{"name": "i"}, {"name": "j"}]},
            {"phase": "Pending", "initContainerStatuses": [ended(name="i"), waiting("PodInitializing", "j")]},
            ["0/1", "Init:1/2", "0"],
            id="in the second of two init containers",
        ),
        pytest.param(
            {"initContainers": [{"name": "i"}]},
            {"phase": "Pending", "initContainerStatuses": [waiting("ImagePullBackOff", "i")]},
            ["0/1", "Init:ImagePullBackOff", "0"],
            id="an init container waits",
        ),
        pytest.param(
            {"initContainers": [{"name": "i"}]},
            {"phase": "Pending", "initContainerStatuses": [ended(2, name="i")]},
            ["0/1", "Init:ExitCode:2", "0"],
            id="an init container failed",
        ),
        pytest.param(
            {"initContainers": [{"name": "side", "restartPolicy": "Always"}]},
            {
                "phase": "Running",
                "initContainerStatuses": [running("side", restarts=2, started=True)],
                "containerStatuses": [running(restarts=1)],
            },
            ["2/2", "Running", "3"],
            id="a sidecar counts",
        ),
    ],
)  # fmt: skip
def test_the_status_of_a_pod_in_a_word(spec, status, cells):
    spec = {"containers": [{"name": "main"}], **spec}
    printed = printer_of(ApiServer(window=1).resource("pods")).row(
        {"metadata": {"name": "p"}, "spec": spec, "status": status}, NOW
    )
    assert printed[1:4] == cells


def test_a_pod_being_deleted_is_terminating_until_it_is_done():
    printer = printer_of(ApiServer(window=1).resource("pods"))
    meta = {"name": "p", "deletionTimestamp": NOW.isoformat()}
    going = {"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Running"}}
    assert printer.row(going, NOW)[2] == "Terminating"
    assert printer.row({**going, "status": {"phase": "Succeeded"}}, NOW)[2] == "Succeeded"


async def test_many_watchers_share_the_rows_of_an_event(http, api_server):
    async with (
        asyncio.timeout(10),
        watching(http, PODS, headers=TABLE) as one,
        watching(http, PODS, headers=TABLE) as two,
    ):
        api_server.create(pod("a"))
        assert await one() == await two()
