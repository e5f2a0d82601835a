"""Tests of the benchmarks, and the guard that counts."""
