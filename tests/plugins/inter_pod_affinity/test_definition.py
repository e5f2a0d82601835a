"""InterPodAffinity, vectorised and one node at a time, says what its definition says, in dry runs too."""

import pytest

from config.types import InterPodAffinityArgs
from plugins.inter_pod_affinity import InterPodAffinity
from scheduler.framework.status import Status
from scheduler.snapshot.node_info import NodeInfo
from tests.plugins.harness import Bench
from tests.plugins.inter_pod_affinity.definition import Definition
from tests.plugins.random_clusters import Maker, RandomCluster

PODS_A_CLUSTER = 6


def bench_on(cluster: RandomCluster, args: InterPodAffinityArgs | None = None) -> Bench:
    return Bench(InterPodAffinity, nodes=cluster.nodes, pods=cluster.pods, objects=cluster.namespaces, args=args)


def definition(bench: Bench, cluster: RandomCluster, pod: object, nodes: list[NodeInfo] | None = None) -> Definition:
    bench.snapshot.refresh()
    return Definition(
        pod=bench.snapshot.shapes.pod_info(pod),  # type: ignore[arg-type]
        nodes=list(bench.snapshot.node_infos()) if nodes is None else nodes,
        namespaces={n.metadata.name: n.metadata.labels for n in cluster.namespaces},
    )


@pytest.mark.parametrize("seed", range(150))
def test_filter_and_scores_equal_the_definition_on_random_clusters(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    args = InterPodAffinityArgs(
        hard_pod_affinity_weight=maker.rng.choice([0, 1, 5]), ignore_preferred_terms_of_existing_pods=maker.chance(0.3)
    )
    bench = bench_on(cluster, args)
    for _ in range(PODS_A_CLUSTER):
        pod = maker.pod()
        rules = definition(bench, cluster, pod)

        assert {name: s.message for name, s in bench.filter(pod).items()} == {
            n.name: rules.reason(n) for n in rules.nodes
        }

        feasible = maker.rng.sample(rules.nodes, maker.rng.randint(1, len(rules.nodes)))
        expected = rules.scores(
            feasible, args.hard_pod_affinity_weight, ignore=args.ignore_preferred_terms_of_existing_pods
        )
        assert bench.score(pod, feasible=[node.name for node in feasible]) == expected

        bench.cache.add_pod(maker.pod(node_name=maker.rng.choice(rules.nodes).name))


@pytest.mark.parametrize("seed", range(150))
def test_a_dry_run_equals_the_definition_on_the_changed_node(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    bench = bench_on(cluster)
    for _ in range(PODS_A_CLUSTER):
        pod = maker.pod()
        state = bench.state(pod)
        answer = bench.pre_filter(pod, state)
        if isinstance(answer, Status):
            continue  # skipped, then dry runs do not ask either
        nodes = list(bench.snapshot.node_infos())
        clone, trial = maker.rng.choice(nodes).clone(), state.clone()
        for victim in maker.rng.sample(list(clone.pods.values()), len(clone.pods) // 2):
            clone.remove_pod(victim)
            bench.plugin.remove_pod(trial, pod, victim, clone)
        for _ in range(maker.rng.randrange(3)):
            added = bench.snapshot.shapes.pod_info(maker.pod())
            clone.add_pod(added)
            bench.plugin.add_pod(trial, pod, added, clone)
        changed = [clone if node.name == clone.name else node for node in nodes]

        status = bench.plugin.filter_node(trial, pod, clone)

        assert (status.message if status else "") == definition(bench, cluster, pod, changed).reason(clone)
        untouched = bench.plugin.filter_node(state, pod, bench.snapshot.info(clone.name))
        assert (untouched.message if untouched else "") == bench.filter(pod)[clone.name].message
