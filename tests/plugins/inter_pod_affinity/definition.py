"""InterPodAffinity as its rules read (facts 2.5): one node at a time, looking at every pod of the cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kube.api.labels import compile_selector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass
class Definition:
    """The rules for one pod on one cluster; `nodes` carry their pods."""

    pod: PodInfo
    nodes: list[NodeInfo]
    #: name to labels of the namespaces that exist
    namespaces: Mapping[str, Mapping[str, str]]

    def means(self, term: AffinityTerm, other: PodInfo) -> bool:
        """Whether a term of the pod means another one: by a selector only namespaces that exist can be selected."""
        if term.selector is None or not compile_selector(term.selector)(other.shape.labels):
            return False
        namespace = other.shape.namespace
        if namespace in term.namespaces or term.namespace_selector == ():
            return True
        labels = self.namespaces.get(namespace)
        return (
            term.namespace_selector is not None
            and labels is not None
            and compile_selector(term.namespace_selector)(labels)
        )

    def is_meant(self, term: AffinityTerm) -> bool:
        """Whether another pod's term means the pod; a namespace that does not exist has no labels."""
        shape = self.pod.shape
        return term.matches(shape.namespace, shape.labels, self.namespaces.get(shape.namespace, {}))

    def means_all(self, other: PodInfo) -> bool:
        """Whether another pod matches all of the pod's required affinity terms."""
        return all(self.means(term, other) for term in self.pod.shape.required_affinity)

    def running(self) -> Iterable[tuple[NodeInfo, PodInfo]]:
        """Every pod and its node."""
        return ((node, pod) for node in self.nodes for pod in node.pods.values())

    def reason(self, node: NodeInfo) -> str:
        """Why the node is refused, "" where it is not."""
        shape = self.pod.shape
        if shape.required_affinity and not self._near_enough(node):
            return AFFINITY
        for term in shape.required_anti_affinity:
            if any(same_domain(term, node, other) and self.means(term, pod) for other, pod in self.running()):
                return ANTI_AFFINITY
        for other, pod in self.running():
            if any(same_domain(t, node, other) and self.is_meant(t) for t in pod.shape.required_anti_affinity):
                return EXISTING
        return ""

    def _near_enough(self, node: NodeInfo) -> bool:
        terms = self.pod.shape.required_affinity
        if any(term.topology_key not in node.labels for term in terms):
            return False
        matching = [(other, pod) for other, pod in self.running() if self.means_all(pod)]
        if not any(term.topology_key in other.labels for term in terms for other, _ in matching):
            return self.means_all(self.pod)
        return all(any(same_domain(term, node, other) for other, _ in matching) for term in terms)

    def scores(self, feasible: list[NodeInfo], hard_weight: int = 1, *, ignore: bool = False) -> dict[str, int] | None:
        """Name to final score; None where nothing concerns the pod."""
        shape = self.pod.shape
        if ignore and not shape.preferred_affinity and not shape.preferred_anti_affinity:
            return None
        wishes = [
            (term.topology_key, node.labels[term.topology_key], weight)
            for node, other in self.running()
            for term, weight in self._wishes(other, hard_weight)
            if term.topology_key in node.labels
        ]
        if not wishes:
            return None
        raw = {n.name: sum(w for key, value, w in wishes if n.labels.get(key) == value) for n in feasible}
        low, high = min(raw.values()), max(raw.values())
        return {name: int(100 * ((s - low) / (high - low))) if high > low else 0 for name, s in raw.items()}

    def _wishes(self, other: PodInfo, hard_weight: int) -> Iterable[tuple[AffinityTerm, int]]:
        own, theirs = self.pod.shape, other.shape
        yield from ((t, t.weight) for t in own.preferred_affinity if self.means(t, other))
        yield from ((t, -t.weight) for t in own.preferred_anti_affinity if self.means(t, other))
        if hard_weight:
            yield from ((t, hard_weight) for t in theirs.required_affinity if self.is_meant(t))
        yield from ((t, t.weight) for t in theirs.preferred_affinity if self.is_meant(t))
        yield from ((t, -t.weight) for t in theirs.preferred_anti_affinity if self.is_meant(t))


def same_domain(term: AffinityTerm, node: NodeInfo, other: NodeInfo) -> bool:
    """Whether two nodes have the same value of the term's key."""
    key = term.topology_key
    return key in node.labels and node.labels[key] == other.labels.get(key)
