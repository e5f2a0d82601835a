"""Explanations from a running podium, over HTTP. Imports nothing of the engine, which takes longer than the answer."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec

from podium.explain.documents import Explanation, Explanations

#: seconds a running podium has to answer
TIMEOUT = 30.0


class NoSuchPodError(Exception):
    """There is no pod of that name; the message is one line."""

    exit_code = 1


class UnreachableError(Exception):
    """Nobody answers there; the message is one line. `exit_code` 2: what was given to ask with cannot be used."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Trust:
    """What a secure port is shown, and how it is believed: a file with a token, a CA, or no look at the certificate."""

    token_file: str | None = None
    certificate_authority: str | None = None
    skip_verify: bool = False

    def headers(self) -> dict[str, str]:
        """Raises UnreachableError where the file cannot be read."""
        if self.token_file is None:
            return {}
        try:
            token = Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise UnreachableError(f"--token-file {self.token_file}: cannot be read: {problem}", 2) from problem
        return {"Authorization": f"Bearer {token}"}

    def tls(self) -> ssl.SSLContext | bool:
        """For aiohttp. Raises UnreachableError for a file that is no CA."""
        if self.skip_verify:
            return False
        try:
            return ssl.create_default_context(cafile=self.certificate_authority)
        except (OSError, ssl.SSLError) as problem:
            where = f"--certificate-authority {self.certificate_authority}"
            raise UnreachableError(f"{where}: expected PEM certificates: {problem}", 2) from problem


NO_TRUST = Trust()


def from_server(server: str, namespace: str, name: str, trust: Trust = NO_TRUST) -> list[Explanation]:
    """Ask a running podium. Raises UnreachableError and NoSuchPodError."""
    return asyncio.run(_ask(server.rstrip("/"), namespace, name, trust))


async def _ask(server: str, namespace: str, name: str, trust: Trust = NO_TRUST) -> list[Explanation]:
    # Reading the system's certificates takes as long as the answer.
    headers, tls = trust.headers(), trust.tls() if server.startswith("https:") else True
    path = f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}" if name else "/explain"
    try:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(server + path, headers=headers, ssl=tls) as answer,
        ):
            body = await answer.read()
    except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
        raise UnreachableError(f"no podium answers at {server}: {str(problem) or type(problem).__name__}") from problem
    if answer.status == 404:
        raise NoSuchPodError(body.decode(errors="replace").strip() or f"there is no pod {namespace}/{name}")
    try:
        if answer.status != 200:
            said = body.decode(errors="replace").strip()[:200] if answer.status in {401, 403} else ""
            code = f"{server}{path} answered with code {answer.status}"
            raise UnreachableError(f"{code}: {said} (--token-file shows a token)" if said else code)
        if name:
            return [msgspec.json.decode(body, type=Explanation)]
        return list(msgspec.json.decode(body, type=Explanations).pods)
    except msgspec.DecodeError as problem:
        raise UnreachableError(f"{server} is no podium: {problem}") from problem
