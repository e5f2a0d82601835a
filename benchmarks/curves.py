"""Cost curves of the engine: what one cycle costs as nodes and running pods grow.

Two tables for each kind of pod. `growth` is the cost over that of the row before, beside the growth of the size: a cost
that follows the size grows as fast, one that does not stays near 1.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from benchmarks.calibration import add_microseconds
from benchmarks.engine import EngineRun
from benchmarks.workload import Workload, load

NODES = (100, 500, 1_000, 2_500, 5_000, 10_000, 15_000)
RUNNING = (1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 150_000)
FIXED_NODES = 5_000
FIXED_RUNNING = 1_000
CYCLES = 400
KINDS = (
    "SchedulingBasic",
    "TopologySpreading",
    "SchedulingPreferredPodAffinity",
    "SchedulingPodAffinity",
)


def run_curves(
    nodes: Sequence[int] = NODES, running: Sequence[int] = RUNNING, kinds: Sequence[str] = KINDS
) -> list[dict[str, Any]]:
    """All curves; each point is an engine of its own."""
    curves = []
    for kind in kinds:
        for fresh in (False, True) if kind == "SchedulingBasic" else (False,):
            curves.append(_curve(kind, "nodes", [(n, FIXED_RUNNING) for n in nodes], fresh=fresh))
            curves.append(_curve(kind, "running pods", [(FIXED_NODES, r) for r in running], fresh=fresh))
    return curves


def _curve(kind: str, axis: str, points: Sequence[tuple[int, int]], *, fresh: bool) -> dict[str, Any]:
    title = f"{kind}{', all different' if fresh else ''}"
    print(f"{title}: by {axis}")
    print(f"{'nodes':>9}{'running':>10}{'median us':>11}{'p99 us':>10}{'growth':>8}{'size':>8}{'np.add us':>11}")
    rows: list[dict[str, Any]] = []
    for nodes, running in points:
        row = _point(kind, nodes, running, fresh=fresh)
        size = nodes if axis == "nodes" else running
        before = rows[-1] if rows else None
        row["size"] = size
        row["growth"] = round(row["median_us"] / before["median_us"], 2) if before else None
        row["size_growth"] = round(size / before["size"], 2) if before else None
        rows.append(row)
        print(
            f"{nodes:>9,}{running:>10,}{row['median_us']:>11}{row['p99_us']:>10}{row['growth'] or '':>8}"
            f"{row['size_growth'] or '':>8}{row['add_5000_us']:>11}",
            flush=True,
        )
    return {"kind": title, "axis": axis, "rows": rows}


def _point(kind: str, nodes: int, running: int, *, fresh: bool) -> dict[str, Any]:
    run = EngineRun(sized(kind, nodes, running, CYCLES), fresh=fresh)
    run.set_up()
    gc.collect()
    result = run.measure().result()
    return {
        "nodes": nodes,
        "running": running,
        "median_us": result["median_us"],
        "p99_us": result["p99_us"],
        "cpu_us": result["cpu_us"],
        "add_5000_us": round(add_microseconds(), 2),
    }


def sized(kind: str, nodes: int, running: int, pods: int) -> Workload:
    """The workload at a size that its file does not have."""
    return load(sizes={kind: {"nodes": nodes, "init": running, "pods": pods}})[0]
