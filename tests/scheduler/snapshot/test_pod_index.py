"""PodIndex: what it counts is what one would count by looking at every pod, whatever came and went before."""

from collections import Counter
from typing import Any

import pytest

from kube.api.core import Pod, PodAffinityTerm
from scheduler.cache import SchedulerCache
from scheduler.snapshot import pod_index
from scheduler.snapshot.label_buckets import ByLabels, BySelector
from scheduler.snapshot.pod_index import PodIndex, PodSelector, TermKind, pods_in, selecting
from scheduler.snapshot.pod_info import AffinityTerm
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.topology import MAX_LOG
from tests.builders import HOSTNAME, ZONE, affinity, label, make_namespace, make_node, make_pod, pod_term, selector
from tests.plugins.random_clusters import EVICTED, NAMESPACES, Maker

APP_A = {"app": "a"}


class Cluster:
    """A cache, its snapshot and the index, with the questions that the tests ask."""

    def __init__(self, *nodes: str) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.index = self.snapshot.index(PodIndex)
        for name in nodes:
            self.cache.add_node(make_node(name, zone=f"zone-{name[0]}"))

    def run(self, pod: Pod) -> Pod:
        self.cache.add_pod(pod)
        return pod

    def counted(self, chosen: PodSelector, index: PodIndex | None = None) -> dict[str, int]:
        self.snapshot.refresh()
        amounts = (index or self.index).counted(chosen).by_row(self.snapshot.nodes)
        return self._by_name(amounts)

    def by_domain(self, chosen: PodSelector, key: str) -> dict[str | None, int]:
        self.snapshot.refresh()
        sums = self.index.counted(chosen).by_domain(self.snapshot, key)
        assert sums.total == sums.values.sum()
        return self._by_value(key, sums.values)

    def said(self, kind: TermKind, pod: Pod, index: PodIndex | None = None) -> dict[str, dict[str | None, int]]:
        """Topology key to value to weight; keys without any are left out."""
        self.snapshot.refresh()
        by_key = (index or self.index).said_about(self.snapshot.shapes.shape(pod)).amounts[kind]
        found = {key: self._by_value(key, a.by_domain(self.snapshot, key).values) for key, a in by_key.items()}
        return {key: values for key, values in found.items() if values}

    def _by_name(self, amounts: Any) -> dict[str, int]:
        return {info.name: int(amounts[info.row]) for info in self.snapshot.node_infos() if amounts[info.row]}

    def _by_value(self, key: str, sums: Any) -> dict[str | None, int]:
        return {v: int(s) for v, s in zip(self.snapshot.label(key).values.values, sums, strict=True) if s}


def term_of(term: PodAffinityTerm, namespace: str = "default") -> AffinityTerm:
    """The term as a pod of that namespace has it."""
    pod = make_pod("owner", namespace=namespace, affinity=affinity(pod_required=[term]))
    return Snapshot().shapes.shape(pod).required_affinity[0]


@pytest.fixture
def cluster() -> Cluster:
    """Pods with app=a: one in default on a1, one in green on a2, a terminating one in default on b1; app=b on a1."""
    cluster = Cluster("a1", "a2", "b1")
    cluster.index.see_namespaces([make_namespace("default"), make_namespace("green", labels={"team": "x"})])
    cluster.run(make_pod("one", labels=APP_A | {"tier": "x"}, node_name="a1"))
    cluster.run(make_pod("two", namespace="green", labels=APP_A, node_name="a2"))
    cluster.run(make_pod("three", labels=APP_A, node_name="b1", deletion_timestamp=EVICTED))
    cluster.run(make_pod("four", labels={"app": "b"}, node_name="a1"))
    return cluster


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        pytest.param(pod_term(ZONE, APP_A), {"a1": 1, "b1": 1}, id="a term without namespaces means the own namespace"),
        pytest.param(pod_term(ZONE), {}, id="a nil selector means no pod"),
        pytest.param(pod_term(ZONE, {}), {"a1": 2, "b1": 1}, id="an empty selector means all pods"),
        pytest.param(
            pod_term(ZONE, APP_A, namespaces=["green"]), {"a2": 1}, id="listed namespaces replace the own one"
        ),
        pytest.param(
            pod_term(ZONE, APP_A, namespace_selector=selector()),
            {"a1": 1, "a2": 1, "b1": 1},
            id="an empty namespaceSelector means all namespaces",
        ),
        pytest.param(
            pod_term(ZONE, APP_A, namespace_selector=selector({"team": "x"})),
            {"a2": 1},
            id="a namespaceSelector means the namespaces it selects, not the own one",
        ),
        pytest.param(
            pod_term(ZONE, APP_A, namespaces=["default"], namespace_selector=selector({"team": "x"})),
            {"a1": 1, "a2": 1, "b1": 1},
            id="listed and selected namespaces add up",
        ),
        pytest.param(
            pod_term(ZONE, selector({}, label("app", "NotIn", "a"))),
            {"a1": 1},
            id="NotIn needs no label pair to look up",
        ),
    ],
)
def test_which_pods_a_term_means(cluster: Cluster, term: PodAffinityTerm, expected: dict[str, int]) -> None:
    assert cluster.counted(selecting((term_of(term),))) == expected


