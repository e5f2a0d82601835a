"""`podium config`: the effective configuration on stdout, everything else on stderr."""

import json
from pathlib import Path

import pytest
import yaml

from podium.commands.config import main

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def write(folder: Path, text: str) -> str:
    path = folder / "podium.yaml"
    path.write_text(HEAD + text)
    return str(path)


def test_without_a_file_it_prints_podiums_own_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    document = yaml.safe_load(out)
    (profile,) = document["profiles"]
    assert (profile["schedulerName"], document["leaderElection"]["resourceName"], err) == ("podium", "podium", "")
    assert profile["plugins"]["postFilter"]["enabled"] == [{"name": "DynamicResources"}, {"name": "DefaultPreemption"}]
    assert profile["plugins"]["score"]["enabled"][0] == {"name": "TaintToleration", "weight": 3}
    assert profile["plugins"]["multiPoint"] == {"disabled": [{"name": "*"}]}


def test_json_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    text = capsys.readouterr().out
    assert main(["-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == yaml.safe_load(text)


def test_what_it_prints_leads_to_the_same_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, """
leaderElection: {leaseDuration: 1m30s}
profiles:
- schedulerName: a
  nodeSelector: {pool: a}
  plugins: {score: {enabled: [{name: ImageLocality, weight: 9}], disabled: [{name: NodeAffinity}]}}
- schedulerName: b
  plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}
  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]
extenders: [{urlPrefix: http://x, filterVerb: filter, managedResources: [{name: a.io/x, ignoredByScheduler: true}]}]
""")  # fmt: skip
    assert main(["--config", path]) == 0
    printed = capsys.readouterr().out
    assert [entry["name"] for entry in yaml.safe_load(printed)["profiles"][0]["plugins"]["score"]["enabled"]] == [
        "ImageLocality", "TaintToleration", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread",
        "InterPodAffinity", "DynamicResources", "NodeResourcesBalancedAllocation",
    ]  # fmt: skip
    Path(path).write_text(printed)
    assert main(["--config", path]) == 0
    assert capsys.readouterr() == (printed, "")


def test_bad_input_is_one_line_per_problem_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "parallelism: 0\ncolour: red\n")
    assert main(["--config", path, "--feature-gates", "Gangs"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "--feature-gates: Gangs: expected Gangs=true or Gangs=false, not 'Gangs'",
        f"{path}:3: parallelism: Invalid value: 0: must be greater than 0",
        f"{path}:4: colour: unknown field",
    ]


def test_warnings_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "leaderElection: {resourceName: kube-scheduler}\n")
    assert main(["--config", path, "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["leaderElection"]["resourceName"] == "kube-scheduler"
    assert err == (
        f"warning: {path}:3: leaderElection.resourceName: this is the Lease of the default scheduler: "
        "only one of the two will ever be active\n"
    )


def test_a_gate_shows_in_the_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--feature-gates", "GangScheduling=true,NodeDeclaredFeatures=false"]) == 0
    plugins = yaml.safe_load(capsys.readouterr().out)["profiles"][0]["plugins"]
    assert plugins["permit"] == {"enabled": [{"name": "GangScheduling"}]}
    assert {"name": "NodeDeclaredFeatures"} not in plugins["filter"]["enabled"]


def test_an_unknown_option_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["-o", "xml"])
    assert caught.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
