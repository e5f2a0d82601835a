"""What is to be reached: podium over the real kube-scheduler, and podium's own budgets. Read by the report."""

from __future__ import annotations

from dataclasses import dataclass

#: podium over peer, by group of workloads: CPU at the most, pods a second at the least
_PLAIN = {"cpu_ms_per_pod": 0.25, "pods_per_second": 1.5}
_RELATED = {"cpu_ms_per_pod": 0.15, "pods_per_second": 3.0}
_REFUSED = {"cpu_ms_per_pod": 0.3}
#: for clusters of the size that the goal names
_MEMORY = {"peak_mib": 0.8}
_LARGE = "/5000Nodes"
_REFUSED_NAMES = ("Unschedulable", "PreemptionAsync", "PreemptionBasic", "PreemptionPVs")
_RELATED_WORDS = ("Affinity", "Spread", "Selector", "MixedSchedulingBasePod", "NodeInclusionPolicy")


def goals_of(title: str) -> dict[str, float]:
    """figure -> goal for the ratio, for one workload."""
    return _work_goals(title.partition("/")[0]) | (_MEMORY if _LARGE in title else {})


def _work_goals(name: str) -> dict[str, float]:
    if name in _REFUSED_NAMES:
        return _REFUSED
    if name != "SchedulingNodeAffinity" and any(word in name for word in _RELATED_WORDS):
        return _RELATED
    return _PLAIN if name.startswith("Scheduling") else {}


@dataclass(frozen=True, slots=True)
class Budget:
    """One line of the budgets: which figure of which result, and its bound."""

    what: str
    kind: str
    workload: str
    figure: str
    bound: float
    unit: str
    fresh: bool = False
    at_least: bool = False
    #: of comparisons: the server they ran on, "" for any
    server: str = ""
    #: which of the machine's speeds the figure goes with: "add", "post", or neither
    speed: str = ""

    def met(self, value: float) -> bool:
        """Whether the figure keeps to it."""
        return value >= self.bound if self.at_least else value <= self.bound


# ruff: noqa: E501 - a table reads best with a line for each row
BUDGETS = (
    Budget("cycle, plain pod, nothing kept, median", "engine", "SchedulingBasic/5000Nodes_10000Pods", "median_us", 200, "us", fresh=True, speed="add"),
    Budget("cycle, plain pod, nothing kept, p99", "engine", "SchedulingBasic/5000Nodes_10000Pods", "p99_us", 500, "us", fresh=True, speed="add"),
    Budget("engine alone, plain pod, nothing kept", "engine", "SchedulingBasic/5000Nodes_10000Pods", "pods_per_second", 5_000, "pods/s", fresh=True, at_least=True, speed="add"),
    Budget("cycle, repeat of a known shape, median", "engine", "SchedulingBasic/5000Nodes_10000Pods", "median_us", 40, "us", speed="add"),
    Budget("engine alone, repeats of one shape", "engine", "SchedulingBasic/5000Nodes_10000Pods", "pods_per_second", 25_000, "pods/s", at_least=True, speed="add"),
    Budget("cycle with required affinity, nothing kept, median", "engine", "SchedulingPodAffinity/5000Nodes_5000Pods", "median_us", 250, "us", fresh=True, speed="add"),
    Budget("cycle with preferred affinity, nothing kept, median", "engine", "SchedulingPreferredPodAffinity/5000Nodes_5000Pods", "median_us", 250, "us", fresh=True, speed="add"),
    Budget("cycle with hard spread, nothing kept, median", "engine", "TopologySpreading/5000Nodes_5000Pods", "median_us", 250, "us", fresh=True, speed="add"),
    Budget("cycle with required affinity, 50,000 running pods, median", "engine", "SchedulingPodAffinity/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with anti-affinity by hostname, 50,000 running pods, median", "engine", "SchedulingPodAntiAffinity/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with preferred affinity, 50,000 running pods, median", "engine", "SchedulingPreferredPodAffinity/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with affinity with namespace selector, 50,000 running pods, median", "engine", "SchedulingRequiredPodAffinityWithNSSelector/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with preferred anti-affinity with namespace selector, 50,000 running pods, median", "engine", "SchedulingPreferredAntiAffinityWithNSSelector/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with hard zone spread, 50,000 running pods, median", "engine", "TopologySpreading/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with soft zone spread, 50,000 running pods, median", "engine", "PreferredTopologySpreading/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("cycle with default spread with Services, 50,000 running pods, median", "engine", "DefaultTopologySpreading/5000Nodes_50000Running", "median_us", 250, "us", speed="add"),
    Budget("unschedulable pod with preemption search in vain, 20,000 running pods, median", "engine", "PreemptionInVain/5000Nodes_20000Init_500Pods", "median_us", 1_500, "us", speed="add"),
    Budget("preemption that succeeds, 20,000 running pods, both cycles, median", "engine", "PreemptionBasic/5000Nodes_20000Init_500Pods", "median_us", 3_000, "us", speed="add"),
    Budget("CPU of podium per bound pod, embedded API server", "compare", "SchedulingBasic/5000Nodes_10000Pods", "cpu_ms_per_pod", 0.5, "ms", server="embedded", speed="post"),
    Budget("CPU of podium per bound pod, real API server, over TLS", "compare", "SchedulingBasic/5000Nodes_10000Pods", "cpu_ms_per_pod", 0.5, "ms", server="kube-apiserver 1.20", speed="post"),
    Budget("memory, 5,000 nodes and 11,000 pods, peak", "compare", "SchedulingBasic/5000Nodes_10000Pods", "peak_mib", 200, "MiB", server="kube-apiserver 1.20"),
    Budget("memory, 5,000 nodes and 30,000 pods, peak", "compare", "Restart/5000Nodes_29000Running", "peak_mib", 300, "MiB"),
    Budget("start to first bind, 5,000 nodes and 30,000 pods", "compare", "Restart/5000Nodes_29000Running", "first_bind_seconds", 10, "s"),
    Budget("start to first bind, 5,000 nodes and 100,000 pods", "compare", "Restart/5000Nodes_100000Running", "first_bind_seconds", 10, "s"),
)  # fmt: skip
#: milliseconds in which the loop serves no I/O
STALL = 50.0
#: cost at 15,000 nodes over that at 5,000
NODES_GROWTH = 2.5
