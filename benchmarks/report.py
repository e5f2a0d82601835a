"""The report: one page of tables and its plots, from the files of JSON that the other commands wrote.

Writes `README.md` and `*.svg` into a folder; measures nothing. A figure that was not measured is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.bars import Bar
from benchmarks.bars import draw as draw_bars
from benchmarks.calibration import REFERENCE_ADD, REFERENCE_POST
from benchmarks.commands import RATIOS, mean
from benchmarks.goals import BUDGETS, NODES_GROWTH, STALL, Budget, goals_of
from podium.svg import BLUE, GREEN, ORANGE, PURPLE, Panel, Series
from podium.svg import draw as draw_lines

Json = dict[str, Any]
COLOURS = (BLUE, GREEN, ORANGE, PURPLE, "#b03a6f", "#6b7a8f")
#: measured pods of a workload that is held against the goals
GOALS_SINCE = 1_000
TITLES = {
    "pods_per_second": "pods/s",
    "cpu_ms_per_pod": "CPU ms/pod",
    "attempt_p50_ms": "attempt p50 ms",
    "attempt_p99_ms": "attempt p99 ms",
    "latency_p50_ms": "latency p50 ms",
    "latency_p99_ms": "latency p99 ms",
    "peak_mib": "peak MiB",
    "first_bind_seconds": "first bind s",
}
INTRODUCTION = """# Benchmarks

Written by `make bench-report` from the files of JSON beside this page; nothing here is typed by hand. Times depend on
the machine and on what else it does: each file names both, ratios come from the same run on the same API server, and
`np.add` is the best time of adding two vectors of 5,000 numbers at that moment. How podium reaches its figures is told
in [performance.md](../performance.md).
"""
BUDGETS_TEXT = f"""The budgets were set on a machine on which np.add took {REFERENCE_ADD:g} µs,
and a POST of a general HTTP client {REFERENCE_POST:g} µs of CPU. *Scaled* is the figure at that speed: by np.add where
a cycle works on arrays of all nodes, by the POST where it is Python code that runs.
"""


def write_report(files: Sequence[Path], into: Path) -> None:
    """Read the files and write page and plots."""
    documents: list[Json] = [{"file": path.stem, **msgspec.json.decode(path.read_bytes())} for path in files]
    into.mkdir(parents=True, exist_ok=True)
    parts = [INTRODUCTION, *_budgets(documents)]
    for document in documents:
        if document["kind"] == "compare":
            parts += _comparison(document, into)
    for kind, render in (("engine", _engine), ("curves", _curves), ("stall", _stall), ("counts", _counts)):
        for document in documents:
            if document["kind"] == kind:
                parts += render(document, into)
    (into / "README.md").write_text("\n".join(parts).rstrip() + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown; numbers to the right."""
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(['---', *['---:'] * (len(head) - 1)])}|"]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _source(document: Json) -> str:
    machine = document["machine"]
    return (
        f"`{document['command']}` on {machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB, "
        f"Python {machine['python']}, numpy {machine['numpy']}, load {machine['load']} at the end, "
        f"np.add {machine['add_5000_us']} µs"
        + (f", POST {machine['post_us']} µs of CPU.\n" if "post_us" in machine else ".\n")
    )


# --- budgets -----------------------------------------------------------------------------------------------------


def _budgets(documents: Sequence[Json]) -> list[str]:
    rows = [*_figures(documents), *_stalls(documents), *_growth(documents)]
    if not rows:
        return []
    return ["## Budgets\n", BUDGETS_TEXT, table(("what", "budget", "measured", "", "scaled", ""), rows)]


def _figures(documents: Sequence[Json]) -> Iterator[Sequence[object]]:
    for budget in BUDGETS:
        for document in documents:
            for result in document["results"] if document["kind"] == budget.kind else ():
                value = _figure(result, budget)
                if value is not None:
                    bound = f"{'≥' if budget.at_least else '≤'} {budget.bound:,g} {budget.unit}"
                    verdict = _verdict(met=budget.met(value))
                    scaled = _scaled(budget, value, result, document["machine"])
                    yield budget.what, bound, f"{_cell(value)} {budget.unit}", verdict, *scaled


