"""The loader of Alibaba's GPU traces: rows into nodes and pods, times, and what it says about files it cannot read."""

from __future__ import annotations

import pytest

from simulator.load import LoadError, load
from simulator.load.traces import GPU, GPU_MODEL, GPU_SHARE, TraceError, read_nodes, read_trace

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
n0,32000,262144,0,
n1,96000,786432,8,G2
"""
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
PODS = (
    HEAD
    + """\
late,6000,12288,1,460,,LS,Running,500,900,501
early,8000,30517,0,0,,BE,Pending,100,300,
picky,4000,1024,2,1000,V100M16|V100M32,Burstable,Succeeded,200,250,201
"""
)


@pytest.fixture
def files(tmp_path):
    def write(nodes=NODES, pods=PODS):
        paths = tmp_path / "nodes.csv", tmp_path / "pods.csv"
        for path, text in zip(paths, (nodes, pods), strict=True):
            path.write_text(text)
        return [str(path) for path in paths]

    return write


def requests(pod):
    return pod["spec"]["containers"][0]["resources"]["requests"]


def test_a_node_has_what_its_row_says(files):
    plain, with_gpus = read_nodes(files()[0])
    assert plain["status"]["allocatable"] == {"cpu": "32000m", "memory": "262144Mi", "pods": "1001"}
    assert GPU_MODEL not in plain["metadata"]["labels"]
    assert with_gpus["status"]["allocatable"][GPU] == "8"
    assert with_gpus["status"]["allocatable"][GPU_SHARE] == "8000"
    assert with_gpus["metadata"]["labels"][GPU_MODEL] == "G2"


@pytest.mark.parametrize(
    ("share", "late", "picky"),
    [
        pytest.param(False, {GPU: "1"}, {GPU: "2"}, id="whole GPUs"),
        pytest.param(True, {GPU_SHARE: "460"}, {GPU_SHARE: "2000"}, id="shares of GPUs, in thousandths"),
    ],
)
def test_a_task_asks_for_what_its_row_says(files, share, late, picky):
    pods = {task.pod["metadata"]["name"]: task.pod for task in read_trace(files()[1], gpu_share=share).tasks}
    assert requests(pods["late"]) == {"cpu": "6000m", "memory": "12288Mi", **late}
    assert requests(pods["picky"]) == {"cpu": "4000m", "memory": "1024Mi", **picky}
    assert requests(pods["early"]) == {"cpu": "8000m", "memory": "30517Mi"}
    priorities = {name: pod["spec"]["priority"] for name, pod in pods.items()}
    assert priorities == {"late": 1000, "early": 0, "picky": 500}
    (term,) = pods["picky"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [{"key": GPU_MODEL, "operator": "In", "values": ["V100M16", "V100M32"]}]
    assert "affinity" not in pods["late"]["spec"]


def test_tasks_come_in_the_order_of_their_creation(files):
    trace = read_trace(files()[1])
    assert [(task.created, task.lifetime) for task in trace.tasks] == [(100, 200), (200, 50), (500, 400)]
    assert trace.duration == 800


def test_the_files_are_a_cluster_for_simulate(files):
    cluster = load(files())
    assert [node.metadata.name for node in cluster.nodes] == ["n0", "n1"]
    assert [pod.key for pod in cluster.pending] == ["openb/late", "openb/early", "openb/picky"]
    shared = load(files(), gpu_share=True)
    assert shared.pods[0].spec.containers[0].resources.requests[GPU_SHARE] == "460"


def test_a_list_without_times_is_a_cluster_but_no_replay(files):
    short = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,0,0\n"
    paths = files(pods=short)
    assert len(load(paths).pending) == 1
    with pytest.raises(TraceError, match=r"pods.csv: line 1: not a trace: expected the columns name,.*deletion_time$"):
        read_trace(paths[1])


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        pytest.param("a,b\n1,2\n", "line 1: not a trace: expected the columns name, cpu_milli", id="another table"),
        pytest.param("", "line 1: not a trace", id="an empty file"),
        pytest.param(HEAD + "p,many,1,0,0,,LS,Running,1,2,\n", "line 2: cpu_milli: 'many': expected a whole number",
                     id="no number"),
        pytest.param(HEAD + "p,-1,1,0,0,,LS,Running,1,2,\n", "line 2: cpu_milli: '-1'", id="a negative number"),
        pytest.param(HEAD + ",1,1,0,0,,LS,Running,1,2,\n", "line 2: name: expected a name", id="no name"),
        pytest.param(HEAD + "p,1,1,0,0,,LS,Running,5,2,\n", "line 2: deletion_time: 2: expected no less than",
                     id="gone before it came"),
        pytest.param(HEAD + "p,1\n", "line 2: creation_time: ''", id="a short row"),
        pytest.param(HEAD, "expected at least one task", id="no rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(files, pods, message):
    with pytest.raises(LoadError) as wrong:
        read_trace(files(pods=pods)[1])
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_wrong_row_is_a_problem_of_the_load_too(files):
    with pytest.raises(LoadError, match=r"pods.csv: line 2: cpu_milli: 'x': expected a whole number"):
        load(files(pods=HEAD + "p,x,1,0,0,,LS,Running,1,2,\n"))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_nodes(str(tmp_path / "none.csv"))
