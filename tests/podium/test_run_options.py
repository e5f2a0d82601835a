"""The command line of `podium run`: kube-scheduler's options, with the same meaning."""

from __future__ import annotations

import argparse
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from config.problems import ConfigError
from podium import flags, run_options
from podium.cli import main, parser
from podium.run_options import RunOptions, read

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def parsed(*words: str) -> argparse.Namespace:
    return parser("run").parse_args(["run", *words])


def options(*words: str) -> RunOptions:
    return read(parsed(*words))


def file(folder: Path, text: str = "") -> str:
    """--config of a file with that text."""
    (folder / "config.yaml").write_text(HEAD + text)
    return f"--config={folder}/config.yaml"


@pytest.mark.parametrize(
    ("words", "secure", "plain"),
    [
        pytest.param([], 10259, None, id="the secure port alone, by default"),
        pytest.param(["--secure-port=0"], None, None, id="0 is none"),
        pytest.param(["--port=8080"], None, 8080, id="a plain port alone"),
        pytest.param(["--port=0"], None, 0, id="any plain port"),
        pytest.param(["--port=8080", "--secure-port=8443"], 8443, 8080, id="both"),
    ],
)
def test_the_ports(words: list[str], secure: int | None, plain: int | None) -> None:
    made = options(*words)
    assert (made.secure_port, made.plain_port) == (secure, plain)


def test_the_options_of_leader_election_override_the_file(tmp_path: Path) -> None:
    text = "leaderElection: {leaseDuration: 40s, renewDeadline: 20s, retryPeriod: 3s, resourceName: mine}\n"
    words = ["--leader-elect=false", "--leader-elect-lease-duration=1m", "--leader-elect-resource-namespace=there"]
    election = options(file(tmp_path, text), *words).effective.value.leader_election
    assert (election.leader_elect, election.lease_duration.seconds, election.renew_deadline.seconds) == (False, 60, 20)
    assert (election.resource_name, election.resource_namespace) == ("mine", "there")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        pytest.param("--leader-elect", True, id="alone: true"),
        pytest.param("--leader-elect=true", True, id="true"),
        pytest.param("--leader-elect=F", False, id="as Go spells false"),
        pytest.param("--no-leader-elect", False, id="podium's own spelling"),
    ],
)
def test_a_boolean_is_read_as_go_reads_it(word: str, value: bool) -> None:
    assert options(word).effective.value.leader_election.leader_elect is value


def test_without_a_file_the_deprecated_options_count() -> None:
    value = options("--kube-api-qps=5", "--kube-api-burst=7", "--profiling=false").effective.value
    assert (value.client_connection.qps, value.client_connection.burst, value.enable_profiling) == (5.0, 7, False)


def test_beside_a_file_they_do_not_and_podium_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = options(file(tmp_path), "--kube-api-qps=5", "--profiling=false", "--contention-profiling").effective.value
    assert (value.client_connection.qps, value.enable_profiling) == (50.0, True)
    assert capsys.readouterr().err.splitlines() == [
        "warning: --kube-api-qps has no effect beside --config",
        "warning: --profiling has no effect beside --config",
        "warning: --contention-profiling has no effect: one thread, no locks",
    ]


def test_every_problem_of_file_and_options_is_told_at_once(tmp_path: Path) -> None:
    config = file(tmp_path, "podMaxBackoffSeconds: -1\nprofilez: []\n")
    with pytest.raises(ConfigError) as caught:
        options(
            config, "--tls-cert-file=a", "--tls-min-version=SSL3", "--tls-cipher-suites=RC4", "--logging-format=xml"
        )
    lines = str(caught.value).replace(str(tmp_path), "").splitlines()
    assert [line[:60] for line in lines] == [
        "--tls-cert-file, --tls-private-key-file: expected both, or n",
        "--tls-min-version: expected one of VersionTLS12, VersionTLS1",
        "--tls-cipher-suites: unknown: RC4; known: TLS_ECDHE_ECDSA_WI",
        "--logging-format: expected text or json, not 'xml'",
        "/config.yaml:3: podMaxBackoffSeconds: Invalid value: -1: mus",
        "/config.yaml:4: profilez: unknown field",
    ]


def test_a_lease_that_cannot_work_names_the_option() -> None:
    with pytest.raises(ConfigError, match=r"^--leader-elect-lease-duration: .*must be greater than renewDeadline"):
        options("--leader-elect-lease-duration=5s")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        pytest.param("--secure-port=70000", "expected a port, 0 to 65535", id="a port there is not"),
        pytest.param("--leader-elect=maybe", "expected true or false", id="neither true nor false"),
        pytest.param("--leader-elect-retry-period=2", "is not a duration", id="a duration without a unit"),
        pytest.param("--bind-adress=::", "unrecognized arguments", id="a misspelt option"),
    ],
)
def test_a_wrong_value_is_one_line(word: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parsed(word)
    assert left.value.code == 2
    assert line in capsys.readouterr().err.splitlines()[-1]


def test_the_written_configuration_leads_to_the_same_behaviour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "written.yaml"
    config = file(tmp_path, "podMaxBackoffSeconds: 30\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n")
    assert main(["run", config, "--leader-elect-resource-name=x", f"--write-config-to={target}"]) == 0
    assert target.stat().st_mode & 0o777 == 0o600
    again = options(f"--config={target}").effective.value
    assert again.pod_max_backoff_seconds == 30
    assert again.leader_election.resource_name == "x"
    assert [profile.scheduler_name for profile in again.profiles] == ["a", "b"]
    assert main(["run", f"--config={target}", "--write-config-to=-"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load(target.read_text())


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"--write-config-to={tmp_path}/no/such/folder"]) == 2
    assert re.match(r"--write-config-to: .*No such file or directory$", capsys.readouterr().err)


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_of_options_is_made_from_the_parser() -> None:
    spec = importlib.util.spec_from_file_location("options_page", ROOT / "tools" / "options_page.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert (ROOT / "docs" / "options.md").read_text() == page.render()


def test_the_parser_knows_just_the_options_of_the_list() -> None:
    run = parser("run")._subparsers
    assert run is not None
    words = {
        word
        for action in run._group_actions[0].choices["run"]._actions  # type: ignore[index]
        for word in action.option_strings
        if word.startswith("--")
    }
    assert words - {"--help", "--no-leader-elect"} == {f"--{flag.name}" for flag in flags.FLAGS}


def test_each_option_that_is_listed_as_working_is_read_somewhere() -> None:
    sources = "".join(
        (ROOT / "podium" / name).read_text() for name in ("run_options.py", "commands/run.py", "configuration.py")
    )
    for flag in flags.FLAGS:
        if not flag.ignored and flag.dest not in run_options._LEADER:
            assert re.search(rf"args\.{flag.dest}\b", sources), flag.name
