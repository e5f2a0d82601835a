"""Explanations from a running podium, over HTTP. Imports nothing of the engine, which takes longer than the answer."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import aiohttp
import msgspec

from podium.explain.documents import Explanation, Explanations

#: seconds a running podium has to answer
TIMEOUT = 30.0


class NoSuchPodError(Exception):
    """There is no pod of that name; the message is one line."""


class UnreachableError(Exception):
    """Nobody answers there; the message is one line."""


def from_server(server: str, namespace: str, name: str) -> list[Explanation]:
    """Ask a running podium. Raises UnreachableError and NoSuchPodError."""
    return asyncio.run(_ask(server.rstrip("/"), namespace, name))


async def _ask(server: str, namespace: str, name: str) -> list[Explanation]:
    path = f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}" if name else "/explain"
    try:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(server + path) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
        raise UnreachableError(f"no podium answers at {server}: {str(problem) or type(problem).__name__}") from problem
    if answer.status == 404:
        raise NoSuchPodError(body.decode(errors="replace").strip() or f"there is no pod {namespace}/{name}")
    try:
        if answer.status != 200:
            raise UnreachableError(f"{server}{path} answered with code {answer.status}")
        if name:
            return [msgspec.json.decode(body, type=Explanation)]
        return list(msgspec.json.decode(body, type=Explanations).pods)
    except msgspec.DecodeError as problem:
        raise UnreachableError(f"{server} is no podium: {problem}") from problem
