"""Where the API server is and how to prove who we are: in-cluster, or a kubeconfig.

The only importer of kubernetes_asyncio, and only for reading kubeconfigs (contexts, client certificates, exec plugins,
GCP and OIDC) and the in-cluster files; the import is made inside functions, since it takes a third of a second.
`Credentials` are built once at start, and owned by the REST clients. Nothing here talks to the API server.

A token comes from one of three places: it is fixed; it is in a file that is rotated (read again once a minute, and at
once after a 401); or a plugin makes it (run again before it expires, and after a 401). A kubeconfig is never written.
"""

import asyncio
import logging
import os
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_FILE_PERIOD = 60.0
PLUGIN_PERIOD = 60.0
PLUGIN_TIMEOUT = 60.0
# A plugin may open a browser or call a cloud: a server that refuses its tokens must not make it run all the time.
PLUGIN_MIN_INTERVAL = 10.0


class CredentialsError(Exception):
    """No usable credentials; one line that names the file, the field and what was expected."""


class TokenSource(Protocol):
    """Makes the Authorization header."""

    def authorization(self) -> str | None:
        """The header's value as of now; cheap, called for every request."""

    async def refresh(self) -> None:
        """Get a new one, since the present one was refused."""

    async def keep_fresh(self) -> None:
        """Runs in the background where the source needs it; returns at once where it does not."""


@dataclass
class FixedToken:
    """A token, or user and password, that never changes; or none at all."""

    # Not in its repr: that may end up in a log.
    value: str | None = field(default=None, repr=False)

    def authorization(self) -> str | None:
        """The one there is."""
        return self.value

    async def refresh(self) -> None:
        """There is no other."""

    async def keep_fresh(self) -> None:
        """Nothing to do."""


class TokenFile:
    """A token in a file that somebody rotates, such as a projected service-account token."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = _read_token(path)
        self._read_at = float("-inf")

    def authorization(self) -> str | None:
        """The token, at most a minute old; client-go reads it that often as well."""
        if asyncio.get_running_loop().time() - self._read_at >= TOKEN_FILE_PERIOD:
            self._read()
        return f"Bearer {self._token}"

    async def refresh(self) -> None:
        """Read the file now."""
        self._read()

    async def keep_fresh(self) -> None:
        """Nothing to do: it is read when it is used."""

    def _read(self) -> None:
        """An unreadable file leaves the token that was read last."""
        self._read_at = asyncio.get_running_loop().time()
        try:
            self._token = _read_token(self._path)
        except CredentialsError as error:
            log.warning("Keeping the token read before: %s", error)


class PluginToken:
    """A token made by an exec plugin or an auth provider of a kubeconfig, through kubernetes_asyncio's loader."""

    def __init__(self, loader: Any, context: ssl.SSLContext | None, source: str) -> None:
        self._loader = loader
        self._ssl = context
        self._source = source
        self._lock = asyncio.Lock()
        self._forced_at = float("-inf")

    def authorization(self) -> str | None:
        """The token of the last run; None where the plugin gave a client certificate."""
        return getattr(self._loader, "token", None)

    async def refresh(self) -> None:
        """Run the plugin now; many refused requests at once make it run once."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now - self._forced_at < PLUGIN_MIN_INTERVAL:
                return
            self._forced_at = now
            if hasattr(self._loader, "exec_plugin_expiry"):
                del self._loader.exec_plugin_expiry
            await self._run()

    async def keep_fresh(self) -> None:
        """Run the plugin again before what it gave expires."""
        while True:
            await asyncio.sleep(PLUGIN_PERIOD)
            if self._loader.provider is not None or hasattr(self._loader, "exec_plugin_expiry"):
                async with self._lock:
                    await self._run()

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):
                await self._loader._load_authentication()
            if self._ssl is not None and getattr(self._loader, "cert_file", None):
                self._ssl.load_cert_chain(self._loader.cert_file, self._loader.key_file)
        except Exception as error:  # a plugin can fail in any way; the old token may still be good
            log.warning("%s: cannot refresh the credentials: %s", self._source, _one_line(error))


@dataclass
class Credentials:
    """Everything a client needs to reach one API server. Owned by the program's wiring, shared by its clients."""

    server: str
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    source: str = "explicit"
    token: TokenSource = field(default_factory=FixedToken)

    def headers(self) -> dict[str, str]:
        """The headers that prove who we are."""
        authorization = self.token.authorization()
        return {"Authorization": authorization} if authorization else {}

    async def refresh(self, refused: dict[str, str]) -> bool:
        """After a 401: whether there are other headers now than the refused ones."""
        if self.headers() == refused:
            await self.token.refresh()
        return self.headers() != refused

    async def keep_fresh(self) -> None:
        """Background work; run it in the program's TaskGroup."""
        await self.token.keep_fresh()


async def load_credentials(
    kubeconfig: str | None = None, context: str | None = None, environ: Mapping[str, str] = os.environ
) -> Credentials:
    """From the given kubeconfig, else in-cluster, else the KUBECONFIG variable, else ~/.kube/config."""
    if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    paths = kubeconfig or environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return await from_kubeconfig(paths, context)


