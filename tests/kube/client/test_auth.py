"""Credentials: where they come from, how they change, and what is said when they are unusable."""

import asyncio
import os
import ssl
import sys

import pytest
import trustme
import yaml
from aiohttp import web

from kube.api.core import Node
from kube.client.auth import (
    Credentials,
    CredentialsError,
    TokenFile,
    from_kubeconfig,
    in_cluster,
    load_credentials,
)
from kube.client.errors import Unauthorized, Unreachable
from kube.client.rest import Client
from tests.kube.client.conftest import FakeServer, answers

NODES = "/api/v1/nodes"
CA = trustme.CA()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def kubeconfig(tmp_path):
    """Writes a kubeconfig with one context; the argument names change what is in it."""

    def write(user=None, cluster=None, name="config", **top):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001", **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "ctx",
            **top,
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(config))
        return str(path)

    return write


async def test_a_kubeconfig_with_a_token(kubeconfig):
    credentials = await from_kubeconfig(kubeconfig({"token": "secret"}))
    assert credentials.server == "http://127.0.0.1:8001"
    assert credentials.headers() == {"Authorization": "Bearer secret"}
    assert (credentials.tls, credentials.proxy) == (None, None)


async def test_a_kubeconfig_with_user_and_password(kubeconfig):
    credentials = await from_kubeconfig(kubeconfig({"username": "u", "password": "p"}))
    assert credentials.headers() == {"Authorization": "Basic dTpw"}


async def test_a_kubeconfig_without_any_credentials(kubeconfig):
    assert (await from_kubeconfig(kubeconfig())).headers() == {}


async def test_several_kubeconfigs_are_merged(kubeconfig):
    first = kubeconfig({"token": "one"})
    second = kubeconfig(
        name="second",
        clusters=[{"name": "c2", "cluster": {"server": "http://two/prefix/"}}],
        users=[],
        contexts=[{"name": "other", "context": {"cluster": "c2", "user": "u"}}],
    )
    credentials = await from_kubeconfig(os.pathsep.join([first, second]), "other")
    assert credentials.server == "http://two/prefix"
    assert credentials.headers() == {"Authorization": "Bearer one"}


@pytest.mark.parametrize(
    ("environment", "cluster", "expected"),
    [
        pytest.param({"HTTPS_PROXY": "http://proxy:3128"}, {}, "http://proxy:3128", id="the environment's proxy"),
        pytest.param({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "k8s"}, {}, None, id="but not where it says no"),
        pytest.param({}, {"proxy-url": "http://own:1"}, "http://own:1", id="the cluster's own proxy"),
    ],
)
async def test_the_proxy_is_resolved_once(kubeconfig, monkeypatch, environment, cluster, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = kubeconfig(cluster={"server": "https://k8s", "insecure-skip-tls-verify": True, **cluster})
    assert (await from_kubeconfig(path)).proxy == expected


BAD = [
    pytest.param({"current-context": ""}, "no current-context is set and no context was given", id="no context"),
    pytest.param({"current-context": "x"}, 'context "x" is not defined (defined: ctx)', id="an unknown context"),
    pytest.param({"clusters": []}, 'context "ctx": cluster "c" is not defined', id="an unknown cluster"),
    pytest.param({"users": []}, 'context "ctx": user "u" is not defined', id="an unknown user"),
    pytest.param({"clusters": [{"name": "c", "cluster": {"x": 1}}]}, "has no server", id="a cluster without a server"),
    pytest.param(
        {"clusters": [{"name": "c", "cluster": {"server": "https://k", "certificate-authority": "/none.crt"}}]},
        "File does not exists: /none.crt",
        id="a CA file that is not there",
    ),
    pytest.param({"clusters": "c"}, "is not shaped like a kubeconfig", id="a list that is a string"),
]


@pytest.mark.parametrize(("top", "message"), BAD)
async def test_what_is_wrong_with_a_kubeconfig_is_said_in_one_line_with_its_name(kubeconfig, top, message):
    path = kubeconfig(**top)
    with pytest.raises(CredentialsError) as caught:
        await from_kubeconfig(path)
    assert str(caught.value).startswith(f"kubeconfig {path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "no such file", id="no file"),
        pytest.param("just text", "expected a mapping", id="a text"),
        pytest.param("a: [", "line 1, column 5: expected", id="broken YAML"),
        pytest.param("", "expected a mapping", id="an empty file"),
    ],
)
async def test_a_file_that_is_no_kubeconfig(tmp_path, content, message):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError, match=message) as caught:
        await from_kubeconfig(str(path))
    assert "\n" not in str(caught.value)


