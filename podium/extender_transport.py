"""The wire of HTTP extenders: TLS, timeouts, and the complete objects that extenders are sent.

podium's informers keep only what a scheduler reads, an extender may read anything. So the pod is read from the API
server once an attempt, and nodes, for extenders that keep none themselves (nodeCacheCapable), are kept here as JSON and
read again when our informer shows that they changed: one by one where few did, as a list where many did.

Owner: the service, which also closes it. Protocol and JSON shapes are the business of `scheduler.extender`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import aiohttp
import msgspec

from config.problems import ConfigError, Problem
from config.types import Extender, ExtenderTLSConfig
from kube.api import codec
from kube.api.core import Node, Pod
from kube.client.errors import TRANSPORT_ERRORS, ApiError, NotFound
from kube.client.rest import Client
from scheduler.extender import Post
from scheduler.framework.extender import ExtenderError

log = logging.getLogger(__name__)

#: seconds, where the configuration says 0
DEFAULT_TIMEOUT = 5.0
#: changed nodes that are still read one by one
FEW_NODES = 20
PAGE = 500
MAX_ANSWER = 256 * 2**20


class ExtenderTransport:
    """One session per extender, opened on first use."""

    def __init__(self) -> None:
        self._sessions: list[aiohttp.ClientSession] = []

    def post(self, config: Extender) -> Post:
        """The function that carries requests to one extender. Raises ConfigError for unusable TLS files."""
        context = tls_context(config)
        server_name = config.tls_config.server_name if config.tls_config is not None else ""
        timeout = aiohttp.ClientTimeout(total=config.http_timeout.seconds or DEFAULT_TIMEOUT)
        opened: list[aiohttp.ClientSession] = []

        async def post(url: str, body: bytes) -> bytes:
            if not opened:
                connector = aiohttp.TCPConnector(ssl=context if context is not None else True)
                opened.append(aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False))
                self._sessions.append(opened[0])
            return await _exchange(opened[0], url, body, server_name or None)

        return post

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions:
            await session.close()
        self._sessions.clear()


async def _exchange(session: aiohttp.ClientSession, url: str, body: bytes, server_name: str | None) -> bytes:
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(
            url, data=body, headers=headers, server_hostname=server_name, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise ExtenderError(f"extender {url} answered with code {answer.status}")
            if (answer.content_length or 0) > MAX_ANSWER:
                raise ExtenderError(f"extender {url} answered with {answer.content_length} bytes")
            return await answer.read()
    except TimeoutError:
        raise ExtenderError(f"extender {url} did not answer in time") from None
    except TRANSPORT_ERRORS as error:
        raise ExtenderError(f"extender {url}: {str(error) or type(error).__name__}") from error


def tls_context(config: Extender) -> ssl.SSLContext | None:
    """How the extender proves who it is, and we to it; None for what the system trusts.

    As kube-scheduler does, enableHTTPS without any CA trusts whoever answers; that is said in the log.
    Raises ConfigError.
    """
    tls = config.tls_config or ExtenderTLSConfig()
    known_ca = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (config.enable_https and not known_ca)
    if config.tls_config is None and not insecure:
        return None
    context = ssl.create_default_context()
    if tls.ca_data:
        with _named(config, "caData"):
            context = ssl.create_default_context(cadata=tls.ca_data.decode())
    elif tls.ca_file:
        with _named(config, f"caFile {tls.ca_file}"):
            context = ssl.create_default_context(cafile=tls.ca_file)
    if insecure:
        log.warning("extender %s: its certificate is not checked", config.url_prefix)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_data or tls.cert_file:
        with _named(config, f"certificate {tls.cert_file or 'certData'} and key {tls.key_file or 'keyData'}"):
            _load_certificate(context, tls)
    return context


@contextmanager
def _named(config: Extender, what: str) -> Iterator[None]:
    """Around the reading of a file or text of `tlsConfig`: what is wrong with it, in one line."""
    try:
        yield
    except (OSError, ValueError) as problem:
        # OpenSSL's errors are OSErrors without a file and with a text that names lines of its source.
        unread = isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError)
        why = f"cannot be read: {getattr(problem, 'strerror', problem)}" if unread else "expected PEM"
        raise ConfigError([Problem(f"extender {config.url_prefix}", f"{what}: {why}", "tlsConfig")]) from problem


def _load_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    """OpenSSL reads certificates from files only."""
    with ExitStack() as files:

        def path(data: bytes, given: str) -> str:
            if not data:
                return given
            file = files.enter_context(tempfile.NamedTemporaryFile())
            file.write(data)
            file.flush()
            return file.name

        context.load_cert_chain(path(tls.cert_data, tls.cert_file), path(tls.key_data, tls.key_file) or None)


class _Identity(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct):
    metadata: _Identity


@dataclass(frozen=True, slots=True)
class _Kept:
    """A node as JSON, its own version and the one that our informer showed when it was read."""

    json: msgspec.Raw
    versions: tuple[str, str]


class ServerObjects:
    """Implements `scheduler.extender.CompleteObjects`. `node_of`: the node as our informer shows it."""

    def __init__(self, client: Client, node_of: Callable[[str], Node | None]) -> None:
        self._client = client
        self._node_of = node_of
        self._nodes: dict[str, _Kept] = {}
        #: the pod that was asked for last: one cycle asks for it several times
        self._last: tuple[Pod, msgspec.Raw] | None = None

    async def pod(self, pod: Pod) -> msgspec.Raw:
        """This very pod; ExtenderError where it is gone."""
        if self._last is not None and self._last[0] is pod:
            return self._last[1]
        meta = pod.metadata
        body = await self._read(self._client.resource(Pod).path(meta.namespace, meta.name))
        if _identity(body).uid != meta.uid:
            raise ExtenderError(f"pod {pod.key} is another pod by now")
        self._last = (pod, msgspec.Raw(body))
        return self._last[1]

    async def nodes(self, names: Sequence[str]) -> list[msgspec.Raw]:
        """These nodes, in this order; without those that are gone."""
        changed = [name for name in names if not self._is_current(name)]
        if len(changed) > FEW_NODES:
            await self._list()
        elif changed:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._get(name)) for name in changed]
            for failed in (task.result() for task in tasks):
                if failed is not None:
                    raise failed
        return [self._nodes[name].json for name in names if name in self._nodes]

    def _is_current(self, name: str) -> bool:
        node, kept = self._node_of(name), self._nodes.get(name)
        return kept is not None and node is not None and node.metadata.resource_version in kept.versions

    async def _get(self, name: str) -> ExtenderError | None:
        """An error is an answer, so that it does not come as a group of errors."""
        try:
            body = await self._read(self._client.resource(Node).path("", name))
        except ExtenderError as error:
            if isinstance(error.__cause__, NotFound):
                self._nodes.pop(name, None)
                return None
            return error
        self._keep(msgspec.Raw(body))
        return None

    async def _list(self) -> None:
        self._nodes.clear()
        path, token = self._client.resource(Node).path(), ""
        while True:
            params = {"limit": str(PAGE), **({"continue": token} if token else {})}
            page = codec.decode(await self._read(path, params), codec.PartialList)
            for item in page.items or ():
                self._keep(item)
            token = page.metadata.continue_token
            if not token:
                return

    def _keep(self, json: msgspec.Raw) -> None:
        identity = _identity(json)
        node = self._node_of(identity.name)
        shown = node.metadata.resource_version if node is not None else ""
        self._nodes[identity.name] = _Kept(msgspec.Raw(bytes(json)), (shown, identity.resource_version))

    async def _read(self, path: str, params: dict[str, str] | None = None) -> bytes:
        try:
            return await self._client.request("GET", path, params=params, retries=1)
        except ApiError as error:
            raise ExtenderError(f"what extenders are to be told cannot be read: {error}") from error


def _identity(body: bytes | msgspec.Raw) -> _Identity:
    try:
        return msgspec.json.decode(body, type=_Identified).metadata
    except msgspec.DecodeError as error:
        raise ExtenderError(f"what extenders are to be told cannot be read: {error}") from error
