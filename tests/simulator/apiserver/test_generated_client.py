"""kubernetes_asyncio, the client most Python programs use, against the embedded server."""

import kubernetes_asyncio
import pytest
from kubernetes_asyncio.client import ApiException, CoreV1Api, V1Binding, V1ObjectMeta, V1ObjectReference
from kubernetes_asyncio.watch import Watch

from tests.fixtures_apiserver import node, pod


@pytest.fixture
async def core(api_server, tmp_path):
    path = api_server.write_kubeconfig(tmp_path / "config")
    configuration = kubernetes_asyncio.client.Configuration()
    await kubernetes_asyncio.config.load_kube_config(str(path), client_configuration=configuration)
    async with kubernetes_asyncio.client.ApiClient(configuration) as client:
        yield CoreV1Api(client)


async def test_create_list_and_patch(core, api_server):
    api_server.create(node("n1"))
    created = await core.create_namespaced_pod("default", pod("p"))
    assert created.metadata.resource_version == str(api_server.store.version)
    listed = await core.list_pod_for_all_namespaces(label_selector="", field_selector="spec.nodeName=", limit=10)
    assert [item.metadata.name for item in listed.items] == ["p"]
    assert [item.status.allocatable["cpu"] for item in (await core.list_node()).items] == ["4"]
    patched = await core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels == {"a": "b"}


async def test_watch_sees_a_raw_bind(core, api_server):
    created = await core.create_namespaced_pod("default", pod("p"))
    body = V1Binding(metadata=V1ObjectMeta(name="p"), target=V1ObjectReference(kind="Node", name="n1"))
    # The typed reply of this client expects a Binding where every API server answers with a Status.
    reply = await core.create_namespaced_pod_binding("p", "default", body, _preload_content=False)
    assert reply.status == 201
    await reply.read()
    async with Watch() as watch:
        version = created.metadata.resource_version
        stream = watch.stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=5)
        async for event in stream:
            assert (event["type"], event["object"].spec.node_name) == ("MODIFIED", "n1")
            break


async def test_errors_are_api_exceptions(core, api_server):
    with pytest.raises(ApiException) as missing:
        await core.read_namespaced_pod("p", "default")
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    api_server.create(pod("p"))
    with pytest.raises(ApiException) as taken:
        await core.create_namespaced_pod("default", pod("p"))
    assert taken.value.status == 409
