"""The image, built as deploy/image/build.sh builds it, and run as the Deployment runs it: nobody, on a read-only root.

Takes minutes and fetches Debian's and Python's packages; skipped where that cannot be done. STORE keeps what was built.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.conformance.api import Api
from tests.conformance.podium_process import create_namespace, create_nodes, pod
from tests.conformance.start import LOOPBACK, ControlPlane, free_ports

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
NEEDED = ("buildah", "mmdebstrap", "unshare", "chroot")
#: what the network says that is not there
OFFLINE = ("Could not resolve", "Temporary failure", "Network is unreachable", "Could not connect")
MOST_BYTES = 200_000_000


class Image:
    """One that was built, mounted; its processes get a root that they cannot write, and a folder as /tmp."""

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        self.root = root
        self.config = config

    def command(self, shared: Path, *words: str) -> list[str]:
        """A process in it, as the user of the image."""
        unshare, sh, mount, chroot, env = map(shutil.which, ("unshare", "sh", "mount", "chroot", "env"))
        # What a runtime mounts, whatever the image: proc, and memory under /dev/shm.
        steps = (
            f"{mount} --bind {self.root} {self.root}",
            f"{mount} -t proc proc {self.root}/proc",
            f"{mount} -t tmpfs -o mode=1777 tmpfs {self.root}/dev/shm",
            f"{mount} -o remount,bind,ro {self.root}",
            f"{mount} --bind {shared} {self.root}/tmp",
            "cd /",
            f'exec {chroot} --userspec={self.config["User"]} --groups= {self.root} "$@"',
        )
        command = words or (*self.config["Entrypoint"], *self.config["Cmd"])
        return [
            *(str(env), "-i", *self.config["Env"]),
            *(str(unshare), "--mount", str(sh), "-c", " && ".join(steps), "sh", *command),
        ]

    def run(self, shared: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """podium's command line in it."""
        words = (*self.config["Entrypoint"], *words)
        return subprocess.run(self.command(shared, *words), capture_output=True, text=True, check=False, timeout=300)

    def files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.root.rglob("*"):
            yield path.relative_to(self.root), path.lstat()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"building the image takes root and {', '.join(missing or NEEDED)}")
    kept = os.environ.get("STORE")
    store = Path(kept) if kept else tmp_path_factory.mktemp("store")
    trust = {"TRUST": os.environ["PIP_CERT"]} if "PIP_CERT" in os.environ else {}
    done = subprocess.run(
        [ROOT / "deploy" / "image" / "build.sh"],
        env={**os.environ, **trust, "STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    if done.returncode and any(words in said for words in OFFLINE):
        pytest.skip("the image cannot be built without a network")
    assert done.returncode == 0, said[-4000:]
    buildah = ["buildah", "--storage-driver", "vfs", "--root", str(store / "images"), "--runroot", str(store / "run")]

    def ask(*words: str) -> str:
        return subprocess.run([*buildah, *words], capture_output=True, text=True, check=True).stdout

    config = json.loads(ask("inspect", "--type", "image", tag()))["OCIv1"]["config"]
    container = ask("from", tag()).strip()
    root = Path(ask("mount", container).strip())
    try:
        yield Image(root, config)
    finally:
        ask("umount", container)
        ask("rm", container)
        if not kept:
            shutil.rmtree(store)


def tag() -> str:
    import tomllib

    return f"localhost/podium:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_it_is_small(image: Image) -> None:
    assert sum(status.st_size for _, status in image.files() if stat.S_ISREG(status.st_mode)) < MOST_BYTES


def test_its_user_is_nobody_and_owns_nothing(image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    assert {(status.st_uid, status.st_gid) for _, status in image.files()} == {(0, 0)}


def test_nothing_in_it_can_be_written_and_nothing_gives_rights(image: Image) -> None:
    bits = stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID
    found = [path for path, status in image.files() if not stat.S_ISLNK(status.st_mode) and status.st_mode & bits]
    assert found == []


def test_its_only_programs_are_python_and_what_the_environment_brings(image: Image) -> None:
    """No shell, no package manager, no compiler."""
    programs = {path.parent / path.name.rstrip("0123456789.") for path, _ in image.files() if path.parent.name == "bin"}
    assert {str(path) for path in programs if not path.is_relative_to("opt")} == {"usr/bin/python"}
    own = {path.name for path in programs if path.is_relative_to("opt/podium/bin")}
    assert own == {"python", "podium", "kubectl-podium"}
    assert not (image.root / "sbin").exists()


def test_it_says_which_packages_of_the_system_it_holds(image: Image) -> None:
    """Where scanners for known faults look."""
    entries = {path.name: path.read_text() for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3"} <= entries.keys()
    assert "\nVersion: " in entries["libssl3"]
    assert (image.root / "usr/share/doc/libssl3/copyright").exists()


# --- what it does ----------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def test_the_root_cannot_be_written(image: Image, shared: Path) -> None:
    python = "/opt/podium/bin/python"
    said = subprocess.run(
        image.command(shared, python, "-c", "open('/opt/x', 'w')"), capture_output=True, text=True, check=False
    )
    assert "Read-only file system" in said.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("simulate -f /tmp/devices.yaml -o json", id="simulate, devices chosen by CEL"),
        pytest.param("demo --nodes 3 --pods 12 --picture /tmp/none.svg", id="demo"),
        pytest.param("demo --devices --nodes 3", id="demo with devices"),
        pytest.param("config", id="config"),
        pytest.param("--version", id="version"),
    ],
)
def test_the_commands_run_in_it(image: Image, shared: Path, words: str) -> None:
    shutil.copy(ROOT / "docs" / "examples" / "devices.yaml", shared)
    done = image.run(shared, *words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout[-2000:] + done.stderr[-2000:]


@asynccontextmanager
async def running(
    image: Image, shared: Path, kubeconfig: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """As the Deployment starts it, but for the kubeconfig and the port."""
    (port,) = free_ports(1)
    shutil.copy(kubeconfig, shared / "kubeconfig")
    (shared / "kubeconfig").chmod(0o644)
    words = ["--kubeconfig=/tmp/kubeconfig", f"--bind-address={LOOPBACK}", f"--secure-port={port}"]
    words += ["--leader-elect=false"]
    process = await asyncio.create_subprocess_exec(*image.command(shared), *words)
    try:
        yield process, f"https://{LOOPBACK}:{port}"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def healthy(url: str) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}/livez", ssl=False) as alive,
            session.get(f"{url}/readyz", ssl=False) as ready,
        ):
            return (alive.status, ready.status) == (200, 200)
    except aiohttp.ClientError:
        return False


def by_plugin(kubeconfig: Path, target: Path) -> Path:
    """The same user, whose token comes from a program: the only one that there is in the image."""
    config = yaml.safe_load(kubeconfig.read_text())
    user = config["users"][0]["user"]
    version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": user.pop("token")}}
    words = ["-c", f"print({json.dumps(credential)!r})"]
    user["exec"] = {
        "apiVersion": version,
        "command": "/opt/podium/bin/python",
        "args": words,
        "interactiveMode": "Never",
    }
    target.write_text(yaml.safe_dump(config))
    return target


@pytest.mark.parametrize("credentials", ["a token", "a plugin"])
async def test_it_schedules_on_the_real_server_and_its_probes_answer(
    image: Image, shared: Path, control_plane: ControlPlane, podium_kubeconfig: Path, api: Api, credentials: str
) -> None:
    name = f"image-{credentials[2:]}"
    kubeconfig = by_plugin(podium_kubeconfig, shared / "plugin") if credentials == "a plugin" else podium_kubeconfig
    await create_nodes(api, name, 1)
    pods = await create_namespace(api, name)
    await api.post(pods, pod("web", name))
    async with running(image, shared, kubeconfig) as (process, url):
        async with asyncio.timeout(60):
            while not await healthy(url):
                assert process.returncode is None
                await asyncio.sleep(0.2)
        await api.wait_until(f"{pods}/web", "bound", lambda body: body["spec"].get("nodeName") == f"{name}-0")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