def test_pods_that_match_all_of_several_terms(cluster: Cluster) -> None:
    terms = (term_of(pod_term(ZONE, APP_A)), term_of(pod_term(HOSTNAME, {"tier": "x"})))

    assert cluster.counted(selecting(terms)) == {"a1": 1}


def test_terms_that_differ_in_their_topology_key_alone_are_counted_once() -> None:
    by_zone, by_host = term_of(pod_term(ZONE, APP_A)), term_of(pod_term(HOSTNAME, APP_A))

    assert selecting((by_zone,)) is selecting((by_host,))


def test_terminating_pods_are_left_out_where_only_live_ones_count(cluster: Cluster) -> None:
    assert cluster.counted(pods_in("default", (("app", "In", ("a",)),))) == {"a1": 1}


def test_live_and_terminating_pods_of_one_template_come_and_go_independently() -> None:
    cluster = Cluster("a1", "b1")
    cluster.run(make_pod("terminating", labels=APP_A, node_name="a1", deletion_timestamp=EVICTED))
    first = cluster.run(make_pod("first", labels=APP_A, node_name="a1"))

    cluster.cache.remove_pod(first.metadata.uid)
    cluster.run(make_pod("second", labels=APP_A, node_name="b1"))

    assert cluster.counted(pods_in("default", (("app", "In", ("a",)),))) == {"b1": 1}


def test_a_namespace_whose_labels_change_comes_to_be_meant(cluster: Cluster) -> None:
    chosen = selecting((term_of(pod_term(ZONE, APP_A, namespace_selector=selector({"team": "x"}))),))
    cluster.counted(chosen)

    cluster.index.see_namespaces([make_namespace("default", labels={"team": "x"}), make_namespace("green")])

    assert cluster.counted(chosen) == {"a1": 1, "b1": 1}


def test_a_namespace_that_does_not_exist_is_selected_by_no_label_rule(cluster: Cluster) -> None:
    cluster.index.see_namespaces([])

    chosen = selecting((term_of(pod_term(ZONE, APP_A, namespace_selector=selector({}, label("t", "DoesNotExist")))),))

    assert cluster.counted(chosen) == {}


def test_sums_by_domain_follow_pods_and_labels(cluster: Cluster) -> None:
    chosen = selecting((term_of(pod_term(ZONE, APP_A, namespace_selector=selector())),))
    assert cluster.by_domain(chosen, ZONE) == {"zone-a": 2, "zone-b": 1}

    cluster.run(make_pod("five", labels=APP_A, node_name="b1"))
    assert cluster.by_domain(chosen, ZONE) == {"zone-a": 2, "zone-b": 2}

    cluster.cache.update_node(make_node("b1", zone="zone-c"))
    assert cluster.by_domain(chosen, ZONE) == {"zone-a": 2, "zone-c": 2}

    cluster.cache.update_node(make_node("b1"))
    assert cluster.by_domain(chosen, ZONE) == {"zone-a": 2}


def test_sums_by_domain_survive_more_changes_than_they_remember(cluster: Cluster) -> None:
    chosen = pods_in("default", (("app", "In", ("many",)),))
    cluster.by_domain(chosen, ZONE)

    for i in range(MAX_LOG + 5):
        cluster.run(make_pod(f"many-{i}", labels={"app": "many"}, node_name="a2"))

    assert cluster.by_domain(chosen, ZONE) == {"zone-a": MAX_LOG + 5}


def test_a_mask_leaves_rows_out_of_the_sums(cluster: Cluster) -> None:
    cluster.snapshot.refresh()
    amounts = cluster.index.counted(selecting((term_of(pod_term(ZONE, {})),)))
    included = cluster.snapshot.nodes.label_codes(HOSTNAME) != cluster.snapshot.label(HOSTNAME).values.code_of["b1"]
    amounts.by_domain(cluster.snapshot, ZONE, included)

    cluster.run(make_pod("on-b1", node_name="b1"))
    cluster.run(make_pod("on-a1", node_name="a1"))
    cluster.snapshot.refresh()

    assert amounts.by_domain(cluster.snapshot, ZONE, included).total == 3
    assert amounts.by_domain(cluster.snapshot, ZONE).total == 5


