"""`podium simulate`: what would the scheduler do, with these files or this cluster, and what if something changed?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from kube.api.core import Pod
from kube.api.quantity import Format, format_milli, format_value
from podium.configuration import Effective, add_config_arguments, read_configuration
from podium.output import fail, print_json
from podium.progress import Progress
from simulator.load import ClusterObjects, LoadError, load, load_pods
from simulator.offline import Extenders, NodeResult, PodResult, Simulation

#: pods times nodes up to which JSON holds every node of every pod, unless --detail says so
DETAIL_LIMIT = 1_000_000


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "simulate",
        help="schedule pods from files, offline",
        description="Schedule the pods of files on the nodes of files, offline, by the engine that podium run uses.",
    )
    files: dict[str, Any] = {"metavar": "FILE", "nargs": "+", "action": "extend", "default": []}
    everything = "all objects of the cluster: YAML, JSON, Lists, kubectl dumps, directories, CSV traces, - for stdin"
    some = "schedule these pods, in this order, and leave the cluster's own pending pods"
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-f", "--filename", help=everything, **files)
    source.add_argument(
        "--from-cluster", action="store_true", help="read the objects of a live cluster, change nothing"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="for --from-cluster; default: as for podium run")
    parser.add_argument("--pods", help=some, **files)
    parser.add_argument("--alone", action="store_true", help="judge every pod by itself, none placed before the next")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides ties (default: 0)")
    parser.add_argument("--gpu-share", action="store_true", help="let the tasks of a CSV trace share GPUs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format (default: table)")
    parser.add_argument("--detail", action="store_true",
                        help="JSON with every node of every pod, however large (default: up to a million)")  # fmt: skip
    add_config_arguments(parser)
    _add_questions(parser.add_argument_group("what if"))
    parser.set_defaults(run=run)
    return parser


def _add_questions(group: Any) -> None:
    names: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    group.add_argument("--drain", metavar="NODE", help="cordon these nodes and schedule their pods elsewhere", **names)
    group.add_argument("--remove-nodes", metavar="NODE", help="take these nodes away", **names)
    group.add_argument(
        "--add-nodes", metavar="TEMPLATE=N", help="N more nodes like this one (a node, or a file)", **names
    )
    group.add_argument(
        "--how-many", metavar="FILE", help="how many copies of these pods fit, and what stops the next", **names
    )
    group.add_argument("--min-nodes", metavar="TEMPLATE", help="how many nodes like this one the pending pods need")
    group.add_argument("--compare", metavar="FILE", help="the same under this configuration too: what moves")


def run(args: argparse.Namespace) -> int:
    """Print where each pod goes and why, or the answer to the question; 2 for bad input."""
    from podium.what_if.from_cluster import ClusterUnreadableError

    if sum(bool(each) for each in (args.how_many, args.min_nodes, args.compare, args.alone)) > 1:
        return fail("simulate: --how-many, --min-nodes, --compare and --alone are questions of their own: ask one", 2)
    configuration = read_configuration(args)
    try:
        objects, pods = _input(args, configuration)
    except ClusterUnreadableError as problem:
        return fail(problem, problem.exit_code)
    for warning in objects.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if objects.ignored:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(objects.ignored.items()))
        print(f"not looked at: {kinds}", file=sys.stderr)
    with ExitStack() as open_:
        question = _Question(args, configuration, objects, pods, open_)
        if args.how_many:
            question.how_many()
        elif args.min_nodes:
            question.min_nodes()
        elif args.compare:
            question.compare()
        else:
            question.schedule()
    return 0


def _input(args: argparse.Namespace, configuration: Effective) -> tuple[ClusterObjects, Sequence[Pod] | None]:
    """The cluster with the changes asked for, and the pods of --pods. Raises LoadError, ClusterUnreadableError."""
    from podium.what_if import cluster_changes
    from podium.what_if.from_cluster import read_cluster

    if args.from_cluster:
        objects = read_cluster(args.kubeconfig or configuration.value.client_connection.kubeconfig or None)
    else:
        objects = load(args.filename, gpu_share=args.gpu_share)
    pods: Sequence[Pod] | None = None
    if args.pods:
        pods, objects = load_pods(args.pods, objects)
    for text, count in cluster_changes.parse_additions(args.add_nodes):
        objects = cluster_changes.add(objects, cluster_changes.find_template(objects, text), count)
    if args.remove_nodes:
        objects = cluster_changes.remove(objects, args.remove_nodes)
    if args.drain:
        objects = cluster_changes.drain(objects, args.drain)
    return objects, pods


class _Question:
    """One question about one cluster; its answer goes to stdout."""

    def __init__(
        self,
        args: argparse.Namespace,
        effective: Effective,
        objects: ClusterObjects,
        pods: Sequence[Pod] | None,
        open_: ExitStack,
    ) -> None:
        self._args = args
        self._effective = effective
        self._objects = objects
        self._pods = pods
        self._json = args.output == "json"
        self._any_name = not args.config
        self._open = open_

    def _simulation(self, effective: Effective, *, detail: bool, any_name: bool) -> Simulation:
        return Simulation(
            self._objects,
            effective.value,
            effective.registry,
            effective.gates,
            seed=self._args.seed,
            any_scheduler_name=any_name,
            detail=detail,
            extenders=self._extenders_of(effective),
        )

    def _extenders_of(self, effective: Effective) -> Extenders | None:
        """Asked over the wire, and closed when the question is answered."""
        if not effective.value.extenders:
            return None
        from podium.what_if.extenders import OfflineExtenders

        return self._open.enter_context(OfflineExtenders(effective.value))

    def _results(self, simulation: Simulation) -> list[PodResult]:
        pods, total = self._pods, len(self._objects.pending if self._pods is None else self._pods)
        if pods is None and not self._args.alone:
            results: Iterable[PodResult] = simulation.run()
        elif self._args.alone:
            results = simulation.judge_alone(self._objects.pending if pods is None else pods)
        else:
            results = simulation.schedule(pods or ())
        with Progress("pods", total) as progress:
            return list(progress.each(results))

    # --- the answers --------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Where each pod goes."""
        size = len(self._objects.nodes) * len(self._objects.pending if self._pods is None else self._pods)
        detail = self._json and (self._args.detail or size <= DETAIL_LIMIT)
        simulation = self._simulation(self._effective, detail=detail, any_name=self._any_name)
        rows = self._results(simulation)
        nodes = simulation.nodes()
        if self._json:
            document = pod_document if detail else brief_document
            print_json({"pods": [document(row) for row in rows], "nodes": [node_document(n) for n in nodes]})
        else:
            from podium.tables import print_simulation

            print_simulation(rows, nodes)

    def how_many(self) -> None:
        """How many copies fit: of each workload by itself, and where there are several, of all of them in turn."""
        from podium.what_if import capacity

        loaded, self._objects = load_pods(self._args.how_many, self._objects)
        templates = capacity.templates_of(loaded)
        if not templates:
            raise LoadError((f"--how-many {' '.join(self._args.how_many)}: expected at least one pod or workload",))
        questions = [[template] for template in templates]
        questions += [templates] if len(templates) > 1 else []
        answers = []
        for each in questions:
            simulation = self._simulation(self._effective, detail=False, any_name=self._any_name)
            with Progress("copies") as progress:
                answers.append(capacity.how_many(simulation, each, progress.update))
        if self._json:
            print_json({"answers": [capacity.copies_document(answer) for answer in answers]})
        else:
            from podium.tables import print_copies

            print_copies(answers, len(self._objects.nodes))

    def min_nodes(self) -> None:
        """How many nodes like a template the pending pods need."""
        from podium.what_if import capacity, cluster_changes

        template = cluster_changes.find_template(self._objects, self._args.min_nodes)
        objects = capacity.with_pods(self._objects, self._pods)
        search = capacity.NodeSearch(
            objects,
            template,
            self._effective,
            seed=self._args.seed,
            any_name=self._any_name,
            extenders=self._extenders_of(self._effective),
        )
        with Progress("runs") as progress:
            answer = search.run(progress.update)
        if self._json:
            print_json(capacity.nodes_document(answer))
        else:
            from podium.tables import print_nodes_needed

            print_nodes_needed(answer)

    def compare(self) -> None:
        """The same pods under two configurations."""
        from podium.what_if import compare

        other_args = argparse.Namespace(**{**vars(self._args), "config": self._args.compare})
        sides = []
        for effective, any_name in ((self._effective, self._any_name), (read_configuration(other_args), False)):
            # Under either configuration a pod is judged by its own profile; without one, by the default profile.
            simulation = self._simulation(
                effective, detail=False, any_name=any_name or len(effective.value.profiles) == 1
            )
            sides.append((self._results(simulation), simulation.nodes()))
        (before, nodes_before), (after, nodes_after) = sides
        comparison = compare.compare(before, after, nodes_before, nodes_after)
        if self._json:
            print_json(compare.document(comparison))
        else:
            from podium.tables import print_comparison

            print_comparison(comparison, self._args.config or "the default", self._args.compare)


