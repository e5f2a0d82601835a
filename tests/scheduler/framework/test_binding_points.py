"""Reserve, PreBind, Bind and PostBind as the runtime runs them (facts 1.2)."""

import asyncio
from typing import Any

import pytest

from kube.api.core import Pod
from kube.client.errors import Conflict
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import BindPlugin, PostBindPlugin, PreBindPlugin, PreEnqueuePlugin, ReservePlugin
from scheduler.framework.status import SKIP, Code, Status, error, unschedulable
from tests.builders import make_pod
from tests.scheduler.harness import Cluster

POD = make_pod("web")


def state(cluster: Cluster) -> CycleState:
    return CycleState(cluster.info(POD))


# --- Reserve -----------------------------------------------------------------------------------------------------


def reserving(
    name: str, log: list[str], answer: Status | Exception | None = None, *, undo: Exception | None = None
) -> Any:
    class Reserving(ReservePlugin):
        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            log.append(f"reserve {name}")
            if isinstance(answer, Exception):
                raise answer
            return answer

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            log.append(f"unreserve {name}")
            if undo is not None:
                raise undo

    Reserving.name = name
    return Reserving


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        pytest.param(unschedulable("taken"), Code.UNSCHEDULABLE, "taken", id="a rejection"),
        pytest.param(error("boom"), Code.ERROR, 'running Reserve plugin "B": boom', id="an error"),
        pytest.param(RuntimeError("bug"), Code.ERROR, 'running Reserve plugin "B": RuntimeError: bug', id="a bug"),
    ],
)
def test_reserve_stops_at(answer: Status | Exception, code: Code, message: str) -> None:
    log: list[str] = []
    cluster = Cluster(reserving("A", log), reserving("B", log, answer), reserving("C", log))
    status = cluster.framework.run_reserve(state(cluster), POD, "n1")
    assert status is not None
    assert (status.code, status.message, status.plugin) == (code, message, "B")
    assert log == ["reserve A", "reserve B"]


def test_unreserve_runs_backwards_over_all_plugins_even_past_one_that_raises() -> None:
    log: list[str] = []
    plugins = [reserving("A", log), reserving("B", log, undo=RuntimeError("bug")), reserving("C", log)]
    cluster = Cluster(*plugins)
    cluster.framework.run_unreserve(state(cluster), POD, "n1")
    assert log == ["unreserve C", "unreserve B", "unreserve A"]


# --- PreBind -----------------------------------------------------------------------------------------------------


def pre_binding(
    name: str, log: list[str], *, parallel: bool = False, skip: bool = False, answer: Status | Exception | None = None
) -> Any:
    class PreBinding(PreBindPlugin):
        allow_parallel = parallel

        def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return SKIP if skip else None

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            log.append(f"{name}(")
            await asyncio.sleep(1)
            log.append(f"){name}")
            if isinstance(answer, Exception):
                raise answer
            return answer

    PreBinding.name = name
    return PreBinding


