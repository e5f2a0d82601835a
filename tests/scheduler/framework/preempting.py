"""A small cluster whose pods may preempt: real cache, snapshot, framework and plugins; only the API server is given.

cluster = Cluster([make_node("n1", cpu="1")], [on("n1", "low", cpu="1", priority=1)])
cluster.attempt(make_pod("high", cpu="1", priority=9)).post_filter
"""

import random
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from config.types import DefaultPreemptionArgs
from kube.api.core import Node, Pod
from kube.api.meta import LabelSelector, ObjectMeta
from kube.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from plugins.default_preemption import DefaultPreemption
from plugins.node_ports import NodePorts
from plugins.node_resources_fit import NodeResourcesFit
from plugins.priority_sort import PrioritySort
from plugins.taint_toleration import TaintToleration
from scheduler.cache import SchedulerCache
from scheduler.framework.extender import Extender
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, Plugin, PreFilterPlugin
from scheduler.framework.preemption.candidates import Found, spell_out
from scheduler.framework.preemption.dry_run import Candidate
from scheduler.framework.runtime import EnabledPlugins, Framework
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.nominator import Nominator
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_pod
from tests.plugins.harness import ListedObjects

FILTERS: tuple[type[FilterPlugin], ...] = (TaintToleration, NodePorts, NodeResourcesFit)


def asked_in_full(filters: Sequence[type[FilterPlugin]]) -> list[type[FilterPlugin]]:
    """The same filters, but nothing is known of them beforehand: every dry run asks all of them."""
    ignorant = {
        "fewer_pods_help": False,
        "depends_on_pods": True,
        "concerned_by": lambda self, state, shape: True,
        "room_needed": lambda self, state: None,
    }
    return [type(plugin.__name__, (plugin,), ignorant) for plugin in filters]


ONE_BY_ONE = asked_in_full(FILTERS)


def on(node: str, name: str, **fields: Any) -> Pod:
    """A running pod; its uid is its name."""
    return make_pod(name, node_name=node, uid=name, **fields)


def budget(
    name: str,
    match: Mapping[str, str] | None,
    *,
    allowed: int = 0,
    namespace: str = "default",
    disrupted: Sequence[str] = (),
) -> PodDisruptionBudget:
    """A PodDisruptionBudget; `match` None: without a selector."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=None if match is None else LabelSelector(match_labels=dict(match))),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
        ),
    )


class Cluster:
    """Nodes, pods, budgets, and one profile that preempts."""

    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod] = (),
        budgets: Iterable[PodDisruptionBudget] = (),
        *,
        filters: Sequence[type[FilterPlugin]] = FILTERS,
        args: DefaultPreemptionArgs | None = None,
        seed: int = 0,
        client: Any = None,
        extenders: Sequence[Extender] = (),
        more_plugins: Mapping[str, Sequence[type[Plugin]]] | None = None,
    ) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        for node in nodes:
            self.cache.add_node(node)
        for pod in pods:
            self.cache.add_pod(pod)
        #: kind -> the objects that plugins may list
        self.listed: dict[str, ListedObjects] = {"PodDisruptionBudget": ListedObjects(budgets)}
        self.nominator = Nominator()
        self.waiting_pods = WaitingPods()
        #: what happened beside the API server, in order
        self.activated: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        self.metrics: list[Any] = []
        self.spawned: list[Coroutine[Any, Any, None]] = []
        self.handle = Handle(
            snapshot=self.snapshot,
            profile="podium",
            listers=lambda kind: self.listed.setdefault(kind, ListedObjects()),
            nominator=self.nominator,
            waiting_pods=self.waiting_pods,
            random=random.Random(seed),
            client=client,
            event=lambda pod, related, kind, reason, action, note: self.events.append((pod.key, reason, note)),
            activate=self.activated.extend,
            spawn=None if client is None else self.spawned.append,
            extenders=extenders,
            preemption_attempted=lambda: self.metrics.append("attempt"),
            preemption_done=lambda victims, result, seconds: self.metrics.append((victims, result)),
        )
        self.plugin = DefaultPreemption(args, self.handle)
        asked = [plugin(None, self.handle) for plugin in filters]
        points: dict[str, tuple[Any, ...]] = {
            "queueSort": (PrioritySort(None, self.handle),),
            "preFilter": tuple(plugin for plugin in asked if isinstance(plugin, PreFilterPlugin)),
            "filter": tuple(asked),
            "postFilter": (self.plugin,),
        }
        points |= {
            point: tuple(plugin(None, self.handle) for plugin in plugins)
            for point, plugins in (more_plugins or {}).items()
        }
        self.framework = Framework("podium", EnabledPlugins(points, {}), self.handle)

    def attempt(self, pod: Pod) -> Attempt:
        """One scheduling cycle."""
        return schedule_pod(self.framework, self.snapshot.shapes.pod_info(pod))

    def nominate(self, pod: Pod, node: str) -> None:
        """Promise the pod a node."""
        self.nominator.add(self.snapshot.shapes.pod_info(pod), node)

    def outcome(self, pod: Pod) -> tuple[str | None, list[str]]:
        """(nominated node, names of the victims in order); (None, []) where nothing can be done."""
        result = self.attempt(pod).post_filter
        if result is None:
            return None, []
        return result.nominated_node_name or None, [victim.pod.metadata.name for victim in result.victims]

    def message(self, pod: Pod) -> str:
        """What PostFilter adds to the FailedScheduling text."""
        diagnosis = self.attempt(pod).diagnosis
        assert diagnosis is not None, "the pod fits"
        return diagnosis.post_filter_message

    def found(self, pod: Pod) -> list[Found]:
        """What a search finds, in the order of the walk."""
        attempt = self.attempt(pod)
        assert attempt.diagnosis is not None, "the pod fits"
        found = self.plugin.evaluator.find_candidates(attempt.state, attempt.diagnosis)
        return found if isinstance(found, list) else []

    def candidates(self, pod: Pod) -> dict[str, Candidate]:
        """All candidates of a search, by node."""
        return {each.node_name: each for each in map(spell_out, self.found(pod))}
