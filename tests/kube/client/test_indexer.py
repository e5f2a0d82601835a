"""The store of an informer."""

import pytest

from kube.api.core import Pod
from kube.client.indexer import Indexer
from tests.builders import make_pod


def by_node(pod: Pod) -> list[str]:
    return [pod.spec.node_name] if pod.spec.node_name else []


@pytest.fixture
def pods():
    return Indexer[Pod]({"node": by_node})


def names(found) -> list[str]:
    return [pod.metadata.name for pod in found]


def test_objects_are_found_by_key_and_by_namespace_and_name(pods):
    web = make_pod("web", namespace="shop")
    pods.add(web)
    assert pods.get("shop/web") is pods.get_by("shop", "web") is web
    assert pods.get("shop/other") is None
    assert "shop/web" in pods


def test_an_index_follows_additions_changes_and_deletions(pods):
    pods.add(make_pod("a", node_name="n1"))
    pods.add(make_pod("b", node_name="n1"))
    pods.update(make_pod("a", node_name="n2"))
    assert names(pods.by_index("node", "n1")) == ["b"]
    assert names(pods.by_index("node", "n2")) == ["a"]
    pods.delete("default/b")
    assert names(pods.by_index("node", "n1")) == []
    assert [*pods.index_values("node")] == ["n2"]


def test_replace_holds_exactly_what_it_was_given(pods):
    pods.add(make_pod("a", node_name="n1"))
    pods.replace([make_pod("b", node_name="n1"), make_pod("c")])
    assert names(pods.list()) == ["b", "c"]
    assert names(pods.by_index("node", "n1")) == ["b"]


def test_an_index_added_later_knows_what_is_there_already(pods):
    pods.add(make_pod("a", labels={"app": "web"}))
    pods.add_index("app", lambda pod: [pod.metadata.labels.get("app", "")])
    assert names(pods.by_index("app", "web")) == ["a"]
    with pytest.raises(ValueError, match="app"):
        pods.add_index("app", by_node)


def test_an_index_function_that_raises_changes_nothing(pods):
    def picky(pod: Pod) -> list[str]:
        if pod.spec.node_name == "bad":
            raise KeyError("bad")
        return ["any"]

    pods.add_index("picky", picky)
    pods.add(make_pod("a", node_name="n1"))
    with pytest.raises(KeyError):
        pods.add(make_pod("a", node_name="bad"))
    assert names(pods.by_index("node", "n1")) == names(pods.by_index("picky", "any")) == ["a"]
