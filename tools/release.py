"""Makes a release out of this tree: `python tools/release.py [FOLDER]` (default: dist), what `make release` runs.

Wheel, source distribution, the image's build context, the Helm chart, each kustomize overlay as one file, the list of
parts of the image, the notes from changes/, all of it once more as one archive, and SHA256SUMS. The version is the one
of pyproject.toml; `--set-version X` writes another one there and wherever else it stands. Fetches nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
OVERLAYS = ("base", "overlays/laptop", "overlays/high-availability", "overlays/node-pool", "overlays/kubernetes-1.20")
#: file -> the line that holds the version, with {} in its place
PLACES = (
    ("pyproject.toml", r'^version = "{}"$'),
    ("deploy/base/kustomization.yaml", r"^    newTag: {}$"),
    ("deploy/helm/podium/Chart.yaml", r"^version: {}$"),
    ("deploy/helm/podium/Chart.yaml", r"^appVersion: {}$"),
    ("examples/podium-plugin-racks/Dockerfile", r"^ARG PODIUM=podium:{}$"),
    ("tests/operate/multiple_schedulers.yaml", r"^          image: podium:{}$"),
)


def version() -> str:
    """The one of pyproject.toml."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return found


def set_version(new: str) -> None:
    """Write it wherever it stands."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", new):
        raise SystemExit(f"{new}: expected a version such as 1.2.3 or 1.2.3rc1")
    for name, pattern in PLACES:
        path = ROOT / name
        line = re.compile(pattern.format(r"(\S+?)"), re.MULTILINE)
        text, count = line.subn(lambda m: m[0].replace(m[1], new), path.read_text())
        if count != 1:
            raise SystemExit(f"{name}: expected the version on one line, found it on {count}")
        path.write_text(text)


#: lists what the image is made of
LISTER_OF_PARTS = "cyclonedx-bom>=7,<8"


def run(*words: str | Path) -> str:
    """A command of the development environment; its output."""
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def context(folder: Path) -> None:
    """What an image is built from: `tar xf … && docker build .`"""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    with tarfile.open(_context(folder), "w:gz") as archive:
        for name in ("Dockerfile", ".dockerignore", *(rule.removeprefix("!") for rule in rules)):
            archive.add(ROOT / name, name, filter=_without_caches)


def packages(folder: Path) -> None:
    """Wheel and source distribution, of just what the image is built from, and with nothing left in this tree."""
    with tempfile.TemporaryDirectory() as copy, tarfile.open(_context(folder)) as archive:
        archive.extractall(copy, filter="data")
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy)


def chart(folder: Path) -> None:
    """The Helm chart."""
    import helm_python as helm

    helm.package(ROOT / "deploy" / "helm" / "podium", destination=str(folder))


def manifests(folder: Path) -> None:
    """Each overlay as one file, for `kubectl apply -f`."""
    for overlay in OVERLAYS:
        name = f"podium-{version()}-{Path(overlay).name}.yaml".replace("-base.", ".")
        (folder / name).write_text(run(BIN / "kubectl", "kustomize", ROOT / "deploy" / overlay))


def parts(folder: Path) -> None:
    """The list of parts (SBOM) of what the image installs, as CycloneDX."""
    target = folder / f"podium-{version()}-sbom.cdx.json"
    requirements = ROOT / "deploy" / "image" / "requirements.txt"
    project = ROOT / "pyproject.toml"
    # Its own environment: what it brings along would be imported by every podium that starts beside it.
    with tempfile.TemporaryDirectory() as home:
        run(sys.executable, "-m", "venv", home)
        tools = Path(home) / "bin"
        run(tools / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", LISTER_OF_PARTS)
        run(tools / "cyclonedx-py", "requirements", requirements, "--pyproject", project, "-o", target)


def notes(folder: Path) -> None:
    """What changed, from the fragments."""
    text = run(BIN / "towncrier", "build", "--draft", "--version", version())
    (folder / "NOTES.md").write_text(text[text.index("## ") :] if "## " in text else text)


STEPS: tuple[Callable[[Path], None], ...] = (context, packages, chart, manifests, parts, notes)


def release(folder: Path) -> Path:
    """All of it; the archive that holds everything."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for step in STEPS:
        step(folder)
    files = sorted(folder.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (folder / "SHA256SUMS").write_text(sums)
    bundle = folder / f"podium-{version()}-bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        for file in (*files, folder / "SHA256SUMS"):
            archive.add(file, f"podium-{version()}/{file.name}")
    with (folder / "SHA256SUMS").open("a") as sums_file:
        sums_file.write(f"{hashlib.sha256(bundle.read_bytes()).hexdigest()}  {bundle.name}\n")
    return bundle


def _context(folder: Path) -> Path:
    return folder / f"podium-{version()}-image-context.tar.gz"


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name or member.name.endswith(".egg-info") else member


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Make a release out of this tree.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--set-version", metavar="X", help="only write this version wherever it stands")
    args = parser.parse_args()
    if args.set_version:
        set_version(args.set_version)
        return
    bundle = release(args.folder)
    for file in sorted(args.folder.iterdir()):
        print(f"{file.stat().st_size:>10}  {file.name}")
    print(f"release {version()}: {bundle}")


if __name__ == "__main__":
    main()
