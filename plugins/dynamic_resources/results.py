"""From devices found to what is written: AllocationResult with its configuration and node selector (facts A3).

Pure functions. A share's ID is drawn when an allocation is reserved, not when it is only considered.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kube.api.codec import to_builtins
from kube.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kube.api.node_affinity import METADATA_NAME
from kube.api.quantity import format_quantity
from kube.api.resource import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.plan import ClaimPlan, Plan
from plugins.dynamic_resources.search import Pick, Solution


def allocation_results(
    plan: Plan, solution: Solution, node_name: str, features: Features
) -> tuple[AllocationResult, ...]:
    """One per claim of the plan, with fresh share IDs."""
    return tuple(
        AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(_result(pick, features) for pick in picks),
                config=tuple(_configurations(claim, chosen)),
            ),
            node_selector=_node_selector(picks, node_name),
        )
        for claim, picks, chosen in zip(plan.claims, solution.picks, solution.chosen, strict=True)
    )


def _result(pick: Pick, features: Features) -> DeviceRequestAllocationResult:
    request, device = pick.request, pick.device
    conditions = device.body if features.binding_conditions else None
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations,
        binding_conditions=conditions.binding_conditions if conditions else (),
        binding_failure_conditions=conditions.binding_failure_conditions if conditions else (),
        share_id=None if pick.consumed is None else str(uuid.uuid4()),
        consumed_capacity={name: format_quantity(*amount) for name, amount in (pick.consumed or {}).items()},
    )


def _configurations(claim: ClaimPlan, chosen: Sequence[int]) -> list[DeviceAllocationConfiguration]:
    """Those of the classes, each class once, then the claim's own."""
    requests = [options[index] for options, index in zip(claim.requests, chosen, strict=True)]
    of_class: dict[str, list[str]] = {}
    for request in requests:
        if request.device_class is not None:
            of_class.setdefault(request.device_class.metadata.name, []).append(request.full_name)
    classes = {r.device_class.metadata.name: r.device_class for r in requests if r.device_class is not None}
    found = [
        DeviceAllocationConfiguration(source=FROM_CLASS, requests=tuple(names), opaque=config.opaque)
        for name, names in of_class.items()
        for config in classes[name].spec.config
    ]
    for own in claim.devices.config:
        # Once for each request that it is for.
        times = sum(r.base_name in own.requests or r.full_name in own.requests for r in requests) if own.requests else 1
        found += [DeviceAllocationConfiguration(source=FROM_CLAIM, requests=own.requests, opaque=own.opaque)] * times
    return found


def _node_selector(picks: Sequence[Pick], node_name: str) -> NodeSelector | None:
    """This node alone if any device is bound to it; else where all devices can be reached; None for everywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for pick in picks:
        device = pick.device
        if device.node_name is not None or device.body.binds_to_node:
            only = NodeSelectorRequirement(key=METADATA_NAME, operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        for term in device.node_selector.node_selector_terms if device.node_selector else ():
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for each in more:
        if not any(
            k.key == each.key and k.operator == each.operator and set(k.values) == set(each.values) for k in known
        ):
            known.append(each)


def allocation_document(claim_name: str, allocation: AllocationResult) -> dict[str, Any]:
    """An allocation for people and programs: what `podium simulate` prints for each claim."""
    document: dict[str, Any] = {"claim": claim_name, "devices": [_device(r) for r in allocation.devices.results]}
    if allocation.node_selector is not None:
        document["nodeSelector"] = to_builtins(allocation.node_selector)
    if allocation.devices.config:
        document["config"] = [
            {
                "source": config.source,
                "requests": list(config.requests),
                "driver": config.opaque.driver if config.opaque else "",
            }
            for config in allocation.devices.config
        ]
    return document


def _device(result: DeviceRequestAllocationResult) -> dict[str, Any]:
    document: dict[str, Any] = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.admin_access:
        document["adminAccess"] = True
    if result.share_id is not None:
        document["shared"] = True
    if result.consumed_capacity:
        document["consumedCapacity"] = dict(result.consumed_capacity)
    if result.tolerations:
        document["tolerations"] = len(result.tolerations)
    return document
