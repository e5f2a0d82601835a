"""VolumeBinding's score, with the gate StorageCapacityScoring: how full the storage would be, through the shape."""

import pytest

from config.types import UtilizationShapePoint, VolumeBindingArgs
from plugins.volume_binding import VolumeBinding
from plugins.volume_binding.plugin import SCORING_GATE
from plugins.volume_binding.scoring import score_table
from tests.builders import make_node, make_pod
from tests.plugins.harness import Bench
from tests.plugins.volumes.builders import capacity, claim, csi_driver, storage_class, volume

RISING = (UtilizationShapePoint(utilization=0, score=0), UtilizationShapePoint(utilization=100, score=10))
FALLING = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
NODES = [make_node("a", zone="a"), make_node("b", zone="b")]


def bench(*objects, shape=RISING, gate: bool = True) -> Bench:
    args = VolumeBindingArgs(bind_timeout_seconds=600, shape=shape)
    return Bench(VolumeBinding, nodes=NODES, objects=objects, args=args, gates={SCORING_GATE: gate})


@pytest.mark.parametrize(
    ("shape", "utilization", "score"),
    [
        pytest.param(RISING, 33, 33, id="rising"),
        pytest.param(FALLING, 33, 67, id="falling"),
        pytest.param((UtilizationShapePoint(utilization=40, score=3), *RISING[1:]), 10, 30, id="constant before"),
        pytest.param((RISING[0], UtilizationShapePoint(utilization=60, score=6)), 90, 60, id="constant after"),
        pytest.param((*RISING[:1], UtilizationShapePoint(utilization=30, score=1)), 10, 3, id="whole numbers, down"),
        pytest.param(
            (UtilizationShapePoint(utilization=0, score=1), UtilizationShapePoint(utilization=30, score=0)),
            10,
            7,
            id="falling lines are cut toward zero",
        ),
    ],
)
def test_the_shape(shape, utilization, score):
    assert score_table(shape)[utilization] == score


@pytest.mark.parametrize(
    ("objects", "scores"),
    [
        pytest.param(
            [claim("c", size="5Gi"), volume("v", zone="a", size="50Gi"), volume("w", zone="b", size="8Gi")],
            {"a": 10, "b": 62},
            id="existing volumes: request by capacity",
        ),
        pytest.param(
            [claim("c", size="5Gi"), claim("d", size="10Gi"), volume("v", size="10Gi"), volume("w", size="20Gi")],
            {"a": 50, "b": 50},
            id="volumes of a class are summed",
        ),
        pytest.param(
            [
                claim("c", size="5Gi"),
                claim("d", size="1Gi", class_name="fast"),
                storage_class("fast"),
                volume("v", size="10Gi"),
                volume("w", size="4Gi", class_name="fast"),
            ],
            {"a": 38, "b": 38},
            id="the mean of 50 and 25 is rounded up",
        ),
        pytest.param(
            [
                claim("c", size="5Gi"),
                csi_driver(storage_capacity=True),
                capacity("a", "10Gi", zone="a"),
                capacity("b", "100Gi", zone="b"),
            ],
            {"a": 50, "b": 5},
            id="volumes to be made: request by measured room",
        ),
        pytest.param(
            [
                claim("c", size="5Gi"),
                claim("d", size="5Gi"),
                csi_driver(storage_capacity=True),
                capacity("a", "10Gi", zone="a"),
                capacity("b", "100Gi", zone="b"),
            ],
            {"a": 100, "b": 10},
            id="the room of a class counts once for two claims",
        ),
        pytest.param([claim("c", size="5Gi")], {"a": 0, "b": 0}, id="without a measure there is no score"),
        pytest.param(
            [claim("c", size="5Gi"), volume("v", zone="a", size="10Gi")],
            {"a": 50, "b": 0},
            id="a node that makes the volume has no measure",
        ),
        pytest.param([claim("c", volume="v"), volume("v")], {"a": 0, "b": 0}, id="bound claims use nothing more"),
    ],
)
def test_the_score_of_a_node(objects, scores):
    names = sorted({o.metadata.name for o in objects if o.KIND == "PersistentVolumeClaim"})
    assert bench(storage_class(), *objects).score(make_pod("p", claims=names)) == scores


@pytest.mark.parametrize(
    ("gate", "pod"),
    [
        pytest.param(False, make_pod("p", claims=["c"]), id="without the gate"),
        pytest.param(True, make_pod("p"), id="a pod without claims"),
    ],
)
def test_nothing_is_scored(gate, pod):
    assert bench(storage_class(), claim("c"), gate=gate).score(pod) is None
