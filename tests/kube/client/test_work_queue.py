"""The rate-limited work queue, in virtual time."""

import asyncio

import pytest

from kube.client.rate_limit import TokenBucket
from kube.client.work_queue import QueueShutDown, RateLimiter, WorkQueue

pytestmark = pytest.mark.looptime


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def test_an_item_added_twice_comes_once():
    queue = WorkQueue[str]()
    for item in ("a", "b", "a"):
        queue.add(item)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_an_item_added_while_it_is_worked_on_comes_again_when_that_is_done():
    queue = WorkQueue[str]()
    queue.add("a")
    item = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(item)
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_of_two_delays_the_shorter_counts():
    queue = WorkQueue[str]()
    started = now()
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 5)
    await queue.get()
    queue.done("a")
    assert now() - started == 3
    await asyncio.sleep(20)
    assert len(queue) == 0


async def test_failures_double_the_delay_until_the_item_is_well():
    queue = WorkQueue[str](RateLimiter(base_delay=1.0, max_delay=5.0, overall=TokenBucket(-1, 0)))
    waits = []
    for _ in range(5):
        started = now()
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        waits.append(now() - started)
    assert waits == [1, 2, 4, 5, 5]
    assert queue.num_requeues("a") == 5
    queue.forget("a")
    assert queue.num_requeues("a") == 0


async def test_all_items_together_are_limited_too():
    queue = WorkQueue[int](RateLimiter(base_delay=0.0, overall=TokenBucket(2.0, 1)))
    started = now()
    for item in range(4):
        queue.add_rate_limited(item)
    times = []
    for _ in range(4):
        await queue.get()
        times.append(now() - started)
    assert times == [0, 0.5, 1.0, 1.5]


async def test_shut_down_lets_the_rest_be_taken_and_then_ends_the_workers():
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add_after("late", 5)
    queue.shut_down()
    queue.add("b")
    assert await queue.get() == "a"
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_shut_down_ends_a_worker_that_waits():
    queue = WorkQueue[str]()
    worker = asyncio.ensure_future(queue.get())
    await asyncio.sleep(1)
    queue.shut_down()
    with pytest.raises(QueueShutDown):
        await worker


async def test_an_item_meant_for_a_cancelled_worker_goes_to_the_next():
    queue = WorkQueue[str]()
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first worker, which is cancelled before it runs
    first.cancel()
    assert await second == "a"
    assert first.cancelled()
