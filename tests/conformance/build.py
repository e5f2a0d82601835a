"""Builds etcd, kube-apiserver, kube-scheduler and kube-controller-manager from Debian 12's packages; fetches kubectl.

Called by `control_plane` when `find` comes back empty. Works in one folder of the user's cache: apt reads a private
copy of the machine's own configuration; packages are unpacked, not installed (only dpkg-dev is, where it is missing).
Every step leaves its result in place, so that a build that was interrupted goes on where it stopped, and a lock keeps
two builds apart. Never starts what it built.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VERSION = "1.20.2"
# Debian 12's upload is numbered 1.20.5+really1.20.2; later Debian releases strip the server from the source package.
SOURCE_VERSION = re.compile(rf"^Version: (\S+really{re.escape(VERSION)}\S*)$", re.MULTILINE)
GO = "1.19"
# The go and src packages together are one GOROOT; reflect2 replaces the vendored 1.0.1 (see `_replace_reflect2`).
PACKAGES = (f"golang-{GO}-go", f"golang-{GO}-src", "golang-github-modern-go-reflect2-dev", "etcd-server")
SERVERS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
CLIENT, CLIENT_PACKAGE = "kubectl", "kubernetes-client"
REPOSITORY = "k8s.io/kubernetes"
OPENAPI = "pkg/generated/openapi"
OPENAPI_TAG = re.compile(rb"^\s*//\s*\+k8s:openapi-gen=", re.MULTILINE)
OPENAPI_ROOTS = ("pkg", "cmd", "plugin", "vendor/k8s.io")
OPENAPI_SKIPPED = ("code-generator", "sample-apiserver")


class BuildError(Exception):
    """Why no control plane can be built here: one line for a person."""


@dataclass(frozen=True)
class Workshop:
    """The folders of one build, all below `root`."""

    root: Path
    out: Path

    @property
    def apt(self) -> Path:
        return self.root / "apt"

    @property
    def unpacked(self) -> Path:
        """Where the Debian packages are unpacked, as if it were /."""
        return self.root / "packages"

    @property
    def tree(self) -> Path:
        """Kubernetes' source at the place where GOPATH mode looks for it."""
        return self.root / "go" / "src" / REPOSITORY

    @property
    def log(self) -> Path:
        return self.root / "build.log"

    @property
    def goroot(self) -> Path:
        return self.unpacked / "usr" / "lib" / f"go-{GO}"

    def go_environment(self) -> dict[str, str]:
        """GOPATH mode without network: Go 1.19 would update go.mod with -mod=vendor."""
        return {
            "GOROOT": str(self.goroot),
            "GOPATH": str(self.root / "go"),
            "GOCACHE": str(self.root / "gocache"),
            "GO111MODULE": "off",
            "GOPROXY": "off",
            "GOFLAGS": "",
            "GOTOOLCHAIN": "local",
            "CGO_ENABLED": "0",
        }

    def run(self, *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
        """Run to the end, stdout returned, stderr into the log; a failure is a BuildError naming that log."""
        words = [str(word) for word in command]
        with self.log.open("a") as log:
            log.write(f"+ {' '.join(words)[:2000]}\n")
            log.flush()
            # Low priority: whoever waits for the build wants to go on working.
            done = subprocess.run(
                ["nice", "-n", "10", *words],
                cwd=cwd,
                env={**os.environ, **(env or {}), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )
            log.write(done.stdout[-4000:])
        if done.returncode != 0:
            raise BuildError(f"{' '.join(words[:2])} failed (exit {done.returncode}), see {self.log}")
        return done.stdout


def build(root: Path, out: Path) -> None:
    """Leave etcd and the three Kubernetes servers in `out`; a no-op for each one that is there."""
    missing = [tool for tool in ("apt-get", "dpkg", "nice") if shutil.which(tool) is None]
    if missing:
        raise BuildError(f"building needs a Debian 12 machine: {', '.join(missing)} not found")
    workshop = Workshop(root, out)
    root.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    with _locked(root.parent / "build.lock"):
        if all((out / name).exists() for name in ("etcd", *SERVERS)):
            return
        _prepare(workshop)
        for server in SERVERS:
            if not (out / server).exists():
                with _step(f"compiling {server} {VERSION}"):
                    _compile(workshop, server)
        shutil.rmtree(root)


def fetch_kubectl(root: Path, out: Path) -> None:
    """Leave Debian's kubectl in `out`: the oldest client that the embedded server is tried with."""
    if (out / CLIENT).exists():
        return
    if shutil.which("apt-get") is None:
        raise BuildError("no apt-get here")
    workshop = Workshop(root, out)
    for folder in (root, out, workshop.root / "downloads"):
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(root.parent / "build.lock"):
        if (out / CLIENT).exists():
            return
        with _step(f"fetching kubectl {VERSION}"):
            _apt_update(workshop)
            downloads = workshop.root / "downloads"
            _apt(workshop, "apt-get", "download", "-q", CLIENT_PACKAGE, cwd=downloads)
            (package,) = downloads.glob(f"{CLIENT_PACKAGE}_*.deb")
            workshop.run("dpkg", "-x", package, workshop.unpacked)
            _keep(workshop.unpacked / "usr" / "bin" / CLIENT, out / CLIENT)
        shutil.rmtree(root)


def _prepare(workshop: Workshop) -> None:
    """Everything that has to be there before the first server is compiled."""
    if not workshop.goroot.exists() or not (workshop.out / "etcd").exists():
        with _step("reading the package lists"):
            _apt_update(workshop)
        with _step("unpacking Go and etcd"):
            _unpack_packages(workshop)
    if not workshop.tree.exists():
        with _step(f"unpacking Kubernetes {VERSION}"):
            _unpack_source(workshop)
    if not (workshop.tree / OPENAPI / "zz_generated.openapi.go").exists():
        with _step("generating the OpenAPI definitions"):
            _generate_openapi(workshop)


def _apt(workshop: Workshop, tool: str, *arguments: str, cwd: Path | None = None) -> str:
    """apt with a private configuration: the machine's own lists, sources and locks stay as they are."""
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": workshop.apt / "sources.list.d",
        "Dir::State::Lists": workshop.apt / "lists",
        "Dir::Cache": workshop.apt / "cache",
        "Debug::NoLocking": "true",
        # The unprivileged user that apt downloads as cannot write below a home folder.
        **({"APT::Sandbox::User": "root"} if os.geteuid() == 0 else {}),
    }
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return workshop.run(tool, *flags, *arguments, cwd=cwd)


def _apt_update(workshop: Workshop) -> None:
    parts = workshop.apt / "sources.list.d"
    for folder in (parts, workshop.apt / "lists" / "partial", workshop.apt / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    own = Path("/etc/apt")
    for file in (own / "sources.list", *sorted((own / "sources.list.d").glob("*"))):
        if file.suffix in {".list", ".sources"} and file.is_file():
            (parts / file.name).write_text(with_sources(file.read_text(), deb822=file.suffix == ".sources"))
    _apt(workshop, "apt-get", "update", "-q")


def with_sources(text: str, *, deb822: bool) -> str:
    """An apt configuration file with a source entry for each binary entry, in either of apt's two formats."""
    if deb822:
        return re.sub(r"^Types:.*$", "Types: deb deb-src", text, flags=re.MULTILINE)
    entries = [line for line in text.splitlines() if line.startswith("deb ")]
    return "".join(f"{line}\ndeb-src {line.removeprefix('deb ')}\n" for line in entries)


def _unpack_packages(workshop: Workshop) -> None:
    downloads = workshop.root / "downloads"
    downloads.mkdir(exist_ok=True)
    _apt(workshop, "apt-get", "download", "-q", *PACKAGES, cwd=downloads)
    fresh = workshop.root / "packages.partial"
    shutil.rmtree(fresh, ignore_errors=True)
    for package in sorted(downloads.glob("*.deb")):
        workshop.run("dpkg", "-x", package, fresh)
    shutil.rmtree(workshop.unpacked, ignore_errors=True)
    fresh.rename(workshop.unpacked)
    _keep(workshop.unpacked / "usr" / "bin" / "etcd", workshop.out / "etcd")


def _unpack_source(workshop: Workshop) -> None:
    found = SOURCE_VERSION.findall(_apt(workshop, "apt-cache", "showsrc", "kubernetes"))
    if not found:
        raise BuildError(f"this machine's apt offers no source package kubernetes {VERSION} (only Debian 12 has it)")
    downloads = workshop.root / "downloads"
    _apt(workshop, "apt-get", "source", "-q", "--download-only", f"kubernetes={found[-1]}", cwd=downloads)
    if shutil.which("dpkg-source") is None:
        _install_dpkg_dev(workshop)
    (description,) = downloads.glob("kubernetes_*.dsc")
    fresh = workshop.root / "source.partial"
    shutil.rmtree(fresh, ignore_errors=True)
    workshop.run("dpkg-source", "--extract", description, fresh)
    _replace_reflect2(workshop, fresh)
    workshop.tree.parent.mkdir(parents=True, exist_ok=True)
    fresh.rename(workshop.tree)


def _install_dpkg_dev(workshop: Workshop) -> None:
    if os.geteuid() != 0:
        raise BuildError("building needs dpkg-source: install the package dpkg-dev")
    workshop.run("apt-get", "update", "-q")
    workshop.run("apt-get", "install", "-y", "-q", "--no-install-recommends", "dpkg-dev")


def _replace_reflect2(workshop: Workshop, tree: Path) -> None:
    """reflect2 1.0.1 panics at the first JSON POST under Go 1.18 and later, while the server still says ready."""
    fixed = workshop.unpacked / "usr" / "share" / "gocode" / "src" / "github.com" / "modern-go" / "reflect2"
    vendored = tree / "vendor" / "github.com" / "modern-go" / "reflect2"
    shutil.rmtree(vendored)
    shutil.copytree(fixed, vendored)


def _generate_openapi(workshop: Workshop) -> None:
    """The one generated file that the source package leaves out, from every package that asks for it by its tag."""
    go, env, tree = workshop.goroot / "bin" / "go", workshop.go_environment(), workshop.tree
    generator = workshop.root / "openapi-gen"
    workshop.run(go, "build", "-o", generator, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen", cwd=tree, env=env)
    header, report = workshop.root / "header.txt", workshop.root / "violations.txt"
    header.write_text("")
    words: tuple[str | Path, ...] = (
        *("--logtostderr", "--go-header-file", header, "--report-filename", report),
        *("--output-base", workshop.root / "go" / "src", "--output-package", f"{REPOSITORY}/{OPENAPI}"),
        *("--output-file-base", "zz_generated.openapi", "--input-dirs", ",".join(tagged_packages(tree))),
    )
    path = f"{workshop.goroot / 'bin'}:{os.environ['PATH']}"
    workshop.run(generator, *words, cwd=tree, env={**env, "PATH": path})
    known = tree / "api" / "api-rules" / "violation_exceptions.list"
    if sorted(report.read_text().split("\n")) != sorted(known.read_text().split("\n")):
        (tree / OPENAPI / "zz_generated.openapi.go").unlink()
        raise BuildError(f"the OpenAPI generator's report {report} differs from {known}")


def tagged_packages(tree: Path) -> list[str]:
    """Import paths of the packages below `tree` that carry a +k8s:openapi-gen= tag."""
    folders: set[str] = set()
    for root in OPENAPI_ROOTS:
        # vendor/k8s.io is links into staging/.
        for folder, subfolders, files in os.walk(tree / root, followlinks=True):
            subfolders[:] = [name for name in subfolders if name not in OPENAPI_SKIPPED]
            sources = [Path(folder, name) for name in files if name.endswith(".go") and not name.endswith("_test.go")]
            if any(OPENAPI_TAG.search(source.read_bytes()) for source in sources):
                folders.add(Path(folder).relative_to(tree).as_posix())
    return sorted(f"{REPOSITORY}/{folder}" for folder in folders)


def _compile(workshop: Workshop, server: str) -> None:
    made = workshop.root / server
    command = ("build", "-ldflags", _version_flags(), "-o", made, f"./cmd/{server}")
    go = workshop.goroot / "bin" / "go"
    workshop.run(go, *command, cwd=workshop.tree, env=workshop.go_environment())
    _keep(made, workshop.out / server)


def _version_flags() -> str:
    """Without them /version says v0.0.0-master, and clients that look at the version go astray."""
    major, minor, _ = VERSION.split(".")
    values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    packages = (f"{REPOSITORY}/vendor/k8s.io/{name}" for name in ("component-base/version", "client-go/pkg/version"))
    flags = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s", "-w", *flags])


def _keep(made: Path, kept: Path) -> None:
    """Move into the cache in one step, so that nobody ever finds half a binary."""
    partial = kept.with_suffix(".partial")
    shutil.copy2(made, partial)
    partial.chmod(0o755)
    partial.rename(kept)


@contextmanager
def _step(what: str) -> Iterator[None]:
    start = time.monotonic()
    progress(f"{what} …")
    yield
    progress(f"{what}: {time.monotonic() - start:.0f} s")


def progress(line: str) -> None:
    """One line for the person who waits."""
    print(f"control plane: {line}", file=sys.stderr, flush=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another build holds {path}, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
