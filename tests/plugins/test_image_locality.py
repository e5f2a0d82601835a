"""ImageLocality: the size of the pod's images that a node has, weighed by how common they are."""

import pytest

from kube.api.core import ImageVolumeSource, Volume
from plugins.image_locality import ImageLocality, normalized_name
from tests.builders import make_container, make_node, make_pod
from tests.plugins.harness import Bench

MI = 1024 * 1024


def nodes(count: int, having: int, size: int, image: str = "app:1"):
    return [make_node(f"n{i}", images={image: size} if i < having else {}) for i in range(count)]


def pod(*images: str, init: tuple[str, ...] = (), volumes: tuple[str, ...] = ()):
    return make_pod(
        "web",
        containers=[make_container(str(i), image=image) for i, image in enumerate(images)],
        init_containers=[make_container(f"init{i}", image=image) for i, image in enumerate(init)],
        volumes=[Volume(name=ref, image=ImageVolumeSource(reference=ref)) for ref in volumes],
    )


@pytest.mark.parametrize(
    ("cluster", "wanted", "score"),
    [
        pytest.param(nodes(10, 10, 500 * MI), pod("app:1"), 48, id="500 MiB on every node"),
        pytest.param(nodes(10, 1, 500 * MI), pod("app:1"), 2, id="500 MiB on one node of ten"),
        pytest.param(nodes(10, 10, 2000 * MI), pod("app:1"), 100, id="no image is worth more than 1000 MiB"),
        pytest.param(nodes(10, 10, 500 * MI), pod("app:1", "other:1"), 24, id="a second container doubles the bound"),
        pytest.param(nodes(10, 10, 500 * MI), pod("other:1", init=("app:1",)), 24, id="init containers count"),
        pytest.param(nodes(10, 10, 500 * MI), pod("app:1", "app:1"), 49, id="an image counts for each container"),
        pytest.param(nodes(10, 10, 500 * MI), pod("x:1", volumes=("app:1",)), 48, id="image volumes count, unbounded"),
        pytest.param(nodes(10, 10, 23 * MI), pod("app:1"), 0, id="23 MiB are worth nothing"),
        pytest.param(nodes(10, 10, 33 * MI), pod("app:1"), 1, id="10 MiB more are worth one percent"),
        pytest.param(nodes(10, 10, 500 * MI), pod("app:2"), 0, id="another tag is another image"),
        pytest.param(nodes(1, 1, 500 * MI, "app:latest"), pod("app"), 48, id="no tag is latest"),
    ],
)
def test_a_node_is_worth_the_images_it_has(cluster, wanted, score):
    assert Bench(ImageLocality, nodes=cluster).score(wanted)["n0"] == score


def test_a_node_without_the_image_scores_0():
    assert Bench(ImageLocality, nodes=nodes(2, 1, 500 * MI)).score(pod("app:1"))["n1"] == 0


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1", "nginx:1"),
        ("registry:5000/nginx", "registry:5000/nginx:latest"),
        ("registry:5000/nginx:1", "registry:5000/nginx:1"),
        ("nginx@sha256:abc", "nginx@sha256:abc"),
    ],
)
def test_a_tag_is_what_follows_a_colon_after_the_last_slash(name, full):
    assert normalized_name(name) == full


def scores_by_size(bench: Bench) -> int:
    found = bench.score(pod("app:1"))
    assert found is not None
    return max(found.values())


def test_the_first_reported_size_counts_until_no_node_has_the_image():
    bench = Bench(ImageLocality, nodes=[make_node("n1", images={"app:1": 500 * MI})])
    bench.cache.add_node(make_node("n2", images={"app:1": 1000 * MI}))
    assert scores_by_size(bench) == 48
    bench.cache.remove_node("n1")
    assert scores_by_size(bench) == 48
    bench.cache.update_node(make_node("n2"))
    assert scores_by_size(bench) == 0
    bench.cache.update_node(make_node("n2", images={"app:1": 1000 * MI}))
    assert scores_by_size(bench) == 100


def test_removed_nodes_make_images_rarer_or_more_common():
    bench = Bench(ImageLocality, nodes=nodes(2, 1, 1000 * MI))
    assert bench.score(pod("app:1")) == {"n0": 48, "n1": 0}
    bench.cache.remove_node("n1")
    assert bench.score(pod("app:1")) == {"n0": 100}


def test_a_node_that_loses_the_image_loses_its_score():
    bench = Bench(ImageLocality, nodes=nodes(2, 2, 1000 * MI))
    assert bench.score(pod("app:1")) == {"n0": 100, "n1": 100}
    bench.cache.update_node(make_node("n1"))
    assert bench.score(pod("app:1")) == {"n0": 48, "n1": 0}
