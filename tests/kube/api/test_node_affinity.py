"""nodeSelector and node affinity, judged on one node."""

import pytest

from kube.api.core import NodeSelector
from kube.api.node_affinity import (
    match_node_selector,
    preferred_node_terms,
    preferred_score,
    required_node_affinity_matches,
)
from tests.builders import (
    DoesNotExist,
    Exists,
    Gt,
    In,
    Lt,
    NotIn,
    affinity,
    make_pod,
    node_selector,
    node_term,
    requires,
)

LABELS = {"zone": "a", "gpus": "4", "disk": "ssd"}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([requires("zone", In, "a", "b")], True, id="In"),
        pytest.param([requires("zone", In, "b")], False, id="In another value"),
        pytest.param([requires("zone", NotIn, "b")], True, id="NotIn"),
        pytest.param([requires("missing", NotIn, "b")], True, id="NotIn where the label is absent"),
        pytest.param([requires("missing", In, "b")], False, id="In where the label is absent"),
        pytest.param([requires("zone", Exists)], True, id="Exists"),
        pytest.param([requires("missing", DoesNotExist)], True, id="DoesNotExist where absent"),
        pytest.param([requires("zone", DoesNotExist)], False, id="DoesNotExist where present"),
        pytest.param([requires("gpus", Gt, "3")], True, id="Gt"),
        pytest.param([requires("gpus", Gt, "4")], False, id="Gt is strict"),
        pytest.param([requires("gpus", Lt, "10")], True, id="Lt compares numbers, not text"),
        pytest.param([requires("gpus", Gt, "3.5")], False, id="Gt with a fraction matches nothing"),
        pytest.param([requires("zone", Gt, "3")], False, id="Gt on a word matches nothing"),
        pytest.param([requires("gpus", Gt, "1", "2")], False, id="Gt with two values matches nothing"),
        pytest.param([requires("missing", Lt, "1")], False, id="Lt where the label is absent"),
        pytest.param([requires("zone", "Near", "a")], False, id="an unknown operator matches nothing"),
        pytest.param([requires("missing", NotIn)], False, id="NotIn without values matches nothing"),
        pytest.param([requires("zone", In, "a", "b c")], False, id="In with what cannot be a label's value"),
        pytest.param([requires("zone", NotIn, "b c")], False, id="NotIn with what cannot be a label's value"),
        pytest.param([requires("-missing", DoesNotExist)], False, id="DoesNotExist with what cannot be a label's key"),
        pytest.param([requires("missing", NotIn, "b" * 64)], False, id="NotIn with a value too long for a label"),
        pytest.param([requires("gpus", Gt, "-5")], False, id="Gt: no label's value begins with a sign"),
        pytest.param(
            [requires("gpus", Gt, "-5"), requires("gpus", Gt, "3")], True, id="one that can be read beside it"
        ),
        pytest.param([], False, id="no terms match nothing"),
        pytest.param([node_term()], False, id="an empty term matches nothing"),
        pytest.param([node_term(), requires("zone", In, "a")], True, id="an empty term beside a good one"),
        pytest.param([requires("zone", In, "b"), requires("disk", In, "ssd")], True, id="terms are alternatives"),
        pytest.param(
            [node_term(requires("zone", In, "a"), requires("disk", In, "hdd"))], False, id="expressions must all hold"
        ),
        pytest.param([node_term(fields=[requires("metadata.name", In, "n1")])], True, id="the node's name"),
        pytest.param([node_term(fields=[requires("metadata.name", NotIn, "n1")])], False, id="not the node's name"),
        pytest.param([node_term(fields=[requires("metadata.name", In, "n1", "n2")])], False, id="two names in a field"),
        pytest.param([node_term(fields=[requires("metadata.name", Exists)])], False, id="only In and NotIn on fields"),
        pytest.param([node_term(fields=[requires("spec.foo", In, "n1")])], False, id="only metadata.name"),
        pytest.param(
            [node_term(requires("zone", In, "b"), fields=[requires("metadata.name", In, "n1")])],
            False,
            id="fields and expressions must both hold",
        ),
    ],
)
def test_node_selector_terms(terms, matches):
    assert match_node_selector(node_selector(*terms), LABELS, "n1") is matches


@pytest.mark.parametrize(
    ("pod", "matches"),
    [
        pytest.param(make_pod("p"), True, id="a pod that asks for nothing"),
        pytest.param(make_pod("p", node_selector={"zone": "a"}), True, id="nodeSelector"),
        pytest.param(
            make_pod("p", node_selector={"zone": "a", "missing": ""}), False, id="nodeSelector, a label absent"
        ),
        pytest.param(make_pod("p", affinity=affinity()), True, id="empty affinity"),
        pytest.param(make_pod("p", affinity=affinity(node_required=[])), False, id="required without terms"),
        pytest.param(
            make_pod("p", node_selector={"zone": "b"}, affinity=affinity(node_required=[requires("zone", In, "a")])),
            False,
            id="nodeSelector fails, affinity holds",
        ),
        pytest.param(
            make_pod("p", node_selector={"zone": "a"}, affinity=affinity(node_required=[requires("disk", In, "hdd")])),
            False,
            id="nodeSelector holds, affinity fails",
        ),
    ],
)
def test_what_a_pod_requires(pod, matches):
    assert required_node_affinity_matches(pod, LABELS, "n1") is matches


def test_preferred_weights_add_up():
    pod = make_pod(
        "p",
        affinity=affinity(
            node_preferred=[
                (10, requires("zone", In, "a")),
                (5, requires("disk", In, "hdd")),
                (3, node_term()),
                (1, requires("gpus", Exists)),
            ]
        ),
    )
    assert preferred_score(preferred_node_terms(pod), LABELS, "n1") == 11
    assert preferred_node_terms(make_pod("q")) == ()


def test_no_terms_at_all_match_nothing():
    assert not match_node_selector(NodeSelector(), LABELS, "n1")
