"""The FailedScheduling text, letter by letter (facts 1.6)."""

import numpy as np
import pytest

from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Code, Status, unresolvable, unschedulable
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_node, make_pod
from tests.scheduler.harness import Cluster

NO_ROOM = "Insufficient cpu"
TAINTS = "node(s) had untolerated taint(s)"
ABSENT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
PREEMPTION = (
    "preemption: 0/5 nodes are available: 2 Preemption is not helpful for scheduling, "
    "3 No preemption victims found for incoming pod."
)


def diagnosis(
    *refused: tuple[int, Status], absent: int = 0, pre_filter: Status | None = None, post: str = ""
) -> Diagnosis:
    """`refused`: (number of nodes, status); the rows follow each other."""
    total = sum(count for count, _ in refused) + absent
    made = Diagnosis(Snapshot(), total if pre_filter is None else 5)
    row = 0
    for count, status in refused:
        rows = np.arange(row, row + count)
        made.add_refused(Refused(status.plugin, rows, Refusals((status,), np.zeros(count, np.intp))))
        row += count
    if absent:
        made.absent = (np.arange(row, row + absent), unresolvable(ABSENT).by("NodeAffinity"))
    if pre_filter is not None:
        made.pre_filter = pre_filter
    made.post_filter_message = post
    return made


@pytest.mark.parametrize(
    ("made", "text"),
    [
        pytest.param(
            diagnosis((2, unresolvable(TAINTS).by("T")), (3, unschedulable(NO_ROOM).by("F")), post=PREEMPTION),
            f"0/5 nodes are available: 2 {TAINTS}, 3 {NO_ROOM}. {PREEMPTION}",
            id="a histogram of reasons, then what preemption says",
        ),
        pytest.param(
            diagnosis((2, unschedulable("b")), (10, unschedulable("a")), (1, unschedulable("c"))),
            "0/13 nodes are available: 1 c, 10 a, 2 b.",
            id="entries sort as strings, so 10 comes before 2",
        ),
        pytest.param(
            diagnosis((2, unschedulable(NO_ROOM, "Too many pods")), (1, unschedulable(NO_ROOM))),
            "0/3 nodes are available: 2 Too many pods, 3 Insufficient cpu.",
            id="all reasons of a node count",
        ),
        pytest.param(
            diagnosis((1, unschedulable(NO_ROOM)), absent=4),
            f"0/5 nodes are available: 1 {NO_ROOM}, 4 {ABSENT}.",
            id="nodes outside the node set have the absent reason",
        ),
        pytest.param(
            diagnosis(
                pre_filter=unresolvable("pod has unbound immediate PersistentVolumeClaims").by("V"),
                post="preemption: no.",
            ),
            "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: no.",
            id="a PreFilter rejection replaces the histogram",
        ),
        pytest.param(
            diagnosis((1, unschedulable(NO_ROOM)), post="preemption: not eligible due to preemptionPolicy=Never."),
            f"0/1 nodes are available: 1 {NO_ROOM}. preemption: not eligible due to preemptionPolicy=Never.",
            id="preemption that is not allowed says so",
        ),
        pytest.param(diagnosis(), "no nodes available to schedule pods", id="an empty cluster"),
    ],
)
def test_the_text(made: Diagnosis, text: str) -> None:
    assert made.message() == text


def test_an_empty_cluster_has_no_rejecting_plugin_so_that_backoff_alone_retries() -> None:
    attempt = Cluster().attempt(make_pod("web"))
    assert attempt.message() == "no nodes available to schedule pods"
    assert attempt.diagnosis is not None
    assert attempt.diagnosis.unschedulable_plugins == set()


def test_statuses_by_node_and_rows_by_code() -> None:
    cluster = Cluster(nodes=[make_node(name) for name in ("n1", "n2", "n3")])
    cluster.snapshot.refresh()
    made = Diagnosis(cluster.snapshot, 3)
    mixed = Refusals((unschedulable(NO_ROOM).by("F"), unresolvable(NO_ROOM).by("F")), np.array([1, 0]))
    made.add_refused(Refused("F", np.array([0, 2]), mixed))
    made.absent = (np.array([1]), unresolvable(ABSENT).by("A"))
    assert {name: status.code for name, status in made.node_statuses().items()} == {
        "n1": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "n3": Code.UNSCHEDULABLE,
    }
    assert made.rows_with_code(Code.UNSCHEDULABLE).tolist() == [2]
    assert [made.code_of(row) for row in (0, 1, 2)] == [
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.UNSCHEDULABLE,
    ]


def test_pending_refusals_are_remembered_apart() -> None:
    made = diagnosis((1, Status(Code.PENDING, ("waits",), "P")), (1, unschedulable("no").by("F")))
    assert made.pending_plugins == {"P"}
    assert made.unschedulable_plugins == {"P", "F"}
