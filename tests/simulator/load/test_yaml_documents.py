"""YAML as Kubernetes reads it."""

from __future__ import annotations

import pytest

from simulator.load import yaml_documents
from simulator.load.yaml_documents import YAMLError, load_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("2026-01-02T15:04:05Z", "2026-01-02T15:04:05Z", id="a time stays text"),
        pytest.param("2026-01-02", "2026-01-02", id="a date stays text"),
        pytest.param("1e3", "1e3", id="an exponent keeps its spelling"),
        pytest.param("0.5", "0.5", id="a fraction keeps its spelling"),
        pytest.param("1.10", "1.10", id="a version number keeps its zero"),
        pytest.param(".inf", ".inf", id="infinity is no number"),
        pytest.param("1:30", "1:30", id="sixty is not a base"),
        pytest.param("=", "=", id="an equals sign is text"),
        pytest.param("2", 2, id="a whole number is one"),
        pytest.param("-1_000", -1000, id="underscores group digits"),
        pytest.param("0644", 420, id="a leading zero is octal"),
        pytest.param("0x10", 16, id="hexadecimal"),
        pytest.param("0b11", 3, id="binary"),
        pytest.param("08", "08", id="what is not octal stays text"),
        pytest.param("yes", True, id="yes is true, as in YAML 1.1"),
        pytest.param("Off", False, id="off is false, as in YAML 1.1"),
        pytest.param("y", "y", id="a single letter is text"),
        pytest.param("'yes'", "yes", id="quoted words are text"),
        pytest.param("~", None, id="a tilde is null"),
        pytest.param("", None, id="nothing is null"),
        pytest.param("!!str 5", "5", id="a tag decides"),
    ],
)
def test_a_scalar_becomes(text, value):
    assert list(load_documents(f"a: {text}".encode())) == [{"a": value}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("on: 1\n5: 2\nnull: 3", {"on": 1, "5": 2, "null": 3}, id="keys are text"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}, id="merge keys merge"),
        pytest.param("a: &x {b: 1}\nc: {b: 2, <<: *x}", {"a": {"b": 1}, "c": {"b": 2}}, id="own keys win over merged"),
        pytest.param(
            "a: &x {k: 1}\nb: &y {k: 2, l: 2}\nc: {<<: [*x, *y]}",
            {"a": {"k": 1}, "b": {"k": 2, "l": 2}, "c": {"k": 1, "l": 2}},
            id="the first of several merged mappings wins",
        ),
        pytest.param("a: 1\na: 2", {"a": 2}, id="the last of two equal keys wins"),
    ],
)
def test_a_mapping_becomes(text, value):
    assert list(load_documents(text.encode())) == [value]


def test_two_uses_of_an_anchor_are_two_objects():
    [document] = load_documents(b"a: &x {k: 1}\nb: *x")
    assert document["a"] == document["b"]
    assert document["a"] is not document["b"]


def test_empty_documents_keep_their_number():
    assert list(load_documents(b"---\n---\na: 1\n---\n")) == [None, {"a": 1}, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: b\n c: d", "line 2, column 3: mapping values are not allowed in this context", id="indent"),
        pytest.param("a: {{ .Values.x }}", "line 1, column 5: a key must be a plain word", id="a Helm template"),
        pytest.param("a: !Ref x", "line 1, column 4: unknown tag !Ref", id="a private tag"),
        pytest.param("a: !!int x", "line 1, column 4: 'x' is not int", id="a tag that does not fit"),
        pytest.param("a: {<<: 1}", "line 1, column 9: << needs a mapping", id="a merge of a number"),
        pytest.param("a: &a [*a]", "nested too deeply, or an alias contains itself", id="an alias inside itself"),
        pytest.param("a: *b", "line 1, column 4: found undefined alias", id="an unknown alias"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_place(text, message):
    with pytest.raises(YAMLError) as caught:
        list(load_documents(text.encode()))
    assert str(caught.value) == message


def test_aliases_cannot_expand_without_end(monkeypatch):
    monkeypatch.setattr(yaml_documents, "MAX_NODES", 1000)
    bomb = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
    with pytest.raises(YAMLError, match="aliases expand to more than 1000 values"):
        list(load_documents(bomb.encode()))
