"""The image's root file system: an interpreter, the environment, the libraries that both link, and nothing else.

    python deploy/image/assemble.py ENVIRONMENT TARGET

Runs in the Dockerfile's build stage, with the interpreter that the environment was made of; needs no package. No shell,
no package manager and no compiler come along. What is left out of the environment, and why, is the table `CUTS`.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

#: below site-packages -> why nobody misses it
CUTS = {
    "**/tests": "test suites",
    "**/*.pyi": "types, for checkers",
    "**/*.[ach]": "for compilers, as what follows",
    "**/*.py[xdi]": "",
    "**/*.px[di]": "",
    "numpy/f2py": "makes modules out of Fortran",
    "numpy/distutils": "builds packages",
    "numpy/_core/_*_tests.*.so": "test suites",
    "cel_expr_python/ext": "functions beyond what device selectors may use; kube/api/cel.py loads none of them",
    "pygments/lexers/[a-z]*": "coloured source code",
    # 860 modules of generated code; kube/client/auth.py reads kubeconfigs with what is left.
    "kubernetes_asyncio/client/api": "calls of the API: podium has a client of its own",
    "kubernetes_asyncio/client/models/?*": "objects of the API: podium has types of its own",
}
#: of the standard library: what builds, tests and documents Python, and what needs a terminal or keeps a database
NOT_NEEDED = (
    *("config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test"),
    *("_curses*", "_dbm*", "_gdbm*", "_sqlite3*", "_tkinter*", "nis*", "readline*", "sqlite3", "tkinter", "turtledemo"),
)
#: files of the base: whom to trust, how names are resolved, where libraries are
SYSTEM = ("etc/ssl/certs/ca-certificates.crt", "etc/nsswitch.conf", "etc/ld.so.cache")
USERS = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
GROUPS = "root:x:0:\nnonroot:x:65532:\n"


def trim(environment: Path) -> None:
    """Take out what `CUTS` names, and every command but python: podium's own comes with podium."""
    for path in (environment / "bin").iterdir():
        if not path.name.startswith("python"):
            path.unlink()
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    for pattern in CUTS:
        for path in sorted(packages.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
    client = packages / "kubernetes_asyncio" / "client"
    (client / "models").mkdir(exist_ok=True)
    (client / "models" / "__init__.py").write_text("")
    first = client / "__init__.py"
    gone = re.compile(r"^from kubernetes_asyncio\.client\.(?:api|models)[ .].*\n", re.MULTILINE)
    first.write_text(gone.sub("", first.read_text()))


def copy(source: Path, target: Path, *left_out: str) -> None:
    """A file or a folder to the same place below the target, links as links."""
    place = target / source.relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__", *left_out)
        shutil.copytree(source, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    else:
        shutil.copy2(source, place)


def interpreter(environment: Path, target: Path) -> Path:
    """The program behind the environment's python, with every link on the way."""
    path = environment / "bin" / "python"
    while path.is_symlink():
        place = target / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(path.readlink())
        path = path.parent / path.readlink()
    copy(path, target)
    return path


def programs(environment: Path, library: Path, python: Path) -> Iterator[Path]:
    """What is linked: the interpreter and the extension modules that come along."""
    yield python
    yield from environment.rglob("*.so*")
    for path in (library / "lib-dynload").glob("*.so"):
        if not any(path.match(pattern) for pattern in NOT_NEEDED):
            yield path


def linked(files: Iterator[Path]) -> set[Path]:
    """The libraries that these load, and the loader."""
    found: set[Path] = set()
    for file in files:
        said = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        found |= {Path(name) for name in re.findall(r"(?:=> |^\s+)(/\S+) \(", said, re.MULTILINE)}
    return found


def owners(files: set[Path]) -> set[str]:
    """The Debian packages that the files come from; none where there is no dpkg."""
    if shutil.which("dpkg-query") is None:
        return set()
    # A library is listed under /lib or /usr/lib, whichever its package still says.
    names = {str(path) for path in files} | {str(path.resolve()) for path in files}
    names |= {name.removeprefix("/usr") for name in names}
    said = subprocess.run(["dpkg-query", "-S", *sorted(names)], capture_output=True, text=True, check=False).stdout
    return {line.partition(": ")[0].split(",")[0] for line in said.splitlines() if not line.startswith("diversion")}


def describe(package: str, target: Path) -> None:
    """Its licence, and its entry where scanners for known faults look for it."""
    name = package.partition(":")[0]
    licence = Path("/usr/share/doc", name, "copyright")
    if licence.exists():
        copy(licence.resolve(), target)
    entry = subprocess.run(["dpkg-query", "-s", package], capture_output=True, text=True, check=True).stdout
    place = target / "var" / "lib" / "dpkg" / "status.d" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(entry)


def system(target: Path) -> None:
    """The few files that a program expects of any system."""
    for name in SYSTEM:
        source = Path("/", name)
        if source.exists():
            copy(source, target)
    (target / "etc").mkdir(exist_ok=True)
    (target / "etc" / "passwd").write_text(USERS)
    (target / "etc" / "group").write_text(GROUPS)
    # Where a runtime mounts something.
    for name in ("dev/shm", "proc", "sys", "tmp"):
        (target / name).mkdir(parents=True)


def main(environment: Path, target: Path) -> None:
    """Everything into an empty folder."""
    library = Path(sysconfig.get_path("stdlib"))
    trim(environment)
    copy(environment, target)
    copy(library, target, *NOT_NEEDED)
    python = interpreter(environment, target)
    used = {path for path in linked(programs(environment, library, python)) if not path.is_relative_to(environment)}
    for path in used:
        copy(path, target)
    system(target)
    for package in owners({*used, python, library / "os.py"}):
        describe(package, target)
    # Nothing can be written later, and nothing changes: no look at the sources before each import.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(
        target, quiet=2, workers=os.cpu_count() or 1, stripdir=str(target), prependdir="/", invalidation_mode=mode
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
