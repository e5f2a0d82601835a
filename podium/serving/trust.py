"""Whose client certificates count: those of users, and those of front proxies, which name the user they speak for.

From files and flags or, where these say nothing, from the ConfigMap by which a cluster tells its extension servers.
Owner: the Guard of a secure endpoint, which reads it again now and then.
"""

from __future__ import annotations

import logging
import ssl
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from multidict import CIMultiDictProxy

from kube.client.errors import ApiError
from kube.client.rest import Client
from podium.serving.access import AUTHENTICATED, BOUND, UNAUTHENTICATED, User
from podium.serving.certificates import CertificateError, certificates_of, read

log = logging.getLogger(__name__)

_AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_PREFIX = "requestheader-"


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Whose word about users is taken, and where they write it. Without names every holder of a certificate counts."""

    ca: bytes = b""
    names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)

    def user(self, headers: CIMultiDictProxy[str]) -> User | None:
        """Whom a request is for; None where it does not say so."""
        name = _first(headers, self.username_headers)
        if not name:
            return None
        groups = tuple(value for each in self.group_headers for value in headers.getall(each, ()) if value)
        if not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
            groups = (*groups, AUTHENTICATED)
        extra: dict[str, tuple[str, ...]] = {}
        for header, value in headers.items():
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    key = unquote(header[len(prefix) :].lower())
                    extra[key] = (*extra.get(key, ()), value)
        return User(name, groups, _first(headers, self.uid_headers), extra)


@dataclass(frozen=True, slots=True)
class Trust:
    """CAs of users and of front proxies; the two are kept apart, since the latter may speak for anybody."""

    client_ca: bytes = b""
    proxy: FrontProxy = field(default_factory=FrontProxy)

    @property
    def bundle(self) -> bytes:
        """For the handshake, which verifies against both."""
        return b"\n".join(filter(None, (self.client_ca, self.proxy.ca)))

    def user(
        self, certificate: Mapping[str, Any], issuers: Collection[bytes], headers: CIMultiDictProxy[str]
    ) -> User | None:
        """Who somebody is whose certificate the handshake found good; None where that says nothing."""
        owner = user_of_certificate(certificate)
        if owner is None:
            return None
        proxy = self.proxy
        if not certificates_of(proxy.ca).isdisjoint(issuers) and (not proxy.names or owner.name in proxy.names):
            said = proxy.user(headers)
            if said is not None:
                return said
        return None if certificates_of(self.client_ca).isdisjoint(issuers) else owner


class Issuers:
    """Which CAs vouch for a client. A resumed connection does not tell, so that it is remembered. Owner: a Guard."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[bytes, ...]] = OrderedDict()

    def of(self, connection: ssl.SSLObject) -> tuple[bytes, ...]:
        """As DER; empty where it is not known."""
        own = connection.getpeercert(binary_form=True) or b""
        found = _verified_chain(connection)[1:]
        if not found:
            return self._known.get(own, ())
        self._known.pop(own, None)
        self._known[own] = found
        while len(self._known) > BOUND:
            self._known.popitem(last=False)
        return found


class TrustSource:
    """Where it comes from. `proxy`: what the flags say, which counts where `proxy_file` is given. Owner: a Guard."""

    def __init__(
        self,
        client: Client | None,
        file: Path | None = None,
        proxy_file: Path | None = None,
        proxy: FrontProxy | None = None,
    ) -> None:
        self._client = client
        self._file = file
        self._proxy_file = proxy_file
        self._proxy = proxy or FrontProxy()
        self._last = Trust()

    async def read(self, *, tolerate: bool) -> Trust:
        """As it is now. What cannot be looked up stays as before, or is a CertificateError."""
        found = self._last
        if self._client is not None and not (self._file and self._proxy_file):
            found = await self._looked_up(self._client, tolerate=tolerate)
        if self._file is not None:
            found = replace(found, client_ca=read(self._file))
        if self._proxy_file is not None:
            found = replace(found, proxy=replace(self._proxy, ca=read(self._proxy_file)))
        self._last = _checked(found)
        return found

    async def _looked_up(self, client: Client, *, tolerate: bool) -> Trust:
        try:
            document = msgspec.json.decode(await client.get_raw(_AUTHENTICATION))
            return published(document.get("data") or {})
        except (ApiError, CertificateError, msgspec.DecodeError) as problem:
            if not tolerate:
                raise CertificateError(f"client CAs of the cluster: {problem}") from problem
            log.warning("client CAs of the cluster: %s; client certificates cannot be verified", problem)
        return self._last


def published(data: Mapping[str, str]) -> Trust:
    """What the ConfigMap says. Raises CertificateError."""

    def names(key: str) -> tuple[str, ...]:
        try:
            return tuple(msgspec.json.decode(data.get(_PREFIX + key) or "[]", type=list[str]))
        except msgspec.DecodeError as problem:
            raise CertificateError(f"{_PREFIX}{key}: expected a list of strings in JSON: {problem}") from problem

    proxy = FrontProxy(
        data.get(f"{_PREFIX}client-ca-file", "").encode(),
        names("allowed-names"),
        names("username-headers"),
        names("uid-headers"),
        names("group-headers"),
        names("extra-headers-prefix"),
    )
    return _checked(Trust(data.get("client-ca-file", "").encode(), proxy))


def _checked(trust: Trust) -> Trust:
    for bundle in (trust.client_ca, trust.proxy.ca):
        certificates_of(bundle)
    return trust


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The user of a verified client certificate: its common name, and its organizations as groups."""
    parts = [pair for relative in certificate.get("subject", ()) for pair in relative]
    names = [value for kind, value in parts if kind == "commonName"]
    groups = [value for kind, value in parts if kind == "organizationName"]
    return User(names[-1], (*groups, AUTHENTICATED)) if names else None


def _verified_chain(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    """From the client's certificate to the CA that is trusted, as DER."""
    if hasattr(connection, "get_verified_chain"):
        return tuple(connection.get_verified_chain())
    # Public since Python 3.13; before that the object below has it.
    inner = connection._sslobj  # type: ignore[attr-defined]
    return tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in inner.get_verified_chain() or ())


def _first(headers: CIMultiDictProxy[str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")
