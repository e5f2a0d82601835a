"""Semantic versions (semver.org 2.0.0) as Kubernetes' CEL library reads and compares them.

Anybody may call it. Build metadata is read and then ignored: versions that differ in nothing else are equal.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_CORE = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"{_CORE}(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?", re.ASCII)
_LEADING_ZERO = re.compile(r"0\d+", re.ASCII)


class Version(NamedTuple):
    """major.minor.patch and the identifiers of a pre-release."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()

    @property
    def order(self) -> tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]:
        """What versions are compared by: a pre-release comes before its release, numbers come before words."""
        identifiers = ((isinstance(p, str), p if isinstance(p, int) else 0, str(p)) for p in self.pre)
        return self.major, self.minor, self.patch, not self.pre, tuple(identifiers)

    def __str__(self) -> str:
        core = f"{self.major}.{self.minor}.{self.patch}"
        return f"{core}-{'.'.join(map(str, self.pre))}" if self.pre else core


@lru_cache(maxsize=4096)
def parse(text: str) -> Version:
    """The version; ValueError with one line for what is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a semantic version: {text!r}")
    identifiers = match[4].split(".") if match[4] else []
    if any(_LEADING_ZERO.fullmatch(each) for each in identifiers):
        raise ValueError(f"numeric identifier with a leading zero: {text!r}")
    pre = tuple(int(each) if each.isdecimal() else each for each in identifiers)
    return Version(int(match[1]), int(match[2]), int(match[3]), pre)


def normalize(text: str) -> str:
    """Without a leading v and leading zeros, with the parts that a short version leaves out."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError(f"a short version cannot have pre-release or build parts: {text!r}")
    parts = [re.sub(r"^0+(?=\d)", "", part) for part in parts]
    return ".".join(parts + ["0"] * (3 - len(parts)))
