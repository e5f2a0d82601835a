"""An API server that answers TokenReviews and SubjectAccessReviews, and counts what it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from kube.client.auth import Credentials
from kube.client.rest import Client


class Reviewer:
    """Knows some tokens, and who may get which paths."""

    def __init__(self, users: dict[str, str], may: dict[str, set[str]]) -> None:
        self.users = users
        self.may = may
        #: what the cluster tells its extension servers; nothing: the caller may not know
        self.published: dict[str, str] = {}
        self.broken = False
        self.asked: list[dict[str, Any]] = []

    async def review(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        if self.broken:
            return web.Response(status=500, text="out of order")
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            name = self.users.get(spec["token"])
            user = {"username": name, "groups": ["system:authenticated"], "extra": {"scopes": ["a"]}}
            status = {"authenticated": True, "user": user} if name else {"authenticated": False}
        else:
            attributes = spec["nonResourceAttributes"]
            status = {"allowed": f"{attributes['verb']} {attributes['path']}" in self.may.get(spec["user"], set())}
        return web.json_response(body | {"status": status}, status=201)

    async def config_map(self, request: web.Request) -> web.Response:
        if not self.published:
            return web.json_response({"kind": "Status", "code": 403, "message": "forbidden"}, status=403)
        return web.json_response({"data": self.published})

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The specs of the reviews of that kind."""
        return [body["spec"] for body in self.asked if body["kind"] == kind]


@asynccontextmanager
async def serving(reviewer: Reviewer) -> AsyncIterator[Client]:
    """A client of that server."""
    app = web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", reviewer.review)
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", reviewer.review)
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    app.router.add_get(path, reviewer.config_map)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with Client(Credentials(f"http://127.0.0.1:{runner.addresses[0][1]}"), qps=-1, burst=0) as client:
            yield client
    finally:
        await runner.cleanup()
