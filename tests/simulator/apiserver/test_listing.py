"""Lists: versions, pages, selectors."""

import pytest

from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node, pod


async def listed(http, path="/api/v1/pods", **query):
    async with http.get(path, params=query) as response:
        return response.status, await response.json()


def names(answer):
    return [item["metadata"]["name"] for item in answer["items"]]


async def test_a_list_is_in_order_and_its_items_carry_no_kind(http, api_server):
    for name, namespace in (("b", "default"), ("a", "kube-system"), ("a", "default")):
        api_server.create(pod(name, namespace))
    _, answer = await listed(http)
    assert (answer["kind"], answer["apiVersion"]) == ("PodList", "v1")
    assert answer["metadata"] == {"resourceVersion": str(api_server.store.version)}
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in answer["items"]]
    assert keys == [("default", "a"), ("default", "b"), ("kube-system", "a")]
    assert not any("kind" in item or "apiVersion" in item for item in answer["items"])
    _, answer = await listed(http, "/api/v1/namespaces/kube-system/pods")
    assert names(answer) == ["a"]


async def test_pages_show_the_state_of_the_first(http, api_server):
    for name in "abcde":
        api_server.create(pod(name))
    _, first = await listed(http, limit="2")
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    api_server.delete("pods", "d")
    api_server.create(pod("ca"))
    api_server.patch("pods", "c", {"metadata": {"labels": {"late": "yes"}}})
    _, second = await listed(http, limit="2", **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["c", "d"]
    assert second["items"][0]["metadata"].get("labels") in (None, {})
    _, third = await listed(http, limit="2", **{"continue": second["metadata"]["continue"]})
    assert names(third) == ["e"]
    assert "continue" not in third["metadata"]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1
    _, fresh = await listed(http)
    assert names(fresh) == ["a", "b", "c", "ca", "e"]


async def test_an_old_token_is_gone_but_offers_to_go_on_from_the_present(http, api_server):
    for name in "abc":
        api_server.create(pod(name))
    _, first = await listed(http, limit="1")
    api_server.create(pod("d"))
    api_server.store.compact()
    status, refusal = await listed(http, limit="1", **{"continue": first["metadata"]["continue"]})
    assert (status, refusal["reason"]) == (410, "Expired")
    _, rest = await listed(http, **{"continue": refusal["metadata"]["continue"]})
    assert names(rest) == ["b", "c", "d"]


async def test_pages_with_a_selector_are_full(http, api_server):
    for i in range(6):
        api_server.create(pod(f"p{i}", labels={"odd": str(i % 2)}))
    _, first = await listed(http, limit="2", labelSelector="odd=1")
    assert names(first) == ["p1", "p3"]
    assert "remainingItemCount" not in first["metadata"]
    _, second = await listed(http, limit="2", labelSelector="odd=1", **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["p5"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        pytest.param({"resourceVersion": "0"}, 200, id="any version will do"),
        pytest.param({"resourceVersion": "1"}, 200, id="not older than"),
        pytest.param({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 410, id="an exact version long gone"),
        pytest.param({"resourceVersion": "99999"}, 504, id="a version from the future"),
        pytest.param({"resourceVersion": "soon"}, 400, id="no version at all"),
        pytest.param({"resourceVersionMatch": "Exact"}, 400, id="a match of nothing"),
        pytest.param({"limit": "-1"}, 400, id="a negative limit"),
        pytest.param({"continue": "???"}, 400, id="a token that is none"),
    ],
)
async def test_versions_and_limits_of_a_list(http, api_server, query, status):
    api_server.create(pod("p"))
    api_server.store.compact()
    assert (await listed(http, **query))[0] == status


async def test_an_exact_version_shows_the_past(http, api_server):
    api_server.create(pod("a"))
    version = str(api_server.store.version)
    api_server.delete("pods", "a")
    _, answer = await listed(http, resourceVersion=version, resourceVersionMatch="Exact")
    assert (names(answer), answer["metadata"]["resourceVersion"]) == (["a"], version)


LABELLED = {
    "a": {"app": "web", "tier": "front"},
    "b": {"app": "db"},
    "c": {"app": "web"},
    "d": {},
}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("app=web", "ac", id="equal"),
        pytest.param("app==db", "b", id="equal, spelled twice"),
        pytest.param("app!=web", "bd", id="unequal holds where the key is missing"),
        pytest.param("app in (web, db),tier", "a", id="a set and a key"),
        pytest.param("app notin (web)", "bd", id="not in a set"),
        pytest.param("!tier", "bcd", id="a missing key"),
        pytest.param("app=web,!tier", "c", id="both"),
        pytest.param("", "abcd", id="empty"),
    ],
)
async def test_label_selectors(http, api_server, selector, found):
    for name, labels in LABELLED.items():
        api_server.create(pod(name, labels=labels))
    assert names((await listed(http, labelSelector=selector))[1]) == list(found)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("spec.nodeName=n1", "a", id="on a node"),
        pytest.param("spec.nodeName=", "bc", id="on none"),
        pytest.param("spec.nodeName!=", "a", id="on any"),
        pytest.param("spec.schedulerName=podium", "b", id="of a scheduler"),
        pytest.param("metadata.name!=a,status.phase=Pending", "bc", id="two fields"),
        pytest.param("metadata.namespace=default,spec.hostNetwork=false", "abc", id="a flag that is not set"),
    ],
)
async def test_field_selectors(http, api_server, selector, found):
    api_server.create(pod("a", nodeName="n1"))
    api_server.create(pod("b", schedulerName="podium"))
    api_server.create(pod("c"))
    assert names((await listed(http, fieldSelector=selector))[1]) == list(found)


async def test_an_unschedulable_node_is_found_by_its_flag(http, api_server):
    api_server.create(node("a", unschedulable=True))
    api_server.create(node("b"))
    assert names((await listed(http, "/api/v1/nodes", fieldSelector="spec.unschedulable=true"))[1]) == ["a"]
    assert names((await listed(http, "/api/v1/nodes", fieldSelector="spec.unschedulable=false"))[1]) == ["b"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param({"fieldSelector": "spec.color=red"}, "field label not supported: spec.color", id="unknown field"),
        pytest.param({"fieldSelector": "spec.nodeName"}, "invalid field selector", id="no comparison"),
        pytest.param({"labelSelector": "a=b=c"}, "unable to parse requirement", id="two equals signs"),
        pytest.param({"labelSelector": "a in b"}, "unable to parse requirement", id="a set without brackets"),
    ],
)
async def test_selectors_that_cannot_be_read(http, query, message):
    status, refusal = await listed(http, **query)
    assert status == 400
    assert message in refusal["message"]


async def test_a_list_of_many_pages_sees_each_object_once(http):
    async with ApiServer() as server:
        for i in range(250):
            server.create(pod(f"p{i:03d}"))
        seen, token = [], ""
        while True:
            query = {"limit": "40"} | ({"continue": token} if token else {})
            async with http.get(server.url + "/api/v1/pods", params=query) as response:
                page = await response.json()
            seen += names(page)
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert seen == [f"p{i:03d}" for i in range(250)]
