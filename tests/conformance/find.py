"""Finds the binaries of a control plane: KUBEBUILDER_ASSETS, then PATH, then the cache that `build` fills.

Read by `control_plane`, the fixtures and the benchmarks. Starts nothing but `--version`.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.build import VERSION

ASSETS = "KUBEBUILDER_ASSETS"
HELP = f"point {ASSETS} at a folder with etcd and kube-apiserver (as for controller-runtime's envtest)"


class NotFoundError(Exception):
    """No control plane here: one line that says how to point at one."""


@dataclass(frozen=True)
class Binaries:
    """The programs of one control plane; the last two only where whoever made it has them."""

    origin: str
    etcd: Path
    kube_apiserver: Path
    kube_scheduler: Path | None = None
    kube_controller_manager: Path | None = None

    def kubernetes_version(self) -> tuple[int, int]:
        return version_of(self.kube_apiserver)

    def etcd_version(self) -> tuple[int, int]:
        return version_of(self.etcd)


def find() -> Binaries | None:
    """The first complete pair in order; a KUBEBUILDER_ASSETS that holds none is an error, not a miss."""
    assets = os.environ.get(ASSETS)
    if assets:
        found = _in_folder(Path(assets), ASSETS)
        if found is None:
            raise NotFoundError(f"{ASSETS}={assets} holds no etcd and kube-apiserver")
        return found
    return _on_path() or _in_folder(cache() / VERSION, "cache")


def require() -> Binaries:
    """What `find` finds, or the one clear line."""
    found = find()
    if found is None:
        raise NotFoundError(f"no etcd and kube-apiserver found: run `make control-plane`, or {HELP}")
    return found


def cache() -> Path:
    """Outside the source tree, so that a fresh clone need not build again."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "podium" / "control-plane"


def version_of(binary: Path) -> tuple[int, int]:
    """(major, minor) as the program itself tells it."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    match = re.search(r"(\d+)\.(\d+)\.\d+", said)
    if match is None:
        raise NotFoundError(f"{binary} --version says {said[:80]!r}, expected a version")
    return int(match[1]), int(match[2])


def _in_folder(folder: Path, origin: str) -> Binaries | None:
    def program(name: str) -> Path | None:
        path = folder / name
        return path.absolute() if os.access(path, os.X_OK) and path.is_file() else None

    return _binaries(origin, {name: program(name) for name in _NAMES})


def _on_path() -> Binaries | None:
    found = {name: shutil.which(name) for name in _NAMES}
    return _binaries("PATH", {name: Path(path) if path else None for name, path in found.items()})


_NAMES = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")


def _binaries(origin: str, found: dict[str, Path | None]) -> Binaries | None:
    etcd, kube_apiserver, kube_scheduler, kube_controller_manager = (found[name] for name in _NAMES)
    if etcd is None or kube_apiserver is None:
        return None
    return Binaries(origin, etcd, kube_apiserver, kube_scheduler, kube_controller_manager)
