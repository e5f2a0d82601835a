"""Small random clusters that are full of pod affinity and topology spread. The same seed makes the same cluster."""

import random
from dataclasses import dataclass
from typing import Any

from kube.api.core import Affinity, Namespace, Node, Pod, PodAffinityTerm, TopologySpreadConstraint
from kube.api.meta import LabelSelector
from tests.builders import (
    HOSTNAME,
    ZONE,
    DoesNotExist,
    Exists,
    In,
    NotIn,
    affinity,
    exists,
    label,
    make_namespace,
    make_node,
    make_pod,
    pod_term,
    requires,
    selector,
    spread,
    taint,
)

KEYS = (HOSTNAME, ZONE, "rack", "nowhere")
NAMESPACES = ("default", "green", "blue")
EVICTED = "2026-01-01T00:00:00Z"


@dataclass
class RandomCluster:
    """Nodes, pods on them, namespaces."""

    nodes: list[Node]
    pods: list[Pod]
    namespaces: list[Namespace]


class Maker:
    """Makes parts of clusters from one source of randomness."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._made = 0

    def cluster(self, max_nodes: int = 8, max_pods: int = 25) -> RandomCluster:
        """A cluster; one namespace may have no object."""
        names = [f"n{i}" for i in range(self.rng.randint(1, max_nodes))]
        return RandomCluster(
            nodes=[self.node(name) for name in names],
            pods=[self.pod(node_name=self.rng.choice(names)) for _ in range(self.rng.randint(0, max_pods))],
            namespaces=[self.namespace(name) for name in NAMESPACES if self.chance(0.9)],
        )

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.rng.random() < share

    def namespace(self, name: str) -> Namespace:
        """With a label that selectors look at, or without."""
        return make_namespace(name, labels={"team": self.rng.choice("xy")} if self.chance(0.7) else {})

    def node(self, name: str) -> Node:
        """Some lack a zone or a rack, some are tainted."""
        labels = {key: f"{key[0]}{self.rng.randrange(3)}" for key in (ZONE, "rack") if self.chance(0.8)}
        taints = [taint("dedicated", self.rng.choice("ab"))] if self.chance(0.2) else []
        return make_node(name, labels=labels, taints=taints)

    def pod(self, **fields: Any) -> Pod:
        """Running where `node_name` is given; some of those are terminating."""
        self._made += 1
        running = "node_name" in fields
        return make_pod(
            f"pod-{self._made}",
            namespace=self.rng.choice(NAMESPACES),
            labels=self.labels(),
            deletion_timestamp=EVICTED if running and self.chance(0.1) else None,
            affinity=self.affinity() if self.chance(0.5) else None,
            spread=[self.constraint() for _ in range(self.rng.randint(1, 3))] if self.chance(0.5) else [],
            node_selector={"rack": "r1"} if self.chance(0.15) else {},
            tolerations=[exists("dedicated")] if self.chance(0.3) else [],
            **fields,
        )

    def labels(self) -> dict[str, str]:
        """Few, so that selectors meet them."""
        return {key: self.rng.choice(values) for key, values in (("app", "abc"), ("tier", "xy")) if self.chance(0.8)}

    def affinity(self) -> Affinity:
        """Each of the four kinds, and what concerns nodes, now and then."""
        return affinity(
            node_required=[requires(ZONE, In, "t0", "t1")] if self.chance(0.2) else None,
            pod_required=self._terms(0.3),
            anti_required=self._terms(0.3),
            pod_preferred=[(self.rng.randint(1, 3), term) for term in self._terms(0.4)],
            anti_preferred=[(self.rng.randint(1, 3), term) for term in self._terms(0.4)],
        )

    def _terms(self, share: float) -> list[PodAffinityTerm]:
        return [self.term() for _ in range(self.rng.randint(1, 2))] if self.chance(share) else []

    def term(self) -> PodAffinityTerm:
        """In the own namespace, in listed ones, in selected ones (all, or by label), or both."""
        how = self.rng.randrange(5)
        return pod_term(
            self.rng.choice(KEYS),
            self.selector(),
            namespaces=self.rng.sample(NAMESPACES, 2) if how in (1, 4) else (),
            namespace_selector=self._namespace_selector() if how in (2, 4) else None,
        )

    def _namespace_selector(self) -> LabelSelector:
        return self.rng.choice(
            [selector(), selector({"team": "x"}), selector({}, label("team", NotIn, "x")), selector({"team": "none"})]
        )

    def selector(self) -> LabelSelector | None:
        """Any operator; now and then empty, or nil."""
        if self.chance(0.05):
            return None
        if self.chance(0.05):
            return selector()
        expressions = [
            label("app", In, "a", "b"),
            label("app", NotIn, "c"),
            label("tier", Exists),
            label("tier", DoesNotExist),
        ]
        match = {"app": self.rng.choice("abc")} if self.chance(0.6) else {}
        return selector(match, *self.rng.sample(expressions, 0 if match and self.chance(0.6) else 1))

    def constraint(self) -> TopologySpreadConstraint:
        """Hard or soft, any policy."""
        soft = self.chance(0.4)
        return spread(
            self.rng.choice(KEYS[:3]),
            self.selector(),
            max_skew=self.rng.randint(1, 3),
            soft=soft,
            min_domains=self.rng.randint(1, 4) if not soft and self.chance(0.3) else None,
            node_affinity_policy=self.rng.choice([None, "Honor", "Ignore"]),
            node_taints_policy=self.rng.choice([None, "Honor", "Ignore"]),
            match_label_keys=("tier",) if self.chance(0.2) else (),
        )