def _scaled(budget: Budget, value: float, result: Json, machine: Json) -> tuple[str | None, str | None]:
    """The figure at the speed of the machine that the budgets were set on."""
    if budget.speed == "add":
        times_slower = result["add_5000_us"] / REFERENCE_ADD
    elif budget.speed == "post" and "post_us" in machine:
        times_slower = machine["post_us"] / REFERENCE_POST
    else:
        return None, None
    scaled = value * times_slower if budget.at_least else value / times_slower
    return f"{_cell(scaled)} {budget.unit}", _verdict(met=budget.met(scaled))


def _figure(result: Json, budget: Budget) -> float | None:
    if budget.kind == "engine":
        meant = (result["name"], result["fresh"]) == (budget.workload, budget.fresh)
        return float(result[budget.figure]) if meant else None
    meant = result["workload"] == budget.workload and budget.server in {"", result["server"]}
    return mean(result["runs"], "podium", budget.figure) if meant else None


def _stalls(documents: Sequence[Json]) -> Iterator[Sequence[object]]:
    for document in documents:
        for phase in document["results"]["phases"] if document["kind"] == "stall" else ():
            longest = phase["longest_stall_ms"]
            verdict = _verdict(met=longest <= STALL)
            yield f"loop stall: {phase['phase']}", f"≤ {STALL:g} ms", f"{longest:g} ms", verdict, None, None


def _growth(documents: Sequence[Json]) -> Iterator[Sequence[object]]:
    for document in documents:
        for curve in document["results"] if document["kind"] == "curves" else ():
            costs = {row["nodes"]: row["median_us"] for row in curve["rows"]}
            if curve["axis"] == "nodes" and costs.keys() >= {5_000, 15_000}:
                ratio = costs[15_000] / costs[5_000]
                what = f"15,000 nodes instead of 5,000: {curve['kind']}"
                yield what, f"≤ {NODES_GROWTH:g} ×", f"{ratio:.2f} ×", _verdict(met=ratio <= NODES_GROWTH), None, None


def _verdict(*, met: bool) -> str:
    return "met" if met else "**missed**"


# --- comparison --------------------------------------------------------------------------------------------------


def _comparison(document: Json, into: Path) -> list[str]:
    results = document["results"]
    names = list(dict.fromkeys(run["scheduler"] for result in results for run in result["runs"]))
    server = results[0]["server"]
    title = f"{' and '.join(names)} in turn on {server}"
    parts = [f"## {title}\n", _source(document)]
    if len(names) == 2:
        parts += _ratios(document, names, server, into)
    return [
        *parts,
        "Means over the rounds:\n",
        table(("workload", "scheduler", *TITLES.values(), "events/pod"), _means(results)),
    ]


def _means(results: Sequence[Json]) -> Iterator[Sequence[object]]:
    for result in results:
        for name in dict.fromkeys(run["scheduler"] for run in result["runs"]):
            events, bound = mean(result["runs"], name, "events"), mean(result["runs"], name, "bound")
            figures = [mean(result["runs"], name, figure) for figure in TITLES]
            yield result["workload"], name, *figures, events / bound if events is not None and bound else None


def _ratios(document: Json, names: Sequence[str], server: str, into: Path) -> list[str]:
    results = document["results"]
    parts = [f"{names[0]} over {names[1]}, with the goal where there is one:\n"]
    parts.append(table(("workload", *TITLES.values()), (_ratio_row(result) for result in results)))
    for figure in ("cpu_ms_per_pod", "pods_per_second"):
        bars = [
            Bar(r["workload"], r["ratios"][figure], _goals(r).get(figure), more=RATIOS[figure])
            for r in results
            if figure in r["ratios"]
        ]
        path = into / f"{document['file']}-{figure.replace('_', '-')}.svg"
        path.write_text(draw_bars(f"{TITLES[figure]}: {names[0]} over {names[1]}", f"on {server}; red: the goal", bars))
        parts.append(f"![{TITLES[figure]}]({path.name})\n")
    return parts


