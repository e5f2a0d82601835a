"""Tables for the terminal: what `simulate` and `demo` show. Imported only where something is printed (rich is slow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

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
        table.add_row(f"{row.namespace}/{row.name}", _place(row), str(len(row.feasible)), _why(row))
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
        scores = row.scores.get(row.node, {})
        return Text(f"score {scores['total']}" if scores else "the only node that fits", style="dim")
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
    console.print(f"{placed} of {len(rows)} pods placed on {len(nodes)} nodes")


def _pending_first(rows: Iterable[PodResult]) -> list[PodResult]:
    return sorted(rows, key=lambda row: row.node is not None)
