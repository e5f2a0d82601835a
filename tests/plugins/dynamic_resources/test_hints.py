"""Which events wake a pod that lacked devices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube.api.core import Pod, PodResourceClaimStatus
from scheduler.framework.cluster_event import Action, QueueingHint
from tests.plugins.dynamic_resources.builders import DRIVER, Cluster, a_claim, a_pod, exactly, held

FREE = a_claim("mine", exactly("r"))
TAKEN = a_claim("mine", exactly("r"), status=held(f"{DRIVER}/s/d"))
OTHER_FREE = a_claim("other", exactly("r"))
OTHER_TAKEN = a_claim("other", exactly("r"), status=held(f"{DRIVER}/s/d"))


def labelled(claim: Any) -> Any:
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, labels={"a": "b"}))


def hint(cluster: Cluster, resource: str) -> Any:
    [found] = [each.hint for each in cluster.plugin.events or () if each.event.resource == resource]
    return found


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(OTHER_TAKEN, OTHER_FREE, True, id="any claim gives its devices back"),
        pytest.param(OTHER_FREE, OTHER_TAKEN, False, id="another claim takes some"),
        pytest.param(None, OTHER_FREE, False, id="another claim comes"),
        pytest.param(None, FREE, True, id="the pod's own claim comes"),
        pytest.param(FREE, TAKEN, True, id="the status of its own claim changes"),
        pytest.param(FREE, labelled(FREE), False, id="only the labels of its own claim change"),
        pytest.param(FREE, None, False, id="a claim goes"),
    ],
)
def test_claims(old: Any, new: Any, wakes: bool) -> None:
    cluster = Cluster(FREE)
    answer = hint(cluster, "ResourceClaim")(a_pod("p", "mine"), old, new)
    assert answer is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)


def test_nothing_wakes_a_pod_whose_own_claims_are_missing() -> None:
    cluster = Cluster()
    answer = hint(cluster, "ResourceClaim")(a_pod("p", "mine"), OTHER_TAKEN, OTHER_FREE)
    assert answer is QueueingHint.SKIP


@pytest.mark.parametrize(
    ("there", "uid", "wakes"),
    [
        pytest.param(True, "uid-p", True, id="its claims are named and there"),
        pytest.param(False, "uid-p", False, id="its claims are named but not seen yet"),
        pytest.param(True, "uid-q", False, id="it is another pod"),
    ],
)
def test_names_of_generated_claims(there: bool, uid: str, wakes: bool) -> None:
    cluster = Cluster(*([FREE] if there else []))
    pod = a_pod("p", "mine")
    status = msgspec.structs.replace(
        pod.status, resource_claim_statuses=(PodResourceClaimStatus(name="mine", resource_claim_name="mine"),)
    )
    new: Pod = msgspec.structs.replace(pod, status=status, metadata=msgspec.structs.replace(pod.metadata, uid=uid))
    answer = hint(cluster, "Pod")(pod, pod, new)
    assert answer is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)


def test_deletes_and_heartbeats_wake_nobody() -> None:
    actions = {each.event.resource: each.event.action for each in Cluster().plugin.events or ()}
    assert set(actions) == {"Node", "ResourceClaim", "Pod", "DeviceClass", "ResourceSlice"}
    assert not any(action & Action.DELETE for action in actions.values())
    assert actions["Node"] == Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
