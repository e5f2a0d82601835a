"""Recorded decisions of the real kube-scheduler and decision cases from bug reports, run through the simulation.

The comparison is by value: feasible nodes, reasons and codes of the others, each plugin's weighted score on each node,
the chosen node, the full message, the nominated node and its victims.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from plugins.registry import Registry
from podium.commands.simulate import pod_document
from simulator.load import load, load_pods
from simulator.offline import Simulation

Json = dict[str, Any]

TESTS = Path(__file__).parent
DECISIONS = TESTS / "decisions"
CASES = TESTS / "cases"
#: what the DynamicResources plugin adds; two of the files were recorded without it
_PLUGIN_NAMES = re.compile(r"plugin\(s\) \[[A-Za-z ]+\](?! simultaneously)")
_PHRASES = ("no new claims to deallocate, ", "still not schedulable, ")


def recorded_data(*parts: str) -> Path:
    """A file of other people's data; skips where PODIUM_TEST_DATA does not point at it."""
    root = os.environ.get("PODIUM_TEST_DATA")
    if not root or not Path(root, *parts).exists():
        pytest.skip("PODIUM_TEST_DATA does not hold " + "/".join(parts))
    return Path(root, *parts)


@cache
def clusters(path: Path) -> list[Json]:
    """The lines of a decisions file."""
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def as_list(items: list[Json]) -> str:
    """A v1 List as text."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, default=str)


def simulate(folder: Path, objects: list[Json], pods: list[Json], *, alone: bool) -> list[Json]:
    """What `podium simulate --pods [--alone] -o json` prints for each pod."""
    cluster_file, pods_file = folder / "cluster.json", folder / "pods.json"
    cluster_file.write_text(as_list(objects))
    pods_file.write_text(as_list(pods))
    wanted, cluster = load_pods([str(pods_file)], load([str(cluster_file)]))
    configuration = default_configuration(DEFAULT_GATES)
    simulation = Simulation(cluster, configuration, Registry(), DEFAULT_GATES.as_dict())
    results = simulation.judge_alone(wanted) if alone else simulation.schedule(wanted)
    return [pod_document(result) for result in results]


def differences(expect: Json, got: Json) -> Iterator[str]:
    """Each way in which a result is not the recorded one."""
    if "preEnqueue" in expect:
        if got["node"] or got["feasible"]:
            yield f"should be gated, fits {got['feasible']}"
        return
    if "error" in expect:
        if got["node"]:
            yield f"should end in the error {expect['error']!r}, got node {got['node']}"
        return
    if sorted(expect["feasible"]) != sorted(got["feasible"]):
        yield f"feasible: want {sorted(expect['feasible'])}, got {sorted(got['feasible'])}"
    yield from _reasons(expect, got)
    if len(expect["feasible"]) > 1:
        yield from _scores(expect, got)
    if not expect["feasible"] and not expect.get("nominated") and plain(expect["message"]) != plain(got["message"]):
        yield f"message: want {expect['message']!r}, got {got['message']!r}"
    yield from _allocations(expect, got)
    wanted = (expect.get("nominated") or None, sorted(expect.get("victims") or []))
    if wanted != (got["nominatedNode"], sorted(got["victims"])):
        yield f"preemption: want {wanted}, got {got['nominatedNode']} {sorted(got['victims'])}"


def _reasons(expect: Json, got: Json) -> Iterator[str]:
    if expect.get("preFilter"):
        return
    for node, reasons in (expect.get("nodeReasons") or {}).items():
        found = got["reasons"].get(node, {}).get("messages", [])
        if sorted(reasons) != sorted(found):
            yield f"reasons of {node}: want {sorted(reasons)}, got {sorted(found)}"
    codes = {node for node, said in got["reasons"].items() if said["code"] == "UnschedulableAndUnresolvable"}
    if set(expect.get("unresolvable") or []) != codes:
        yield f"unresolvable: want {sorted(expect.get('unresolvable') or [])}, got {sorted(codes)}"


def _scores(expect: Json, got: Json) -> Iterator[str]:
    for node, wanted in (expect.get("pluginScores") or {}).items():
        found = {name: score for name, score in got["scores"].get(node, {}).items() if name != "total"}
        for plugin in sorted(wanted.keys() | found.keys()):
            if wanted.get(plugin, 0) != found.get(plugin, 0):
                yield f"score of {plugin} on {node}: want {wanted.get(plugin)}, got {found.get(plugin)}"
    if got["node"] not in expect["best"]:
        yield f"choice: want one of {expect['best']}, got {got['node']}"


def _allocations(expect: Json, got: Json) -> Iterator[str]:
    keys = ("request", "driver", "pool", "device")
    for node, claims in (expect.get("allocations") or {}).items():
        wanted = [[tuple(d[key] for key in keys) for d in claim["devices"]] for claim in claims]
        found = [
            [tuple(d[key] for key in keys) for d in c["devices"]] for c in got.get("allocations", {}).get(node, [])
        ]
        if wanted != found:
            yield f"allocations on {node}: want {wanted}, got {found}"


def plain(message: str) -> str:
    """The message without what DynamicResources adds to it, and without the recorder's stand-in for plugin names.

    For nodes outside PreFilter's node set kube-scheduler says `node(s) didn't satisfy plugin(s) [NodeAffinity]`: the
    plugins that gave a node set, in brackets (runtime of the framework, every release since 1.22; real clusters'
    events say so, and tools parse it). The recordings have `prefilter result` in place of the bracket.
    """
    for phrase in _PHRASES:
        message = message.replace(phrase, "")
    return _PLUGIN_NAMES.sub("plugin(s) prefilter result", message)


def cases() -> list[Any]:
    """The decision cases as pytest parameters, each with its title."""
    found = []
    for path in sorted(CASES.glob("*/case.yaml")):
        case = yaml.safe_load(path.read_text())
        if case["kind"] == "schedule":
            found.append(pytest.param(case, id=f"{case['id']}: {case['title']}"))
    return found


def case_differences(expect: Json, got: Json) -> Iterator[str]:
    """Each way in which a result is not what a case expects (see cases/README.md)."""
    if expect.get("gated"):
        if got["node"] or got["feasible"]:
            yield "should be gated"
        return
    if "feasible" in expect and sorted(expect["feasible"]) != sorted(got["feasible"]):
        yield f"feasible: want {expect['feasible']}, got {got['feasible']}"
    if "node" in expect and got["node"] != expect["node"]:
        yield f"node: want {expect['node']}, got {got['node']}"
    if "nodeIn" in expect and got["node"] not in expect["nodeIn"]:
        yield f"node: want one of {expect['nodeIn']}, got {got['node']}"
    if expect.get("unschedulable") and got["node"]:
        yield f"should not fit, got {got['node']}"
    yield from _case_texts(expect, got)
    if "nominated" in expect and got["nominatedNode"] != expect["nominated"]:
        yield f"nominated: want {expect['nominated']}, got {got['nominatedNode']}"
    if "victims" in expect and sorted(expect["victims"]) != sorted(got["victims"]):
        yield f"victims: want {expect['victims']}, got {got['victims']}"
    if expect.get("noVictims") and (got["victims"] or got["nominatedNode"]):
        yield f"no victims wanted, got {got['victims']}"


def _case_texts(expect: Json, got: Json) -> Iterator[str]:
    for text in expect.get("reasons", []):
        if text not in got["message"]:
            yield f"message lacks {text!r}: {got['message']!r}"
    for node, texts in expect.get("nodeReasons", {}).items():
        said = " | ".join(got["reasons"].get(node, {}).get("messages", []))
        yield from (f"reasons of {node} lack {text!r}: {said!r}" for text in texts if text not in said)
