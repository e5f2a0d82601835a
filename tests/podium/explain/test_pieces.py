"""Explanations in pieces: the same answer as at once, and an answer even where the world changes between two pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kube.api.core import Pod
from podium.explain import pieces, preemption
from podium.explain.documents import Explanation
from podium.explain.explain import explain, explaining
from podium.explain.sources import cluster_of
from simulator.offline import Simulation
from tests.builders import HOSTNAME, ZONE, affinity, make_node, make_pod, pod_term, spread
from tests.podium.explain.asking import simulation_of

WEB = {"app": "web"}
APART = affinity(anti_required=[pod_term(HOSTNAME, WEB)])
PODS = [
    pytest.param(make_pod("x", cpu="3", priority=100), id="room that preemption makes"),
    pytest.param(make_pod("x", cpu="3", priority=-1), id="nobody less important"),
    pytest.param(make_pod("x", cpu="100m", labels=WEB, priority=9, affinity=APART), id="anti-affinity"),
    pytest.param(make_pod("x", cpu="9", priority=100, spread=[spread(ZONE, WEB)]), id="too large, and to be spread"),
    pytest.param(make_pod("x", cpu="3", priority=100, node_selector={ZONE: "nowhere"}), id="a label that no node has"),
    pytest.param(make_pod("x", cpu="3", priority=100, preemption_policy="Never"), id="it may not preempt"),
    pytest.param(make_pod("x", cpu="100m"), id="it fits"),
]


def full(pod: Pod, nodes: int = 40) -> Simulation:
    """Nodes with a web pod each, and little room."""
    placed = [make_pod(f"big-{i}", cpu="3500m", node_name=f"n{i:02}") for i in range(nodes)]
    web = [make_pod(f"web-{i}", cpu="50m", labels=WEB, priority=5, node_name=f"n{i:02}") for i in range(nodes)]
    machines = [make_node(f"n{i:02}", cpu="4", labels={ZONE: f"z{i % 3}"}) for i in range(nodes)]
    return simulation_of(machines, (*placed, *web, pod))


def stepped(simulation: Simulation, pod: Pod, meanwhile: Callable[[int], None]) -> Explanation:
    """The answer, something happening between the pieces."""
    steps = explaining(cluster_of(simulation), pod)
    for number in range(1000):
        try:
            next(steps)
        except StopIteration as end:
            answer: Explanation = end.value
            return answer
        meanwhile(number)
    raise AssertionError("it never ends")


@pytest.mark.parametrize("pod", PODS)
def test_parts_of_a_search_find_what_one_search_finds(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explain(cluster_of(full(pod)), pod)
    monkeypatch.setattr(preemption, "FIRST_PART", 3)
    monkeypatch.setattr(preemption, "QUICK", 0.0)
    assert explain(cluster_of(full(pod)), pod) == whole


@pytest.mark.parametrize("pod", PODS)
def test_an_answer_is_found_while_nodes_and_pods_come_and_go(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "FIRST_PART", 3)
    monkeypatch.setattr(preemption, "QUICK", 0.0)
    simulation = full(pod)
    names = iter([*simulation.cache.nodes])

    def meanwhile(number: int) -> None:
        name = next(names, None)
        if number % 2 and name is not None:
            for uid in [*simulation.cache.nodes[name].pods]:
                simulation.cache.remove_pod(uid)
            simulation.cache.remove_node(name)
        else:
            simulation.cache.add_pod(make_pod(f"new-{number}", cpu="10m", node_name="n39"))

    answer = stepped(simulation, pod, meanwhile)
    assert answer.verdict
    assert simulation.cache.validate() == []


def test_a_pod_that_fits_by_the_time_it_is_judged_is_told_to_fit() -> None:
    pod = make_pod("x", cpu="3", priority=-1)
    simulation = full(pod)

    def meanwhile(number: int) -> None:
        if number == 0:
            simulation.cache.add_node(make_node("new", cpu="8"))

    assert stepped(simulation, pod, meanwhile).state == "fits"


def test_a_search_that_takes_too_long_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "FIRST_PART", 8)
    pod = make_pod("x", cpu="9", priority=100)
    answer = pieces.at_once(explaining(cluster_of(full(pod)), pod, patience=0.0))
    assert answer.preemption is not None
    assert answer.preemption.text == "evicting pods (of priority below 100) does not help on the 8 nodes looked at"


async def test_the_loop_goes_on_between_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SLICE", 0.0)
    monkeypatch.setattr(preemption, "FIRST_PART", 4)
    pod = make_pod("x", cpu="3", priority=100)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await pieces.in_slices(explaining(cluster_of(full(pod)), pod))
    counting.cancel()
    # The question, the causes, the search, the eight nearest nodes.
    assert turns >= 10
