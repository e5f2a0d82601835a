"""Client certificates on the secure port, over real TLS: users, and front proxies that speak for users."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from podium.http import HttpServer
from podium.serving.access import Access
from podium.serving.certificates import CertificateError, TlsSettings
from podium.serving.guard import Guard
from podium.serving.trust import FrontProxy, TrustSource
from simulator.apiserver import ApiServer
from tests.podium.harness import podium
from tests.podium.serving.reviewing import Reviewer, serving

USERS, PROXIES, STRANGERS = trustme.CA(), trustme.CA(), trustme.CA()
#: what kube-apiserver publishes where it is told of a front proxy
PUBLISHED = {
    "client-ca-file": USERS.cert_pem.bytes().decode(),
    "requestheader-client-ca-file": PROXIES.cert_pem.bytes().decode(),
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
CARLA = (("X-Remote-User", "carla"),)


def certificate(authority: trustme.CA, name: str, organization: str = "ops") -> ssl.SSLContext:
    """A client that shows a certificate of that name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    issued = authority.issue_cert(f"{name}@example.com", common_name=name, organization_name=organization)
    issued.configure_cert(context)
    return context


class Asker:
    """Somebody who asks a secure port."""

    def __init__(self, port: int, guard: Guard, reviews: Reviewer) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.guard = guard
        self.reviews = reviews

    async def user(self, tls: ssl.SSLContext, headers: tuple[tuple[str, str], ...] = ()) -> str:
        """Who the API server was asked about, or the code of the refusal."""
        async with aiohttp.ClientSession() as http, http.get(f"{self.url}/metrics", headers=headers, ssl=tls) as answer:
            asked = self.reviews.of_kind("SubjectAccessReview")
            return str(asked[-1]["user"]) if asked else str(answer.status)


@asynccontextmanager
async def guarded(
    api_server: ApiServer, published: dict[str, str] | None = None, *, lookup: bool = True, **source: Any
) -> AsyncIterator[Asker]:
    """A running podium whose cluster publishes that."""
    reviews = Reviewer({"sesame": "prometheus"}, {"carla": {"get /metrics"}})
    reviews.published = PUBLISHED if published is None else published
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(reviews))
        service = await stack.enter_async_context(podium(api_server))
        access = Access(client, client, asyncio.get_running_loop().time)
        guard = await Guard.build(
            TlsSettings(), TrustSource(client if lookup else None, **source), access, (), tolerate=False
        )
        server = await stack.enter_async_context(HttpServer(service, "127.0.0.1", 0, guard=guard))
        yield Asker(server.port, guard, reviews)


@pytest.mark.parametrize(
    ("authority", "name", "headers", "user"),
    [
        pytest.param(PROXIES, "front-proxy-client", CARLA, "carla", id="a front proxy speaks for a user"),
        pytest.param(PROXIES, "front-proxy-client", (), "system:anonymous", id="a front proxy names nobody"),
        pytest.param(PROXIES, "other", CARLA, "system:anonymous", id="of that CA, but not one of the names"),
        pytest.param(USERS, "front-proxy-client", CARLA, "front-proxy-client", id="the name, but not the CA"),
        pytest.param(USERS, "bob", CARLA, "bob", id="a user who claims to be somebody else"),
        pytest.param(USERS, "carla", (), "carla", id="a user"),
    ],
)
async def test_who_a_certificate_stands_for(
    api_server: ApiServer, authority: trustme.CA, name: str, headers: tuple[tuple[str, str], ...], user: str
) -> None:
    async with guarded(api_server) as asker:
        assert await asker.user(certificate(authority, name), headers) == user


async def test_nobody_who_shows_no_certificate_is_believed(api_server: ApiServer) -> None:
    plain = ssl.create_default_context()
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    async with guarded(api_server) as asker:
        assert await asker.user(plain, CARLA) == "system:anonymous"


async def test_all_that_the_proxy_says_of_the_user_is_asked_about(api_server: ApiServer) -> None:
    headers = (
        *CARLA,
        ("X-Remote-Group", "ops"),
        ("X-Remote-Group", "dev"),
        ("X-Remote-Extra-Scopes", "a"),
        ("X-Remote-Extra-Scopes", "b"),
        ("X-Remote-Extra-Acme.com%2FProject", "blue"),
        ("X-Remote-Uid", "not believed: no header was named for it"),
    )
    async with guarded(api_server) as asker:
        await asker.user(certificate(PROXIES, "front-proxy-client"), headers)
        [spec] = asker.reviews.of_kind("SubjectAccessReview")
    assert (spec["user"], spec["uid"]) == ("carla", "")
    assert spec["groups"] == ["ops", "dev", "system:authenticated"]
    assert spec["extra"] == {"scopes": ["a", "b"], "acme.com/project": ["blue"]}


