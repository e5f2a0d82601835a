"""The objects of a live cluster, read once and never written: what simulate, explain and snapshot start from.

Only kinds that scheduling looks at are listed; kinds that the server does not have, or does not show us, are left out
with a warning. Lists are made one after the other, nodes last, so that every node of a listed pod is there, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kube.api.core import Node, Pod
from kube.api.meta import ApiObject
from kube.api.resources import EVENTS, LEASES, RESOURCES, by_type
from kube.client.auth import CredentialsError, load_credentials
from kube.client.discovery import Discovery
from kube.client.errors import ApiError, Forbidden
from kube.client.rest import Client, Selection
from simulator.load import ClusterObjects

#: seconds for all lists together
TIMEOUT = 120.0
_UNFINISHED = Selection(field_selector="status.phase!=Succeeded,status.phase!=Failed")
_NOT_READ = frozenset({LEASES.type, EVENTS.type})


class ClusterUnreadableError(Exception):
    """The cluster cannot be read; the message is one line. `exit_code` 2: credentials that cannot be used."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def read_cluster(kubeconfig: str | None) -> ClusterObjects:
    """All objects, with the usual credentials. Raises ClusterUnreadableError."""
    return asyncio.run(_read(lambda: load_credentials(kubeconfig)))


async def _read(credentials_of: Callable[[], Awaitable[Any]]) -> ClusterObjects:
    try:
        credentials = await credentials_of()
        async with asyncio.timeout(TIMEOUT), Client(credentials, qps=-1, burst=0) as client:
            return await read_with(client)
    except CredentialsError as problem:
        raise ClusterUnreadableError(str(problem), 2) from problem
    except ApiError as problem:
        raise ClusterUnreadableError(f"the cluster cannot be read: {problem}") from problem
    except TimeoutError as problem:
        raise ClusterUnreadableError(f"the cluster did not answer in {TIMEOUT:g} s") from problem


async def read_with(client: Client) -> ClusterObjects:
    """All objects, through a client."""
    types = [resource.type for resource in RESOURCES if resource.type not in _NOT_READ]
    missing = await Discovery(client).choose(*types)
    warnings: list[str] = []
    pods = (await client.list(Pod, _UNFINISHED)).items
    others: dict[str, tuple[Any, ...]] = {}
    for type_ in types:
        if type_ in missing or type_ in (Pod, Node):
            continue
        items = await _list(client, type_, warnings)
        if items:
            others[by_type(type_).listed_as] = items
    nodes = (await client.list(Node)).items
    return ClusterObjects(nodes=nodes, pods=pods, others=others, warnings=tuple(warnings))


async def _list(client: Client, type_: type[ApiObject], warnings: list[str]) -> tuple[Any, ...]:
    try:
        return (await client.list(type_)).items
    except Forbidden:
        warnings.append(f"{type_.KIND}: not allowed to list, left out")
        return ()
