"""What kube-scheduler 1.36.3 decided about 400 pods that ask for devices, to the last device and word.

Beyond `tests.recorded.differences`: the texts of errors and gated pods, the exact message, and each allocation in full:
the order of claims and devices, node selectors, configuration, amounts, and the requests made for extended resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded import DECISIONS, Json, clusters, differences, simulate

RECORDED = DECISIONS / "dra.jsonl.gz"
THEMES = sorted({cluster["theme"] for cluster in clusters(RECORDED)})
#: from here on the text is the CEL library's own
COMPILE_ERROR = "CEL compile error: "


def strict_differences(expect: Json, got: Json) -> Iterator[str]:
    yield from differences(expect, got)
    message = got["message"]
    if "preEnqueue" in expect:
        if f"DynamicResources: {message}" != expect["preEnqueue"]:
            yield f"gate: want {expect['preEnqueue']!r}, got {message!r}"
        return
    if "error" in expect:
        wanted, mark, _ = expect["error"].partition(COMPILE_ERROR)
        if not message.startswith(wanted + mark) or (not mark and message != wanted):
            yield f"error: want {expect['error']!r}, got {message!r}"
        return
    if not expect["feasible"] and not expect.get("nominated") and message != expect["message"]:
        yield f"message: want {expect['message']!r}, got {message!r}"
    wanted_allocations, found = expect.get("allocations", {}), got.get("allocations", {})
    for node in sorted(wanted_allocations.keys() | found.keys()):
        if wanted_allocations.get(node) != found.get(node):
            yield f"allocations on {node}: want {wanted_allocations.get(node)}, got {found.get(node)}"


def test_the_recording_holds_what_is_compared() -> None:
    keys = Counter(key for cluster in clusters(RECORDED) for pod in cluster["pods"] for key in pod["expect"])
    assert keys["feasible"] == 400
    assert (keys["allocations"], keys["error"], keys["preEnqueue"]) == (279, 22, 6)


@pytest.mark.parametrize("theme", THEMES)
def test_every_decision_of_the_theme_is_the_recorded_one(theme: str, tmp_path: Path) -> None:
    wrong = []
    for cluster in clusters(RECORDED):
        if cluster["theme"] != theme:
            continue
        results = simulate(tmp_path, cluster["objects"], [p["pod"] for p in cluster["pods"]], alone=True)
        for pod, result in zip(cluster["pods"], results, strict=True):
            name = f"seed {cluster['seed']} {result['name']}"
            wrong += [f"{name}: {text}" for text in strict_differences(pod["expect"], result)]
    assert wrong == []
