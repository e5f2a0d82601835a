"""Field selectors on typed pods and on plain dicts."""

import pytest

from kube.api.codec import to_builtins
from kube.api.fields import FieldSelectorError, FieldTerm, field_value, parse_field_selector
from tests.builders import make_pod

POD = make_pod("web", node_name="n1", scheduler_name="podium", phase="Running", host_network=True)


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        pytest.param("", True, id="empty text selects everything"),
        pytest.param("metadata.name=web", True, id="by name"),
        pytest.param("metadata.name==web,metadata.namespace=default", True, id="two terms"),
        pytest.param("metadata.name=web,metadata.namespace=other", False, id="one term fails"),
        pytest.param("spec.nodeName=n1", True, id="by node"),
        pytest.param("spec.nodeName!=n1", False, id="not on a node"),
        pytest.param("status.phase!=Succeeded,status.phase!=Failed", True, id="not finished"),
        pytest.param("spec.schedulerName=podium", True, id="by scheduler"),
        pytest.param("spec.hostNetwork=true", True, id="booleans are words"),
        pytest.param("status.nominatedNodeName=", True, id="absent is empty"),
        pytest.param("spec.nothing=", True, id="an unknown field is empty"),
    ],
)
def test_a_field_selector_selects_structs_and_dicts_alike(text, selects):
    select = parse_field_selector(text)
    assert select(POD) is selects
    assert select(to_builtins(POD)) is selects


def test_escapes_belong_to_the_value():
    assert parse_field_selector(r"metadata.name=a\,b\=c,x=y").terms == (
        FieldTerm("metadata.name", True, "a,b=c"),
        FieldTerm("x", True, "y"),
    )


def test_text_without_comparison_is_refused():
    with pytest.raises(FieldSelectorError, match=r"'spec\.nodeName' has no comparison, expected =, == or !="):
        parse_field_selector("spec.nodeName")


def test_a_path_through_a_leaf_is_empty():
    assert field_value(POD, "metadata.name.first") == ""
