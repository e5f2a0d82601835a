"""Whose turn it is: each once an interval, however they came, and not a timer more than needed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from simulator.kubelet.heartbeats import SLOTS, Rota
from simulator.kubelet.timers import Timers

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("count", [1, 3, 250])
async def test_each_has_one_turn_an_interval_whenever_it_came(count: int) -> None:
    turns: Counter[str] = Counter()
    timers = Timers()
    rota = Rota(timers, 10.0, lambda name: turns.update([name]))
    for i in range(count):
        rota.add(f"n{i}")
        await asyncio.sleep(0.013 * (i % 7))
    turns.clear()
    await asyncio.sleep(200)
    assert set(turns.values()) <= {19, 20, 21}
    assert len(turns) == count
    timers.stop()


async def test_who_has_gone_has_no_turn_and_who_comes_back_has() -> None:
    turns: Counter[str] = Counter()
    timers = Timers()
    rota = Rota(timers, 10.0, lambda name: turns.update([name]))
    rota.add("a")
    rota.add("b")
    await asyncio.sleep(25)
    rota.remove("a")
    rota.remove("b")
    turns.clear()
    await asyncio.sleep(100)
    assert not turns
    rota.add("b")
    await asyncio.sleep(100)
    assert 9 <= turns["b"] <= 11
    timers.stop()


async def test_a_tick_in_which_it_is_nobodys_turn_is_left_out() -> None:
    made = 0

    class Counting(Timers):
        def after(self, delay: float, function, *arguments) -> None:
            nonlocal made
            made += 1
            super().after(delay, function, *arguments)

    timers = Counting()
    Rota(timers, 10.0, lambda name: None).add("alone")
    await asyncio.sleep(1000)
    assert made < 1000 / 10 * SLOTS / 50
    timers.stop()