async def test_a_client_certificate_that_is_no_certificate(kubeconfig, tmp_path):
    (tmp_path / "bad.pem").write_text("nothing")
    path = kubeconfig({"client-certificate": "bad.pem", "client-key": "bad.pem"}, {"server": "https://k8s"})
    with pytest.raises(CredentialsError, match="unusable CA or client certificate"):
        await from_kubeconfig(path)


# Where credentials are looked for


@pytest.fixture
def service_account(tmp_path):
    directory = tmp_path / "serviceaccount"
    directory.mkdir()
    (directory / "token").write_text("in-cluster-token\n")
    CA.cert_pem.write_to_path(str(directory / "ca.crt"))
    return directory


IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_in_cluster_credentials(service_account):
    credentials = in_cluster(IN_CLUSTER, service_account)
    assert credentials.server == "https://[fd00::1]:443"
    assert credentials.headers() == {"Authorization": "Bearer in-cluster-token"}
    assert credentials.tls is not None


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_in_cluster_credentials_that_are_incomplete(service_account, missing):
    (service_account / missing).unlink()
    with pytest.raises(CredentialsError, match="in-cluster configuration"):
        in_cluster(IN_CLUSTER, service_account)


async def test_an_explicit_kubeconfig_goes_before_the_cluster_one_is_in(kubeconfig):
    credentials = await load_credentials(kubeconfig({"token": "t"}), environ=IN_CLUSTER)
    assert credentials.headers() == {"Authorization": "Bearer t"}


async def test_the_kubeconfig_variable_goes_before_the_home_directory(kubeconfig, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    kubeconfig({"token": "home"}, name=".kube/config")
    named = kubeconfig({"token": "variable"})
    assert (await load_credentials(environ={"KUBECONFIG": named})).headers() == {"Authorization": "Bearer variable"}
    assert (await load_credentials(environ={})).headers() == {"Authorization": "Bearer home"}


# Tokens that change


@pytest.mark.looptime
async def test_a_rotated_token_is_used_after_one_refused_request(server, tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    for number, directory in enumerate((first, second), start=1):
        directory.mkdir()
        (directory / "token").write_text(f"t{number}")
    link = tmp_path / "..data"
    link.symlink_to(first)
    server.put(NODES, "n")
    server.tokens = {"t1"}
    async with Client(Credentials(server.url, token=TokenFile(link / "token")), qps=-1) as client:
        await client.get(Node, "n")
        (tmp_path / "new").symlink_to(second)
        (tmp_path / "new").rename(link)
        server.tokens = {"t2"}
        await client.get(Node, "n")
        await client.get(Node, "n")
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer t1",
        "Bearer t1",
        "Bearer t2",
        "Bearer t2",
    ]


@pytest.mark.looptime
async def test_a_token_file_is_read_again_once_a_minute(tmp_path):
    path = tmp_path / "token"
    path.write_text("t1")
    credentials = Credentials("http://127.0.0.1", token=TokenFile(path))
    credentials.headers()
    path.write_text("t2")
    await asyncio.sleep(59)
    assert credentials.headers() == {"Authorization": "Bearer t1"}
    await asyncio.sleep(1)
    assert credentials.headers() == {"Authorization": "Bearer t2"}
    path.unlink()
    await asyncio.sleep(61)
    assert credentials.headers() == {"Authorization": "Bearer t2"}


async def test_a_token_that_is_refused_and_has_not_changed_is_not_tried_again(server, tmp_path):
    (tmp_path / "token").write_text("t1")
    server.tokens = {"t2"}
    async with Client(Credentials(server.url, token=TokenFile(tmp_path / "token")), qps=-1) as client:
        with pytest.raises(Unauthorized):
            await client.get(Node, "n")
    assert len(server.requests) == 1


async def test_a_watch_uses_a_rotated_token_too(server, tmp_path):
    path = tmp_path / "token"
    path.write_text("t1")
    token = TokenFile(path)
    server.put(NODES, "n")
    async with Client(Credentials(server.url, token=token), qps=-1) as client:
        client.credentials.headers()
        path.write_text("t2")
        server.tokens = {"t2"}
        events = client.watch(Node, "100")
        assert (await anext(events)).type == "ADDED"
        await events.aclose()


async def test_the_token_file_of_a_kubeconfig_is_relative_to_it_and_read_again(kubeconfig, tmp_path):
    (tmp_path / "token").write_text("t1")
    credentials = await from_kubeconfig(kubeconfig({"tokenFile": "token"}))
    refused = credentials.headers()
    assert refused == {"Authorization": "Bearer t1"}
    (tmp_path / "token").write_text("t2")
    assert await credentials.refresh(refused)
    assert credentials.headers() == {"Authorization": "Bearer t2"}


# Exec plugins

PLUGIN = """
import json, pathlib, sys
count = pathlib.Path(sys.argv[1])
number = int(count.read_text() or 0) + 1
count.write_text(str(number))
credential = {"token": f"t{number}", "expirationTimestamp": "2999-01-01T00:00:00Z"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": credential}))
"""


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "count").write_text("")
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(tmp_path / "plugin.py"), str(tmp_path / "count")],
        }
    }


