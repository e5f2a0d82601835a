"""An HTTP extender, v1: a webhook that filters, scores, preempts or binds beside the plugins (facts 1.5).

The protocol: what is asked, in which JSON, and what an answer means. Keys are Go's field names, as extenders written in
Go expect them; answers are read whatever the case of their keys. How bytes reach the webhook (TLS, timeouts) and where
complete objects come from is the business of whoever builds it: podium's own structs hold only what a scheduler reads,
an extender may read anything.

Called by the cycles and by preemption, on the event loop. Raises ExtenderError only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from config.types import Extender as ExtenderConfig
from kube.api.core import Pod
from scheduler.framework.extender import ExtenderError, FilterAnswer
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot

#: (url, JSON body) -> the body of a 200 answer; raises ExtenderError for everything else
Post = Callable[[str, bytes], Awaitable[bytes]]
#: node name -> (victims, PDB violations)
Victims = Mapping[str, tuple[Sequence[PodInfo], int]]


class CompleteObjects(Protocol):
    """Objects as the API server has them, as JSON. Raises ExtenderError where it cannot be asked."""

    async def pod(self, pod: Pod) -> msgspec.Raw:
        """This very pod."""

    async def nodes(self, names: Sequence[str]) -> list[msgspec.Raw]:
        """These nodes, in this order; without those that are gone."""


class HTTPExtender:
    """One configured extender. Implements `scheduler.framework.extender.Extender`."""

    def __init__(self, config: ExtenderConfig, post: Post, objects: CompleteObjects, snapshot: Snapshot) -> None:
        self.config = config
        self.name = config.url_prefix
        self.ignorable = config.ignorable
        self.weight = config.weight
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        self._post = post
        self._objects = objects
        self._snapshot = snapshot

    # --- what it does -------------------------------------------------------------------------------------

    def is_interested(self, pod: Pod) -> bool:
        """It manages no resource in particular, or a container requests or limits one that it does."""
        if not self._managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(
            name in self._managed
            for container in containers
            for name in (*container.resources.requests, *container.resources.limits)
        )

    def filters(self) -> bool:
        """Whether it has a filter verb."""
        return bool(self.config.filter_verb)

    def prioritizes(self) -> bool:
        """Whether it has a prioritize verb."""
        return bool(self.config.prioritize_verb)

    def supports_preemption(self) -> bool:
        """Whether it has a preempt verb."""
        return bool(self.config.preempt_verb)

    def binds(self) -> bool:
        """Whether it has a bind verb."""
        return bool(self.config.bind_verb)

    # --- the verbs ----------------------------------------------------------------------------------------

    async def filter(self, pod: Pod, node_names: Sequence[str]) -> FilterAnswer:
        """Ask which of the nodes can take the pod."""
        answer = await self._ask_dict(self.config.filter_verb, await self._args(pod, node_names))
        if answer.get("error"):
            raise self._error(str(answer["error"]))
        left = self._nodes_left(answer)
        sent = frozenset(node_names)
        for name in left:
            if name not in sent:
                raise self._error(f'claims a filtered node "{name}" which is not found in the input node list')
        return FilterAnswer(
            tuple(left),
            self._reasons(answer.get("failednodes")),
            self._reasons(answer.get("failedandunresolvablenodes")),
        )

    async def prioritize(self, pod: Pod, node_names: Sequence[str]) -> Mapping[str, int]:
        """Ask how good the nodes are: node name -> 0..10."""
        answer = await self._ask(self.config.prioritize_verb, await self._args(pod, node_names))
        scores: dict[str, int] = {}
        for entry in self._list(answer):
            host, score = entry.get("host"), entry.get("score", 0)
            if not isinstance(host, str) or not isinstance(score, int):
                raise self._error(f"expected a Host and a whole Score, got {entry}")
            scores[host] = scores.get(host, 0) + score
        return scores

    async def process_preemption(self, pod: Pod, victims: Victims) -> Victims:
        """Ask which of the candidates for a preemption it agrees to; it may name other victims on these nodes."""
        args: dict[str, Any] = {
            "Pod": await self._objects.pod(pod),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": None,
        }
        if self.config.node_cache_capable:
            args["NodeNameToMetaVictims"] = {
                name: {"Pods": [{"UID": victim.uid} for victim in pods], "NumPDBViolations": violations}
                for name, (pods, violations) in victims.items()
            }
        else:
            args["NodeNameToVictims"] = {
                name: {"Pods": await self._complete(pods), "NumPDBViolations": violations}
                for name, (pods, violations) in victims.items()
            }
        answer = await self._ask_dict(self.config.preempt_verb, args)
        left = answer.get("nodenametometavictims") or {}
        if not isinstance(left, dict):
            raise self._error("expected NodeNameToMetaVictims to be a mapping")
        return {name: self._victims_on(name, each) for name, each in left.items()}

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Have it bind the pod."""
        meta = pod.metadata
        args = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node_name}
        answer = await self._ask_dict(self.config.bind_verb, args)
        if answer.get("error"):
            raise self._error(str(answer["error"]))

    # --- the JSON -----------------------------------------------------------------------------------------

    async def _args(self, pod: Pod, node_names: Sequence[str]) -> dict[str, Any]:
        """ExtenderArgs: names for extenders that keep nodes themselves, complete nodes for the others."""
        complete = await self._objects.pod(pod)
        if self.config.node_cache_capable:
            return {"Pod": complete, "Nodes": None, "NodeNames": list(node_names)}
        nodes = await self._objects.nodes(node_names)
        return {"Pod": complete, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}

    async def _complete(self, pods: Iterable[PodInfo]) -> list[msgspec.Raw]:
        return [await self._objects.pod(victim.pod) for victim in pods]

    async def _ask(self, verb: str, args: Mapping[str, Any]) -> Any:
        url = f"{self.config.url_prefix.rstrip('/')}/{verb}"
        body = await self._post(url, msgspec.json.encode(args))
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as problem:
            raise self._error(f"{verb} answered no JSON: {problem}") from None

    async def _ask_dict(self, verb: str, args: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._ask(verb, args)
        if not isinstance(answer, dict):
            raise self._error(f"{verb}: expected a JSON object, got {_kind(answer)}")
        return _lower(answer)

    def _nodes_left(self, answer: Mapping[str, Any]) -> list[str]:
        """By name where it keeps nodes itself and names some; else the objects; null is no node at all."""
        names = answer.get("nodenames")
        if self.config.node_cache_capable and names is not None:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise self._error("expected NodeNames to be a list of names")
            return names
        nodes = answer.get("nodes")
        if nodes is None:
            return []
        items = _lower(nodes).get("items") if isinstance(nodes, dict) else None
        try:
            return [node["metadata"]["name"] for node in items or ()]
        except (KeyError, TypeError):
            raise self._error("expected Nodes to be a list of nodes") from None

    def _reasons(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error("expected failed nodes as a mapping of name to reason")
        return {str(name): str(reason or "") for name, reason in value.items()}

    def _list(self, answer: Any) -> list[dict[str, Any]]:
        if answer is None:
            return []
        if not isinstance(answer, list) or not all(isinstance(entry, dict) for entry in answer):
            raise self._error(f"{self.config.prioritize_verb}: expected a list of hosts and scores")
        return [_lower(entry) for entry in answer]

    def _victims_on(self, name: str, answer: Any) -> tuple[Sequence[PodInfo], int]:
        node = self._snapshot.info(name)
        if node is None or not isinstance(answer, dict):
            raise self._error(f'claims to preempt on node "{name}", which is not a node')
        fields = _lower(answer)
        pods = []
        for entry in fields.get("pods") or ():
            uid = _lower(entry).get("uid")
            if uid not in node.pods:
                raise self._error(f'claims to preempt pod (UID: {uid}) on node "{name}", where it is not')
            pods.append(node.pods[uid])
        return pods, int(fields.get("numpdbviolations") or 0)

    def _error(self, text: str) -> ExtenderError:
        return ExtenderError(f"extender {self.name}: {text}")


def in_order(extenders: Iterable[HTTPExtender]) -> tuple[HTTPExtender, ...]:
    """As configured, but those whose failure does not matter come last."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def _lower(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Go reads keys whatever their case, and extenders rely on it."""
    return {key.lower(): value for key, value in answer.items()}


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
