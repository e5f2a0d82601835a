"""The progress bar: for whoever watches a terminal, and nobody else."""

from __future__ import annotations

import io
import re

import pytest

from podium import progress
from podium.progress import Progress


class Terminal(io.StringIO):
    """A screen."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "shown"),
    [pytest.param(Terminal(), True, id="a terminal"), pytest.param(io.StringIO(), False, id="a file")],
)
def test_progress(stream: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with Progress("pods", 3) as counted:
        assert list(counted.each("abc")) == ["a", "b", "c"]
    # Without the colours.
    assert ("3/3 pods" in re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue())) is shown
