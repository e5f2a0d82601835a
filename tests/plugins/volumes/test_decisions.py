"""The volume plugins against recorded decisions of the real kube-scheduler, and against users' cases.

Of a recorded decision the plugins must give: the reasons and codes of the nodes that one of them refused; a pass on the
feasible nodes and on those that only a later plugin refused; the PreFilter message where one of them gave it.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.api.codec import convert
from kube.api.core import Node, Pod
from kube.api.resources import by_kind
from plugins.node_volume_limits import LIMIT_EXCEEDED, NodeVolumeLimits
from plugins.volume_binding import VolumeBinding
from plugins.volume_binding.finder import NO_ROOM, NO_VOLUME, NOT_REACHABLE, VOLUME_GONE
from plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT, VolumeRestrictions
from plugins.volume_zone import VolumeZone
from scheduler.framework.status import Code, Status
from tests.plugins.harness import Bench
from tests.plugins.recorded import clusters

IN_ORDER = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
REASONS = {
    DISK_CONFLICT: VolumeRestrictions,
    CLAIM_IN_USE: VolumeRestrictions,
    LIMIT_EXCEEDED: NodeVolumeLimits,
    NOT_REACHABLE: VolumeBinding,
    NO_VOLUME: VolumeBinding,
    NO_ROOM: VolumeBinding,
    VOLUME_GONE: VolumeBinding,
    VolumeZone.reason: VolumeZone,
}
LATER = ("topology spread", "affinity rules", "anti-affinity", "claims", "required features")
CASES = Path(__file__).parents[2] / "cases"


def benches_of(objects: list[dict[str, Any]]) -> list[Bench]:
    """Each plugin on the same cluster; what the recordings have beyond podium's kinds is left out."""
    known = [(obj, by_kind(obj["apiVersion"], obj["kind"])) for obj in objects]
    typed = [convert(obj, resource.type) for obj, resource in known if resource is not None]
    pods = [
        o for o in typed if isinstance(o, Pod) and o.spec.node_name and o.status.phase not in ("Succeeded", "Failed")
    ]
    nodes = [o for o in typed if isinstance(o, Node)]
    others = [o for o in typed if not isinstance(o, Node | Pod)]
    return [Bench(plugin, nodes=nodes, pods=pods, objects=others) for plugin in IN_ORDER]


def pre_filter(benches: list[Bench], pod: Pod) -> str:
    """The message of the first plugin that rules out every node, "" where none does."""
    for bench in benches:
        answer = bench.pre_filter(pod)
        if isinstance(answer, Status) and not answer.skip:
            assert answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            return answer.message
    return ""


def judged(benches: list[Bench], pod: Pod) -> dict[str, Status]:
    """Per node the first refusal in plugin order, or success."""
    found: dict[str, Status] = {}
    for bench in benches:
        for name, status in bench.filter(pod).items():
            if name not in found or found[name].ok:
                found[name] = status
    return found


def differences(benches: list[Bench], pod: Pod, expect: dict[str, Any]) -> list[str]:
    message = pre_filter(benches, pod)
    if message or "ersistent" in expect.get("preFilter", ""):
        return [] if message == expect.get("preFilter") else [f"{message!r} is not {expect.get('preFilter')!r}"]
    if "feasible" not in expect or "preFilter" in expect:
        return []
    found = judged(benches, pod)
    wrong = [f"{name} is feasible, not {found[name]}" for name in expect["feasible"] if not found[name].ok]
    for name, reasons in (expect.get("nodeReasons") or {}).items():
        status = found.get(name)
        if all(reason in REASONS for reason in reasons):
            unresolvable = name in expect["unresolvable"] if "unresolvable" in expect else False
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE
            want = Status(code, tuple(reasons), REASONS[reasons[0]].name)
            if status != want:
                wrong.append(f"{name}: {status} is not {want}")
        elif all(any(part in reason for part in LATER) for reason in reasons) and not status.ok:
            wrong.append(f"{name} was refused by a later plugin, not {status}")
    return wrong


@pytest.mark.parametrize(
    "theme", ["volumes", "mixed", "plain", "affinity", "spread", "preempt", "images", "taints", "evict"]
)
def test_recorded_clusters_are_judged_as_recorded(theme):
    judged_pods = 0
    for cluster in clusters(theme):
        benches = benches_of(cluster["objects"])
        for case in cluster["pods"]:
            wrong = differences(benches, convert(case["pod"], Pod), case["expect"])
            assert not wrong, f"seed {cluster['seed']}, {case['pod']['metadata']['name']}"
            judged_pods += 1
    assert judged_pods >= 300


@pytest.mark.parametrize("case", ["38-", "39-", "40-", "42-"])
def test_users_cases_have_their_outcome(case):
    (folder,) = CASES.glob(f"{case}*")
    document = yaml.load((folder / "case.yaml").read_text(), yaml.CSafeLoader)
    objects = list(document["objects"]["items"])
    for body in document["schedule"]:
        pod = convert(body, Pod)
        expect = document["expect"][pod.key]
        benches = benches_of(objects)
        message = pre_filter(benches, pod)
        found = {} if message else judged(benches, pod)
        feasible = [name for name, status in found.items() if status.ok]
        if "feasible" in expect or "node" in expect:
            assert set(feasible) >= set(expect.get("feasible", [expect.get("node")]))
        if expect.get("unschedulable"):
            text = message or " ".join(reason for status in found.values() for reason in status.reasons)
            assert not feasible
            assert all(reason in text for reason in expect["reasons"] if "node(s)" not in reason), text
        if "node" in expect:
            objects.append({**body, "spec": {**body["spec"], "nodeName": expect["node"]}})
