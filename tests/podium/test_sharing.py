"""Decoded pods share what is equal, and nobody can tell."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube.api import codec
from kube.api.core import Pod
from podium import sharing
from podium.sharing import Sharing


def body(name: str, **changes: Any) -> bytes:
    """A replica as the API server sends it."""
    spec = {
        "nodeName": changes.get("node", "n1"),
        "schedulerName": "podium",
        "containers": [
            {"name": "main", "image": "a:1", "resources": {"requests": {"cpu": changes.get("cpu", "100m")}}}
        ],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
    }
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": changes.get("app", "web")}}
    meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}]
    return msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


def shared(sharing: Sharing, data: bytes) -> Pod:
    """Decoded, and shared."""
    return sharing.pod(codec.decode(data, Pod))


def test_replicas_share_everything_but_what_tells_them_apart() -> None:
    sharing = Sharing()
    one, two = shared(sharing, body("web-0")), shared(sharing, body("web-1", node="n2"))
    assert one.spec.containers is two.spec.containers
    assert one.spec.tolerations is two.spec.tolerations
    assert one.spec.node_selector is two.spec.node_selector
    assert one.metadata.labels is two.metadata.labels
    assert one.metadata.owner_references is two.metadata.owner_references
    assert one.metadata.namespace is two.metadata.namespace
    assert (one.metadata.name, two.metadata.name) == ("web-0", "web-1")
    assert (one.spec.node_name, two.spec.node_name) == ("n1", "n2")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(body("web-1"), id="a replica"),
        pytest.param(body("web-1", cpu="200m"), id="another template"),
        pytest.param(body("web-1", app="api"), id="other labels"),
        pytest.param(b'{"metadata": {"name": "bare"}}', id="hardly anything"),
    ],
)
def test_a_shared_pod_equals_the_decoded_one(data: bytes) -> None:
    sharing = Sharing()
    shared(sharing, body("web-0"))
    assert shared(sharing, data) == codec.decode(data, Pod)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MAX_PARTS", 10)
    table = Sharing()
    for i in range(1000):
        made = shared(table, body(f"web-{i}", cpu=f"{i}m", app=f"app-{i}"))
        assert made.spec.containers[0].resources.requests == {"cpu": f"{i}m"}
        assert len(table._parts) <= 12
