"""Tables for the terminal: what `simulate` and `demo` show. Imported only where something is printed (rich is slow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from podium.explain.amounts import plural
from podium.what_if.capacity import Copies, NodesNeeded
from podium.what_if.compare import Comparison
from simulator.offline import NodeResult, PodResult

#: rows shown of long lists
MOST = 40
_BAR = "█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = 12) -> Text:
    """A bar of `width` cells with the percentage behind it; red when nearly full."""
    share = max(0.0, min(share, 1.0))
    cells = share * width
    whole = int(cells)
    text = _BAR * whole + (_EIGHTHS[int((cells - whole) * 8)] if whole < width else "")
    colour = "red" if share > 0.9 else "yellow" if share > 0.7 else "green"
    return Text(f"{text:<{width}}", style=colour) + Text(f" {share:4.0%}", style="default")


def share(node: NodeResult, resource: str) -> float:
    """Requested over allocatable; 0 where the node has none."""
    allocatable = node.allocatable.get(resource, 0)
    return node.requested.get(resource, 0) / allocatable if allocatable else 0.0


def node_table(nodes: Sequence[NodeResult]) -> Table:
    """Nodes with their use."""
    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    table.add_column("NODE", no_wrap=True)
    table.add_column("PODS", justify="right")
    table.add_column("CPU")
    table.add_column("MEMORY")
    for node in nodes[:MOST]:
        table.add_row(node.name, str(node.pods), bar(share(node, "cpu")), bar(share(node, "memory")))
    if len(nodes) > MOST:
        table.add_row(f"… and {len(nodes) - MOST} more nodes", "", "", "")
    return table


def pod_table(rows: Sequence[PodResult]) -> Table:
    """Pods and where they go; victims and nominations where there are any."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("POD", no_wrap=True)
    table.add_column("NODE", no_wrap=True)
    table.add_column("FITS ON", justify="right")
    table.add_column("WHY", overflow="fold")
    for row in rows[:MOST]:
        table.add_row(f"{row.namespace}/{row.name}", _place(row), str(row.fits_on), _why(row))
    if len(rows) > MOST:
        table.add_row(f"… and {len(rows) - MOST} more pods", "", "", "")
    return table


def _place(row: PodResult) -> Text:
    if row.node:
        return Text(row.node, style="green")
    if row.nominated_node:
        return Text(f"(nominated) {row.nominated_node}", style="yellow")
    return Text("–", style="red")


def _why(row: PodResult) -> Text:
    if row.victims:
        return Text(f"evicts {', '.join(row.victims)}", style="yellow")
    if row.node:
        return Text(f"score {row.score}" if row.score is not None else "the only node that fits", style="dim")
    return Text(row.message)


def reasons_table(messages: Mapping[str, int]) -> Table:
    """Pending reasons by number of pods."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("PENDING", justify="right")
    table.add_column("BECAUSE", overflow="fold")
    for message, count in Counter(messages).most_common(10):
        table.add_row(str(count), Text(message))
    return table


def print_simulation(rows: Sequence[PodResult], nodes: Sequence[NodeResult]) -> None:
    """The result of `podium simulate` for people."""
    console = Console(highlight=False)
    placed = sum(row.node is not None for row in rows)
    console.print(pod_table(_pending_first(rows)))
    console.print()
    console.print(node_table(nodes))
    console.print()
    console.print(f"{placed:,} of {len(rows):,} pods placed on {len(nodes):,} nodes{_evictions(rows)}")
    pending = Counter(row.message for row in rows if row.node is None)
    if len(rows) > MOST and pending:
        console.print()
        console.print(reasons_table(pending))


def _evictions(rows: Iterable[PodResult]) -> str:
    victims = {victim for row in rows for victim in row.victims}
    return f", {plural(len(victims), 'pod')} evicted to make room" if victims else ""


# --- what if ----------------------------------------------------------------------------------------------------------


def print_copies(answers: Sequence[Copies], nodes: int) -> None:
    """How many copies of each workload fit, and what stops the next one."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("POD", overflow="fold")
    table.add_column("COPIES", justify="right", style="bold")
    table.add_column("ON", justify="right", no_wrap=True)
    table.add_column("THE NEXT ONE", overflow="fold")
    for copies in answers:
        name = "one of each" if len(copies.templates) > 1 else copies.templates[0]
        stopped = copies.stopped_by
        why = stopped.verdict if stopped is not None else "counting ended here"
        if stopped is not None and len(copies.templates) > 1:
            why = f"{stopped.name}: {why[:1].lower()}{why[1:]}"
        table.add_row(name, f"{copies.sets:,}", f"{len(copies.nodes):,} of {plural(nodes, 'node')}", Text(why))
    console.print(table)


def print_nodes_needed(needed: NodesNeeded) -> None:
    """How many nodes a workload needs."""
    console = Console(highlight=False)
    if not needed.pending_before:
        console.print("no pod is left pending: no more nodes are needed")
        return
    helped = needed.pending_before - needed.pending_after
    if helped:
        enough = f"{plural(needed.nodes, 'more node')} like {needed.template}"
        verb = "is" if needed.nodes == 1 else "are"
        console.print(
            f"[bold]{enough}[/] {verb} enough for {helped:,} of {plural(needed.pending_before, 'pending pod')}"
        )
    left = needed.still_pending
    if left:
        console.print(f"{plural(len(left), 'pod')} would be pending with any number of nodes like {needed.template}:")
        console.print()
        console.print(pod_table(left))


def print_comparison(comparison: Comparison, before: str, after: str) -> None:
    """What moved between two configurations, and how the use changed."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column(before, justify="right", overflow="fold")
    table.add_column(after, justify="right", overflow="fold")
    table.add_row("pods placed", *(f"{n:,} of {comparison.pods:,}" for n in comparison.placed))
    if any(comparison.evicted):
        table.add_row("pods evicted", *(f"{n:,}" for n in comparison.evicted))
    for sides in comparison.use:
        name = "CPU" if sides[0].resource == "cpu" else sides[0].resource
        table.add_row(f"{name} requested, mean of nodes", *(f"{use.mean:.1%}" for use in sides))
        table.add_row(f"{name}, standard deviation", *(f"{use.deviation:.1%}" for use in sides))
        table.add_row(f"{name}, fullest node", *(f"{use.highest:.1%}" for use in sides))
    table.add_row("nodes without pods", *(f"{use.empty:,}" for use in comparison.use[0]))
    console.print(table)
    console.print()
    if not comparison.moved:
        console.print("every pod goes where it went before")
        return
    console.print(f"[bold]{plural(len(comparison.moved), 'pod')}[/] of {comparison.pods:,} placed differently")
    console.print()
    console.print(_moved_table(comparison))


def _moved_table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("POD", "BEFORE", "AFTER"):
        table.add_column(column, no_wrap=True)
    table.add_column("", overflow="fold")
    for moved in comparison.moved[:MOST]:
        evicts = f"evicts {', '.join(moved.victims_after)}" if moved.victims_after else ""
        note = evicts or (moved.message if moved.after is None else "")
        table.add_row(
            moved.pod, moved.before or Text("–", style="red"), moved.after or Text("–", style="red"), Text(note)
        )
    if len(comparison.moved) > MOST:
        table.add_row(f"… and {len(comparison.moved) - MOST:,} more pods", "", "", "")
    return table


def _pending_first(rows: Iterable[PodResult]) -> list[PodResult]:
    return sorted(rows, key=lambda row: row.node is not None)
