"""The what-if questions of `podium simulate`, from files to what is printed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podium.cli import main
from tests.podium.extender_server import ExtenderServer, only, serving

PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "podium",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ],
}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def pod(name: str, *, on: str = "", cpu: str = "1", priority: int = 0) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec = {"containers": [container], "priority": priority, **({"nodeName": on} if on else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two nodes, one of them with two pods on it."""
    file = tmp_path / "cluster.yaml"
    objects = [node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1", cpu="2")]
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """The JSON of a simulation."""
    assert main(["simulate", *args, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def places(document: Any) -> dict[str, str | None]:
    return {each["name"]: each["node"] for each in document["pods"]}


def test_drain(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert places(asked(capsys, "-f", cluster, "--drain", "n1")) == {"a": "n2", "b": "n2"}


def test_remove_and_add_nodes(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = asked(capsys, "-f", cluster, "--remove-nodes", "n1", "n2", "--add-nodes", "n1=1")
    assert places(document) == {"a": "n1-new-1", "b": "n1-new-1"}


def test_how_many(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = write(tmp_path / "web.yaml", pod("web"), pod("db", cpu="2"))
    answers = asked(capsys, "-f", cluster, "--how-many", wanted)["answers"]
    assert [(each["pods"], each["copies"]) for each in answers] == [
        (["default/web"], 5),
        (["default/db"], 2),
        (["default/web", "default/db"], 1),
    ]
    assert answers[1]["stoppedBy"]["causes"][0]["gap"]["short"] == "1"


def test_min_nodes(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = write(tmp_path / "pods.yaml", *(pod(f"w{i}", cpu="2") for i in range(6)))
    document = asked(capsys, "-f", cluster, "--pods", wanted, "--min-nodes", "n1")
    assert (document["nodes"], document["pendingBefore"], document["pendingAfter"]) == (2, 4, 0)


def test_compare(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, wanted = write(tmp_path / "b.yaml", PACKED), write(tmp_path / "p.yaml", pod("new"))
    document = asked(capsys, "-f", cluster, "--pods", wanted, "--compare", config)
    (moved,) = document["moved"]
    assert (moved["pod"], moved["before"], moved["after"]) == ("default/new", "n2", "n1")
    assert [side["emptyNodes"] for side in document["use"]["cpu"]] == [0, 1]


def test_the_same_configuration_moves_nothing(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, wanted = write(tmp_path / "b.yaml", PACKED), write(tmp_path / "p.yaml", *(pod(f"p{i}") for i in range(4)))
    document = asked(capsys, "-f", cluster, "--pods", wanted, "--config", config, "--compare", config)
    assert document["moved"] == []


def test_preemption_is_shown(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "vip.yaml", pod("vip", cpu="4", priority=5), pod("full", on="n2", cpu="3", priority=9))
    assert main(["simulate", "-f", cluster, str(tmp_path / "vip.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "evicts default/a, default/b" in shown
    assert "1 of 1 pods placed on 2 nodes, 2 pods evicted to make room" in shown


def test_large_inputs_are_told_in_brief(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = write(tmp_path / "pods.yaml", pod("p"))
    monkeypatch.setattr("podium.commands.simulate.DETAIL_LIMIT", 1)
    (brief,) = asked(capsys, "-f", cluster, "--pods", wanted)["pods"]
    assert (brief["node"], brief["feasibleNodes"], "scores" in brief) == ("n2", 2, False)
    (detailed,) = asked(capsys, "-f", cluster, "--pods", wanted, "--detail")["pods"]
    assert (sorted(detailed["feasible"]), detailed["scores"]["n2"]["total"]) == (["n1", "n2"], brief["score"])


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["-f", "CLUSTER", "--drain", "nx"], "there is no node nx"),
        (["-f", "CLUSTER", "--add-nodes", "n1=none"], "--add-nodes n1=none: expected TEMPLATE=N with N at least 1"),
        (["-f", "CLUSTER", "--min-nodes", "n1", "--alone"], "questions of their own: ask one"),
    ],
)
def test_wrong_questions(cluster: str, args: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *(cluster if each == "CLUSTER" else each for each in args)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert line in printed.err


@pytest.mark.parametrize("node_cache_capable", [True, False], ids=["asked by names", "asked with whole nodes"])
@pytest.mark.looptime(False)
async def test_extenders_are_asked(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], node_cache_capable: bool
) -> None:
    async with serving(ExtenderServer(filter=only("n1"))) as server:
        entry = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": node_cache_capable}
        config = write(
            tmp_path / "config.yaml",
            {**PACKED, "profiles": [{"schedulerName": "default-scheduler"}], "extenders": [entry]},
        )
        wanted = write(tmp_path / "pods.yaml", pod("p"), pod("large", cpu="2"))
        args = ("-f", cluster, "--pods", wanted, "--config", config)
        document = await asyncio.to_thread(asked, capsys, *args)
        assert places(document) == {"p": "n1", "large": None}
        assert [body["Pod"]["metadata"]["name"] for body in server.bodies("filter")] == ["p", "large"]


def test_explain_goes_on_without_an_extender_that_is_out_of_reach(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extender = {"urlPrefix": "http://127.0.0.1:1/ext", "filterVerb": "filter"}
    config = write(
        tmp_path / "config.yaml",
        {**PACKED, "profiles": [{"schedulerName": "default-scheduler"}], "extenders": [extender]},
    )
    wanted = write(tmp_path / "pod.yaml", pod("p", cpu="4"))
    assert main(["explain", "p", "-f", cluster, wanted, "--config", config, "-o", "json"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert verdict.startswith(
        "It fits on n2, and on no other of 2 nodes, if http://127.0.0.1:1/ext lets it (which could not be asked: "
    )


@pytest.mark.looptime(False)
async def test_explain_asks_extenders(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def scores(body: Any) -> Any:
        return [{"Host": name, "Score": 10 if name == "n1" else 0} for name in body["NodeNames"]]

    async with serving(ExtenderServer(filter=only("n1"), prioritize=scores)) as server:
        entry = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True}
        config = write(
            tmp_path / "config.yaml",
            {**PACKED, "profiles": [{"schedulerName": "default-scheduler"}], "extenders": [entry]},
        )

        async def explained(*objects: Any) -> dict[str, Any]:
            wanted = write(tmp_path / "pod.yaml", *objects)
            args = ["explain", objects[0]["metadata"]["name"], "-f", cluster, wanted, "--config", config, "-o", "json"]
            assert await asyncio.to_thread(main, args) == 0
            return dict(json.loads(capsys.readouterr().out))

        refused = await explained(pod("large", cpu="4"))
        assert refused["state"] == "unschedulable"
        cause = refused["causes"][0]
        assert (cause["plugin"], cause["detail"], cause["nodes"]) == (
            "Extender", f"extender {server.url}: not mine", 1,
        )  # fmt: skip
        assert "1 not mine" in refused["message"]
        assert refused["wakes"][0] == {"plugin": "Extender", "events": ["anything changes in the cluster"]}
        assert (await explained(pod("small", cpu="100m")))["verdict"] == "It fits on n1, and on no other of 2 nodes."

        entry |= {"prioritizeVerb": "prioritize", "weight": 5}
        server.verbs["filter"] = only("n1", "n2")
        write(
            tmp_path / "config.yaml",
            {**PACKED, "profiles": [{"schedulerName": "default-scheduler"}], "extenders": [entry]},
        )
        best = (await explained(pod("small", cpu="100m")))["scores"][0]
        assert (best["node"], best["plugins"][f"extender {server.url}"]) == ("n1", 500)


def test_what_nobody_looks_at_is_said_so_that_a_kind_spelt_wrong_is_seen(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "web"}}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    assert main(["simulate", "-f", cluster, write(tmp_path / "more.yaml", wrong, settings, pod("c"))]) == 0
    assert capsys.readouterr().err == "not looked at: 1 ConfigMap (v1), 1 Deploymnt (apps/v1)\n"
    asked(capsys, "-f", cluster)
    assert capsys.readouterr().err == ""
