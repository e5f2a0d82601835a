"""Pins what the image installs, with hashes: `python tools/lock.py`, after a dependency was changed in pyproject.toml.

Writes deploy/image/requirements.txt (what podium needs) and build-requirements.txt beside it (what builds its wheel).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGE = Path("deploy") / "image"
OPTIONS = ("--quiet", "--generate-hashes", "--universal", "--no-header", "--no-annotate", "--python-version", "3.11")


def main() -> None:
    """Resolve both files."""
    uv = Path(sys.executable).parent / "uv"
    podium = ("pyproject.toml", "--extra", "fast", "--extra", "dra", "-o", str(IMAGE / "requirements.txt"))
    build = (str(IMAGE / "build-requirements.in"), "-o", str(IMAGE / "build-requirements.txt"))
    for words in (podium, build):
        subprocess.run([uv, "pip", "compile", *OPTIONS, *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
