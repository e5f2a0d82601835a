"""An embedded API server for tests: `from tests.fixtures_apiserver import api_server` in a conftest makes it a fixture.

`api_server` is a started `ApiServer`; `http` a plain aiohttp session on it; `pod` and `node` give small objects.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from simulator.apiserver import ApiServer

Object = dict[str, Any]


@pytest.fixture
async def api_server() -> AsyncIterator[ApiServer]:
    """A started API server with nothing in it but the system namespaces and priority classes."""
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def http(api_server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A plain HTTP session whose paths are relative to the server."""
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(api_server.url, timeout=timeout, read_bufsize=2**21) as session:
        yield session


def pod(name: str, namespace: str = "default", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """Give a Pod with one small container; keywords go into its spec."""
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def node(name: str, *, cpu: str = "4", memory: str = "16Gi", pods: str = "110", **spec: Any) -> Object:
    """Give a Node with room; keywords go into its spec."""
    capacity = {"cpu": cpu, "memory": memory, "pods": pods}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": capacity},
    }
