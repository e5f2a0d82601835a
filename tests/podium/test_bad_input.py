"""Bad input: one clear line each on stderr, no traceback, the exit code of the design."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from podium.cli import main

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def written(folder: Path, text: str) -> str:
    """The path of a file with that text."""
    path = folder / "input.yaml"
    path.write_text(text)
    return str(path)


def kubeconfig(folder: Path, server: str) -> str:
    """A kubeconfig for a server."""
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    return str(path)


@pytest.mark.parametrize(
    ("command", "text", "line"),
    [
        pytest.param(
            ["run", "--kubeconfig"],
            "x: [",
            "kubeconfig FILE: line 1, column 5: expected",
            id="an unreadable kubeconfig",
        ),
        pytest.param(
            ["run", "--kubeconfig"],
            "- a\n- b\n",
            "kubeconfig FILE: expected a mapping",
            id="a kubeconfig of another kind",
        ),
        pytest.param(
            ["run", "--config"], CONFIG + "profilez: []\n", "FILE:3: profilez: unknown field", id="a wrong field"
        ),
        pytest.param(
            ["config", "--config"],
            CONFIG + "podMaxBackoffSeconds: -1\n",
            "FILE:3: podMaxBackoffSeconds: Invalid value: -1",
            id="a value out of range",
        ),
        pytest.param(
            ["config", "--config"],
            "kind: Pod\napiVersion: kubescheduler.config.k8s.io/v1\n",
            "FILE:1: kind: ",
            id="a file that is no configuration",
        ),
        pytest.param(
            ["simulate", "-f"], "kind: Pod\n  x: y\n", "FILE: line 2, column 4: mapping values", id="a broken manifest"
        ),
        pytest.param(
            ["simulate", "-f"],
            POD + ", resources: {requests: {cpu: 1x}}}]}\n",
            'FILE: document 1 (Pod default/web): spec.containers[0].resources.requests.cpu: "1x": not a quantity',
            id="an impossible quantity",
        ),
        pytest.param(["simulate", "-f"], "", "FILE: no Kubernetes objects in there", id="an empty file"),
    ],
)
def test_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], text: str, line: str
) -> None:
    path = written(tmp_path, text)
    assert main([*command, path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line.replace("FILE", path)), err
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1, err


@pytest.mark.parametrize(
    "command", [["run", "--kubeconfig"], ["run", "--config"], ["simulate", "-f"], ["config", "--config"]], ids=" ".join
)
def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main([*command, "/nowhere/at/all.yaml"]) == 2
    err = capsys.readouterr().err
    assert "/nowhere/at/all.yaml" in err
    assert len(err.splitlines()) == 1


def test_all_problems_of_a_configuration_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        CONFIG + "parallelism: 0\npercentageOfNodesToScore: 101\nprofiles: [{schedulerName: a}, {schedulerName: a}]\n"
    )
    assert main(["config", "--config", written(tmp_path, text)]) == 2
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == [
        "parallelism",
        "percentageOfNodesToScore",
        "profiles[1].schedulerName",
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["frobnicate"],
        ["simulate"],
        ["simulate", "-f", "x", "--seed", "much"],
        ["demo", "--nodes", "0"],
        ["demo", "--pods", "-1"],
        ["demo", "--page-port", "65536"],
        ["cluster", "--port", "99999"],
        ["run", "--page-port", "-1"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: podium" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["run"], ["snapshot", "-o", "x"], ["simulate", "--from-cluster"], ["explain", "p", "--from-cluster"]],
    ids=" ".join,
)
def test_credentials_that_cannot_be_used_are_bad_input(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main([*words, "--kubeconfig", "/nowhere/at/all"]) == 2
    assert capsys.readouterr().err == "kubeconfig /nowhere/at/all: no such file\n"


@pytest.mark.parametrize(
    ("tls", "line"),
    [
        pytest.param("{caFile: /nowhere}", "caFile /nowhere: cannot be read: No such file or directory", id="no CA"),
        pytest.param("{caFile: FILE}", "caFile FILE: expected PEM", id="a CA that is none"),
        pytest.param("{caData: aGVsbG8=}", "caData: expected PEM", id="a CA in the file that is none"),
        pytest.param("{certFile: /nowhere, keyFile: FILE}",
                     "certificate /nowhere and key FILE: cannot be read: No such file or directory", id="none"),
    ],
)  # fmt: skip
def test_an_extender_whose_certificates_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tls: str, line: str
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("hello")
    extender = f"extenders: [{{urlPrefix: https://x, filterVerb: f, tlsConfig: {tls.replace('FILE', str(other))}}}]\n"
    pod = tmp_path / "pod.yaml"
    pod.write_text(POD + "}]}\n")
    assert main(["simulate", "-f", str(pod), "--config", written(tmp_path, CONFIG + extender)]) == 2
    assert capsys.readouterr().err == f"extender https://x: tlsConfig: {line.replace('FILE', str(other))}\n"


def test_a_kubeconfig_that_cannot_be_written() -> None:
    done = run("cluster", "--port", "0", "--kubeconfig", "/nowhere/at/all")
    assert (done.returncode, done.stderr) == (1, "/nowhere/at/all: cannot be written: No such file or directory\n")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """podium as a process: what opens sockets and loops is tried as people start it."""
    environment = {**os.environ, "KUBERNETES_SERVICE_HOST": ""}
    command = [sys.executable, "-m", "podium", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)


def test_an_api_server_that_is_not_there(tmp_path: Path) -> None:
    done = run("run", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert done.returncode == 1
    assert done.stderr.startswith("API server http://127.0.0.1:1: ")
    assert len(done.stderr.splitlines()) == 1


def test_an_api_server_that_forbids(tmp_path: Path) -> None:
    from tests.podium.forbidding import forbidding_server

    with forbidding_server() as url:
        done = run("run", "--kubeconfig", kubeconfig(tmp_path, url))
    assert done.returncode == 1
    assert "403" in done.stderr
    assert "Forbidden" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("cluster", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert len(done.stderr.splitlines()) == 1
