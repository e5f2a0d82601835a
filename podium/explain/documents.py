"""The documents that explain prints and serves: one shape for `-o json`, for the endpoints and for the screen.

Plain values without behaviour; field names are JSON's in camelCase. docs/explain.md describes each of them. A list of
node names holds at most `MAX_NAMES`, the number beside it says how many there are.
"""

from __future__ import annotations

import msgspec

MAX_NAMES = 10


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all documents."""


class ResourceGap(Document, frozen=True):
    """A resource that lacks, on the node that lacks least. Amounts as Kubernetes writes them."""

    resource: str
    #: what the pod requests
    wanted: str
    node: str
    allocatable: str
    #: what the pods there request
    requested: str
    free: str
    short: str


class Cause(Document, frozen=True):
    """Nodes that one plugin refused for one reason."""

    plugin: str
    reason: str
    #: the same with the numbers, labels, pods or claims that it is about
    detail: str
    #: the same in a few words, to be put behind a number of nodes: `cordoned`, `short of CPU (n7 by 250m)`
    brief: str
    nodes: int
    names: tuple[str, ...]
    #: whether evicting pods from these nodes could help
    eviction_may_help: bool
    gap: ResourceGap | None = None


class Change(Document, frozen=True):
    """A change of the pod after which it fits: the filters said so about the changed pod."""

    text: str
    #: each part of it: toleration, request, nodeSelector, nodeAffinity, podAffinity, podAntiAffinity, spread, hostPort
    kinds: tuple[str, ...]
    nodes: int
    names: tuple[str, ...]


class NearNode(Document, frozen=True):
    """A node that nearly takes the pod."""

    node: str
    #: the filters that refuse it, in order; the first one is the cause
    refused_by: tuple[str, ...]
    #: what is in the way, in words
    lacks: tuple[str, ...]
    #: changes of the pod or the node that, all together, make the pod fit there; empty where none was found
    changes: tuple[str, ...]
    #: pods without which it fits, all of them gone; empty where that does not help
    without_pods: tuple[str, ...]
    text: str


class PodName(Document, frozen=True):
    """A pod, and how important it is."""

    pod: str
    priority: int


class Preemption(Document, frozen=True):
    """What a search for victims finds now. Nothing is evicted for an explanation."""

    text: str
    node: str | None = None
    victims: tuple[PodName, ...] = ()
    #: victims that a PodDisruptionBudget protects
    budget_violations: int = 0


class Wake(Document, frozen=True):
    """Events after which the pod is tried again, because this plugin refused it."""

    plugin: str
    events: tuple[str, ...]


class NodeScore(Document, frozen=True):
    """A node that fits, with its weighted scores by plugin."""

    node: str
    total: int
    plugins: dict[str, int]


class QueueState(Document, frozen=True):
    """Where the pod waits."""

    #: active, backoff, unschedulable, gated or in flight
    pool: str
    attempts: int
    #: seconds since it was (re-)added
    waiting: float
    #: wall clock, RFC 3339; null where it is not in backoff
    backoff_until: str | None = None
    backoff_seconds: float | None = None


class LastDecision(Document, frozen=True):
    """The last attempt that the scheduler made for this pod."""

    time: str
    result: str
    node: str
    message: str
    attempt: int


class GroupMember(Document, frozen=True):
    """A member of a pod group that does not run."""

    name: str
    #: fits, unschedulable, gated, or foreign: another scheduler's
    state: str
    #: why it does not fit, or what keeps it out
    text: str = ""


class Group(Document, frozen=True):
    """The pod's group: how many members it needs together, and what each of them waits for."""

    name: str
    #: members that must start together; 0 for a basic group
    min_count: int
    #: members that exist, and those of them that have a node
    known: int
    running: int
    #: members that would get a node now, were the group tried, those that run included
    fitting: int
    text: str
    #: at most `MAX_NAMES` members that do not run, those that do not fit first
    members: tuple[GroupMember, ...] = ()


class Explanation(Document, frozen=True):
    """Why one pod is where it is, or nowhere."""

    namespace: str
    name: str
    uid: str
    #: running, binding, fits, unschedulable, gated, backoff, nominated, terminating, foreign or error
    state: str
    #: one sentence
    verdict: str
    scheduler_name: str
    profile: str | None
    priority: int
    node: str | None
    nominated_node: str | None
    #: the FailedScheduling text; empty where the pod fits
    message: str
    node_count: int
    feasible: int
    causes: tuple[Cause, ...] = ()
    nearest: tuple[NearNode, ...] = ()
    changes: tuple[Change, ...] = ()
    preemption: Preemption | None = None
    wakes: tuple[Wake, ...] = ()
    #: the best nodes that fit, the best first; the pod's own node is among them wherever it ranks
    scores: tuple[NodeScore, ...] = ()
    group: Group | None = None
    queue: QueueState | None = None
    last_decision: LastDecision | None = None


class Explanations(Document, frozen=True):
    """Why several pods are where they are; `more` counts those left out."""

    pods: tuple[Explanation, ...]
    more: int = 0
