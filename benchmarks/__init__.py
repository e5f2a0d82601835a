"""Benchmarks: what a scheduling cycle costs, and what podium costs a bound pod. `python -m benchmarks`."""
