"""Files into documents: every form in which Kubernetes objects are kept."""

from __future__ import annotations

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest

from simulator.load.files import read
from simulator.load.problems import Problems

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
BARE = {"metadata": {"name": "x"}}


def kinds_and_places(paths, problems=None):
    return [
        (document.kind, document.api_version, document.origin.document, document.origin.item)
        for document in read([str(path) for path in paths], problems or Problems())
    ]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        pytest.param("a.yaml", json.dumps(NODE), [("Node", "v1", 1, 0)], id="JSON under any name"),
        pytest.param("a", "kind: Node\napiVersion: v1", [("Node", "v1", 1, 0)], id="YAML without a suffix"),
        pytest.param("a.json", "\ufeff" + json.dumps(NODE), [("Node", "v1", 1, 0)], id="a byte order mark is skipped"),
        pytest.param(
            "a.yaml",
            "---\nkind: Node\napiVersion: v1\n---\n---\nkind: Pod\napiVersion: v1\n",
            [("Node", "v1", 1, 0), ("Pod", "v1", 3, 0)],
            id="several YAML documents, empty ones counted",
        ),
        pytest.param(
            "a.json",
            json.dumps(NODE) + "\n" + json.dumps(NODE),
            [("Node", "v1", 1, 0), ("Node", "v1", 2, 0)],
            id="JSON values that follow each other",
        ),
        pytest.param(
            "a.yaml", "{kind: Node, apiVersion: v1}", [("Node", "v1", 1, 0)], id="YAML that looks like JSON at first"
        ),
        pytest.param(
            "a.json",
            json.dumps([NODE, NODE]),
            [("Node", "v1", 1, 1), ("Node", "v1", 1, 2)],
            id="a JSON array",
        ),
        pytest.param(
            "a.json",
            json.dumps({"kind": "List", "apiVersion": "v1", "items": [NODE, {**NODE, "kind": "Pod"}]}),
            [("Node", "v1", 1, 1), ("Pod", "v1", 1, 2)],
            id="a v1 List",
        ),
        pytest.param(
            "a.json",
            json.dumps({"kind": "ReplicaSetList", "apiVersion": "apps/v1", "items": [BARE]}),
            [("ReplicaSet", "apps/v1", 1, 1)],
            id="the list says what its items are",
        ),
        pytest.param(
            "a.json",
            json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [{**NODE, "kind": "NodeList"}]}),
            [("Node", "v1", 1, 1)],
            id="items that carry the kind of their list",
        ),
        pytest.param(
            "a.json",
            json.dumps({"items": [{**BARE, "status": {"nodeInfo": {}}}]}),
            [("Node", "v1", 1, 1)],
            id="a list without a kind",
        ),
        pytest.param(
            "a.json", json.dumps({"kind": "PodList", "apiVersion": "v1", "items": None}), [], id="a list of null"
        ),
        pytest.param(
            "a.yaml",
            "kind: List\napiVersion: v1\nitems:\n- kind: PodList\n  apiVersion: v1\n  items: [{metadata: {name: p}}]",
            [("Pod", "v1", 1, 1)],
            id="a list in a list",
        ),
    ],
)
def test_a_file_holds(tmp_path, name, text, found):
    (tmp_path / name).write_text(text, encoding="utf-8")
    problems = Problems()
    assert kinds_and_places([tmp_path / name], problems) == found
    problems.raise_if_any()


@pytest.mark.parametrize(
    ("fields", "recognised"),
    [
        pytest.param({"status": {"nodeInfo": {}}}, ("Node", "v1"), id="nodeInfo: a node"),
        pytest.param({"spec": {"containers": []}}, ("Pod", "v1"), id="containers: a pod"),
        pytest.param({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}, ("PersistentVolume", "v1"), id="a volume"),
        pytest.param({"spec": {"accessModes": [], "resources": {}}}, ("PersistentVolumeClaim", "v1"), id="a claim"),
        pytest.param({"provisioner": "x"}, ("StorageClass", "storage.k8s.io/v1"), id="provisioner: a storage class"),
    ],
)
def test_an_object_that_lost_its_kind_is_recognised_by_its_fields(tmp_path, fields, recognised):
    (tmp_path / "a.json").write_text(json.dumps({**BARE, **fields}))
    assert kinds_and_places([tmp_path / "a.json"]) == [(*recognised, 1, 0)]


def test_a_template_without_a_kind_is_not_guessed(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({**BARE, "spec": {"replicas": 1, "template": {}}}))
    problems = Problems()
    assert kinds_and_places([tmp_path / "a.json"], problems) == []
    with pytest.raises(Exception, match="document 1: kind is missing, and the fields do not tell what it is"):
        problems.raise_if_any()


