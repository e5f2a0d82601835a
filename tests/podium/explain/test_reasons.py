"""The reasons of pending pods as labels of a metric: known in advance, whatever the message says."""

from __future__ import annotations

import pytest

from podium.explain.reasons import KNOWN, label_of, reasons_of


@pytest.mark.parametrize(
    ("message", "reasons"),
    [
        pytest.param(
            "0/5 nodes are available: 2 node(s) had untolerated taint(s), 3 Insufficient cpu. "
            "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
            [("node(s) had untolerated taint(s)", 2), ("Insufficient cpu", 3)],
            id="the histogram without what preemption says",
        ),
        pytest.param(
            "0/5 nodes are available: 5 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: x.",
            [("Insufficient nvidia.com/gpu", 5)],
            id="a reason with a full stop in it",
        ),
        pytest.param(
            "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            [("pod has unbound immediate PersistentVolumeClaims", 0)],
            id="PreFilter speaks for all nodes",
        ),
        pytest.param(
            "no nodes available to schedule pods", [("no nodes available to schedule pods", 0)], id="no nodes"
        ),
        pytest.param("", [], id="nothing was said yet"),
    ],
)
def test_reasons_of_a_message(message: str, reasons: list[tuple[str, int]]) -> None:
    assert list(reasons_of(message)) == reasons


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("Insufficient cpu", ("NodeResourcesFit", "insufficient_cpu")),
        ("Insufficient example.com/secret-project", ("NodeResourcesFit", "insufficient_extended_resource")),
        ("Insufficient hugepages-2Mi", ("NodeResourcesFit", "insufficient_hugepages")),
        ("Too many pods", ("NodeResourcesFit", "too_many_pods")),
        ("waiting for scheduling gates: [a.example/b]", ("SchedulingGates", "gated")),
        ('persistentvolumeclaim "payroll" not found', ("VolumeBinding", "claim")),
        ("cannot allocate all claims", ("DynamicResources", "no_devices")),
        ("request gpu: device class secret does not exist", ("DynamicResources", "device_class")),
        ('could not find ResourceClaim "default/secret"', ("DynamicResources", "claim")),
        ("somebody's plugin says no to pod payroll-7", ("", "other")),
    ],
)
def test_labels_hold_no_names(reason: str, label: tuple[str, str]) -> None:
    assert label_of(reason) == label


def test_labels_are_words() -> None:
    assert all(label.isidentifier() for _, label in KNOWN.values())
