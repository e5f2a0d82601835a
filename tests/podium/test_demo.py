"""The demo: its workload, its highlights, the replay of a trace and its picture; and chaos under a running service."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import Counter
from xml.etree import ElementTree

import pytest

from podium import svg
from podium.cli import main
from podium.demo_trace import Usage, filling_stretch, steps
from podium.demo_workload import misfits, nodes, urgent, workloads
from podium.manifests import objects_for_cluster
from podium.wiring import Options, Service
from simulator.apiserver.chaos import DEFAULT
from simulator.chaos import Chaos
from simulator.cluster import Cluster, make_node_template
from simulator.load import LoadError
from simulator.load.traces import GPU, Task, Trace
from tests.podium.harness import effective, until

SVG = "{http://www.w3.org/2000/svg}"


# --- the workload --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pods", "count"), [(600, 30), (60, 10), (50, 3), (4, 30), (2000, 100)])
def test_the_workload_has_as_many_pods_as_asked_for(pods, count):
    made = workloads(pods, count)
    total = sum(one["spec"].get("replicas", 1) for one in made)
    assert total == max(pods, len(misfits()))
    assert len({(one["kind"], one["metadata"]["name"]) for one in made}) == len(made)


def test_what_wants_gpus_takes_them_all_so_that_the_urgent_pod_must_preempt():
    def gpus(template):
        return int(template["spec"]["containers"][0]["resources"]["requests"].get("example.com/gpu", 0))

    wanted = sum(
        one["spec"]["replicas"] * gpus(one["spec"]["template"])
        for one in workloads(600, 30)
        if one["kind"] == "Deployment"
    )
    offered = sum(int(template["status"]["capacity"].get("example.com/gpu", 0)) for _, template in nodes(30))
    assert wanted == offered == 24
    assert len(urgent(30)) == 1
    assert urgent(5) == []


# --- the whole demo, as a user starts it ---------------------------------------------------------------------------


def run(*words, timeout=100, **kwargs):
    command = [sys.executable, "-m", "podium", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **kwargs)


PAGE = r"page: http://\S+\n"


def test_the_demo_shows_a_preemption_a_spread_and_a_volume_that_waited():
    done = run("demo", "--nodes", "10", "--pods", "80")
    assert done.returncode == 0, done.stderr
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
    assert re.search(r"urgent-training evicted notebook-\S+ and notebook-\S+, and was bound to gpu-010 after", text)
    counts = [int(n) for n in re.findall(r"zone-[abc] (\d+)", text)]
    assert len(counts) == 3
    assert max(counts) - min(counts) <= 1
    assert re.search(
        r"data-db-0 waited for db-0: \S+ in zone-[abc] was chosen, the volume made there \S+ ms later", text
    )
    for name in ("needs-2ti", "needs-zone-d", "needs-gpu-untolerated", "needs-approval"):
        assert name in text
    assert re.fullmatch(PAGE, done.stderr), "a person who runs the demo has no use for the log"


def test_the_log_is_there_for_who_asks():
    done = run("demo", "--nodes", "3", "--pods", "5", "-v", "1")
    assert "synced: 3 nodes, 0 assigned pods" in done.stderr


def test_the_demo_of_devices_shows_who_got_which_and_why_others_wait():
    done = run("demo", "--devices", "--nodes", "15")
    assert (done.returncode, bool(re.fullmatch(PAGE, done.stderr))) == (0, True), done.stderr
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
    assert "bound 18 of 19 pods on 15 nodes" in text
    assert "22 of 24 in use, by 15 claims" in text
    shared = re.search(r"notebook-1, notebook-2, notebook-3 use shared-gpu: (small-\d+)/gpu-\d", text)
    assert f"so all of them run on {shared[1]}" in text
    assert float(re.search(r"late waited ([\d.]+) s, until nightly had finished", text)[1]) > 0.3
    assert re.search(r"flexible asked for one large GPU or else two small ones, and got two-small", text)
    assert re.search(r"classic asked for example.com/gpu: 1 as ever, and got small-\d+/gpu-\d", text)
    moments = [
        int(n.replace(",", ""))
        for n in re.search(r"inference-\S+: (.*? running [\d,]+ ms)", text)[1].split()
        if n[0].isdigit()
    ]
    assert len(moments) == 5
    assert moments == sorted(moments)
    rows = [line.split() for line in done.stdout.splitlines() if " h100 " in line or " a30 " in line]
    assert [row[0] for row in rows] == ["large-001", "large-006", "large-011", "small-002", "small-007", "small-012"]
    assert re.search(r"default/wants-eight +0/15 nodes are available: 15 cannot allocate all claims", done.stdout)


def test_the_demo_of_gangs_shows_who_started_together_and_who_held_no_room():
    done = run("demo", "--gangs", "--nodes", "12")
    assert (done.returncode, bool(re.fullmatch(PAGE, done.stderr))) == (0, True), done.stderr
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
    assert "bound 28 of 36 pods on 12 nodes" in text
    assert re.search(r"all 6 of train were bound within [\d,]+ ms of each other", text)
    rack = re.search(r"ring wants one rack for all its members: the 8 of them are in (rack-\d)", text)[1]
    assert "too-big needs 6 places and 3 were free, so none of it started; 3 pods of web that came next" in text
    assert "hopeless-1 says 0/12 nodes are available: 12 Insufficient cpu" in text
    assert re.search(r"urgent evicted 4 pods of batch within [\d,]+ ms, no more than it needs", text)
    rows = [line.split() for line in done.stdout.splitlines()]
    table = {row[0]: row[1:5] for row in rows if row and row[0] in ("ring", "train", "too-big", "hopeless", "urgent")}
    assert table["ring"] == ["8", "8", rack, "8"]
    assert {name: row[:2] for name, row in table.items()} == {
        "ring": ["8", "8"], "train": ["6", "6"], "too-big": ["6", "0"], "hopeless": ["2", "0"], "urgent": ["4", "4"],
    }  # fmt: skip
    assert re.search(r"default/too-big-0 and 5 more +0/12 nodes are available: 12 Insufficient cpu", done.stdout)


TRACE_NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},8000,32768,2,G2\n" for i in range(3))
TRACE_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"
TRACE_PODS = TRACE_HEAD + "".join(f"p{i},1000,2048,1,500,,LS,{i * 60},{i * 60 + 600}\n" for i in range(20))


def test_a_replay_ends_with_figures_and_a_picture(tmp_path):
    (tmp_path / "pods.csv").write_text(TRACE_PODS)
    (tmp_path / "nodes.csv").write_text(TRACE_NODES)
    words = ["--trace", "pods.csv", "--trace-nodes", "nodes.csv", "--speedup", "600", "--stretch", "1"]
    done = run("demo", *words, "--picture", "out.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"arrived\s+20 pods, \d+ bound", done.stdout)
    peak = float(re.search(r"use of GPU\s+peak ([\d.]+)%", done.stdout).group(1))
    assert 50 <= peak <= 100
    picture = ElementTree.parse(tmp_path / "out.svg").getroot()
    texts = {element.text for element in picture.iter(f"{SVG}text")}
    assert {"CPU", "memory", "GPU", "pending", "days of the trace"} <= texts
    assert len(list(picture.iter(f"{SVG}polyline"))) == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--trace", "p.csv"], "--trace and --trace-nodes: expected both, or neither", id="one of the two"),
        pytest.param(["--devices", "-f", "x.yaml"], "--devices: has a workload of its own", id="two workloads"),
        pytest.param(["--devices", "--gangs"], "--devices and --gangs: expected one of them", id="two stories"),
        pytest.param(["--gangs", "--nodes", "8"], "--nodes 8: --gangs needs 12 or more", id="too few nodes for gangs"),
        pytest.param(["--trace", "none.csv", "--trace-nodes", "none.csv"], "none.csv: cannot be read", id="no file"),
    ],
)
def test_a_replay_that_cannot_be(words, message, capsys):
    assert main(["demo", *words]) == 2
    assert message in capsys.readouterr().err


# --- the replay's plan ---------------------------------------------------------------------------------------------


def task(name, created, deleted, gpus="1"):
    requests = {"cpu": "1", "memory": "1Gi", GPU: gpus}
    spec = {"containers": [{"resources": {"requests": requests}}], "priority": 0}
    return Task({"metadata": {"name": name}, "spec": spec}, created, deleted)


def plan(trace, stretch=1.0, pause=3600.0):
    return [
        (step.at, "+-"[not step.arrives] + step.task.pod["metadata"]["name"]) for step in steps(trace, stretch, pause)
    ]


def test_tasks_come_and_go_in_order():
    trace = Trace((task("a", 100, 130), task("b", 110, 120)))
    assert plan(trace) == [(0, "+a"), (10, "+b"), (20, "-b")]


def test_a_long_pause_is_cut_and_lifetimes_are_kept():
    trace = Trace((task("a", 0, 50), task("b", 1_000_000, 1_000_010)))
    assert plan(trace) == [(0, "+a"), (50, "-a"), (3600, "+b"), (3610, "-b")]


def test_stretched_tasks_live_longer_and_the_end_stays():
    trace = Trace((task("a", 0, 10), task("b", 20, 30)))
    assert plan(trace, stretch=2) == [(0, "+a"), (20, "+b"), (20, "-a")]


def test_the_stretch_that_fills_the_nodes():
    trace = Trace(tuple(task(f"t{i}", i * 100, i * 100 + 10) for i in range(100)))
    node = {"status": {"allocatable": {"cpu": "100", "memory": "100Gi", GPU: "8"}}}
    # Six of eight GPUs are three quarters: a task must still be there (to the second) when the fifth after it comes.
    assert filling_stretch(trace, [node], GPU) == 50
    assert Usage(GPU).share("cpu") == 0.0


# --- the picture ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "marks"),
    [
        (0, [0, 1]),
        (3, [0, 1, 2, 3]),
        (4.5, [0, 1, 2, 3, 4, 5]),
        (7, [0, 2, 4, 6, 8]),
        (11, [0, 5, 10, 15]),
        (5010, [0, 2000, 4000, 6000]),
    ],
)
def test_axes_have_few_marks_on_round_numbers(value, marks):
    top, count = svg.Panel("", [svg.Series("", "", [value])]).scale()
    assert [top * i / count for i in range(count + 1)] == pytest.approx(marks)


@pytest.mark.parametrize(("share", "top"), [(0.032, 0.04), (0.11, 0.15), (0.2, 0.2), (0.41, 0.5), (0.001, 0.001)])
def test_a_small_share_gets_an_axis_of_its_own(share, top):
    assert svg.round_up(share) == pytest.approx(top)


def test_a_picture_is_well_formed_whatever_its_texts_are():
    panel = svg.Panel("a < b & c", [svg.Series('"x"', svg.BLUE, [0.0, 5.0])])
    root = ElementTree.fromstring(svg.draw("<title>", "sub & title", [0.0, 1.0], [panel], "days"))
    (line,) = root.iter(f"{SVG}polyline")
    first, last = (tuple(map(float, point.split(","))) for point in line.get("points").split())
    assert first[0] < last[0]
    assert first[1] > last[1], "larger values are higher up"


# --- manifests for the demo ----------------------------------------------------------------------------------------

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: from-elsewhere, resourceVersion: "7"}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
"""
OWNED = """
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: from-elsewhere, controller: true}]
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
"""


