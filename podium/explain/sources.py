"""Explanations from files, or from the objects of a cluster, read once: the engine runs here.

A running podium knows more, its queue and its last decision: `asking` asks it.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from kube.api.core import Pod
from podium.configuration import Effective
from podium.explain.asking import NoSuchPodError, UnreachableError
from podium.explain.documents import Explanation
from podium.explain.explain import explain
from podium.explain.view import Cluster
from simulator.load import ClusterObjects, load
from simulator.offline import Extenders, Simulation


def from_files(
    paths: Sequence[str], effective: Effective, namespace: str, name: str, *, any_name: bool
) -> list[Explanation]:
    """Offline. Raises LoadError and NoSuchPodError."""
    return from_objects(load(paths), effective, namespace, name, any_name=any_name)


def from_objects(
    objects: ClusterObjects, effective: Effective, namespace: str, name: str, *, any_name: bool
) -> list[Explanation]:
    """One pod, or every pending one where no name is given."""
    pods = [_find(objects.pods, namespace, name)] if name else list(objects.pending)
    with ExitStack() as open_:
        extenders = _extenders(effective, open_)
        simulation = Simulation(
            objects,
            effective.value,
            effective.registry,
            effective.gates,
            any_scheduler_name=any_name,
            extenders=extenders,
        )
        cluster = replace(cluster_of(simulation), asks=extenders is not None)
        return [explain(cluster, pod, extenders.ask if extenders is not None else None) for pod in pods]


def _extenders(effective: Effective, open_: ExitStack) -> Extenders | None:
    if not effective.value.extenders:
        return None
    from podium.what_if.extenders import OfflineExtenders

    return open_.enter_context(OfflineExtenders(effective.value))


def cluster_of(simulation: Simulation) -> Cluster:
    """A simulation, to be asked."""
    return Cluster(simulation.cache, simulation.frameworks, simulation.profile_of, now=time.time)


def _find(pods: Iterable[Pod], namespace: str, name: str) -> Pod:
    by_key = {pod.key: pod for pod in pods}
    pod = by_key.get(f"{namespace}/{name}")
    if pod is None:
        raise NoSuchPodError(no_such_pod(namespace, name, by_key))
    return pod


def no_such_pod(namespace: str, name: str, keys: Iterable[str]) -> str:
    """One line, with the name that was perhaps meant: the same in another namespace, or a similar one."""
    keys = list(keys)
    elsewhere = [key for key in keys if key.rpartition("/")[2] == name]
    names = [key.rpartition("/")[2] for key in keys if key.startswith(f"{namespace}/")]
    close = elsewhere or [f"{namespace}/{near}" for near in difflib.get_close_matches(name, names, 1, 0.75)]
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"there is no pod {namespace}/{name} (finished pods are not looked at){hint}"


def from_cluster(kubeconfig: str | None, effective: Effective, namespace: str, name: str) -> list[Explanation]:
    """Read the cluster's objects, and run the engine here. Raises UnreachableError and NoSuchPodError."""
    from podium.what_if.from_cluster import ClusterUnreadableError, read_cluster

    try:
        objects = read_cluster(kubeconfig or effective.value.client_connection.kubeconfig or None)
    except ClusterUnreadableError as problem:
        raise UnreachableError(str(problem), problem.exit_code) from problem
    return from_objects(objects, effective, namespace, name, any_name=False)