async def test_without_names_every_proxy_of_the_ca_counts(api_server: ApiServer) -> None:
    async with guarded(api_server, {**PUBLISHED, "requestheader-allowed-names": "[]"}) as asker:
        assert await asker.user(certificate(PROXIES, "any"), CARLA) == "carla"


async def test_files_count_in_place_of_what_the_cluster_publishes(api_server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "proxies.crt").write_bytes(STRANGERS.cert_pem.bytes())
    proxy = FrontProxy(names=("edge",), username_headers=("x-user",))
    async with guarded(api_server, proxy_file=tmp_path / "proxies.crt", proxy=proxy) as asker:
        assert await asker.user(certificate(STRANGERS, "edge"), (("X-User", "dora"),)) == "dora"
        assert await asker.user(certificate(USERS, "bob")) == "bob"
        with pytest.raises(aiohttp.ClientError):
            await asker.user(certificate(PROXIES, "front-proxy-client"), CARLA)


async def test_a_client_ca_file_is_enough_without_a_lookup(api_server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "users.crt").write_bytes(USERS.cert_pem.bytes())
    async with guarded(api_server, lookup=False, file=tmp_path / "users.crt") as asker:
        assert await asker.user(certificate(USERS, "bob"), CARLA) == "bob"


async def test_a_ca_that_another_has_signed_is_trusted_for_itself(api_server: ApiServer, tmp_path: Path) -> None:
    """As clusters have it whose CAs all come from one root: the root's other children are no front proxies."""
    middle = STRANGERS.create_child_ca()
    (tmp_path / "proxies.crt").write_bytes(middle.cert_pem.bytes())
    async with guarded(api_server, proxy_file=tmp_path / "proxies.crt") as asker:
        assert await asker.user(certificate(middle, "front-proxy-client"), CARLA) == "carla"
        with pytest.raises(aiohttp.ClientError):
            await asker.user(certificate(STRANGERS, "front-proxy-client"), CARLA)


async def test_a_new_ca_counts_without_a_restart(api_server: ApiServer) -> None:
    async with guarded(api_server) as asker:
        asker.reviews.published = {**PUBLISHED, "requestheader-client-ca-file": STRANGERS.cert_pem.bytes().decode()}
        await asker.guard.refresh()
        assert await asker.user(certificate(STRANGERS, "front-proxy-client"), CARLA) == "carla"


@pytest.mark.parametrize(
    ("published", "line"),
    [
        pytest.param({"client-ca-file": "none"}, "expected PEM certificates, found none", id="no certificates"),
        pytest.param(
            {"requestheader-allowed-names": "a,b"}, "requestheader-allowed-names: expected a list", id="no list"
        ),
    ],
)
async def test_what_cannot_be_used_is_told_and_leaves_the_old(
    api_server: ApiServer, caplog: pytest.LogCaptureFixture, published: dict[str, str], line: str
) -> None:
    async with guarded(api_server) as asker:
        asker.reviews.published = {**PUBLISHED, **published}
        await asker.guard.refresh()
        assert await asker.user(certificate(PROXIES, "front-proxy-client"), CARLA) == "carla"
    assert line in caplog.text


async def test_where_nothing_can_be_looked_up_it_is_the_operators_choice(
    api_server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Reviewer({}, {})) as client:
        source = TrustSource(client)
        with pytest.raises(CertificateError, match="client CAs of the cluster: "):
            await source.read(tolerate=False)
        assert (await source.read(tolerate=True)).bundle == b""
    assert "client certificates cannot be verified" in caplog.text


def resumed(url: str, version: ssl.TLSVersion) -> bool:
    """Whether a second connection goes on with the session of the first; both ask for the metrics."""
    host, port = url.removeprefix("https://").split(":")
    context = certificate(USERS, "carla")
    context.maximum_version = version
    session: ssl.SSLSession | None = None
    reused: list[bool] = []
    for _ in range(2):
        with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, session=session) as tls:
            tls.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            # A ticket comes after the handshake.
            tls.recv(4096)
            session = tls.session
            reused.append(bool(tls.session_reused))
    return reused[1]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
async def test_a_user_is_known_on_a_resumed_connection_too(api_server: ApiServer, version: ssl.TLSVersion) -> None:
    async with guarded(api_server) as asker:
        assert await asyncio.to_thread(resumed, asker.url, version)
        asked = asker.reviews.of_kind("SubjectAccessReview")
    assert {review["user"] for review in asked} == {"carla"}
