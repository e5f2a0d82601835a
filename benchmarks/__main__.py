"""`python -m benchmarks`: print the cost of a scheduling cycle as a table."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Run the engine benchmarks."""
    from benchmarks import engine

    print(f"{'scheduling cycle (µs)':<48}{'median':>9}{'p99':>9}{'cpu':>9}{'pods/s':>10}")
    for cost in engine.plain():
        print(f"{cost.name:<48}{cost.median:>9.0f}{cost.p99:>9.0f}{cost.cpu:>9.0f}{cost.per_second:>10,.0f}")


if __name__ == "__main__":
    main()
