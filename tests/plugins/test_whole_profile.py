"""The default profile on thousands of random clusters: the engine says of all nodes what is true of each one.

The engine asks vectorised plugins about all nodes at once, keeps answers per shape of pod and patches them. The truth
here is the one-node form of every filter, in order, with the pods that are nominated to the node and without; and for
scores, what a plugin says of a view that is one node. Clusters change between questions about the same pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from config.defaults import default_configuration
from config.feature_gates import FeatureGates
from kube.api.core import Pod
from plugins.registry import Registry
from scheduler.framework import shape_fill
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.feasibility import Feasibility
from scheduler.framework.plugin import ScorePlugin
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.candidates import NOT_HELPFUL
from scheduler.framework.preemption.choice import badness
from scheduler.framework.preemption.dry_run import Candidate, select_victims
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Code, Status
from scheduler.snapshot.pod_info import PodInfo
from simulator.offline import Simulation
from tests.whole_clusters import ClusterMaker

#: each is four clusters: as it is made, and after three changes
SEEDS = range(600)
CHANGES = 3
PENDING = 4
GATES = FeatureGates({"StorageCapacityScoring": True})


def simulation(maker: ClusterMaker) -> Simulation:
    return Simulation(maker.objects(), default_configuration(GATES), Registry(), GATES.as_dict())


def judged(seed: int) -> Iterator[tuple[Framework, Feasibility]]:
    """What the engine found for the same pods on a cluster that changes."""
    maker = ClusterMaker(seed)
    simulated = simulation(maker)
    framework = next(iter(simulated.frameworks.values()))
    pods = [maker.pending() for _ in range(PENDING)]
    for change in range(CHANGES + 1):
        if change:
            maker.change(simulated.cache)
        framework.snapshot.refresh()
        for pod in pods:
            yield framework, find(framework, pod)


def find(framework: Framework, pod: Pod) -> Feasibility:
    return framework.find_feasible(CycleState(framework.snapshot.shapes.pod_info(pod)))


def one_by_one(framework: Framework, found: Feasibility) -> dict[str, Status | None]:
    """Node name -> who refuses it, asked node by node; nodes outside PreFilter's set are not asked."""
    state = found.state
    return {
        info.name: framework.filter_with_nominated_pods(state, state.pod_info, info)
        for info in framework.snapshot.node_infos()
        if found.candidates is None or found.candidates[info.row]
    }


def scores_one_by_one(framework: Framework, found: Feasibility) -> dict[str, list[int]]:
    """Plugin -> weighted scores of the feasible nodes, each looked at alone before they are normalised."""
    state, rows = found.state, found.rows()
    pod, view = state.pod_info.pod, framework.snapshot.select(rows)
    scores = {}
    for plugin, weight in framework.scores:
        if plugin.name in state.skip_score:
            continue
        raw = np.array([float(score_of(plugin, framework, state, int(row))) for row in rows])
        final = plugin.normalize(state, pod, raw, view)
        scores[plugin.name] = [int(weight * score) for score in final]
    return scores


def score_of(plugin: ScorePlugin, framework: Framework, state: CycleState, row: int) -> float:
    view = framework.snapshot.select(np.array([row]))
    score = float(shape_fill.as_vector(plugin.score(state, state.pod_info.pod, view), view)[0])
    if type(plugin).score_node is not ScorePlugin.score_node:
        assert score == plugin.score_node(state, state.pod_info.pod, framework.snapshot.nodes.info(row))
    return score


def all_at_once(framework: Framework, found: Feasibility) -> dict[str, list[int]]:
    scores = framework.prioritize(found, found.rows())
    assert not isinstance(scores, Status)
    parts = scores.by_plugin()
    assert np.array_equal(scores.total, sum(parts.values()))
    return {name: [int(score) for score in part] for name, part in parts.items()}


