"""`cluster_of(text, …)`: the cluster that the given YAML or JSON texts make up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simulator.load import ClusterObjects, load


@pytest.fixture
def cluster_of(tmp_path: Path) -> Callable[..., ClusterObjects]:
    def make(*texts: str) -> ClusterObjects:
        paths = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.yaml"
            path.write_text(text)
            paths.append(str(path))
        return load(paths)

    return make
