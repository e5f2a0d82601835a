"""PodTopologySpread, vectorised and one node at a time, says what its definition says, in dry runs too."""

import msgspec
import pytest

from kube.api.core import Pod
from plugins.pod_topology_spread import PodTopologySpread
from scheduler.framework.status import Status
from tests.plugins.harness import Bench, as_ints
from tests.plugins.pod_topology_spread.definition import Definition
from tests.plugins.random_clusters import Maker

PODS_A_CLUSTER = 6


def spreading(maker: Maker) -> Pod:
    """A pod with at least one constraint."""
    pod = maker.pod()
    if pod.spec.topology_spread_constraints:
        return pod
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, topology_spread_constraints=(maker.constraint(),))
    )


@pytest.mark.parametrize("seed", range(200))
def test_filter_and_scores_equal_the_definition_on_random_clusters(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    bench = Bench(PodTopologySpread, nodes=cluster.nodes, pods=cluster.pods)
    for _ in range(PODS_A_CLUSTER):
        pod = spreading(maker)
        bench.snapshot.refresh()
        rules = Definition(pod, list(bench.snapshot.node_infos()))

        assert {name: s.message for name, s in bench.filter(pod).items()} == {
            node.name: rules.reason(node) for node in rules.nodes
        }
        feasible = maker.rng.sample(rules.nodes, maker.rng.randint(1, len(rules.nodes)))
        assert bench.score(pod, feasible=[node.name for node in feasible]) == rules.scores(feasible)
        assert scores_of_all(bench, pod) == rules.scores(rules.nodes)

        changed = maker.rng.choice(rules.nodes).name
        bench.cache.add_pod(maker.pod(node_name=changed))
        bench.cache.update_node(maker.node(changed))


def scores_of_all(bench: Bench, pod: Pod) -> dict[str, int] | None:
    """As where every node is feasible: the view is that of all rows."""
    state, nodes = bench.state(pod), bench.snapshot.nodes
    if bench.plugin.pre_score(state, pod, nodes) is not None:
        return None
    scores = bench.plugin.normalize(state, pod, bench.plugin.score(state, pod, nodes), nodes)
    return dict(zip((info.name for info in bench.snapshot.node_infos()), as_ints(scores), strict=True))


@pytest.mark.parametrize("seed", range(200))
def test_a_dry_run_equals_the_definition_on_the_changed_node(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    bench = Bench(PodTopologySpread, nodes=cluster.nodes, pods=cluster.pods)
    for _ in range(PODS_A_CLUSTER):
        pod = spreading(maker)
        if any(has_empty_selector(c) for c in pod.spec.topology_spread_constraints):
            continue  # such a constraint counts changed pods, though it counts no others: tested by example
        state = bench.state(pod)
        if isinstance(bench.pre_filter(pod, state), Status):
            continue
        nodes = list(bench.snapshot.node_infos())
        clone, trial = maker.rng.choice(nodes).clone(), state.clone()
        leaving = [victim for victim in clone.pods.values() if not victim.terminating]
        for victim in maker.rng.sample(leaving, len(leaving) // 2):
            clone.remove_pod(victim)
            bench.plugin.remove_pod(trial, pod, victim, clone)
        for _ in range(maker.rng.randrange(3)):
            added = bench.snapshot.shapes.pod_info(maker.pod())
            clone.add_pod(added)
            bench.plugin.add_pod(trial, pod, added, clone)
        rules = Definition(pod, [clone if node.name == clone.name else node for node in nodes])

        status = bench.plugin.filter_node(trial, pod, clone)

        assert (status.message if status else "") == rules.reason(clone)
        untouched = bench.plugin.filter_node(state, pod, bench.snapshot.info(clone.name))
        assert (untouched.message if untouched else "") == bench.filter(pod)[clone.name].message


def has_empty_selector(constraint: object) -> bool:
    selector = constraint.label_selector  # type: ignore[attr-defined]
    return selector is not None and not selector.match_labels and not selector.match_expressions
