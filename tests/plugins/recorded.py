"""What the real kube-scheduler said about one plugin: recorded decisions, held against that plugin alone.

A node that the plugin refused carries its reasons; a node that passed all filters, or that a later plugin refused,
must pass; what an earlier plugin refused says nothing. Scores are compared for the feasible nodes, weight included.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kube.api.codec import convert
from kube.api.core import Namespace, Node, Pod, Service
from scheduler.framework.plugin import FilterPlugin, Plugin, PreFilterPlugin, ScorePlugin
from scheduler.framework.status import Code, Status
from tests.plugins.harness import Bench

GENERATED = Path(__file__).parent.parent / "decisions" / "generated.jsonl.gz"
_KINDS: dict[str, Any] = {"Namespace": Namespace, "Node": Node, "Pod": Pod, "Service": Service}


def clusters(*themes: str, file: Path = GENERATED) -> Iterator[dict[str, Any]]:
    """The recorded clusters of these themes."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            cluster = json.loads(line)
            if not themes or cluster.get("theme") in themes:
                yield cluster


def bench_of(plugin: type[Plugin], objects: list[dict[str, Any]]) -> Bench:
    """The plugin on a recorded cluster; pods that have finished are none."""
    typed = [convert(obj, _KINDS[obj["kind"]]) for obj in objects if obj["kind"] in _KINDS]
    pods = [obj for obj in typed if isinstance(obj, Pod) and obj.status.phase not in ("Succeeded", "Failed")]
    bench = Bench(
        plugin,
        nodes=[obj for obj in typed if isinstance(obj, Node)],
        pods=[pod for pod in pods if pod.spec.node_name],
        objects=[obj for obj in typed if not isinstance(obj, Node | Pod)],
    )
    for pod in pods:
        if not pod.spec.node_name and pod.status.nominated_node_name:
            info = bench.snapshot.shapes.pod_info(pod)
            bench.nominations.by_node.setdefault(pod.status.nominated_node_name, []).append(info)
    return bench


def differences(bench: Bench, reasons: frozenset[str], later: frozenset[str], weight: int, case: Any) -> list[str]:
    """What the plugin says otherwise than the recorded decision. `reasons` are its own, `later` those after it."""
    pod, expect = convert(case["pod"], Pod), case["expect"]
    filters = isinstance(bench.plugin, FilterPlugin) and "feasible" in expect
    scores = isinstance(bench.plugin, ScorePlugin) and expect.get("pluginScores")
    return [
        *(_filter_differences(bench, reasons, later, pod, expect) if filters else ()),
        *(_score_differences(bench, weight, pod, expect) if scores else ()),
    ]


def _filter_differences(
    bench: Bench, reasons: frozenset[str], later: frozenset[str], pod: Pod, expect: Any
) -> Iterator[str]:
    found = bench.filter(pod) | _with_nominated(bench, pod)
    expected = dict.fromkeys(expect["feasible"] or (), ())
    for name, why in (expect.get("nodeReasons") or {}).items():
        if reasons.issuperset(why):
            expected[name] = tuple(why)
        elif later.issuperset(why):
            expected[name] = ()
    unresolvable = set(expect.get("unresolvable") or ())
    for name, why in expected.items():
        status = found[name]
        # Scalar resources were recorded in the order of a Go map.
        if sorted(status.reasons) != sorted(why):
            yield f"{pod.metadata.name} on {name}: expected {why}, got {status.reasons}"
        elif why and (status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE) != (name in unresolvable):
            yield f"{pod.metadata.name} on {name}: {why} has code {status.code.text}"


def _with_nominated(bench: Bench, pod: Pod) -> dict[str, Status]:
    """Nodes that refuse the pod together with the pods nominated to them."""
    refused = {}
    for name, nominated in bench.nominations.by_node.items():
        state = bench.state(pod)
        node = bench.snapshot.info(name)
        answer = bench.pre_filter(pod, state)
        if node is None or (isinstance(answer, Status) and answer.skip):
            continue
        copy = node.clone()
        for other in nominated:
            if other.priority >= (pod.spec.priority or 0):
                copy.add_pod(other)
                if isinstance(bench.plugin, PreFilterPlugin):
                    bench.plugin.add_pod(state, pod, other, copy)
        status = bench.plugin.filter_node(state, pod, copy)
        if status is not None:
            refused[name] = status
    return refused


def _score_differences(bench: Bench, weight: int, pod: Pod, expect: Any) -> Iterator[str]:
    name = bench.plugin.name
    expected = {node: scores.get(name) for node, scores in expect["pluginScores"].items()}
    found = bench.score(pod, feasible=expect["feasible"])
    for node, score in expected.items():
        got = None if found is None else found[node] * weight
        if got != score:
            yield f"{pod.metadata.name} on {node}: expected score {score}, got {got}"
