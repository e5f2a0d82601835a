"""Tests of the in-tree plugins; `harness` runs one plugin on a small cluster."""
