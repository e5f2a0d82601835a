"""How fast this machine is at this moment: printed beside every time, because times mean nothing without it.

Two measures, because machines differ in them: adding vectors tells of the engine's arrays, a request of a general HTTP
client of Python code. Budgets were set on a machine on which these took `REFERENCE_ADD` and `REFERENCE_POST`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import platform
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import Any

import aiohttp
import numpy as np

from podium.running import loop_factory

VECTOR = 5_000
_ROUNDS = 30
_ADDS = 200
#: microseconds of np.add on 5,000 float64, and of CPU for a POST over aiohttp, where the budgets were set
REFERENCE_ADD = 0.9
REFERENCE_POST = 56.0
_POSTS = 2_000
_CONCURRENCY = 50
_BODY = b'{"kind": "Binding", "note": "' + b"x" * 1_000 + b'"}'
_ANSWER = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def add_microseconds() -> float:
    """The best time of np.add on 5,000 float64."""
    left, right, out = np.ones(VECTOR), np.ones(VECTOR), np.empty(VECTOR)
    best = float("inf")
    for _ in range(_ROUNDS):
        started = perf_counter()
        for _ in range(_ADDS):
            np.add(left, right, out=out)
        best = min(best, (perf_counter() - started) / _ADDS)
    return best * 1e6


def post_microseconds() -> float:
    """CPU for a POST of 1 KB over aiohttp to a process of its own, 50 at a time, on uvloop where it is installed."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve_until_told, args=(theirs,), daemon=True)
    server.start()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_post_all(ours.recv()))
    finally:
        ours.send(None)
        server.join()


def _serve_until_told(pipe: Connection) -> None:
    """Answer every request with the same few bytes; tells its port first."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(_BODY))
            writer.write(_ANSWER)

    async def serve() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
            pipe.send(listening.sockets[0].getsockname()[1])
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


async def _post_all(port: int) -> float:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def some(number: int) -> None:
            for _ in range(number):
                async with session.post("/", data=_BODY, headers={"Authorization": f"Bearer {'x' * 900}"}) as answer:
                    await answer.read()

        async def at_once(number: int) -> None:
            await asyncio.gather(*(some(number // _CONCURRENCY) for _ in range(_CONCURRENCY)))

        await at_once(_POSTS // 4)
        started = process_time()
        await at_once(_POSTS)
        return (process_time() - started) / _POSTS * 1e6


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load": round(os.getloadavg()[0], 2),
        "add_5000_us": round(add_microseconds(), 2),
        "post_us": round(post_microseconds(), 1),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return platform.processor()
