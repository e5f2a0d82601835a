"""What an attempt found out, as the result of an offline simulation. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scheduler.framework.diagnosis import refused_where_chosen
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Status
from scheduler.scheduling_cycle import Attempt
from simulator.results import PodResult

#: under this key the plugin for devices tells what the pod would get where: `allocations_by_node()`
DEVICES = "DynamicResources"


def brief(attempt: Attempt) -> PodResult:
    """Where the pod goes and why, without a word on single nodes."""
    meta = attempt.pod_info.pod.metadata
    post = attempt.post_filter
    return PodResult(
        namespace=meta.namespace,
        name=meta.name,
        node=attempt.node_name or None,
        nominated_node=(post.nominated_node_name or None) if post is not None else None,
        victims=tuple(victim.key for victim in post.victims) if post is not None else (),
        message=attempt.message(),
        fits_on=attempt.feasible_count,
        score=int(attempt.scores.total.max()) if attempt.scores is not None else None,
    )


def detailed(framework: Framework, attempt: Attempt) -> PodResult:
    """Every node by name: where it fits, how well, and why not."""
    diagnosis = attempt.diagnosis
    if diagnosis is None and attempt.found is not None and attempt.error is None:
        diagnosis = framework.diagnose(attempt.found)
    return replace(
        brief(attempt),
        feasible=tuple(attempt.feasible()),
        scores=_scores_by_node(attempt),
        reasons=diagnosis.node_statuses() if diagnosis is not None else {},
        allocations=_allocations_by_node(attempt),
    )


def _scores_by_node(attempt: Attempt) -> dict[str, dict[str, int]]:
    """node -> plugin -> weighted score, with their total; empty where nothing was scored."""
    if attempt.scores is None:
        return {}
    parts = {name: vector.tolist() for name, vector in attempt.scores.by_plugin().items()}
    total = attempt.scores.total.tolist()
    return {
        info.name: {**{name: int(values[i]) for name, values in parts.items()}, "total": int(total[i])}
        for i, info in attempt.scores.view.infos()
    }


def devices_of(attempt: Attempt | None) -> Any:
    """What the attempt knows of the pod's devices; None where these have nothing to do with it."""
    if attempt is None or attempt.found is None or attempt.error is not None:
        return None
    return attempt.found.state.read(DEVICES)


def _allocations_by_node(attempt: Attempt) -> dict[str, list[dict[str, Any]]]:
    """node -> claims; empty where devices have nothing to do with the pod."""
    devices = devices_of(attempt)
    return devices.allocations_by_node() if devices is not None else {}


def not_placed(result: PodResult, refused: Status) -> PodResult:
    """What becomes of a pod that had a node, and was refused there after all."""
    message = refused_where_chosen(refused) if refused.rejected else refused.message
    return replace(result, node=None, message=message)