def _goals(result: Json) -> dict[str, float]:
    """A tiny workload costs what starting costs; goals are for real ones."""
    return goals_of(result["workload"]) if result["pods"] >= GOALS_SINCE else {}


def _ratio_row(result: Json) -> Sequence[object]:
    goals = _goals(result)
    row: list[object] = [result["workload"]]
    for figure in TITLES:
        ratio, goal = result["ratios"].get(figure), goals.get(figure)
        if ratio is None or goal is None:
            row.append(ratio)
        else:
            more = RATIOS[figure]
            met = ratio >= goal if more else ratio <= goal
            row.append(f"{_cell(float(ratio))} ({'≥' if more else '≤'} {goal:g}: {_verdict(met=met)})")
    return row


# --- the others --------------------------------------------------------------------------------------------------


def _engine(document: Json, into: Path) -> list[str]:
    head = ("workload", "shapes", "median µs", "p99 µs", "CPU µs", "pods/s", "np.add µs")
    rows = (
        (
            r["name"],
            "all different" if r["fresh"] else "one",
            *(r[f] for f in ("median_us", "p99_us", "cpu_us", "pods_per_second", "add_5000_us")),
        )
        for r in document["results"]
    )
    rounds = max(len(r.get("medians_us", ())) for r in document["results"])
    best = [f"The best of {rounds} rounds: what else a machine does can only add to a time.\n"] if rounds > 1 else []
    return ["## The engine alone\n", _source(document), *best, table(head, rows)]


def _curves(document: Json, into: Path) -> list[str]:
    parts = ["## Cost curves\n", _source(document), "Growth is over the row before.\n"]
    for axis in ("nodes", "running pods"):
        curves = [curve for curve in document["results"] if curve["axis"] == axis]
        if curves:
            sizes = [row["size"] for row in curves[0]["rows"]]
            lines = [
                Series(curve["kind"], COLOURS[i % len(COLOURS)], [row["median_us"] for row in curve["rows"]])
                for i, curve in enumerate(curves)
            ]
            path = into / f"cost-by-{axis.replace(' ', '-')}.svg"
            panel = Panel("median of a scheduling cycle, µs of CPU", lines, height=320)
            path.write_text(draw_lines(f"Cost of a cycle by {axis}", _source_line(document), sizes, [panel], axis))
            parts.append(f"![by {axis}]({path.name})\n")
        for curve in curves:
            parts.append(f"{curve['kind']} by {axis}:\n")
            head = ("nodes", "running pods", "median µs", "p99 µs", "growth", "growth of the size", "np.add µs")
            fields = ("nodes", "running", "median_us", "p99_us", "growth", "size_growth", "add_5000_us")
            parts.append(table(head, ([row[field] for field in fields] for row in curve["rows"])))
    return parts


def _source_line(document: Json) -> str:
    return f"np.add on 5,000 numbers: {document['machine']['add_5000_us']} µs"


def _stall(document: Json, into: Path) -> list[str]:
    results = document["results"]
    size = f"{results['nodes']:,} nodes, {results['running']:,} running pods; peak {results['peak_mib']} MiB."
    fields = ("phase", "seconds", "cpu_seconds", "longest_stall_ms", "longest_stall_cpu_ms")
    rows = ([phase[field] for field in fields] for phase in results["phases"])
    head = ("phase", "seconds", "CPU seconds", "longest stall ms", "of it CPU ms")
    return ["## Loop stall\n", _source(document), size + "\n", table(head, rows)]


def _counts(document: Json, into: Path) -> list[str]:
    counts: dict[str, Json] = document["results"]
    fields = list(dict.fromkeys(key for figures in counts.values() for key in figures))
    rows = ([name, *(figures.get(field) for field in fields)] for name, figures in counts.items())
    return ["## Counts\n", _source(document), table(("workload", *(f.replace("_", " ") for f in fields)), rows)]