def in_cluster(environ: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> Credentials:
    """The pod's own service account."""
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    loader = InClusterConfigLoader(str(directory / "token"), str(directory / "ca.crt"), environ=dict(environ))
    try:
        loader._load_config()
    except (ConfigException, OSError) as error:
        raise CredentialsError(f"in-cluster configuration ({directory}): {_one_line(error)}") from error
    context = _ssl_context(loader.ssl_ca_cert, None, verify=True, source="in-cluster configuration")
    return Credentials(
        loader.host,
        context,
        proxy=_environment_proxy(loader.host),
        source="in-cluster",
        token=TokenFile(directory / "token"),
    )


async def from_kubeconfig(paths: str, context: str | None = None) -> Credentials:
    """One kubeconfig, or several joined by the path separator, merged as kubectl merges them."""
    from kubernetes_asyncio.client import Configuration

    loader = _kubeconfig_loader(paths, context)
    settings = Configuration(host="")
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            await loader.load_and_set(settings)
    except TimeoutError as error:
        raise CredentialsError(f"kubeconfig {paths}: the plugin gave no credentials in {PLUGIN_TIMEOUT:g} s") from error
    except Exception as error:  # the loader raises whatever its parts raise
        raise CredentialsError(f"kubeconfig {paths}: {_one_line(error)}") from error
    return _from_loader(paths, loader, settings)


def _from_loader(paths: str, loader: Any, settings: Any) -> Credentials:
    if not settings.host:
        raise CredentialsError(f"kubeconfig {paths}: the cluster of the context has no server")
    tls = None
    if settings.host.startswith("https"):
        pair = (settings.cert_file, settings.key_file) if settings.cert_file else None
        tls = _ssl_context(settings.ssl_ca_cert, pair, verify=settings.verify_ssl, source=f"kubeconfig {paths}")
    return Credentials(
        settings.host,
        tls,
        server_hostname=settings.tls_server_name,
        proxy=settings.proxy or _environment_proxy(settings.host),
        source=paths,
        token=_token_source(paths, loader, settings, tls),
    )


def _token_source(paths: str, loader: Any, settings: Any, tls: ssl.SSLContext | None) -> TokenSource:
    user = loader._user
    if user is not None and (loader.provider is not None or "exec" in user):
        return PluginToken(loader, tls, f"kubeconfig {paths}")
    if user is not None and "tokenFile" in user:
        return TokenFile(Path(loader._get_base_path(user.path)) / user["tokenFile"])
    return FixedToken(settings.api_key.get("BearerToken"))


def _kubeconfig_loader(paths: str, context: str | None) -> Any:
    from kubernetes_asyncio.config.config_exception import ConfigException
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    existing = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().exists()]
    if not existing:
        raise CredentialsError(f"kubeconfig {paths}: no such file")
    try:
        for path in existing:
            _check_is_mapping(path, _read_yaml(path))
        merged = KubeConfigMerger(os.pathsep.join(existing)).config
        _check_context(paths, merged.value, context)
        return KubeConfigLoader(merged, active_context=context, config_base_path=None)
    except CredentialsError:
        raise
    except (OSError, ConfigException) as error:
        raise CredentialsError(f"kubeconfig {paths}: {_one_line(error)}") from error
    except (AttributeError, AssertionError, KeyError, TypeError) as error:
        raise CredentialsError(f"kubeconfig {paths}: is not shaped like a kubeconfig ({_one_line(error)})") from error


def _read_yaml(path: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(Path(path).expanduser().read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise CredentialsError(f"kubeconfig {path}: expected UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise CredentialsError(f"kubeconfig {path}: {where}{error.problem or 'not YAML'}") from error
    except yaml.YAMLError as error:
        raise CredentialsError(f"kubeconfig {path}: {_one_line(error)}") from error


def _check_is_mapping(path: str, config: Any) -> None:
    if not isinstance(config, dict):
        raise CredentialsError(f"kubeconfig {path}: expected a mapping with clusters, contexts and users")


def _check_context(paths: str, config: dict[str, Any], context: str | None) -> None:
    """kubernetes_asyncio's own texts name neither the context nor the choice there is."""
    name = context or config.get("current-context")
    if not name:
        raise CredentialsError(f"kubeconfig {paths}: no current-context is set and no context was given")
    contexts = {node.value.get("name"): node.value.get("context") for node in config["contexts"]}
    if name not in contexts:
        known = ", ".join(sorted(str(known) for known in contexts)) or "none"
        raise CredentialsError(f'kubeconfig {paths}: context "{name}" is not defined (defined: {known})')
    for field_name, section in (("cluster", "clusters"), ("user", "users")):
        wanted = (contexts[name] or {}).get(field_name)
        if wanted and wanted not in {node.value.get("name") for node in config[section]}:
            raise CredentialsError(f'kubeconfig {paths}: context "{name}": {field_name} "{wanted}" is not defined')


def _ssl_context(ca: str | None, pair: tuple[str, str] | None, *, verify: bool, source: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if pair is not None:
            context.load_cert_chain(*pair)
    except (OSError, ssl.SSLError) as error:
        raise CredentialsError(f"{source}: unusable CA or client certificate: {_one_line(error)}") from error
    # Cluster CAs often lack the extensions that Python 3.13 asks for by default; Go does not ask for them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _environment_proxy(server: str) -> str | None:
    """HTTPS_PROXY, HTTP_PROXY and NO_PROXY, looked at once: aiohttp would look for every single request."""
    parts = urlsplit(server)
    if not parts.hostname or urllib.request.proxy_bypass_environment(parts.hostname):  # type: ignore[attr-defined]
        return None
    return urllib.request.getproxies_environment().get(parts.scheme)


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"token file {path}: {_one_line(error)}") from error
    if not token:
        raise CredentialsError(f"token file {path}: is empty")
    return token


def _one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
