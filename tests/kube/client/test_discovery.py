"""Which versions a server offers."""

from aiohttp import web

from kube.api.core import Pod
from kube.api.policy import PodDisruptionBudget
from kube.api.storage import CSIStorageCapacity
from kube.client.discovery import Discovery, ServerVersion


def offer(server, path: str, *plurals: str) -> None:
    async def reply(_):
        return web.json_response({"resources": [{"name": name} for name in plurals]})

    server.once("GET", reply, path=path)


async def test_the_best_version_that_the_server_has_is_used_from_then_on(server, client):
    offer(server, "/api/v1", "pods", "pods/status", "nodes")
    offer(server, "/apis/policy/v1beta1", "poddisruptionbudgets")
    missing = await Discovery(client).choose(Pod, PodDisruptionBudget)
    assert missing == frozenset()
    assert client.resource(PodDisruptionBudget).path("ns") == "/apis/policy/v1beta1/namespaces/ns/poddisruptionbudgets"
    assert client.resource(Pod).path() == "/api/v1/pods"


async def test_what_is_missing_is_named_and_logged_once(server, client, caplog):
    offer(server, "/apis/storage.k8s.io/v1", "storageclasses")
    discovery = Discovery(client)
    for _ in range(2):
        assert await discovery.choose(CSIStorageCapacity) == {CSIStorageCapacity}
    assert [record.getMessage() for record in caplog.records] == [
        "The API server does not offer csistoragecapacities.storage.k8s.io; doing without"
    ]
    assert len(server.requests) == 3  # one for each version, remembered


async def test_forgetting_asks_again(server, client):
    discovery = Discovery(client)
    assert await discovery.choose(CSIStorageCapacity) == {CSIStorageCapacity}
    discovery.forget()
    offer(server, "/apis/storage.k8s.io/v1", "csistoragecapacities")
    assert await discovery.choose(CSIStorageCapacity) == frozenset()


async def test_the_version_of_a_cloud_is_a_number_too(server, client):
    async def reply(_):
        return web.json_response({"major": "1", "minor": "28+", "gitVersion": "v1.28.3-gke.1"})

    server.once("GET", reply)
    assert await Discovery(client).version() == ServerVersion(1, 28, "v1.28.3-gke.1")
