"""A real etcd and kube-apiserver on loopback, with ports, certificates, users and data of their own.

Used by the conformance fixtures and by the benchmarks that want a real API server. Binaries come from `find`.
Binds nothing but 127.0.0.1 and leaves neither a process nor a file behind.
"""

import asyncio
import base64
import csv
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import trustme
import yaml

from tests.conformance.api import Api, Json
from tests.conformance.find import Binaries, NotFoundError
from tests.conformance.server import Server, ServerError

LOOPBACK = "127.0.0.1"
MEMORY = Path("/dev/shm")
PREFIX = "podium-control-plane-"


@dataclass(frozen=True)
class User:
    """Somebody in the API server's token file."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("admin", ("system:masters",))
# The API server's own bootstrap roles give this user what the real kube-scheduler needs.
KUBE_SCHEDULER = User("system:kube-scheduler")
NOBODY = User("nobody")


class ControlPlane:
    """etcd and kube-apiserver as child processes; `async with`, or `start` and `close`.

    One owner starts and closes it. `api_server` and `etcd` may be stopped and started by a test in between
    (`await plane.api_server.stop(SIGKILL)`, `plane.api_server.start()`, `await plane.wait_ready()`).
    """

    def __init__(self, binaries: Binaries, users: Iterable[User] = (), api_flags: Sequence[str] = ()) -> None:
        self.binaries = binaries
        self.version = binaries.kubernetes_version()
        self._ports = free_ports(3)
        self.url = f"https://{LOOPBACK}:{self._ports[2]}"
        self.folder = _data_folder()
        self.ca = self.folder / "ca.crt"
        self._tokens = {user: secrets.token_hex(16) for user in (ADMIN, KUBE_SCHEDULER, NOBODY, *users)}
        self.etcd = Server("etcd", self._etcd_command(), self.folder / "etcd.log")
        self.api_server = Server(
            "kube-apiserver", [*self._api_server_command(), *api_flags], self.folder / "kube-apiserver.log"
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def start(self) -> None:
        """Both servers, ready; nothing left behind where they do not become so."""
        try:
            self._write_credentials()
            self.etcd.start()
            self.api_server.start()
            await self.wait_ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End both servers and remove their data; safe to call twice."""
        self.api_server.kill_now()
        self.etcd.kill_now()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def wait_ready(self, timeout: float = 60) -> None:
        """/readyz says ok and the namespace default can be read: only both together mean that it serves."""
        try:
            async with asyncio.timeout(timeout), self.api(ADMIN, timeout=5) as api:
                while not await _serves(api):
                    self.etcd.must_run()
                    self.api_server.must_run()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise ServerError(f"kube-apiserver not ready within {timeout:.0f} s, see {self.api_server.log}") from None

    def api(self, user: User = ADMIN, timeout: float = 30) -> Api:
        """A bare client for one of the users."""
        return Api(self.url, self.ca, self._tokens[user], timeout)

    def kubeconfig(self, user: User = ADMIN, token: str | None = None) -> Path:
        """Write a kubeconfig for a user of the token file (or for any bearer token, under the user's name)."""
        path = self.folder / f"{user.name.replace(':', '-')}.kubeconfig"
        authority = base64.b64encode(self.ca.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": user.name, "user": {"token": token or self._tokens[user]}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": user.name}}],
            "current-context": "real",
        }
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        path.chmod(0o600)
        return path

    async def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """What a pod of this ServiceAccount would hold: a token that the API server issued for it."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        async with self.api() as api:
            answer = await api.post(path, request)
        return self.kubeconfig(User(f"system:serviceaccount:{namespace}:{name}"), answer["status"]["token"])

    def _etcd_command(self) -> list[str | Path]:
        client, peer = (f"http://{LOOPBACK}:{port}" for port in self._ports[:2])
        # Data that is thrown away needs no fsync; etcd 3.4 cannot be told so.
        unsafe = ["--unsafe-no-fsync"] if self.binaries.etcd_version() >= (3, 5) else []
        return [
            *(self.binaries.etcd, "--name", "podium", "--data-dir", self.folder / "etcd"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"podium={peer}"),
            *("--logger", "zap", "--log-level", "warn", "--quota-backend-bytes", str(8 << 30), *unsafe),
        ]

    def _api_server_command(self) -> list[str | Path]:
        folder = self.folder
        # Closed by default since 1.20 and gone with 1.24; said where it still can be opened.
        insecure = ["--insecure-port=0"] if self.version < (1, 24) else []
        return [
            self.binaries.kube_apiserver,
            f"--etcd-servers=http://{LOOPBACK}:{self._ports[0]}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._ports[2]}",
            *insecure,
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={folder}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={self.ca}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'service-account.key'}",
            f"--service-account-signing-key-file={folder / 'service-account.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Pods without service accounts, nodes without a kubelet.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        ]

    def _write_credentials(self) -> None:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(self.ca)
        certificate = authority.issue_cert(LOOPBACK, "localhost")
        certificate.private_key_pem.write_to_path(self.folder / "server.key")
        (self.folder / "server.crt").write_bytes(b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
        authority.issue_cert("service-account").private_key_pem.write_to_path(self.folder / "service-account.key")
        with (self.folder / "tokens.csv").open("w", newline="") as file:
            rows = [(token, user.name, user.name, ",".join(user.groups)) for user, token in self._tokens.items()]
            csv.writer(file).writerows(rows)


async def _serves(api: Api) -> bool:
    try:
        ready = await api.request("GET", "/readyz")
        namespace = await api.request("GET", "/api/v1/namespaces/default")
    except (aiohttp.ClientError, TimeoutError):
        return False
    return (ready.status, ready.body.get("text"), namespace.status) == (200, "ok", 200)


@asynccontextmanager
async def kube_scheduler(
    plane: ControlPlane, name: str = "default-scheduler", *, qps: int = 5000, verbosity: int = 0, **profile: Any
) -> AsyncIterator[Server]:
    """The real kube-scheduler against `plane`, with one profile; for comparisons. Its log is `server.log`."""
    binary = plane.binaries.kube_scheduler
    if binary is None:
        raise NotFoundError(f"no kube-scheduler beside {plane.binaries.kube_apiserver}")
    (port,) = free_ports(1)
    config = plane.folder / f"kube-scheduler-{port}.yaml"
    kubeconfig = plane.kubeconfig(KUBE_SCHEDULER)
    config.write_text(
        yaml.safe_dump(scheduler_config(plane.version, kubeconfig, qps, port, {"schedulerName": name, **profile}))
    )
    secure = "0" if plane.version < (1, 23) else str(port)
    serving = (f"--bind-address={LOOPBACK}", f"--secure-port={secure}", f"--cert-dir={plane.folder}")
    command = (binary, f"--config={config}", *serving, f"-v={verbosity}")
    server = Server("kube-scheduler", command, plane.folder / f"kube-scheduler-{port}.log")
    server.start()
    try:
        await _wait_healthy(server, f"{'http' if secure == '0' else 'https'}://{LOOPBACK}:{port}/healthz")
        yield server
    finally:
        server.kill_now()


def scheduler_config(version: tuple[int, int], kubeconfig: Path, qps: int, port: int, profile: Json) -> Json:
    """The configuration in the newest version that a kube-scheduler of this version reads."""
    steps = (((1, 25), "v1"), ((1, 23), "v1beta3"), ((1, 22), "v1beta2"), ((1, 19), "v1beta1"))
    api_version = next(name for since, name in steps if version >= since)
    # Before 1.23 it serves plain HTTP, on all interfaces unless told otherwise.
    address = f"{LOOPBACK}:{port}"
    plain = {"healthzBindAddress": address, "metricsBindAddress": address} if version < (1, 23) else {}
    return {
        "apiVersion": f"kubescheduler.config.k8s.io/{api_version}",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": qps},
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
        **plain,
    }


async def _wait_healthy(server: Server, url: str, timeout: float = 30) -> None:
    try:
        async with asyncio.timeout(timeout), aiohttp.ClientSession(trust_env=False) as session:
            while not await _healthy(session, url):
                server.must_run()
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise ServerError(f"{server.name} not healthy within {timeout:.0f} s, see {server.log}") from None


async def _healthy(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, ssl=False, timeout=aiohttp.ClientTimeout(total=5)) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now, all different."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _data_folder() -> Path:
    """A new folder named after this process, in memory where there is plenty: etcd syncs each write to its disk."""
    roomy = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 1 << 30
    parent = MEMORY if roomy else Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*"):
        # Of a process that was killed and could clean up nothing.
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
