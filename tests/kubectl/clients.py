"""Which kubectls there are: the wheel's, the one on PATH, Debian's old one that `make control-plane` has fetched, and
further ones that KUBECTLS names (separated by `:`).

Read by the tests and by `record`. Starts nothing.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.conformance.build import CLIENT, VERSION
from tests.conformance.find import cache


@dataclass(frozen=True)
class Client:
    """One kubectl."""

    program: Path
    version: tuple[int, int]

    def __str__(self) -> str:
        return "kubectl {}.{}".format(*self.version)


@lru_cache
def clients() -> tuple[Client, ...]:
    """All that there are, the newest first, one of each version."""
    named = [Path(name) for name in os.environ.get("KUBECTLS", "").split(os.pathsep) if name]
    on_path = shutil.which("kubectl")
    old = cache() / VERSION / CLIENT
    places = [Path(sys.executable).parent / "kubectl", *([Path(on_path)] if on_path else []), old, *named]
    found: dict[tuple[int, int], Client] = {}
    for place in places:
        version = _version(place) if place.exists() else None
        if version:
            found.setdefault(version, Client(place, version))
    return tuple(found[version] for version in sorted(found, reverse=True))


def _version(program: Path) -> tuple[int, int] | None:
    answer = subprocess.run([program, "version", "--client"], capture_output=True, text=True, timeout=20, check=False)
    match = re.search(r'(?:GitVersion:"|Client Version: )v(\d+)\.(\d+)', answer.stdout)
    return (int(match[1]), int(match[2])) if match else None
