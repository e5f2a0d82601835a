"""A bare REST client for tests: no code of podium's in it, so that it can bear witness against podium.

Used by the control plane's readiness checks, the fixtures and the conformance tests.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

Json = dict[str, Any]


class UnexpectedAnswerError(Exception):
    """The API server answered something else than the test asked for."""


@dataclass(frozen=True)
class Answer:
    """Status code and decoded body."""

    status: int
    body: Json

    @property
    def reason(self) -> str:
        """The `reason` of a Status object."""
        return str(self.body.get("reason", ""))


class Api:
    """One user's session with an API server; `async with`, and its methods only inside."""

    def __init__(self, url: str, ca: Path | None, token: str | None, timeout: float = 30) -> None:
        self.url = url
        self._ssl = ssl.create_default_context(cafile=str(ca)) if ca else True
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None
        self._kinds: dict[tuple[str, str], tuple[str, bool] | None] = {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._ssl)
        self._session = aiohttp.ClientSession(
            self.url, connector=connector, headers=self._headers, timeout=self._timeout, trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, path: str, body: Json | None = None, content_type: str = "") -> Answer:
        """One request, whatever its answer."""
        assert self._session is not None, "use `async with`"
        headers = {"Content-Type": content_type} if content_type else {}
        async with self._session.request(method, path, json=body, headers=headers) as response:
            if "json" in response.headers.get("Content-Type", ""):
                return Answer(response.status, await response.json())
            return Answer(response.status, {"text": await response.text()})

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[Json]:
        """The events since that version, until the connection ends, whoever ends it."""
        assert self._session is not None, "use `async with`"
        params = {"watch": "1", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=60)
        async with self._session.get(path, params=params, timeout=timeout, read_bufsize=2**21) as response:
            if response.status != 200:
                raise UnexpectedAnswerError(f"watching {path}: {response.status}")
            async for line in response.content:
                yield json.loads(line)

    async def _expect(self, status: range, method: str, path: str, *body: Any) -> Json:
        answer = await self.request(method, path, *body)
        if answer.status not in status:
            raise UnexpectedAnswerError(f"{method} {path}: {answer.status} {answer.body.get('message', answer.body)}")
        return answer.body

    async def get(self, path: str) -> Json:
        return await self._expect(range(200, 300), "GET", path)

    async def post(self, path: str, body: Json) -> Json:
        return await self._expect(range(200, 300), "POST", path, body)

    async def put(self, path: str, body: Json) -> Json:
        return await self._expect(range(200, 300), "PUT", path, body)

    async def patch(self, path: str, body: Json, content_type: str = MERGE_PATCH) -> Json:
        return await self._expect(range(200, 300), "PATCH", path, body, content_type)

    async def delete(self, path: str, body: Json | None = None) -> Json:
        return await self._expect(range(200, 300), "DELETE", path, body)

    async def collection_path(self, item: Json) -> str | None:
        """Where objects of this kind live, by discovery; None where the server does not serve the kind."""
        version, kind = item["apiVersion"], item["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._kinds:
            answer = await self.request("GET", root)
            resources = answer.body["resources"] if answer.status == 200 else []
            found = [(r["name"], r["namespaced"]) for r in resources if r["kind"] == kind and "/" not in r["name"]]
            self._kinds[version, kind] = found[0] if found else None
        resource = self._kinds[version, kind]
        if resource is None:
            return None
        name, namespaced = resource
        return (
            f"{root}/namespaces/{item['metadata'].get('namespace', 'default')}/{name}"
            if namespaced
            else f"{root}/{name}"
        )

    async def apply(self, items: Iterable[Json]) -> None:
        """Create each object, or put it in the place of the one that is there."""
        for item in items:
            collection = await self.collection_path(item)
            if collection is None:
                raise UnexpectedAnswerError(f"the API server knows no {item['apiVersion']} {item['kind']}")
            answer = await self.request("POST", collection, item)
            if answer.status == 409:
                await self.put(f"{collection}/{item['metadata']['name']}", item)
            elif answer.status != 201:
                raise UnexpectedAnswerError(f"{item['kind']} {item['metadata']['name']}: {answer.body.get('message')}")

    async def wait_until(self, path: str, what: str, holds: Any, timeout: float = 30) -> Json:
        """Poll `path` until `holds(body)`; the body that did."""
        body: Json = {}
        try:
            async with asyncio.timeout(timeout):
                while True:
                    body = await self.get(path)
                    if holds(body):
                        return body
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise UnexpectedAnswerError(f"{path}: not {what} within {timeout:.0f} s; last: {str(body)[:500]}") from None