async def pre_bind(cluster: Cluster) -> Status | None:
    working, status = cluster.framework.run_pre_bind_pre_flight(state(cluster), POD, "n1")
    assert status.ok
    return await cluster.framework.run_pre_bind(working, state(cluster), POD, "n1")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("plugins", "order"),
    [
        pytest.param([("A", {}), ("B", {})], "A()AB()B", id="one after the other"),
        pytest.param(
            [("A", {"parallel": True}), ("B", {"parallel": True})],
            "A(B()A)B",
            id="neighbours that allow it run together",
        ),
        pytest.param(
            [("A", {"parallel": True}), ("X", {}), ("B", {"parallel": True})],
            "A()AX()XB()B",
            id="one that does not allow it runs alone",
        ),
        pytest.param(
            [("A", {"parallel": True}), ("X", {"skip": True}), ("B", {"parallel": True})],
            "A()AB()B",
            id="and splits its neighbours even if it is skipped",
        ),
        pytest.param(
            [("A", {"parallel": True}), ("X", {"skip": True, "parallel": True}), ("B", {"parallel": True})],
            "A(B()A)B",
            id="a skipped one that allows it does not",
        ),
        pytest.param([("X", {"skip": True})], "", id="nobody has work to do"),
    ],
)
async def test_order_of_pre_bind(plugins: list[tuple[str, dict[str, bool]]], order: str) -> None:
    log: list[str] = []
    cluster = Cluster(*(pre_binding(name, log, **flags) for name, flags in plugins))
    assert await pre_bind(cluster) is None
    assert "".join(log) == order


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        pytest.param(unschedulable("no volume"), Code.UNSCHEDULABLE, "no volume", id="a rejection"),
        pytest.param(error("boom"), Code.ERROR, 'running PreBind plugin "A": boom', id="an error"),
        pytest.param(
            Conflict("changed", status=409, reason="Conflict"),
            Code.ERROR,
            'running PreBind plugin "A": Conflict: 409 Conflict: changed',
            id="an error of the API server",
        ),
        pytest.param(ValueError("bug"), Code.ERROR, 'running PreBind plugin "A": ValueError: bug', id="a bug"),
    ],
)
async def test_pre_bind_fails_by(answer: Status | Exception, code: Code, message: str) -> None:
    log: list[str] = []
    cluster = Cluster(
        pre_binding("A", log, parallel=True, answer=answer), pre_binding("B", log, parallel=True), pre_binding("C", log)
    )
    status = await pre_bind(cluster)
    assert status is not None
    assert (status.code, status.message, status.plugin) == (code, message, "A")
    # Its neighbour's work is not torn apart, but nobody begins any more.
    assert "".join(log) == "A(B()A)B"
    assert not cluster.waiting.pre_binding


@pytest.mark.looptime
async def test_a_pod_in_pre_bind_can_be_preempted() -> None:
    log: list[str] = []
    cluster = Cluster(pre_binding("A", log))
    uid = cluster.info(POD).uid
    asyncio.get_running_loop().call_later(0.5, lambda: log.append(str(cluster.waiting.preempt(uid, "P"))))
    status = await pre_bind(cluster)
    assert status == unschedulable("preempted").by("A")
    assert log == ["A(", "True"]
    assert not cluster.waiting.preempt(uid, "P")


def test_pre_flight_that_errs_names_the_plugin() -> None:
    class Errs(PreBindPlugin):
        name = "Errs"

        def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return error("boom")

    cluster = Cluster(Errs)
    _, status = cluster.framework.run_pre_bind_pre_flight(state(cluster), POD, "n1")
    assert status == error('running PreBindPreFlight "Errs": boom').by("Errs")


# --- Bind and PostBind -------------------------------------------------------------------------------------------


def binding(name: str, answer: Status | None) -> Any:
    class Binding(BindPlugin):
        async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return answer

    Binding.name = name
    return Binding


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([None, error("never asked")], None, id="the first that binds ends it"),
        pytest.param([SKIP, None], None, id="one that skips leaves it to the next"),
        pytest.param([SKIP, error("boom")], error('running Bind plugin "B1": boom').by("B1"), id="an error ends it"),
        pytest.param([SKIP, unschedulable("no")], unschedulable("no").by("B1"), id="so does a rejection"),
        pytest.param([SKIP, SKIP], error("no Bind plugin took the pod"), id="somebody has to bind"),
    ],
)
async def test_bind(answers: list[Status | None], expected: Status | None) -> None:
    cluster = Cluster(*(binding(f"B{i}", answer) for i, answer in enumerate(answers)))
    assert await cluster.framework.run_bind(state(cluster), POD, "n1") == expected


def test_a_post_bind_plugin_that_raises_changes_nothing_for_the_others() -> None:
    told: list[str] = []

    class Raises(PostBindPlugin):
        name = "Raises"

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            raise RuntimeError("bug")

    class Notes(PostBindPlugin):
        name = "Notes"

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            told.append(node_name)

    cluster = Cluster(Raises, Notes)
    cluster.framework.run_post_bind(state(cluster), POD, "n1")
    assert told == ["n1"]


def test_a_pre_enqueue_plugin_that_raises_gates_the_pod() -> None:
    class Raises(PreEnqueuePlugin):
        name = "Raises"

        def pre_enqueue(self, pod: Pod) -> Status | None:
            raise RuntimeError("bug")

    status = Cluster(Raises).framework.run_pre_enqueue(POD)
    assert status is not None
    assert (status.plugin, status.message) == ("Raises", "RuntimeError: bug")
