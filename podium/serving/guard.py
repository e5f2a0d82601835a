"""The guard of the HTTP endpoints: how much may be asked at once and for how long, and on the secure port, by whom.

`limits` is for every endpoint, `Guard` for the secure one: TLS, then authentication, then authorization. Probes are
let through without either (`always_allow`). Owner: the command that runs the service.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from podium.serving.access import ANONYMOUS, Access, ReviewError, User
from podium.serving.certificates import CertificateError, ServingCertificate, TlsSettings
from podium.serving.trust import Issuers, Trust, TrustSource

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


class Guard:
    """Lets in whom the API server lets in. Build with `Guard.build`; run `keep_fresh` beside the server."""

    def __init__(
        self,
        certificate: ServingCertificate,
        source: TrustSource,
        trust: Trust,
        access: Access,
        always_allow: Collection[str] = ALWAYS_ALLOW,
    ) -> None:
        self.certificate = certificate
        self._source = source
        self._trust = trust
        self._issuers = Issuers()
        self._access = access
        self._always_allow = frozenset(path for path in always_allow if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in always_allow if path.endswith("*"))

    @classmethod
    async def build(
        cls,
        settings: TlsSettings,
        source: TrustSource,
        access: Access,
        always_allow: Collection[str],
        *,
        tolerate: bool,
    ) -> Guard:
        """Raises CertificateError."""
        trust = await source.read(tolerate=tolerate)
        return cls(ServingCertificate(settings, trust.bundle), source, trust, access, always_allow)

    async def keep_fresh(self) -> None:
        """Look for rotated certificates until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_PERIOD)
            await self.refresh()

    async def refresh(self) -> None:
        """Use what is there now: certificate, CAs, and what is said of front proxies."""
        try:
            trust = await self._source.read(tolerate=True)
            self.certificate.refresh(trust.bundle)
        except CertificateError as problem:
            log.error("%s; those from before stay in use", problem)
        else:
            self._trust = trust

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
        connection: Any = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
        certificate = connection.getpeercert() if connection is not None else None
        if certificate:
            known = self._trust.user(certificate, self._issuers.of(connection), request.headers)
            if known is not None:
                return known
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return ANONYMOUS
        if scheme.lower() != "bearer" or not token.strip():
            return None
        return await self._access.user_of_token(token.strip())
