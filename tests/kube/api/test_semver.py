"""Semantic versions: what is one, how they sort, and what a sloppy one is tidied to."""

from __future__ import annotations

import itertools

import pytest

from kube.api import semver

#: the order of semver.org, section 11, and more
SORTED = (
    "0.9.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0",
    "1.10.0",
)


def test_precedence() -> None:
    for earlier, later in itertools.pairwise(SORTED):
        assert semver.parse(earlier).order < semver.parse(later).order


def test_build_metadata_makes_no_difference() -> None:
    assert semver.parse("1.0.0+a") == semver.parse("1.0.0+b") == semver.parse("1.0.0")


@pytest.mark.parametrize("text", ["1.0", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "1.0.0 ", "", "a.b.c", "1.0.0-a..b"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match=r"version|leading zero"):
        semver.parse(text)


@pytest.mark.parametrize(
    ("text", "tidy"), [("v1.0.0", "1.0.0"), ("1.0", "1.0.0"), ("1", "1.0.0"), ("01.02.03", "1.2.3"), ("0.0.0", "0.0.0")]
)
def test_normalizing(text: str, tidy: str) -> None:
    assert str(semver.parse(semver.normalize(text))) == tidy
