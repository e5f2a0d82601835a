"""The worked examples of the documentation are what the commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podium.cli import main

ROOT = Path(__file__).parents[3]
_EXAMPLE = re.compile(r"^```\n\$ podium ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> Iterator[Any]:
    for name in ("explain.md", "what-if.md", "gangs.md"):
        for command, shown in _EXAMPLE.findall((ROOT / "docs" / name).read_text()):
            if not command.startswith("replay"):
                yield pytest.param(command.split(), shown, id=command)


@pytest.mark.parametrize(("command", "shown"), list(examples()))
def test_example(
    command: list[str], shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "110")
    assert main(command) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()]
    assert printed == shown.rstrip().splitlines()
