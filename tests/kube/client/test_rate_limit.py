"""The token bucket, in virtual time."""

import asyncio

import pytest

from kube.client.rate_limit import TokenBucket

pytestmark = pytest.mark.looptime


async def times(bucket: TokenBucket, count: int) -> list[float]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    passed = []
    for _ in range(count):
        await bucket.wait()
        passed.append(round(loop.time() - started, 3))
    return passed


async def test_a_burst_passes_at_once_and_the_rest_at_the_rate():
    assert await times(TokenBucket(4.0, 2), 5) == [0, 0, 0.25, 0.5, 0.75]


async def test_what_was_not_used_is_saved_up_to_the_burst():
    bucket = TokenBucket(1.0, 2)
    await times(bucket, 2)
    await asyncio.sleep(100)
    assert await times(bucket, 3) == [0, 0, 1]


async def test_a_negative_rate_is_no_limit():
    assert await times(TokenBucket(-1, 0), 1000) == [0] * 1000


async def test_zero_means_the_defaults_of_client_go():
    bucket = TokenBucket(0, 0)
    assert (bucket.qps, bucket.burst) == (5.0, 10)


async def test_who_gives_up_waiting_gives_the_token_back():
    bucket = TokenBucket(1.0, 1)
    await bucket.wait()
    waiter = asyncio.ensure_future(bucket.wait())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert await times(bucket, 1) == [1]


async def test_try_accept_does_not_wait():
    bucket = TokenBucket(1.0, 1)
    assert [bucket.try_accept(), bucket.try_accept()] == [True, False]