def test_workloads_are_handed_over_whole_and_what_they_made_is_left_out(tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text(f"{DEPLOYMENT}---{OWNED}---\napiVersion: example.com/v1\nkind: Odd\nmetadata: {{name: x}}\n")
    made = objects_for_cluster([str(path)])
    assert [(one["kind"], one["metadata"]["name"]) for one in made] == [("Namespace", "shop"), ("Deployment", "web")]
    assert made[1]["spec"]["template"]["spec"]["schedulerName"] == "podium"
    assert "uid" not in made[1]["metadata"]


def test_what_the_server_would_refuse_is_said_before_anything_runs(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(DEPLOYMENT.replace("app: web}}\n    spec", "app: other}}\n    spec"))
    with pytest.raises(LoadError, match=r"Deployment shop/web: .*`selector` does not match template `labels`"):
        objects_for_cluster([str(path)])


# --- chaos ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
async def test_everything_is_bound_in_spite_of_chaos(seed):
    from kube.client.auth import Credentials
    from kube.client.rest import Client

    async with Cluster(seed=seed) as cluster:
        cluster.add_nodes(make_node_template(), 5)
        chaos = Chaos(cluster, seed, f"{DEFAULT},nodes=300ms,relists=2s", node_outage=1.0)
        chaos.unleash()
        async with Client(Credentials(cluster.url), qps=-1, burst=0) as client, asyncio.TaskGroup() as group:
            trouble = group.create_task(chaos.run())
            service = Service(client, effective(), Options(leader_elect=False, seed=0))
            for attempt in range(20):
                try:
                    await service.build()
                    break
                except Exception:
                    assert attempt < 19, "building the service never succeeded"
                    service = Service(client, effective(), Options(leader_elect=False, seed=0))
            running = group.create_task(service.run())
            template = {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"schedulerName": "podium", "containers": [{"name": "c", "image": "i"}]},
            }
            spec = {"replicas": 60, "selector": {"matchLabels": {"app": "web"}}, "template": template}
            metadata = {"name": "web", "namespace": "default"}
            cluster.server.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})

            def bound():
                return sum("nodeName" in pod["spec"] for pod in cluster.server.list("pods"))

            await until(lambda: bound() == 60, "all pods bound", timeout=100)
            trouble.cancel()
            cluster.server.faults.clear()
            service.stop()
            await running
        per_pod = Counter(pod["metadata"]["uid"] for pod in cluster.server.list("pods"))
        assert set(per_pod.values()) == {1}
        assert cluster.controllers.failures == 0
