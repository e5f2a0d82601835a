"""What podium writes to its log, line by line, and how much of it."""

from __future__ import annotations

import json
import logging
import re

import pytest

from config.problems import ConfigError
from kube.client.auth import Credentials, FixedToken
from kube.client.errors import ApiError
from kube.client.rest import Client
from podium import logs
from scheduler.score_log import SCORES
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import node_of, podium, until

HEADER = r"^I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] "
log = logging.getLogger("tests.logs")


def written(capsys: pytest.CaptureFixture[str], verbosity: int, files: tuple[str, ...] = (), form: str = "text") -> str:
    """What four messages become."""
    logs.set_up(verbosity, files, form)
    log.info("synced: %d nodes", 5)
    log.debug("details")
    log.log(SCORES, "Plugin scored", extra={"fields": {"pod": 'default/a"b', "score": 7}})
    log.error("refused")
    return capsys.readouterr().err


def test_a_line_is_klogs(capsys: pytest.CaptureFixture[str]) -> None:
    first, last = written(capsys, 1).splitlines()
    assert re.match(HEADER + "synced: 5 nodes$", first)
    assert re.match(HEADER.replace("I", "E", 1) + "refused$", last)


def test_fields_are_written_as_klog_writes_them(capsys: pytest.CaptureFixture[str]) -> None:
    lines = written(capsys, 10).splitlines()
    assert re.match(HEADER + re.escape(r'"Plugin scored" pod="default/a\"b" score=7') + "$", lines[2])


@pytest.mark.parametrize(
    ("verbosity", "files", "count"),
    [
        pytest.param(0, (), 2, id="quiet"),
        pytest.param(3, (), 2, id="what an operator reads"),
        pytest.param(4, (), 3, id="details from 4 on"),
        pytest.param(10, (), 4, id="scores from 10 on"),
        pytest.param(0, ("test_logs=4",), 3, id="details of one file"),
        pytest.param(0, ("test_*=10",), 4, id="scores of files by pattern"),
        pytest.param(0, ("other=10",), 2, id="another file's verbosity is another file's"),
    ],
)
def test_the_verbosity_decides_what_is_written(
    capsys: pytest.CaptureFixture[str], verbosity: int, files: tuple[str, ...], count: int
) -> None:
    assert len(written(capsys, verbosity, files).splitlines()) == count


def test_json_has_klogs_keys(capsys: pytest.CaptureFixture[str]) -> None:
    info, detail, scores, error = map(json.loads, written(capsys, 10, form="json").splitlines())
    assert (info["msg"], info["v"]) == ("synced: 5 nodes", 0)
    assert detail["v"] == 4
    assert (scores["msg"], scores["pod"], scores["score"], scores["v"]) == ("Plugin scored", 'default/a"b', 7, 10)
    assert (error["msg"], error["level"]) == ("refused", "error")
    assert re.match(r"test_logs\.py:\d+$", info["caller"])
    assert info["ts"] > 1e12


def test_an_exception_follows_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "json"):
        logs.set_up(1, form=form)
        try:
            raise ValueError("odd")
        except ValueError:
            log.exception("failed")
    text = capsys.readouterr().err
    assert text.count("ValueError: odd") == 2
    assert "ValueError: odd" in json.loads(text.splitlines()[-1])["err"]


def test_the_verbosity_can_be_changed_later(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(1)
    log.debug("unseen")
    logs.set_verbosity(4)
    log.debug("seen")
    logs.set_verbosity(0)
    log.debug("unseen")
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["seen"]


@pytest.mark.parametrize("word", ["rest", "rest=", "rest=x", "=4"])
def test_a_wrong_vmodule_is_one_line(word: str) -> None:
    with pytest.raises(ConfigError, match=r"^--vmodule: expected FILE=N"):
        logs.set_up(1, (word,))


async def test_at_10_the_scores_of_each_plugin_and_node_are_written(
    api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(10)
    api_server.create(node("small", cpu="1"))
    api_server.create(node("large", cpu="8"))
    async with podium(api_server):
        api_server.create(pod("web", schedulerName="podium"))
        await until(lambda: node_of(api_server, "web") != "", "web is bound", 30.0)
    lines = capsys.readouterr().err
    scores = re.findall(
        r'"Plugin scored node for pod" pod="default/web" plugin="(\w+)" node="(\w+)" score=(\d+)$', lines, re.MULTILINE
    )
    sums = dict(
        re.findall(
            r'"Calculated node\'s final score for pod" pod="default/web" node="(\w+)" score=(\d+)$', lines, re.MULTILINE
        )
    )
    assert {plugin for plugin, _, _ in scores} >= {"NodeResourcesFit", "TaintToleration"}
    assert set(sums) == {"small", "large"}
    for name, total in sums.items():
        assert int(total) == sum(int(score) for _, each, score in scores if each == name)


async def test_no_token_is_written_at_any_verbosity(api_server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(10)
    credentials = Credentials(api_server.url, token=FixedToken("Bearer sesame"))
    async with Client(credentials, qps=-1, burst=0) as client:
        with pytest.raises(ApiError) as refused:
            await client.get_raw("/no/such/path")
        log.info("%r %s", credentials, refused.value)
    assert "sesame" not in capsys.readouterr().err