def test_a_row_that_gets_another_node_does_not_keep_the_old_ones_domain() -> None:
    cluster = Cluster("a1", "a2")
    chosen = selecting((term_of(pod_term(ZONE, {})),))
    cluster.run(make_pod("gone", node_name="a2"))
    cluster.by_domain(chosen, ZONE)

    cluster.cache.remove_node("a2")
    cluster.cache.add_node(make_node("c1", zone="zone-c"))
    cluster.run(make_pod("new", node_name="c1"))

    assert cluster.by_domain(chosen, ZONE) == {"zone-c": 1}


def test_pods_of_a_node_that_comes_back_count_again() -> None:
    cluster = Cluster("a1")
    chosen = selecting((term_of(pod_term(ZONE, {})),))
    cluster.run(make_pod("stays", node_name="a1"))

    cluster.cache.remove_node("a1")
    assert cluster.counted(chosen) == {}

    cluster.cache.add_node(make_node("a1"))
    assert cluster.counted(chosen) == {"a1": 1}


def test_what_terms_of_running_pods_say_about_a_pod() -> None:
    cluster = Cluster("a1", "b1")
    wants = affinity(
        pod_required=[pod_term(ZONE, APP_A)],
        anti_required=[pod_term(HOSTNAME, APP_A)],
        pod_preferred=[(5, pod_term(ZONE, APP_A))],
        anti_preferred=[(7, pod_term(ZONE, APP_A)), (2, pod_term(HOSTNAME, {"app": "b"}))],
    )
    cluster.run(make_pod("owner", affinity=wants, node_name="a1"))
    cluster.run(make_pod("other", affinity=wants, node_name="b1"))
    newcomer = make_pod("new", labels=APP_A)

    assert cluster.said(TermKind.REQUIRED_ANTI_AFFINITY, newcomer) == {HOSTNAME: {"a1": 1, "b1": 1}}
    assert cluster.said(TermKind.REQUIRED_AFFINITY, newcomer) == {ZONE: {"zone-a": 1, "zone-b": 1}}
    assert cluster.said(TermKind.PREFERRED, newcomer) == {ZONE: {"zone-a": -2, "zone-b": -2}}
    assert cluster.said(TermKind.PREFERRED, make_pod("b", labels={"app": "b"})) == {HOSTNAME: {"a1": -2, "b1": -2}}


def test_terms_say_something_new_when_the_pods_namespace_gets_other_labels() -> None:
    cluster = Cluster("a1")
    wants = affinity(anti_required=[pod_term(HOSTNAME, APP_A, namespace_selector=selector({"team": "x"}))])
    cluster.run(make_pod("owner", affinity=wants, node_name="a1"))
    newcomer = make_pod("new", labels=APP_A)
    assert cluster.said(TermKind.REQUIRED_ANTI_AFFINITY, newcomer) == {}

    cluster.index.see_namespaces([make_namespace("default", labels={"team": "x"})])

    assert cluster.said(TermKind.REQUIRED_ANTI_AFFINITY, newcomer) == {HOSTNAME: {"a1": 1}}


def test_counts_that_were_dropped_for_lack_of_room_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_index, "MAX_BYTES", 0)
    monkeypatch.setattr(pod_index, "MIN_KEPT", 2)
    cluster = Cluster("a1")
    wants = affinity(anti_required=[pod_term(HOSTNAME, {})])
    for name in "abcd":
        cluster.run(make_pod(name, labels={"app": name}, affinity=wants, node_name="a1"))

    for name in "abcdab":
        assert cluster.counted(pods_in("default", (("app", "In", (name,)),))) == {"a1": 1}
        newcomer = make_pod("new", labels={"app": name})
        assert cluster.said(TermKind.REQUIRED_ANTI_AFFINITY, newcomer) == {HOSTNAME: {"a1": 4}}


def questions(maker: Maker) -> tuple[list[PodSelector], list[Pod]]:
    """Selectors to count by, and pods to ask the terms about."""
    terms = [term_of(maker.term(), maker.rng.choice(NAMESPACES)) for _ in range(6)]
    selectors = [selecting((term,)) for term in terms] + [selecting(tuple(terms[:2]))]
    selectors += [pods_in("default", term.selector) for term in terms[:2]]
    return selectors, [maker.pod() for _ in range(4)]


