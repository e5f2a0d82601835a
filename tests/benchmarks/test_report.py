"""The report, and the figures behind it: quantiles of histograms, ratios, goals."""

import msgspec
import pytest

from benchmarks.bars import Bar
from benchmarks.commands import ratios
from benchmarks.goals import goals_of
from benchmarks.processes import Histogram, histogram
from benchmarks.report import write_report

EXPOSITION = """# TYPE attempt histogram
attempt_bucket{result="scheduled",le="0.001"} 50
attempt_bucket{result="scheduled",le="0.002"} 90
attempt_bucket{result="scheduled",le="+Inf"} 100
attempt_sum{result="scheduled"} 1
attempt_count{result="scheduled"} 100
attempt_bucket{result="error",le="0.001"} 7
attempt_bucket{result="error",le="+Inf"} 7
attempt_sum{result="error"} 1
attempt_count{result="error"} 7
"""
MACHINE = {
    "cores": 2, "processor": "x", "memory_gib": 4.0, "python": "3.11", "numpy": "2", "load": 0.1, "add_5000_us": 1.8,
    "post_us": 112.0,
}  # fmt: skip


def run(scheduler, **figures):
    nothing = dict.fromkeys(("attempt_p50_ms", "attempt_p99_ms", "latency_p50_ms", "latency_p99_ms"))
    first = {"first_bind_seconds": 2.0, "peak_mib": 100.0, "events": 10, "bound": 10}
    return {"scheduler": scheduler, **nothing, **first, **figures}


RUNS = [
    run("podium", pods_per_second=400.0, cpu_ms_per_pod=0.4),
    run("kube-scheduler", pods_per_second=300.0, cpu_ms_per_pod=3.0),
    run("podium", pods_per_second=500.0, cpu_ms_per_pod=0.5),
    run("kube-scheduler", pods_per_second=300.0, cpu_ms_per_pod=3.0),
]


@pytest.mark.parametrize(
    ("quantile", "seconds"),
    [
        pytest.param(0.25, 0.0005, id="half way through the first bucket"),
        pytest.param(0.7, 0.0015, id="half way through the second"),
        pytest.param(0.99, 0.002, id="above all bounds: the last of them"),
    ],
)
def test_a_quantile_is_linear_within_its_bucket(quantile, seconds):
    found = histogram(EXPOSITION, ("renamed", "attempt"), {"result": "scheduled"})
    assert found.quantile(quantile) == pytest.approx(seconds)


def test_a_histogram_since_an_earlier_one_holds_what_was_observed_between():
    before, after = Histogram(((0.1, 3.0), (float("inf"), 4.0))), Histogram(((0.1, 5.0), (float("inf"), 10.0)))
    assert after.since(before) == Histogram(((0.1, 2.0), (float("inf"), 6.0)))


def test_nothing_observed_has_no_quantile():
    assert histogram(EXPOSITION, ("other",), {}).quantile(0.5) is None


def test_ratios_are_of_the_means_over_the_rounds():
    found = ratios(RUNS)
    assert (found["pods_per_second"], found["cpu_ms_per_pod"]) == (1.5, 0.15)
    assert "latency_p50_ms" not in found


def test_without_a_peer_there_are_no_ratios():
    assert ratios(RUNS[:1]) == {}


@pytest.mark.parametrize(
    ("workload", "cpu", "throughput"),
    [
        pytest.param("SchedulingBasic/x", 0.25, 1.5, id="plain pods"),
        pytest.param("TopologySpreading/x", 0.15, 3.0, id="spread"),
        pytest.param("SchedulingPodAntiAffinity/x", 0.15, 3.0, id="affinity"),
        pytest.param("SchedulingRequiredPodAffinityWithNSSelector/x", 0.15, 3.0, id="namespace selectors"),
        pytest.param("PreemptionBasic/x", 0.3, None, id="preemption"),
        pytest.param("Unschedulable/x", 0.3, None, id="unschedulable pods"),
    ],
)
def test_each_kind_of_workload_has_its_goals(workload, cpu, throughput):
    goals = goals_of(workload)
    assert (goals["cpu_ms_per_pod"], goals.get("pods_per_second")) == (cpu, throughput)


@pytest.mark.parametrize(
    ("bar", "green"),
    [
        pytest.param(Bar("a", 0.2, 0.25), True, id="less, where less is good"),
        pytest.param(Bar("a", 0.3, 0.25), False, id="more, where less is good"),
        pytest.param(Bar("a", 1.6, 1.5, more=True), True, id="more, where more is good"),
    ],
)
def test_a_bar_is_green_if_it_meets_its_goal(bar, green):
    assert (bar.colour == "#2a9d6f") is green


def test_the_report_shows_each_ratio_with_its_goal_and_names_what_was_missed(tmp_path):
    result = {
        "workload": "SchedulingBasic/5000Nodes_10000Pods", "server": "kube-apiserver 1.20", "nodes": 5000,
        "pods": 10_000, "runs": RUNS, "ratios": {"pods_per_second": 1.5, "cpu_ms_per_pod": 0.3},
    }  # fmt: skip
    document = {"kind": "compare", "command": "python -m benchmarks compare", "machine": MACHINE, "results": [result]}
    (tmp_path / "compare.json").write_bytes(msgspec.json.encode(document))
    write_report([tmp_path / "compare.json"], tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| 1.5 (≥ 1.5: met) | 0.3 (≤ 0.25: **missed**) |" in page
    assert (
        "| CPU of podium per bound pod, real API server, over TLS | ≤ 0.5 ms | 0.45 ms | met | 0.225 ms | met |" in page
    )
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        "compare-cpu-ms-per-pod.svg",
        "compare-pods-per-second.svg",
    }


@pytest.mark.parametrize(
    ("fresh", "median", "row"),
    [
        pytest.param(
            True, 300.0, "nothing kept, median | ≤ 200 us | 300 us | **missed** | 150 us | met |", id="arrays"
        ),
        pytest.param(False, 90.0, "shape, median | ≤ 40 us | 90 us | **missed** | 45 us | **missed** |", id="Python"),
    ],
)
def test_a_budget_is_shown_at_the_speed_of_the_machine_it_was_set_on(tmp_path, fresh, median, row):
    """Adding took twice as long as there, a POST too."""
    result = {"name": "SchedulingBasic/5000Nodes_10000Pods", "fresh": fresh, "median_us": median, "add_5000_us": 1.8}
    others = dict.fromkeys(("p99_us", "cpu_us", "pods_per_second"), 1.0)
    document = {"kind": "engine", "command": "x", "machine": MACHINE, "results": [result | others]}
    (tmp_path / "engine.json").write_bytes(msgspec.json.encode(document))
    write_report([tmp_path / "engine.json"], tmp_path)
    assert row in (tmp_path / "README.md").read_text()
