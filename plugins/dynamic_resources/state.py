"""What one scheduling cycle knows about the devices of its pod. Lives in the CycleState under the plugin's name.

Owner: the cycle. Dry runs share it: which devices a node can give does not depend on the pods that are on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from kube.api.codec import encode
from kube.api.core import Pod
from kube.api.node_affinity import match_node_selector
from kube.api.resource import FINALIZER, AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from plugins.dynamic_resources.answers import FIRST_CHOICE, REFUSALS, Answers
from plugins.dynamic_resources.extended import IN_MEMORY_NAME, Mappings, in_memory_claim, requests_and_mappings
from plugins.dynamic_resources.manager import Manager
from plugins.dynamic_resources.plan import AllocationError
from plugins.dynamic_resources.pod_claims import claim_id, is_reserved_for
from plugins.dynamic_resources.results import allocation_document, allocation_results
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Status, error, unresolvable
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes

NOT_AVAILABLE = unresolvable("resourceclaim not available on the node")
STALE_EXTENDED = unresolvable("cannot schedule extended resource claim")
CANNOT_FIT = unresolvable("cannot fit resource")


@dataclass(slots=True)
class Variant:
    """Nodes for which the same is to be allocated: they leave the same extended resources to devices."""

    claims: list[ResourceClaim]
    answers: Answers | None
    mappings: Mappings = ()


@dataclass(slots=True)
class Extended:
    """The extended resources of the pod that classes back."""

    resources: frozenset[str]
    #: all extended resources that the pod asks for
    requested: frozenset[str]
    #: a claim that an earlier attempt has left behind
    stale: ResourceClaim | None = None


@dataclass(slots=True)
class DevicesState:
    """The pod's claims and what they come to on each node."""

    pod: Pod
    manager: Manager
    filter_timeout: float
    #: all claims of the pod's spec, in order
    claims: list[ResourceClaim] = field(default_factory=list)
    #: positions in `claims` of those that are allocated but cannot be used: by their own state
    failed: frozenset[int] = frozenset()
    #: positions of those that some node could not use
    unavailable: set[int] = field(default_factory=set)
    extended: Extended | None = None
    #: positions of those that a sibling of the same group allocates; they are reserved together
    shared: tuple[int, ...] = ()
    #: rows that passed the filter
    passed: set[int] = field(default_factory=set)
    #: filled by Reserve
    reserved: list[ResourceClaim] = field(default_factory=list)
    extended_reserved: ResourceClaim | None = None
    mappings: Mappings = ()
    #: claims that PreBind wrote, by position
    written: dict[int, ResourceClaim] = field(default_factory=dict)
    extended_written: ResourceClaim | None = None
    _variants: dict[frozenset[str], Variant] = field(default_factory=dict)

    @property
    def to_allocate(self) -> list[ResourceClaim]:
        """The pod's own claims that have no allocation."""
        return [claim for claim in self.claims if claim.status.allocation is None]

    @property
    def empty(self) -> bool:
        """Whether devices have nothing to do with the pod."""
        return not self.claims and self.extended is None

    # --- what is to be allocated where -------------------------------------------------------------------

    def variant(self, resources: frozenset[str]) -> Variant:
        """What nodes are asked for that leave these extended resources to devices."""
        found = self._variants.get(resources)
        if found is None:
            claims = self.to_allocate
            mappings: Mappings = ()
            if resources:
                requests, mappings = requests_and_mappings(self.pod, resources, self.manager.classes)
                claims = [*claims, in_memory_claim(self.pod, requests)]
            answers = self.manager.answers(claims) if claims else None
            found = self._variants[resources] = Variant(claims, answers, mappings)
        return found

    def resources_left(self, node: NodeInfo) -> frozenset[str] | None:
        """The extended resources that the node leaves to devices; None where something has neither."""
        if self.extended is None:
            return frozenset()
        left = set()
        for name in self.extended.requested:
            if name in self.extended.resources and not node.allocatable.get(name, 0):
                left.add(name)
            elif name not in node.allocatable:
                return None
        return frozenset(left)

    # --- the filter --------------------------------------------------------------------------------------

    def filter(self, nodes: Nodes) -> Mask | Status:
        """`(size,)` bool, or the error of the first node by name that has one."""
        rows = nodes.rows if nodes.rows is not None else np.arange(nodes.size)
        mask = nodes.all
        if self.extended is not None and self.extended.stale is not None:
            return nodes.none
        for variant, at in self._by_variant(nodes, mask):
            if variant.answers is None:
                continue
            mask[at] &= variant.answers.ask(rows[at], self.filter_timeout)
            if variant.answers.has_errors():
                failed = self._error(variant, rows[at])
                if failed is not None:
                    return failed
        mask = self._keep_available(mask, nodes)
        self.passed.update(rows[mask].tolist())
        return mask

    def _by_variant(self, nodes: Nodes, mask: Mask) -> Iterator[tuple[Variant, Codes]]:
        """What is asked, and the positions in the view that it is asked of; nodes without a resource are refused."""
        if self.extended is None:
            yield self.variant(frozenset()), mask.nonzero()[0]
            return
        groups: dict[frozenset[str], list[int]] = {}
        for i, info in nodes.infos():
            left = self.resources_left(info)
            if left is None:
                mask[i] = False
            else:
                groups.setdefault(left, []).append(i)
        for left, positions in groups.items():
            yield self.variant(left), np.array(positions, np.intp)

    def _error(self, variant: Variant, rows: Codes) -> Status | None:
        assert variant.answers is not None
        found: list[tuple[str, AllocationError]] = []
        for row in rows.tolist():
            problem = variant.answers.error(row)
            if problem is not None:
                found.append((self.manager.node(row).name, problem))
        return error(min(found, key=lambda each: each[0])[1].message(variant.claims)) if found else None

    def _keep_available(self, mask: Mask, nodes: Nodes) -> Mask:
        """Of the nodes that are left, those on which the claims that are allocated already can be used."""
        left = mask.copy()
        for position, claim in enumerate(self.claims):
            if claim.status.allocation is None:
                continue
            usable = nodes.none if position in self.failed else self._usable(claim, nodes)
            if (mask & ~usable).any():
                self.unavailable.add(position)
            left &= usable
        return left

    def _usable(self, claim: ResourceClaim, nodes: Nodes) -> Mask:
        selector = claim.status.allocation.node_selector if claim.status.allocation else None
        if selector is None:
            return nodes.all
        usable: Mask = nodes.gather(self.manager.selected(encode(selector), selector))
        return usable

    # --- one node ----------------------------------------------------------------------------------------

    def refusal(self, node: NodeInfo) -> Status | None:
        """Why a node was refused or would be; None where it fits. An allocation that fails is told before the rest."""
        if self.extended is not None and self.extended.stale is not None:
            return STALE_EXTENDED
        left = self.resources_left(node)
        if left is None:
            return CANNOT_FIT
        answers = self.variant(left).answers
        if answers is not None:
            fits = answers.ask(np.array([node.row], np.intp), self.filter_timeout)
            problem = answers.error(node.row)
            if problem is not None:
                return error(problem.message(self.variant(left).claims))
            if not fits[0]:
                return answers.refusal(node.row)
        return None if self._is_available(node) else NOT_AVAILABLE

    def refusals(self, nodes: Nodes) -> Refusals | None:
        """Of nodes that were all refused by the filter; None where they must be asked one by one."""
        answers = self.variant(frozenset()).answers if self.extended is None else None
        if answers is None or len(self.to_allocate) < len(self.claims):
            return None
        rows = nodes.rows if nodes.rows is not None else np.arange(nodes.size)
        which, told = np.unique(answers.refusals(rows), return_inverse=True)
        return Refusals(tuple(REFUSALS[i] for i in which.tolist()), told)

    def _is_available(self, node: NodeInfo) -> bool:
        available = True
        for position, claim in enumerate(self.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            selector = allocation.node_selector
            fits = selector is None or match_node_selector(selector, node.labels, node.name)
            if position in self.failed or not fits:
                self.unavailable.add(position)
                available = False
        return available

    # --- scores and results ------------------------------------------------------------------------------

    def answers_of(self, node: NodeInfo) -> tuple[Variant, Answers] | None:
        """What is allocated on a node that passed; None where nothing is."""
        left = self.resources_left(node)
        variant = self.variant(left) if left is not None else None
        return (variant, variant.answers) if variant is not None and variant.answers is not None else None

    @property
    def chooses(self) -> bool:
        """Whether some claim, allocated now or before, has alternatives."""
        return any(request.first_available for claim in self.claims for request in claim.spec.devices.requests)

    def scores(self, nodes: Nodes) -> Vector:
        """`(size,)` the better the earlier the chosen alternatives stand in their lists."""
        scores = nodes.zeros + sum(_allocated_score(claim) for claim in self.claims)
        rows = nodes.rows if nodes.rows is not None else np.arange(nodes.size)
        for variant, at in self._by_variant(nodes, nodes.all):
            if variant.answers is not None:
                scores[at] += variant.answers.scores(rows[at])
        return scores

    def allocations(self, node: NodeInfo) -> list[tuple[ResourceClaim, AllocationResult]]:
        """The claims that this pod would allocate on a node, in order, with fresh share IDs."""
        found = self.answers_of(node)
        if found is None:
            return []
        variant, answers = found
        solution = answers.solution(node.row)
        if solution is None:
            return []
        results = allocation_results(answers.plan, solution, node.name, self.manager.features)
        return list(zip(variant.claims, results, strict=True))

    def claims_on(self, node_name: str) -> list[ResourceClaim]:
        """The pod's claims as they will be when it runs on the node; for simulations, where nothing is written."""
        node = self.manager.node_named(node_name)
        allocated = {claim_id(claim): with_allocation(claim, result) for claim, result in self.allocations(node)}
        claims = [allocated.pop(claim_id(claim), claim) for claim in self.claims]
        for position in self.shared:
            meta = claims[position].metadata
            known = self.manager.claims.get(meta.namespace, meta.name)
            if known is not None and known.status.allocation is not None:
                claims[position] = known
        made = [_named(claim) for claim in allocated.values()]
        return [
            claim if is_reserved_for(claim, self.pod) else reserved_for(claim, self.pod) for claim in (*claims, *made)
        ]

    def allocations_by_node(self) -> dict[str, list[dict[str, Any]]]:
        """node -> the claims that this pod would allocate there, as plain data; nodes without any are left out."""
        documents = {}
        for row in sorted(self.passed):
            info = self.manager.node(row)
            allocations = self.allocations(info)
            if allocations:
                documents[info.name] = [self._document(claim, allocation, info) for claim, allocation in allocations]
        return documents

    def _document(self, claim: ResourceClaim, allocation: AllocationResult, node: NodeInfo) -> dict[str, Any]:
        document = allocation_document(claim.metadata.name, allocation)
        if claim.metadata.name == IN_MEMORY_NAME:
            exact = [(r.name, r.exactly) for r in claim.spec.devices.requests if r.exactly is not None]
            document["requests"] = [f"{name}={e.count} x {e.device_class_name}" for name, e in exact]
            left = self.resources_left(node)
            document["requestMappings"] = [
                {"containerName": m.container_name, "resourceName": m.resource_name, "requestName": m.request_name}
                for m in (self.variant(left).mappings if left is not None else ())
            ]
        return document


def _allocated_score(claim: ResourceClaim) -> int:
    """What the alternatives are worth that a claim got when it was allocated."""
    allocation = claim.status.allocation
    if allocation is None:
        return 0
    names = {result.request for result in allocation.devices.results}
    return sum(
        FIRST_CHOICE - index
        for request in claim.spec.devices.requests
        for index, option in enumerate(request.first_available)
        if f"{request.name}/{option.name}" in names
    )


def _named(claim: ResourceClaim) -> ResourceClaim:
    """A claim for extended resources with the name that an API server could have given it."""
    meta = claim.metadata
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(meta, name=f"{meta.generate_name}0"))


def with_allocation(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """The claim as it will be once the allocation is written."""
    finalizers = claim.metadata.finalizers
    if FINALIZER not in finalizers:
        finalizers = (*finalizers, FINALIZER)
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(claim.metadata, finalizers=finalizers),
        status=msgspec.structs.replace(claim.status, allocation=allocation),
    )


def reserved_for(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim with one more user."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    status = msgspec.structs.replace(claim.status, reserved_for=(*claim.status.reserved_for, user))
    return msgspec.structs.replace(claim, status=status)