def counted_by_hand(cluster: Cluster, chosen: PodSelector) -> dict[str, int]:
    """Look at every pod."""
    found: Counter[str] = Counter()
    for info in cluster.snapshot.node_infos():
        for pod in info.pods.values():
            if pod.terminating and chosen.live_only:
                continue
            found[info.name] += cluster.index.means(chosen, pod.shape.namespace, pod.shape.labels)
    return dict(+found)


def change_something(cluster: Cluster, maker: Maker, running: dict[str, Pod]) -> None:
    """Pods come, go and are relabelled; nodes go, come back and move; namespaces are relabelled."""
    names = list(cluster.cache.nodes)
    match maker.rng.randrange(8):
        case 0 | 1 | 2:
            pod = maker.pod(node_name=maker.rng.choice(names) if names else "n0")
            running[pod.metadata.uid] = cluster.run(pod)
        case 3 | 4 if running:
            cluster.cache.remove_pod(running.pop(maker.rng.choice(list(running))).metadata.uid)
        case 5 if running:
            old = maker.rng.choice(list(running.values()))
            new = maker.pod(node_name=old.spec.node_name, uid=old.metadata.uid)
            running[new.metadata.uid] = cluster.run(new)
        case 6:
            name = f"n{maker.rng.randrange(6)}"
            cluster.cache.remove_node(name) if maker.chance(0.3) else cluster.cache.add_node(maker.node(name))
        case 7:
            cluster.index.see_namespaces([maker.namespace(name) for name in NAMESPACES if maker.chance(0.8)])


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_the_index_equals_one_built_from_scratch(seed: int) -> None:
    maker, cluster = Maker(seed), Cluster()
    running: dict[str, Pod] = {}
    selectors, pods = questions(maker)
    cluster.index.see_namespaces([maker.namespace(name) for name in NAMESPACES])
    for _ in range(60):
        change_something(cluster, maker, running)
        if maker.chance(0.3):
            continue  # several changes between two questions
        fresh = rebuilt(cluster)
        for chosen in selectors:
            assert cluster.counted(chosen) == counted_by_hand(cluster, chosen) == cluster.counted(chosen, fresh)
            for key in (HOSTNAME, ZONE):
                cluster.by_domain(chosen, key)
        for pod in pods:
            for kind in TermKind:
                assert cluster.said(kind, pod) == cluster.said(kind, pod, fresh)


def rebuilt(cluster: Cluster) -> PodIndex:
    """An index that sees the cluster for the first time."""
    cluster.snapshot.refresh()
    fresh = PodIndex(cluster.snapshot)
    fresh.see_namespaces(cluster.index._namespaces)
    for info in cluster.snapshot.node_infos():
        for pod in info.pods.values():
            fresh.pod_added(info.row, pod)
    return fresh


@pytest.mark.parametrize("seed", range(20))
def test_adding_then_removing_pods_leaves_every_count_and_index_as_before(seed: int) -> None:
    maker, cluster = Maker(seed), Cluster("n0", "n1", "n2")
    for _ in range(10):
        cluster.run(maker.pod(node_name=f"n{maker.rng.randrange(3)}"))
    selectors, pods = questions(maker)
    before = everything(cluster, selectors, pods)

    added = [cluster.run(maker.pod(node_name=f"n{maker.rng.randrange(3)}")) for _ in range(10)]
    maker.rng.shuffle(added)
    for pod in added:
        cluster.cache.remove_pod(pod.metadata.uid)

    assert everything(cluster, selectors, pods) == before


def everything(cluster: Cluster, selectors: list[PodSelector], pods: list[Pod]) -> Any:
    """All that the index knows, as values."""
    index = cluster.index
    return (
        [cluster.counted(chosen) for chosen in selectors],
        [cluster.said(kind, pod) for pod in pods for kind in TermKind],
        {key: (c.total, c.rows, len(c.counts)) for key, c in index._classes.items()},
        {key: (t.total, t.rows, len(t.said)) for key, t in index._terms.items()},
        {key: shape.total for key, shape in index._shapes.items()},
        index.namespace_terms,
        filed(index._by_labels),
        filed(index._terms_by_selector),
    )


def filed(buckets: ByLabels[Any] | BySelector[Any]) -> dict[Any, int]:
    """How many things are under each pair."""
    return {pair: len(things) for pair, things in buckets._by_pair.items()}


def test_an_empty_cluster_leaves_nothing_behind(cluster: Cluster) -> None:
    cluster.counted(pods_in("default", (("app", "In", ("a",)),)))
    for uid in list(cluster.cache.pods):
        cluster.cache.remove_pod(uid)

    index = cluster.index
    assert (index._classes, index._terms, index._shapes) == ({}, {}, {})
    assert filed(index._by_labels) == {}
