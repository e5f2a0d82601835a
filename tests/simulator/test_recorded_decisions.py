"""podium decides as the real kube-scheduler 1.36.3 did, pod by pod and score by score."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded import DECISIONS, Json, case_differences, cases, clusters, differences, recorded_data, simulate

THEMES = ("plain", "affinity", "spread", "volumes", "preempt", "mixed", "images", "taints", "evict")


def mismatches(folder: Path, recorded: list[Json]) -> list[str]:
    """One line per difference."""
    lines = []
    for cluster in recorded:
        results = simulate(folder, cluster["objects"], [p["pod"] for p in cluster["pods"]], alone=True)
        got = {(r["namespace"], r["name"]): r for r in results}
        for pod in cluster["pods"]:
            meta = pod["pod"]["metadata"]
            result = got[meta.get("namespace", "default"), meta["name"]]
            lines += [f"seed {cluster['seed']} {meta['name']}: {text}" for text in differences(pod["expect"], result)]
    return lines


@pytest.mark.parametrize("theme", THEMES)
def test_generated_clusters(theme: str, tmp_path: Path) -> None:
    recorded = [c for c in clusters(DECISIONS / "generated.jsonl.gz") if c["theme"] == theme]
    assert len(recorded) >= 30
    assert mismatches(tmp_path, recorded) == []


def test_public_manifests_on_public_dumps(tmp_path: Path) -> None:
    recorded = clusters(recorded_data("decisions", "real-manifests.jsonl.gz"))
    assert sum(len(c["pods"]) for c in recorded) == 117
    assert mismatches(tmp_path, recorded) == []


@pytest.mark.parametrize("case", cases())
def test_cases_from_bug_reports(case: Json, tmp_path: Path) -> None:
    results = simulate(tmp_path, case["objects"]["items"], case["schedule"], alone=False)
    got = {f"{r['namespace']}/{r['name']}": r for r in results}
    wrong = [
        f"{name}: {text}" for name, expect in case["expect"].items() for text in case_differences(expect, got[name])
    ]
    assert wrong == []
