"""What this API server offers: its version, and which version of a resource it has.

Owned by the program's wiring, which asks once at start and once more where something was missing. What is missing is
logged once. Its result goes into `Client.versions`, so that nobody else has to think of versions.
"""

import logging
import re
from typing import NamedTuple

import msgspec

from kube.api import codec
from kube.api.meta import ApiObject
from kube.api.resources import Resource, by_type
from kube.client import errors
from kube.client.rest import Client

log = logging.getLogger(__name__)


class ServerVersion(NamedTuple):
    """What `/version` says; minor is a number here, though some clouds write "28+"."""

    major: int
    minor: int
    git_version: str


class _Version(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class _ApiResource(msgspec.Struct):
    name: str = ""
    kind: str = ""


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource] | None = None


class Discovery:
    """Asks the server, and remembers the answers for as long as it lives."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._offered: dict[str, frozenset[str]] = {}
        self._logged: set[str] = set()

    async def version(self) -> ServerVersion:
        """The server's version."""
        found = codec.decode(await self._client.get_raw("/version"), _Version)
        return ServerVersion(_number(found.major), _number(found.minor), found.git_version)

    async def offers(self, resource: Resource) -> bool:
        """Whether the server has the resource at just this version."""
        return resource.plural in await self._resources(resource)

    async def resolve(self, resource: Resource) -> Resource | None:
        """The resource at the first of its versions that the server has; None, logged once, where it has none."""
        for version in (resource.version, *resource.alternatives):
            candidate = resource.at_version(version)
            if await self.offers(candidate):
                return candidate
        if not resource.optional and resource.group_resource not in self._logged:
            self._logged.add(resource.group_resource)
            log.warning("The API server does not offer %s; doing without", resource.group_resource)
        return None

    async def choose(self, *types: type[ApiObject]) -> frozenset[type[ApiObject]]:
        """Let the client use the best version of each type; the types that the server does not have."""
        missing = set()
        for type_ in types:
            found = await self.resolve(by_type(type_))
            if found is None:
                missing.add(type_)
            else:
                self._client.versions[type_] = found
        return frozenset(missing)

    def forget(self) -> None:
        """Ask again next time: what was missing may have been installed since."""
        self._offered.clear()

    async def _resources(self, resource: Resource) -> frozenset[str]:
        path = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
        known = self._offered.get(path)
        if known is None:
            try:
                body = await self._client.get_raw(path)
            except errors.NotFound:
                body = b"{}"
            found = codec.decode(body, _ApiResourceList).resources or ()
            known = self._offered[path] = frozenset(item.name for item in found)
        return known


def _number(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits.group()) if digits else 0
