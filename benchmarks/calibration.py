"""How fast this machine is at this moment: printed beside every time, because times mean nothing without it."""

from __future__ import annotations

import os
import platform
from time import perf_counter
from typing import Any

import numpy as np

VECTOR = 5_000
_ROUNDS = 30
_ADDS = 200


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
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return platform.processor()
