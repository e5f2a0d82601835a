"""The affinity terms of a pod shape, ready to be counted: interned once per shape. Used by the plugin alone."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.snapshot.pod_index import PodSelector, selecting
from scheduler.snapshot.pod_info import AffinityTerm, PodShape


@dataclass(frozen=True, slots=True)
class ShapeTerms:
    """What the pods of one shape want of others."""

    #: the pods that match all required affinity terms; None where there are none
    affinity: PodSelector | None
    #: topology keys of the required affinity terms, each once
    affinity_keys: tuple[str, ...]
    #: (topology key, the pods of one term)
    anti_affinity: tuple[tuple[str, PodSelector], ...]
    #: (topology key, the pods of one term, weight), negative for anti-affinity
    preferred: tuple[tuple[str, PodSelector, int], ...]
    #: some required, or some preferred term selects namespaces by their labels
    required_select_namespaces: bool
    preferred_select_namespaces: bool


#: of pods without affinity, which most are
NO_TERMS = ShapeTerms(None, (), (), (), required_select_namespaces=False, preferred_select_namespaces=False)


def terms_of(shape: PodShape) -> ShapeTerms:
    """Prepare the terms of a shape."""
    required = shape.required_affinity + shape.required_anti_affinity
    preferred = [(term, term.weight) for term in shape.preferred_affinity]
    preferred += [(term, -term.weight) for term in shape.preferred_anti_affinity]
    return ShapeTerms(
        affinity=selecting(shape.required_affinity) if shape.required_affinity else None,
        affinity_keys=tuple(dict.fromkeys(term.topology_key for term in shape.required_affinity)),
        anti_affinity=tuple((term.topology_key, selecting((term,))) for term in shape.required_anti_affinity),
        preferred=tuple((term.topology_key, selecting((term,)), weight) for term, weight in preferred),
        required_select_namespaces=select_namespaces(required),
        preferred_select_namespaces=select_namespaces(tuple(term for term, _ in preferred)),
    )


def select_namespaces(terms: tuple[AffinityTerm, ...]) -> bool:
    """Whether namespaces' labels decide what some term means. The empty selector means all, whatever their labels."""
    return any(term.namespace_selector for term in terms)
