"""The guard of the HTTP endpoints: how much may be asked at once and for how long, and on the secure port, by whom.

`limits` is for every endpoint, `Guard` for the secure one: TLS, then authentication, then authorization. Probes are
let through without either (`always_allow`). Owner: the command that runs the service.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kube.client.errors import ApiError
from kube.client.rest import Client
from podium.serving.access import ANONYMOUS, Access, ReviewError, User, user_of_certificate
from podium.serving.certificates import CertificateError, ServingCertificate, TlsSettings, read

log = logging.getLogger(__name__)

#: requests answered at the same time; the next is told to come again
MAX_IN_FLIGHT = 100
#: seconds a request may take, profiles left out
REQUEST_TIMEOUT = 60.0
#: bytes of a request's body: nothing that is asked here needs one worth the name
MAX_BODY = 65_536
#: seconds between two looks at certificate files and the cluster's client CA
REFRESH_PERIOD = 60.0
ALWAYS_ALLOW = ("/healthz", "/readyz", "/livez")
#: HTTP method -> the verb that RBAC knows
_VERBS = {"HEAD": "get"}
_AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


def limits(most: int = MAX_IN_FLIGHT, seconds: float = REQUEST_TIMEOUT) -> Middleware:
    """So many requests at once, so long for each; one counter for the endpoint that it is given to."""
    in_flight = 0

    @web.middleware
    async def limit(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal in_flight
        if in_flight >= most and request.path not in ALWAYS_ALLOW:
            return web.Response(status=429, text="too many requests at once\n", headers={"Retry-After": "1"})
        in_flight += 1
        try:
            async with asyncio.timeout(seconds):
                return await handler(request)
        except TimeoutError:
            return web.Response(status=504, text=f"no answer within {seconds:g} s\n")
        finally:
            in_flight -= 1

    return limit


class ClientCAs:
    """The CAs of client certificates: a file, or what the cluster tells its extension servers. Owner: a Guard."""

    def __init__(self, file: Path | None, client: Client | None) -> None:
        self._file = file
        self._client = client
        self._last = b""

    async def read(self, *, tolerate: bool) -> bytes:
        """As they are now. What cannot be looked up leaves those from before, or is a CertificateError."""
        if self._file is not None:
            return read(self._file)
        if self._client is None:
            return b""
        try:
            document = msgspec.json.decode(await self._client.get_raw(_AUTHENTICATION))
            self._last = str((document.get("data") or {}).get("client-ca-file", "")).encode()
        except ApiError as problem:
            if not tolerate:
                raise CertificateError(f"client CAs of the cluster: {problem}") from problem
            log.warning("client CAs of the cluster: %s; client certificates cannot be verified", problem)
        return self._last


class Guard:
    """Lets in whom the API server lets in. Build with `Guard.build`; run `keep_fresh` beside the server."""

    def __init__(
        self,
        certificate: ServingCertificate,
        cas: ClientCAs,
        access: Access,
        always_allow: Collection[str] = ALWAYS_ALLOW,
    ) -> None:
        self.certificate = certificate
        self._cas = cas
        self._access = access
        self._always_allow = frozenset(path for path in always_allow if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in always_allow if path.endswith("*"))

    @classmethod
    async def build(
        cls, settings: TlsSettings, cas: ClientCAs, access: Access, always_allow: Collection[str], *, tolerate: bool
    ) -> Guard:
        """Raises CertificateError."""
        return cls(ServingCertificate(settings, await cas.read(tolerate=tolerate)), cas, access, always_allow)

    async def keep_fresh(self) -> None:
        """Look for rotated certificates until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_PERIOD)
            try:
                self.certificate.refresh(await self._cas.read(tolerate=True))
            except CertificateError as problem:
                log.error("%s; those from before stay in use", problem)

    @property
    def middleware(self) -> Middleware:
        """For the secure endpoint."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = await self._refusal(request)
            return await handler(request) if refusal is None else refusal

        return guard

    async def _refusal(self, request: web.Request) -> web.Response | None:
        path = request.path
        if path in self._always_allow or path.startswith(self._prefixes or ("\0",)):
            return None
        try:
            user = await self._user(request)
            if user is None:
                return web.Response(status=401, text="Unauthorized\n")
            verb = _VERBS.get(request.method, request.method.lower())
            verdict = await self._access.may(user, verb, path)
        except ReviewError:
            return web.Response(status=500, text="the API server cannot be asked whether this is allowed\n")
        if verdict.allowed:
            return None
        return web.Response(status=403, text=f'Forbidden: user "{user.name}" cannot {verb} path "{path}"\n')

    async def _user(self, request: web.Request) -> User | None:
        certificate: Any = request.transport.get_extra_info("peercert") if request.transport is not None else None
        if certificate:
            known = user_of_certificate(certificate)
            if known is not None:
                return known
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        if scheme.lower() != "bearer" or not token.strip():
            return None
        return await self._access.user_of_token(token.strip())