def test_a_directory_is_read_to_its_depth_in_sorted_order(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.yml").write_text("kind: Pod\napiVersion: v1")
    (tmp_path / "a.json").write_text(json.dumps(NODE))
    (tmp_path / "sub" / "c.yaml").write_text("kind: Service\napiVersion: v1")
    (tmp_path / "README.md").write_text("not read")
    (tmp_path / "d.json.gz").write_bytes(gzip.compress(b'{"kind": "Namespace", "apiVersion": "v1"}'))
    assert [kind for kind, *_ in kinds_and_places([tmp_path])] == ["Node", "Pod", "Namespace", "Service"]


def test_gzip_is_told_by_its_first_bytes(tmp_path):
    (tmp_path / "dump").write_bytes(gzip.compress(json.dumps(NODE).encode()))
    assert kinds_and_places([tmp_path / "dump"]) == [("Node", "v1", 1, 0)]


def test_a_dash_is_standard_input_once(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(NODE).encode())))
    problems = Problems()
    assert kinds_and_places(["-", "-"], problems) == [("Node", "v1", 1, 0)]
    with pytest.raises(Exception, match="standard input can be read only once"):
        problems.raise_if_any()


def test_json_numbers_keep_their_spelling(tmp_path):
    (tmp_path / "a.json").write_text('{"kind": "Node", "apiVersion": "v1", "status": {"a": 1e3, "b": 0.50, "c": 2}}')
    [document] = read([str(tmp_path / "a.json")], Problems())
    assert document.body()["status"] == {"a": "1e3", "b": "0.50", "c": 2}


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        pytest.param("a.json", b"[1, 2", "line 1, column 6: not JSON: Expecting ',' delimiter", id="cut off"),
        pytest.param("a.json", b'{\n"kind": Node}', "line 2, column 9: not JSON: Expecting value", id="not JSON"),
        pytest.param("a.json", b'{"kind": "\xff"', "not UTF-8 text", id="not UTF-8"),
        pytest.param("a.json", b"[" * 100_000, "nested too deeply", id="too deep"),
        pytest.param("a.yaml", b"kind: [", None, id="YAML cut off"),
        pytest.param("a.yaml", b"hello", "document 1: not a Kubernetes object: expected a mapping with apiVersion, "
                     "kind and metadata", id="a word"),
        pytest.param("a.json", b'{"level": "info"}', "document 1: not a Kubernetes object: it has neither kind nor "
                     "metadata", id="a log line"),
        pytest.param("a.yaml", b"kind: 5\napiVersion: v1", "document 1: kind and apiVersion: expected strings",
                     id="a kind that is a number"),
        pytest.param("a.yaml", b"kind: Foo\nmetadata: {name: x}", "document 1 (Foo): apiVersion is missing",
                     id="an unknown kind of no group"),
        pytest.param("a.gz", b"\x1f\x8b\x08broken", None, id="broken gzip"),
    ],
)  # fmt: skip
def test_a_broken_file_is_one_line(tmp_path, name, content, line):
    (tmp_path / name).write_bytes(content)
    problems = Problems()
    assert kinds_and_places([tmp_path / name], problems) == []
    with pytest.raises(Exception) as caught:  # noqa: PT011
        problems.raise_if_any()
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{tmp_path / name}: ")
    assert line is None or text == f"{tmp_path / name}: {line}"


def test_what_is_no_object_in_a_directory_is_only_a_warning(tmp_path):
    (tmp_path / "log.json").write_text('{"level": "info"}')
    (tmp_path / "node.json").write_text(json.dumps(NODE))
    problems = Problems()
    assert kinds_and_places([tmp_path], problems) == [("Node", "v1", 1, 0)]
    problems.raise_if_any()
    assert problems.warnings == (
        f"{tmp_path}/log.json: document 1: not a Kubernetes object, skipped: it has neither kind nor metadata",
    )


def test_missing_files_and_empty_directories_are_named(tmp_path):
    problems = Problems()
    assert kinds_and_places([tmp_path / "no.yaml", tmp_path], problems) == []
    with pytest.raises(Exception) as caught:  # noqa: PT011
        problems.raise_if_any()
    assert str(caught.value).splitlines() == [
        f"{tmp_path}/no.yaml: cannot be read: No such file or directory",
        f"{tmp_path}: no .yaml, .yml, .json or .jsonl file in this directory",
    ]
