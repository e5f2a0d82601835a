"""Where the binaries of a control plane are looked for, and what is derived from the machine to build them."""

from pathlib import Path

import pytest

from tests.conformance import control_plane
from tests.conformance.build import VERSION, tagged_packages, with_sources
from tests.conformance.find import NotFoundError, find, require


def programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {name} Version: v1.30.4\n")
        program.chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a control plane: nothing in the environment, on PATH or in the cache."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_kubebuilder_assets_come_before_path_and_path_before_the_cache(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find() is None

    programs(machine / "cache" / "podium" / "control-plane" / VERSION, "etcd", "kube-apiserver", "kube-scheduler")
    found = require()
    assert (found.origin, found.kube_scheduler is not None, found.kube_controller_manager) == ("cache", True, None)

    programs(machine / "bin", "etcd", "kube-apiserver")
    assert require().origin == "PATH"

    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(programs(machine / "assets", "etcd", "kube-apiserver", "kubectl")))
    assert require().origin == "KUBEBUILDER_ASSETS"


def test_half_a_control_plane_on_path_is_none(machine: Path) -> None:
    programs(machine / "bin", "etcd")
    assert find() is None


def test_assets_without_an_api_server_are_an_error_and_not_passed_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(programs(machine / "assets", "etcd")))
    with pytest.raises(NotFoundError, match=r"^KUBEBUILDER_ASSETS=\S+ holds no etcd and kube-apiserver$"):
        find()


def test_the_version_is_what_the_program_says(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(programs(machine / "assets", "etcd", "kube-apiserver")))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert require().kubernetes_version() == (1, 30)


def test_where_nothing_is_found_and_nothing_can_be_built_one_line_says_what_to_do(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert control_plane.main() == 1
    assert capsys.readouterr() == (
        "",
        "control plane: no etcd and kube-apiserver found, and none built: building needs a Debian 12 machine: "
        "apt-get, dpkg, nice not found; point KUBEBUILDER_ASSETS at a folder with etcd and kube-apiserver "
        "(as for controller-runtime's envtest)\n",
    )


@pytest.mark.parametrize(
    ("text", "deb822", "expected"),
    [
        pytest.param(
            "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\n",
            True,
            "Types: deb deb-src\nURIs: http://mirror/debian\nSuites: bookworm\n",
            id="a deb822 stanza serves both types",
        ),
        pytest.param(
            "# main\ndeb [signed-by=/k.gpg] http://mirror/debian bookworm main\ndeb-src http://mirror/old x main\n",
            False,
            "deb [signed-by=/k.gpg] http://mirror/debian bookworm main\n"
            "deb-src [signed-by=/k.gpg] http://mirror/debian bookworm main\n",
            id="a one-line entry gets a twin with the same options",
        ),
    ],
)
def test_source_entries_come_from_the_machines_own_configuration(text: str, deb822: bool, expected: str) -> None:
    assert with_sources(text, deb822=deb822) == expected


def test_tagged_packages_follow_links_and_know_a_tag_from_its_mention(tmp_path: Path) -> None:
    def source(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    source("staging/api/core/v1/doc.go", "// +k8s:openapi-gen=true\npackage v1\n")
    source("staging/sample-apiserver/v1/doc.go", "// +k8s:openapi-gen=true\npackage v1\n")
    source("pkg/gen/main.go", 'var tag = "+k8s:openapi-gen="\n')
    source("pkg/tested/doc_test.go", "// +k8s:openapi-gen=true\n")
    source("cmd/typed/types.go", "package typed\n\n\t// +k8s:openapi-gen=false\ntype T struct{}\n")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "k8s.io").symlink_to(tmp_path / "staging")

    assert tagged_packages(tmp_path) == ["k8s.io/kubernetes/cmd/typed", "k8s.io/kubernetes/vendor/k8s.io/api/core/v1"]
