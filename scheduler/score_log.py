"""The scores of each plugin and node in the log, at klog's verbosity 10, in kube-scheduler's words (facts 1.8).

Called by the scheduling cycle where somebody listens; costs one comparison where nobody does.
"""

from __future__ import annotations

import logging

from scheduler.framework.feasibility import Scores

#: the level of klog's V(10): below DEBUG
SCORES = 5

log = logging.getLogger(__name__)


def wanted() -> bool:
    """Whether anybody listens."""
    return log.isEnabledFor(SCORES)


def write(pod: str, scores: Scores) -> None:
    """A line for each plugin and node, weighted as it counts, and one for each node's sum."""
    nodes = [info.name for _, info in scores.view.infos()]
    for plugin, each in scores.by_plugin().items():
        for node, score in zip(nodes, each.tolist(), strict=True):
            fields = {"pod": pod, "plugin": plugin, "node": node, "score": int(score)}
            log.log(SCORES, "Plugin scored node for pod", extra={"fields": fields})
    for node, score in zip(nodes, scores.total.tolist(), strict=True):
        fields = {"pod": pod, "node": node, "score": int(score)}
        log.log(SCORES, "Calculated node's final score for pod", extra={"fields": fields})
