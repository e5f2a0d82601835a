"""What running pods have to do with a refusal: host ports, pod affinity, spreading. Used by `causes`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kube.api.labels import compile_selector
from plugins.inter_pod_affinity.filtering import AFFINITY, ANTI_AFFINITY
from plugins.pod_topology_spread.filtering import MISSING_KEY, Counts, FilterState
from podium.explain.amounts import listed, plural
from podium.explain.view import View
from scheduler.framework.runtime import Feasibility
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.node_info import ports_conflict
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo, PodShape

#: rows, what is wrong there, and that in a few words
Groups = Iterator[tuple[Codes, str, str]]
_SHORT = {
    "kubernetes.io/hostname": "node",
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
}
MAX_DOMAINS = 6


def topology_text(key: str) -> str:
    """`node`, `zone`, or the key itself."""
    return _SHORT.get(key, key)


def same(key: str) -> str:
    """`on the same node`, `in the same zone`."""
    return f"{'on' if _SHORT.get(key) == 'node' else 'in'} the same {topology_text(key)}"


def term_text(term: AffinityTerm) -> str:
    """`app=web`, `app in (a,b)`."""
    text = str(compile_selector(term.selector)) if term.selector is not None else ""
    return text.replace(" in ", " in ") or "any pod"


# --- host ports -----------------------------------------------------------------------------------------------------


def host_ports(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """Per port, the pods that have it."""
    left = rows
    for protocol, ip, port in found.state.pod_info.shape.host_ports:
        holders: list[str] = []
        taken: list[int] = []
        for row in left.tolist():
            info = view.snapshot.infos[row]
            if info is not None and ports_conflict(info.used_ports, protocol, ip, port):
                taken.append(row)
                if len(holders) < MAX_DOMAINS:
                    holders += [f"{p.key} on {info.name}" for p in info.pods.values() if _has_port(p, port, protocol)]
        if taken:
            detail = f"host port {port}/{protocol} is taken by {listed(holders, 3)}"
            yield np.array(taken, np.intp), detail, f"with host port {port}/{protocol} taken"
            left = np.setdiff1d(left, taken)


def _has_port(pod: PodInfo, port: int, protocol: str) -> bool:
    return any(p == port and proto == protocol for proto, _, p in pod.shape.host_ports)


# --- pod affinity ---------------------------------------------------------------------------------------------------


class Namespaces:
    """Labels of namespaces, as terms ask for them."""

    def __init__(self, view: View) -> None:
        self._labels = {space.metadata.name: space.metadata.labels for space in view.handle.listers("Namespace").list()}

    def means(self, term: AffinityTerm, shape: PodShape) -> bool:
        """Whether the term means pods of this shape."""
        return term.matches(shape.namespace, shape.labels, self._labels.get(shape.namespace, {}))


def assigned(view: View) -> Iterator[tuple[int, PodInfo]]:
    """(row, pod) of every pod on a node."""
    for info in view.snapshot.node_infos():
        for pod in info.pods.values():
            yield info.row, pod


def matching_pods(view: View, term: AffinityTerm) -> list[tuple[int, PodInfo]]:
    """The assigned pods that a term means; shapes are asked once."""
    found = view.meant.get(term)
    if found is not None:
        return found
    found = view.meant[term] = []
    namespaces, known = Namespaces(view), dict[PodShape, bool]()
    for row, pod in assigned(view):
        means = known.get(pod.shape)
        if means is None:
            means = known[pod.shape] = namespaces.means(term, pod.shape)
        if means:
            found.append((row, pod))
    return found


def inter_pod_affinity(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """The terms that are not met, and the pods that they are about."""
    shape = found.state.pod_info.shape
    if reason == AFFINITY.message:
        yield from _unmet_affinity(view, shape, rows)
    elif reason == ANTI_AFFINITY.message:
        yield from _own_anti_affinity(view, shape, rows)
    else:
        yield from _existing_anti_affinity(view, shape, rows)


def _codes(view: View, key: str, rows: Codes) -> Codes:
    return view.snapshot.select(rows).label_codes(key)


def _unmet_affinity(view: View, shape: PodShape, rows: Codes) -> Groups:
    left = rows
    for term in shape.required_affinity:
        key, what = term.topology_key, f"pod with {term_text(term)}"
        wanted = f"pod affinity wants a {what} {same(key)}"
        pods = matching_pods(view, term)
        codes = _codes(view, key, left)
        missing = left[codes == 0]
        if len(missing):
            yield missing, f"{wanted}, but the nodes lack the label {key}", f"without label {key}"
        have = np.unique(_codes(view, key, np.array([row for row, _ in pods], np.intp)))
        lonely = left[(codes != 0) & ~np.isin(codes, have)]
        if len(lonely):
            yield lonely, f"{wanted}: {_places(view, key, pods)}", f"with no {what} {same(key)}"
        left = left[np.isin(codes, have[have != 0])]
    if len(left):
        yield left, "no pod there matches all of the pod affinity terms", "not matching all pod affinity terms"


def _places(view: View, key: str, pods: list[tuple[int, PodInfo]]) -> str:
    if not pods:
        return "there is no such pod on any node"
    codes = _codes(view, key, np.array([row for row, _ in pods], np.intp))
    values = view.snapshot.label(key).values.values
    places = [str(values[code]) for code in np.unique(codes).tolist() if code]
    return f"such pods are in {listed(places)}" if places else f"the nodes of such pods lack the label {key}"


def _own_anti_affinity(view: View, shape: PodShape, rows: Codes) -> Groups:
    left = rows
    for term in shape.required_anti_affinity:
        pods = matching_pods(view, term)
        refused, names = _in_domains(view, term.topology_key, left, pods)
        if len(refused):
            rule = f"pod anti-affinity to {term_text(term)} {same(term.topology_key)}"
            yield refused, f"{rule}: {listed(names, 3)}", f"refused by {rule}"
            left = np.setdiff1d(left, refused)


def _existing_anti_affinity(view: View, shape: PodShape, rows: Codes) -> Groups:
    """Running pods that keep this one away, by term."""
    left = rows
    for term, pods in _objecting(view, shape).items():
        refused, names = _in_domains(view, term.topology_key, left, pods)
        if len(refused):
            rule = f"pods with {term_text(term)} {same(term.topology_key)}"
            who = f"{listed(names, 3)} {'refuses' if len(names) == 1 else 'refuse'}"
            yield refused, f"{who} {rule} by anti-affinity", f"where {who} {rule}"
            left = np.setdiff1d(left, refused)


def _objecting(view: View, shape: PodShape) -> dict[AffinityTerm, list[tuple[int, PodInfo]]]:
    found = view.objecting
    if found is not None:
        return found
    found = view.objecting = {}
    namespaces, known = Namespaces(view), dict[AffinityTerm, bool]()
    for info in view.snapshot.node_infos():
        for pod in info.pods_with_required_anti_affinity.values():
            for term in pod.shape.required_anti_affinity:
                if known.setdefault(term, namespaces.means(term, shape)):
                    found.setdefault(term, []).append((info.row, pod))
    return found


def _in_domains(view: View, key: str, rows: Codes, pods: list[tuple[int, PodInfo]]) -> tuple[Codes, list[str]]:
    """Those of the rows that share a domain with some of the pods, and these pods' names."""
    codes = _codes(view, key, rows)
    theirs = _codes(view, key, np.array([row for row, _ in pods], np.intp))
    shared = np.intersect1d(codes[codes != 0], theirs)
    at = np.isin(theirs, shared)
    return rows[np.isin(codes, shared)], [pod.key for (_, pod), here in zip(pods, at.tolist(), strict=True) if here]