@pytest.mark.parametrize("first", SEEDS[::100])
def test_the_engine_says_what_the_one_node_forms_say(first: int) -> None:
    asked: Counter[str] = Counter()
    for seed in range(first, first + 100):
        for framework, found in judged(seed):
            assert found.error is None
            if found.rejection is not None:
                asked[f"PreFilter of {found.rejection.plugin}"] += 1
                continue
            expected = one_by_one(framework, found)
            refused = framework.diagnose(found).node_statuses()
            assert refused == {name: status for name, status in expected.items() if status is not None}, f"seed {seed}"
            feasible = {framework.snapshot.nodes.info(int(row)).name for row in found.rows()}
            assert feasible == {name for name, status in expected.items() if status is None}, f"seed {seed}"
            asked.update(status.plugin for status in refused.values())
            if len(feasible) > 1:
                scores = all_at_once(framework, found)
                assert scores == scores_one_by_one(framework, found), f"seed {seed}"
                asked.update(f"score of {name}" for name in scores)
    # They are worth it: everybody had something to say.
    assert {*FILTERS, *SCORES} - asked.keys() == set()


@pytest.mark.parametrize("first", SEEDS[::100])
def test_preemption_does_what_dry_runs_of_every_filter_on_every_node_say(first: int) -> None:
    helped: Counter[str] = Counter()
    for seed in range(first, first + 100):
        for framework, found in judged(seed):
            if found.rejection is not None or len(found.rows()) or found.state.pod_info.pod.spec.preemption_policy:
                continue
            diagnosis = framework.diagnose(found)
            candidates, message = in_full(framework, found.state, diagnosis)
            preemption = next(plugin for plugin in framework.post_filter if plugin.name == "DefaultPreemption")
            result, status = preemption.post_filter(found.state, found.state.pod_info.pod, diagnosis)
            if not candidates:
                assert status.message == f"preemption: {message}", f"seed {seed}"
                continue
            assert result is not None
            chosen = candidates[result.nominated_node_name]
            assert badness(chosen) == min(map(badness, candidates.values())), f"seed {seed}"
            assert result.victims == tuple(victim for victim in chosen.victims if not victim.terminating)
            assert all(victim.priority < found.state.pod_info.priority for victim in chosen.victims)
            assert fits_without(framework, found.state, chosen, chosen.victims), f"seed {seed}: it does not help"
            for spared in chosen.victims:
                rest = [victim for victim in chosen.victims if victim is not spared]
                assert not fits_without(framework, found.state, chosen, rest), f"seed {seed}: {spared.key} could stay"
            helped[diagnosis.node_statuses()[chosen.node_name].plugin] += 1
    assert {"NodeResourcesFit", "InterPodAffinity", "NodePorts"} <= helped.keys()


def in_full(framework: Framework, state: CycleState, diagnosis: Diagnosis) -> tuple[dict[str, Candidate], str]:
    """The candidates among all nodes, and what is said where there are none."""
    budgets = Budgets(framework.handle.listers("PodDisruptionBudget").list())
    candidates: dict[str, Candidate] = {}
    reasons: Counter[str] = Counter()
    statuses = diagnosis.node_statuses()
    for info in framework.snapshot.node_infos():
        if info.name not in statuses or statuses[info.name].code is not Code.UNSCHEDULABLE:
            reasons[NOT_HELPFUL] += 1
            continue
        answer = select_victims(framework, state, info, None, budgets)
        if isinstance(answer, Candidate):
            candidates[info.name] = answer
        else:
            reasons.update(answer.reasons)
    entries = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return candidates, f"0/{framework.snapshot.count} nodes are available: {', '.join(entries)}."


def fits_without(framework: Framework, state: CycleState, chosen: Candidate, victims: Sequence[PodInfo]) -> bool:
    info = framework.snapshot.info(chosen.node_name)
    assert info is not None
    state, node = state.clone(), info.clone()
    for victim in victims:
        framework.remove_pod(state, state.pod_info, victim, node)
    return framework.filter_with_nominated_pods(state, state.pod_info, node) is None


FILTERS = (
    "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
    "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip
SCORES = tuple(
    f"score of {name}"
    for name in ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread",
                 "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality")
)  # fmt: skip
