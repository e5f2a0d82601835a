"""The secure port: TLS, whose token it is, what they may; probes for everybody, and never more than can be answered."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from podium.explain.asking import NoSuchPodError, Trust, UnreachableError, _ask
from podium.http import HttpServer
from podium.serving.access import BOUND, Access, Ages, Remembered, User
from podium.serving.certificates import CertificateError, ServingCertificate, TlsSettings
from podium.serving.guard import Guard, limits
from podium.serving.process import Process
from podium.serving.trust import TrustSource
from simulator.apiserver import ApiServer
from tests.podium.harness import podium
from tests.podium.serving.reviewing import Reviewer, serving

AUTHORITY = trustme.CA()


def reviewer() -> Reviewer:
    """Knows one token, whose owner may read the metrics."""
    return Reviewer({"sesame": "prometheus"}, {"prometheus": {"get /metrics"}, "carla": {"get /metrics"}})


def given(folder: Path, *names: str) -> TlsSettings:
    """The settings for a certificate in files."""
    made = AUTHORITY.issue_cert(*(names or ("127.0.0.1",)))
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
    (folder / "tls.key").write_bytes(made.private_key_pem.bytes())
    return TlsSettings(folder / "tls.crt", folder / "tls.key")


class Asker:
    """Somebody who asks a secure port."""

    def __init__(self, port: int, guard: Guard) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.guard = guard

    async def status(self, path: str, token: str = "", tls: ssl.SSLContext | bool = False) -> int:
        """The code of the answer; without a context the server's certificate is not looked at."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession() as http, http.get(self.url + path, headers=headers, ssl=tls) as answer:
            await answer.read()
            return answer.status


