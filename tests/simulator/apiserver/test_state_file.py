"""A server's state goes into a file and comes back, versions and all."""

import gzip

import pytest

from simulator.apiserver import ApiServer
from simulator.apiserver.state_file import StateFileError
from simulator.apiserver.watch_cache import View
from tests.fixtures_apiserver import node, pod


@pytest.mark.parametrize("name", ["state.jsonl", "state.jsonl.gz"])
def test_a_server_goes_on_where_another_ended(tmp_path, name):
    first = ApiServer()
    first.create(node("n"))
    first.create(pod("p"))
    first.bind("p", "n")
    saved = first.save(tmp_path / name)
    assert (tmp_path / name).stat().st_mode & 0o077 == 0, "others can read the Secrets"

    second = ApiServer()
    second.create(pod("forgotten"))
    assert second.load(tmp_path / name) == saved
    for resource in first.registry:
        kind = resource.qualified
        assert second.list(kind) == first.list(kind)
    assert second.store.version == first.store.version
    bound = second.get("pods", "p")
    assert second.create(pod("q"))["metadata"]["resourceVersion"] == str(first.store.version + 1)
    assert int(bound["metadata"]["resourceVersion"]) <= first.store.version


def test_who_saw_the_last_version_goes_on_watching_and_who_did_not_lists_again(tmp_path):
    first = ApiServer()
    first.create(pod("p"))
    first.save(tmp_path / "state")
    second = ApiServer()
    second.load(tmp_path / "state")
    resource = second.resource("pods")
    cache = second.store.collection("pods").cache
    assert list(cache.since(first.store.version)) == []
    second.create(pod("q"))
    assert [event.revision.key[1] for event in cache.since(first.store.version)] == ["q"]
    with pytest.raises(Exception, match="too old resource version"):
        list(cache.since(first.store.version - 1))
    assert [revision.key[1] for revision in second.verbs.collection(resource).seen(View())] == ["p", "q"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", ":1: the resourceVersion of a saved state is expected", id="empty"),
        pytest.param(b'{"resourceVersion": "x"}\n', ":1: the resourceVersion of a saved", id="no number"),
        pytest.param(b'{"resourceVersion": "7"}\n{"kind": "X"}\n', ":2: no kind 'X' of None is served", id="no kind"),
        pytest.param(
            b'{"resourceVersion": "7"}\n{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}\n',
            ":2: metadata of a saved object is expected: 'namespace'",
            id="no namespace",
        ),
        pytest.param(b'{"resourceVersion": "7"}\n{"kind"', ":2: Input data was truncated", id="cut off"),
    ],
)
def test_what_is_no_state_is_told_by_file_and_line(tmp_path, content, told):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(StateFileError) as error:
        ApiServer().load(path)
    assert str(error.value).startswith(f"{path}{told}")


def test_a_packed_file_that_is_none_is_told(tmp_path):
    path = tmp_path / "state.gz"
    path.write_bytes(b"plain")
    with pytest.raises(StateFileError, match="Not a gzipped file"):
        ApiServer().load(path)
    path.write_bytes(gzip.compress(b'{"resourceVersion": "7"}\n')[:-4])
    with pytest.raises(StateFileError, match="end-of-stream"):
        ApiServer().load(path)