# --- spreading ------------------------------------------------------------------------------------------------------


def topology_spread(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """Per constraint, the domains that are over its maxSkew."""
    state: FilterState = found.state.read("PodTopologySpread")
    left = rows
    for counts in state.counts:
        key = counts.constraint.topology_key
        codes = _codes(view, key, left)
        missing = left[codes == 0]
        if reason == MISSING_KEY.message:
            if len(missing):
                detail = f"the nodes lack the label {key}, by which the pod is to be spread"
                yield missing, detail, f"without label {key}"
            left = left[codes != 0]
            continue
        over = overdraw(counts, codes)
        skewed = left[(codes != 0) & (over > 0)]
        if len(skewed):
            brief = f"over maxSkew {counts.constraint.max_skew} by {topology_text(key)}"
            yield skewed, _spread_text(view, counts, np.unique(codes[(codes != 0) & (over > 0)])), brief
        left = left[(codes == 0) | (over <= 0)]


def overdraw(counts: Counts, codes: Codes) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """By how much the pod would exceed maxSkew in these domains."""
    constraint = counts.constraint
    over: np.ndarray[tuple[int], np.dtype[np.float64]] = (
        counts.pods.take(codes) + constraint.self_match - counts.fewest({}) - constraint.max_skew
    )
    return over


def _spread_text(view: View, counts: Counts, domains: Codes) -> str:
    constraint = counts.constraint
    key, where = constraint.topology_key, topology_text(constraint.topology_key)
    values = view.snapshot.label(key).values.values
    fewest = int(counts.fewest({}))
    over = overdraw(counts, domains)
    order = np.argsort(over, kind="stable")[:MAX_DOMAINS]
    texts = [
        f"{values[code]} has {int(counts.pods[code])} and would be {int(over[i])} over"
        for i, code in zip(order.tolist(), domains[order].tolist(), strict=True)
    ]
    rest = len(domains) - len(order)
    more = f", {plural(rest, where)} more" if rest else ""
    limit = f"spread by {where} with maxSkew {constraint.max_skew}, the emptiest has {plural(fewest, 'matching pod')}"
    return f"{limit}: {', '.join(texts)}{more}{_few_domains(counts)}"


def _few_domains(counts: Counts) -> str:
    wanted, have = counts.constraint.min_domains, len(counts.domains.codes)
    return f" (minDomains {wanted}, but only {have}, so the emptiest counts as 0)" if have < wanted else ""