# --- documents --------------------------------------------------------------------------------------------------------


def pod_document(row: PodResult) -> dict[str, Any]:
    """One pod as JSON; `allocations` only where it would get devices."""
    document = {
        "namespace": row.namespace,
        "name": row.name,
        "node": row.node,
        "nominatedNode": row.nominated_node,
        "victims": list(row.victims),
        "feasible": list(row.feasible),
        "scores": row.scores,
        "reasons": {
            node: {"plugin": status.plugin, "code": status.code.text, "messages": list(status.reasons)}
            for node, status in row.reasons.items()
        },
        "message": row.message,
    }
    return document | {"allocations": row.allocations} if row.allocations else document


def brief_document(row: PodResult) -> dict[str, Any]:
    """One pod of very many as JSON: numbers in place of nodes."""
    return {
        "namespace": row.namespace,
        "name": row.name,
        "node": row.node,
        "nominatedNode": row.nominated_node,
        "victims": list(row.victims),
        "feasibleNodes": row.fits_on,
        "score": row.score,
        "message": row.message,
    }


def node_document(node: NodeResult) -> dict[str, Any]:
    """One node as JSON, amounts as Kubernetes writes them."""
    return {
        "name": node.name,
        "pods": node.pods,
        "requested": {name: amount_text(name, n) for name, n in node.requested.items() if name != "pods" and n},
        "allocatable": {name: amount_text(name, n) for name, n in node.allocatable.items()},
    }


def amount_text(resource: str, amount: int) -> str:
    """milliCPU or base units as a quantity."""
    if resource == "cpu":
        return format_milli(amount)
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return format_value(amount, Format.BINARY_SI if binary else Format.DECIMAL_SI)
