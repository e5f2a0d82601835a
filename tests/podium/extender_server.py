"""An HTTP extender for tests: what it was asked and what it answers; `python FILE URL_FILE` makes it a process."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

Object = dict[str, Any]


class ExtenderServer:
    """Answers each verb by a function of the request's body; without one with 404."""

    def __init__(self, **verbs: Callable[[Any], Any]) -> None:
        self.verbs = verbs
        #: (verb, body) of every request
        self.asked: list[tuple[str, Any]] = []
        #: seconds before an answer
        self.delay = 0.0
        self.url = ""

    def bodies(self, verb: str) -> list[Any]:
        """What was asked of one verb."""
        return [body for asked, body in self.asked if asked == verb]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        verb = request.match_info["verb"]
        assert request.headers["Content-Type"] == "application/json"
        body = await request.json()
        self.asked.append((verb, body))
        await asyncio.sleep(self.delay)
        answer = self.verbs[verb](body) if verb in self.verbs else web.Response(status=404)
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@asynccontextmanager
async def serving(server: ExtenderServer, context: ssl.SSLContext | None = None) -> AsyncIterator[ExtenderServer]:
    """On a port of the loopback."""
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/ext/{verb}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    scheme = "https" if context is not None else "http"
    server.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/ext"
    try:
        yield server
    finally:
        await runner.cleanup()


def only(*names: str) -> Callable[[Object], Object]:
    """A filter that leaves these nodes, in the form in which it was asked."""

    def answer(body: Object) -> Object:
        if body["NodeNames"] is not None:
            left = [name for name in body["NodeNames"] if name in names]
            failed = {name: "not mine" for name in body["NodeNames"] if name not in names}
            return {"Nodes": None, "NodeNames": left, "FailedNodes": failed, "Error": ""}
        items = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] in names]
        return {"Nodes": {"items": items}, "NodeNames": None, "FailedNodes": None, "Error": ""}

    return answer


async def _main(port_file: str, certificates: list[str]) -> None:
    context = None
    if certificates:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates[0])
        context.load_verify_locations(certificates[1])
        context.verify_mode = ssl.CERT_REQUIRED
    async with serving(ExtenderServer(filter=only("n2"), prioritize=lambda body: []), context) as server:
        partial = Path(port_file + ".new")
        partial.write_text(server.url)
        partial.rename(port_file)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2:]))
