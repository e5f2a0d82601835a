"""What `engine` and `compare` do: choose workloads, run them one after the other, print a line for each."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from benchmarks.calibration import add_microseconds
from benchmarks.comparison import Run, compare
from benchmarks.engine import EngineRun
from benchmarks.schedulers import Contender, any_command, kube_scheduler, podium
from benchmarks.servers import Site, embedded, given, real
from benchmarks.workload import Workload, load, select
from podium.wiring import COLLECT_AFTER

#: figure -> whether more is better
RATIOS = {
    "pods_per_second": True,
    "cpu_ms_per_pod": False,
    "attempt_p50_ms": False,
    "attempt_p99_ms": False,
    "latency_p50_ms": False,
    "latency_p99_ms": False,
    "peak_mib": False,
    "first_bind_seconds": False,
}


def chosen(label: str, pattern: str, without: str) -> list[Workload]:
    """The workloads of a command line."""
    return [w for w in select(load(), label, pattern) if without not in w.labels]


# --- engine ----------------------------------------------------------------------------------------------------


def run_engine(label: str, pattern: str, without: str, rounds: int) -> list[dict[str, object]]:
    """Each workload with repeats of one shape, and with shapes that are all different."""
    gc.set_threshold(*COLLECT_AFTER)
    print(f"{'scheduling cycle, microseconds':<66}{'median':>9}{'p99':>9}{'cpu':>9}{'pods/s':>9}{'np.add':>8}")
    results = []
    for workload in chosen(label, pattern, without):
        for fresh in (False, True):
            result = _best_of([_measure(workload, fresh=fresh) for _ in range(rounds)])
            results.append(result)
            print(
                f"{workload.title + (', all different' if fresh else ''):<66}{result['median_us']:>9}"
                f"{result['p99_us']:>9}{result['cpu_us']:>9}{result['pods_per_second']:>9,}{result['add_5000_us']:>8}",
                flush=True,
            )
    return results


def _measure(workload: Workload, *, fresh: bool) -> dict[str, Any]:
    run = EngineRun(workload, fresh=fresh)
    run.set_up()
    gc.freeze()  # as `podium run` does after its first sync
    result = run.measure().result()
    result["add_5000_us"] = round(add_microseconds(), 2)
    del run
    gc.unfreeze()
    gc.collect()
    return result


def _best_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """What else a machine does can only add to a time, so the round with the lowest median is the truest."""
    return min(rounds, key=lambda result: float(result["median_us"])) | {"medians_us": [r["median_us"] for r in rounds]}


# --- compare -----------------------------------------------------------------------------------------------------


def run_compare(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All chosen workloads one by one, each on an API server of its own where the server is ours to start."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    for workload in chosen(args.label, args.only, args.without):
        result = asyncio.run(_compare_one(workload, args))
        if result is not None:
            result["ratios"] = ratios(result["runs"])
            print(f"  {_told(result['ratios'])}", flush=True)
            yield result


async def _compare_one(workload: Workload, args: argparse.Namespace) -> dict[str, Any] | None:
    async with _server(args.server) as site:
        if site.version < workload.needs:
            print(f"{workload.title}: needs Kubernetes {'.'.join(map(str, workload.needs))}, left out", flush=True)
            return None
        print(f"{workload.title} on {site.name}: {workload.about}", flush=True)
        contenders = [podium(), *_peers(args.peer, site)]
        return await compare(workload, site, contenders, args.rounds, _print_run, probe=args.probe)


def _server(name: str) -> AbstractAsyncContextManager[Site]:
    if name == "embedded":
        return embedded()
    return real() if name == "real" else given(Path(name))


def _peers(text: str, site: Site) -> list[Contender]:
    if not text:
        return []
    if text != "kube-scheduler":
        return [any_command(text)]
    from tests.conformance.find import require, version_of

    binary = site.kube_scheduler or require().kube_scheduler
    if binary is None:
        raise SystemExit("no kube-scheduler found: `make control-plane` builds one")
    return [kube_scheduler(binary, version_of(binary))]


def _print_run(run: Run) -> None:
    print(
        f"  {run.scheduler:<15}{run.round}  {run.bound:>6}/{run.pods} pods {run.pods_per_second:>8} pods/s  "
        f"cpu {run.cpu_ms_per_pod:>7} ms/pod ({run.cpu_ms_per_pod_with_start} with start; server "
        f"{run.server_cpu_ms_per_pod})  attempt {run.attempt_p50_ms}/{run.attempt_p99_ms} ms  latency "
        f"{run.latency_p50_ms}/{run.latency_p99_ms} ms  peak {run.peak_mib} MiB  first bind {run.first_bind_seconds} s"
        f"  events {run.events}  np.add {run.add_5000_us} us"
        + (f"  silence {run.longest_silence_ms} ms" if run.longest_silence_ms is not None else "")
        + (f"  {run.note}" if run.note else ""),
        flush=True,
    )


def ratios(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """podium's mean over the peer's, by figure; empty without a peer."""
    names = list(dict.fromkeys(run["scheduler"] for run in runs))
    if len(names) != 2:
        return {}
    found = {}
    for figure in RATIOS:
        ours, theirs = (mean(runs, name, figure) for name in names)
        if ours is not None and theirs:
            found[figure] = round(ours / theirs, 3)
    return found


def mean(runs: Sequence[dict[str, Any]], scheduler: str, figure: str) -> float | None:
    """The mean of a figure over the rounds that have it."""
    values = [run[figure] for run in runs if run["scheduler"] == scheduler and run[figure] is not None]
    return statistics.fmean(values) if values else None


def _told(found: dict[str, float]) -> str:
    return "podium over peer: " + ", ".join(f"{name} {value:g}" for name, value in found.items()) if found else ""