async def test_a_plugin_runs_once_and_again_when_its_token_is_refused(server, kubeconfig, plugin):
    server.put(NODES, "n")
    server.tokens = {"t1"}
    credentials = await from_kubeconfig(kubeconfig(plugin, {"server": server.url}))
    async with Client(credentials, qps=-1) as client:
        for _ in range(3):
            await client.get(Node, "n")
        server.tokens = {"t2"}
        await asyncio.gather(*(client.get(Node, "n") for _ in range(5)))
        server.tokens = set()
        with pytest.raises(Unauthorized):
            await client.get(Node, "n")  # it ran a moment ago, and is not run for every refusal
    assert credentials.headers() == {"Authorization": "Bearer t2"}


async def test_a_plugin_that_is_not_installed(kubeconfig):
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    with pytest.raises(CredentialsError, match="No such file or directory"):
        await from_kubeconfig(kubeconfig(user))


async def test_a_plugin_that_fails(kubeconfig):
    arguments = ["-c", "import sys; sys.exit('please log in')"]
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": arguments}}
    with pytest.raises(CredentialsError, match="please log in"):
        await from_kubeconfig(kubeconfig(user))


# TLS


@pytest.fixture
async def tls_server():
    server = FakeServer()
    server.put(NODES, "n")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    CA.issue_cert("kubernetes", "127.0.0.1").configure_cert(context)
    CA.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


async def test_a_server_is_verified_by_the_ca_of_the_kubeconfig(tls_server, kubeconfig, tmp_path):
    CA.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    identity = CA.issue_cert("somebody@example.com")
    identity.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "me.pem"))
    user = {"client-certificate": "me.pem", "client-key": "me.pem"}
    path = kubeconfig(
        user, {"server": tls_server.url, "certificate-authority": "ca.pem", "tls-server-name": "kubernetes"}
    )
    async with Client(await from_kubeconfig(path)) as client:
        assert (await client.get(Node, "n")).metadata.name == "n"


@pytest.mark.parametrize(
    ("cluster", "reachable"),
    [
        pytest.param({}, False, id="a CA that nobody vouched for is refused"),
        pytest.param({"insecure-skip-tls-verify": True}, True, id="unless that is asked for"),
    ],
)
async def test_a_server_with_an_unknown_ca(tls_server, kubeconfig, cluster, reachable):
    async with Client(await from_kubeconfig(kubeconfig(cluster={"server": tls_server.url, **cluster}))) as client:
        if reachable:
            await client.get(Node, "n")
        else:
            with pytest.raises(Unreachable, match="certificate") as caught:
                await client.bind("default", "p", "u", "n")
            assert not caught.value.maybe_applied


async def test_a_401_without_other_credentials_is_told(server, client):
    server.once("GET", answers(401, "Unauthorized", message="who are you?"))
    with pytest.raises(Unauthorized, match="who are you"):
        await client.get(Node, "n")
