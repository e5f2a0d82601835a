"""ImageLocality: prefer nodes that have the pod's images already.

An image counts by its size times the share of nodes that have it, so that one node with a rare image does not draw
every pod to it. An index over rows knows which nodes report which images.

Called by the framework; it never looks at pull policies or registries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import MAX_NODE_SCORE, Scope, ScorePlugin
from scheduler.snapshot.columns import Codes, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes, Snapshot

MEBIBYTE = 1024 * 1024
#: an image is worth nothing up to here
MIN_THRESHOLD = 23 * MEBIBYTE
#: per container; what a pod has beyond it is worth no more
MAX_CONTAINER_THRESHOLD = 1000 * MEBIBYTE


class Image:
    """One image name: its size as first reported, and the rows that have it. Owner: the index."""

    __slots__ = ("_array", "_rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._rows: set[int] = set()
        self._array: Codes | None = None

    def add(self, row: int) -> None:
        """This row has the image."""
        self._rows.add(row)
        self._array = None

    def discard(self, row: int) -> None:
        """This row does not have the image any more."""
        self._rows.discard(row)
        self._array = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Codes:
        """The rows that have the image, in no order."""
        if self._array is None:
            self._array = np.fromiter(self._rows, np.intp, len(self._rows))
        return self._array


class ImageIndex:
    """Image name to its size and rows. Owner: the snapshot, which reports every change.

    As upstream, the size is the one that the first node reported; it is forgotten with the last node that had it.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.images: dict[str, Image] = {}
        self._names: dict[int, list[str]] = {}

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """The node's images are listed anew; a node that is gone has none."""
        for name in self._names.pop(row, ()):
            image = self.images[name]
            image.discard(row)
            if not image:
                del self.images[name]
        if node is None or node.node is None or not node.node.status.images:
            return
        sizes = {name: image.size_bytes for image in reversed(node.node.status.images) for name in image.names}
        for name, size in sizes.items():
            self.images.setdefault(name, Image(size)).add(row)
        self._names[row] = list(sizes)


class ImageLocality(ScorePlugin):
    """Score nodes by the images they have."""

    name = "ImageLocality"
    reads_requests = False
    #: other nodes' images count too, but a change of any node object drops what is kept
    scope = Scope.NODE
    bounded = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        # From the start, for whose report of a size was the first can not be told later.
        handle.snapshot.index(ImageIndex)

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | float:
        """Σ size·share of the pod's images on the node, between the thresholds, scaled to 0..100."""
        snapshot = nodes.snapshot
        images = snapshot.index(ImageIndex).images
        found = [image for name in images_of(pod) if (image := images.get(normalized_name(name))) is not None]
        if not found:
            return 0.0
        sums = np.zeros(snapshot.size)
        for image in found:
            sums[image.rows] += int(image.size * (len(image) / snapshot.count))
        most = MAX_CONTAINER_THRESHOLD * (len(pod.spec.init_containers) + len(pod.spec.containers))
        above: Vector = np.clip(nodes.gather(sums), MIN_THRESHOLD, most) - MIN_THRESHOLD
        return np.floor(above * MAX_NODE_SCORE / (most - MIN_THRESHOLD))


def images_of(pod: Pod) -> Iterator[str]:
    """Images of all containers and of image volumes, as often as they are named."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        yield container.image
    for volume in pod.spec.volumes:
        if volume.image is not None:
            yield volume.image.reference


def normalized_name(name: str) -> str:
    """With the tag that is meant where none is given; a colon before the last slash belongs to a port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