@asynccontextmanager
async def guarded(
    api_server: ApiServer, reviews: Reviewer, tls: TlsSettings | None = None, ages: Ages | None = None
) -> AsyncIterator[Asker]:
    """A running podium behind a secure port."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(reviews))
        service = await stack.enter_async_context(podium(api_server))
        access = Access(client, client, asyncio.get_running_loop().time, ages)
        guard = await Guard.build(
            tls or TlsSettings(), TrustSource(client), access, ("/healthz", "/livez", "/readyz"), tolerate=True
        )
        process = Process({"v": "1"}, debug=True)
        server = await stack.enter_async_context(HttpServer(service, "127.0.0.1", 0, process, guard))
        yield Asker(server.port, guard)


# --- who may -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "token", "code"),
    [
        pytest.param("/livez", "", 200, id="a probe needs no token"),
        pytest.param("/readyz", "wrong", 200, id="a probe is answered whatever it shows"),
        pytest.param("/metrics", "sesame", 200, id="who may read the metrics reads them"),
        pytest.param("/metrics", "", 403, id="nobody in particular may not"),
        pytest.param("/metrics", "wrong", 401, id="a token that the API server does not know is refused"),
        pytest.param("/debug/stacks", "sesame", 403, id="a right to one path is none to another"),
        pytest.param("/no-such-page", "sesame", 403, id="what there is is told only to who may ask"),
    ],
)
async def test_the_api_server_decides_who_may_ask_what(api_server: ApiServer, path: str, token: str, code: int) -> None:
    async with guarded(api_server, reviewer()) as asker:
        assert await asker.status(path, token) == code


async def test_another_scheme_than_bearer_is_refused_without_asking(api_server: ApiServer) -> None:
    reviews = reviewer()
    async with guarded(api_server, reviews) as asker, aiohttp.ClientSession() as http:
        headers = {"Authorization": "Basic c2VzYW1l"}
        async with http.get(asker.url + "/metrics", headers=headers, ssl=False) as answer:
            assert answer.status == 401
    assert reviews.asked == []


async def test_the_whole_user_is_shown_to_the_authorizer(api_server: ApiServer) -> None:
    reviews = reviewer()
    async with guarded(api_server, reviews) as asker:
        await asker.status("/metrics", "sesame")
    [spec] = reviews.of_kind("SubjectAccessReview")
    assert spec == {
        "user": "prometheus",
        "groups": ["system:authenticated"],
        "uid": "",
        "extra": {"scopes": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


async def test_an_answer_counts_for_a_while_and_no_longer(api_server: ApiServer) -> None:
    reviews = reviewer()
    async with guarded(api_server, reviews, ages=Ages(token=60.0, yes=60.0, no=0.0)) as asker:
        for _ in range(3):
            assert await asker.status("/metrics", "sesame") == 200
            assert await asker.status("/configz", "sesame") == 403
    assert len(reviews.of_kind("TokenReview")) == 1
    paths = [spec["nonResourceAttributes"]["path"] for spec in reviews.of_kind("SubjectAccessReview")]
    assert sorted(paths) == ["/configz"] * 3 + ["/metrics"]


async def test_where_the_api_server_gives_no_verdict_nobody_is_let_in_and_no_token_is_logged(
    api_server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    reviews = reviewer()
    reviews.broken = True
    with caplog.at_level(logging.DEBUG):
        async with guarded(api_server, reviews) as asker:
            assert await asker.status("/metrics", "sesame") == 500
            assert await asker.status("/livez") == 200
            reviews.broken = False
            assert await asker.status("/metrics", "sesame") == 200
    assert "TokenReview" in caplog.text
    assert "sesame" not in caplog.text


async def test_a_client_certificate_of_the_clusters_ca_names_the_user(api_server: ApiServer) -> None:
    clients = trustme.CA()
    reviews = reviewer()
    reviews.published = {"client-ca-file": clients.cert_pem.bytes().decode()}
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    clients.issue_cert("carla@example.com", common_name="carla", organization_name="ops").configure_cert(tls)
    async with guarded(api_server, reviews) as asker:
        assert await asker.status("/metrics", tls=tls) == 200
    [spec] = reviews.of_kind("SubjectAccessReview")
    assert (spec["user"], spec["groups"]) == ("carla", ["ops", "system:authenticated"])


async def test_a_client_certificate_of_another_ca_gets_nowhere(api_server: ApiServer) -> None:
    reviews = reviewer()
    reviews.published = {"client-ca-file": trustme.CA().cert_pem.bytes().decode()}
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    trustme.CA().issue_cert("m@example.com", common_name="system:admin").configure_cert(tls)
    async with guarded(api_server, reviews) as asker:
        with pytest.raises(aiohttp.ClientError):
            await asker.status("/metrics", tls=tls)
    assert reviews.asked == []


def test_answers_are_forgotten_at_a_bound() -> None:
    known: Remembered[int, str] = Remembered(lambda: 0.0)
    for i in range(BOUND + 1):
        known.put(i, "yes", 10.0)
    assert (known.get(0), known.get(1), known.get(BOUND)) == (None, "yes", "yes")


async def test_masters_need_no_review() -> None:
    async with serving(reviewer()) as client:
        access = Access(client, client, asyncio.get_running_loop().time)
        assert (await access.may(User("admin", ("system:masters",)), "get", "/debug/state")).allowed


@pytest.mark.parametrize(
    ("token", "line"),
    [
        pytest.param("sesame", "there is no pod default/web", id="who may ask is answered"),
        pytest.param("wrong", "answered with code 401: Unauthorized", id="a token nobody knows"),
        pytest.param("", "answered with code 403: Forbidden: user .* cannot get path", id="no token"),
    ],
)
async def test_podium_explain_shows_a_token(api_server: ApiServer, tmp_path: Path, token: str, line: str) -> None:
    reviews = reviewer()
    reviews.may["prometheus"].add("get /explain/default/web")
    (tmp_path / "token").write_text(f"{token}\n")
    trust = Trust(str(tmp_path / "token") if token else None, skip_verify=True)
    async with guarded(api_server, reviews) as asker:
        with pytest.raises((NoSuchPodError, UnreachableError), match=line):
            await _ask(asker.url, "default", "web", trust)


async def test_podium_explain_looks_at_the_certificate(api_server: ApiServer, tmp_path: Path) -> None:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.crt")
    async with guarded(api_server, reviewer(), given(tmp_path)) as asker:
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await _ask(asker.url, "default", "web")
        with pytest.raises(UnreachableError, match="code 403"):
            await _ask(asker.url, "default", "web", Trust(certificate_authority=str(tmp_path / "ca.crt")))
        with pytest.raises(UnreachableError, match=r"--token-file .*: cannot be read"):
            await _ask(asker.url, "default", "web", Trust(str(tmp_path / "none")))


# --- certificates --------------------------------------------------------------------------------------------------


async def test_a_rotated_certificate_is_served_without_a_restart(api_server: ApiServer, tmp_path: Path) -> None:
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    settings = given(tmp_path, "old.example")
    async with guarded(api_server, reviewer(), settings) as asker:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await asker.status("/livez", tls=trusting)
        given(tmp_path, "127.0.0.1")
        assert asker.guard.certificate.refresh(b"")
        assert await asker.status("/livez", tls=trusting) == 200
        assert not asker.guard.certificate.refresh(b"")


async def test_half_a_rotation_leaves_the_old_certificate_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = ServingCertificate(given(tmp_path))
    (tmp_path / "tls.key").write_bytes(AUTHORITY.issue_cert("other").private_key_pem.bytes())
    assert not certificate.refresh(b"")
    assert f"{tmp_path}/tls.crt: expected a PEM certificate and its key" in caplog.text


async def test_without_files_a_certificate_is_made_for_the_names_of_the_host(api_server: ApiServer) -> None:
    async with guarded(api_server, reviewer()) as asker:
        host, port = asker.url.removeprefix("https://").split(":")
        pem = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
        trusting = ssl.create_default_context(cadata=pem)
        assert await asker.status("/livez", tls=trusting) == 200


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(None, "tls.crt: cannot be read: No such file", id="a file that is not there"),
        pytest.param(b"no certificate", "tls.crt: expected a PEM certificate and its key", id="a file of another kind"),
    ],
)
def test_an_unusable_certificate_is_one_line(tmp_path: Path, content: bytes | None, line: str) -> None:
    settings = given(tmp_path)
    (tmp_path / "tls.crt").unlink()
    if content is not None:
        (tmp_path / "tls.crt").write_bytes(content)
    with pytest.raises(CertificateError, match=line):
        ServingCertificate(settings)


def test_older_versions_of_tls_and_other_suites_are_not_spoken(tmp_path: Path) -> None:
    settings = given(tmp_path)
    strict = TlsSettings(
        settings.certificate, settings.key, ssl.TLSVersion.TLSv1_3, ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)
    )
    context = ServingCertificate(strict).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    older = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert older == {"ECDHE-RSA-AES256-GCM-SHA384"}


# --- limits --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def limited(most: int, seconds: float) -> AsyncIterator[tuple[aiohttp.ClientSession, asyncio.Event]]:
    """A server whose one page answers once the event is set."""
    gate = asyncio.Event()

    async def page(request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response(text="ok")

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(middlewares=[limits(most, seconds)])
    app.router.add_get("/page", page)
    app.router.add_get("/healthz", health)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as http:
        yield http, gate
    await runner.cleanup()


@pytest.mark.looptime
async def test_the_request_too_many_is_told_to_come_again_and_a_probe_is_not() -> None:
    async with limited(1, 60.0) as (http, gate):
        first = asyncio.create_task(http.get("/page"))
        await asyncio.sleep(1.0)
        async with http.get("/page") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        async with http.get("/healthz") as answer:
            assert answer.status == 200
        gate.set()
        assert (await first).status == 200
        async with http.get("/page") as answer:
            assert answer.status == 200


@pytest.mark.looptime
async def test_a_request_that_takes_too_long_is_ended() -> None:
    async with limited(9, 3.0) as (http, _), http.get("/page") as answer:
        assert (answer.status, await answer.text()) == (504, "no answer within 3 s\n")


# --- what the process says of itself -------------------------------------------------------------------------------


async def fetched(api_server: ApiServer, path: str, process: Process, method: str = "GET", body: str = "") -> str:
    """`CODE BODY` of a plain port."""
    async with (
        podium(api_server) as service,
        HttpServer(service, "127.0.0.1", 0, process) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http,
        http.request(method, path, data=body) as answer,
    ):
        return f"{answer.status} {await answer.text()}"


async def test_flagz_and_statusz(api_server: ApiServer) -> None:
    process = Process({"v": "2", "bind-address": "0.0.0.0"})
    assert (await fetched(api_server, "/flagz", process)).endswith("\nbind-address=0.0.0.0\nv=2\n")
    status = await fetched(api_server, "/statusz", process)
    assert status.startswith("200 podium statusz\n")
    assert "\nVersion: 0." in status
    assert " /metrics/slis " in status


@pytest.mark.parametrize("path", ["/debug/state", "/debug/stacks", "/debug/pprof/profile?seconds=0.01"])
async def test_debug_is_there_only_where_it_is_enabled(api_server: ApiServer, path: str) -> None:
    assert (await fetched(api_server, path, Process({}))).startswith("404")
    assert (await fetched(api_server, path, Process({}, debug=True))).startswith("200")


@pytest.mark.parametrize("seconds", ["0", "31", "x", "-1", "nan"])
async def test_a_profile_has_its_limits(api_server: ApiServer, seconds: str) -> None:
    path = f"/debug/pprof/profile?seconds={seconds}"
    assert (await fetched(api_server, path, Process({}, debug=True))).startswith("400 seconds: expected ")


async def test_a_body_that_is_too_large_is_refused(api_server: ApiServer) -> None:
    said = await fetched(api_server, "/debug/flags/v", Process({}, debug=True), "PUT", "1" * 70_000)
    assert said.startswith("413")


async def test_disabled_metrics_are_left_out(api_server: ApiServer) -> None:
    process = Process({}, disabled_metrics=("scheduler_schedule_attempts_total", "scheduler_pending_pods"))
    text = await fetched(api_server, "/metrics", process)
    assert "scheduler_schedule_attempts" not in text
    assert "scheduler_pending_pods" not in text
    assert "scheduler_cache_size" in text
