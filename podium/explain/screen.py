"""An explanation on the terminal: the verdict first, then who refused what, what is near, and what would help.

Imported only where something is printed (rich is slow).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from podium.explain.amounts import listed, plural
from podium.explain.documents import Explanation, Group, NodeScore

_COLOURS = {
    "running": "green",
    "binding": "green",
    "fits": "green",
    "gated": "yellow",
    "backoff": "yellow",
    "nominated": "yellow",
}
_POOLS = {"active": "in activeQ", "backoff": "in backoffQ", "unschedulable": "in the pool", "gated": "gated"}
_SHOWN = 4


def print_explanation(document: Explanation, console: Console | None = None) -> None:
    """One pod."""
    console = console or Console(highlight=False)
    title = Text(f"{document.namespace}/{document.name}", style="bold")
    title.append(f"  {document.state}", style=_COLOURS.get(document.state, "red"))
    title.append(f"  {_facts(document)}", style="dim")
    console.print(title)
    console.print(Padding(Text(document.verdict), (0, 0, 0, 2)))
    for heading, table in _parts(document):
        console.print()
        console.print(Text(heading, style="bold"))
        console.print(Padding(table, (0, 0, 0, 2)))


def print_verdicts(documents: Sequence[Explanation]) -> None:
    """Several pods, a line each."""
    console = Console(highlight=False)
    table = _table(("POD", {"no_wrap": True}), ("STATE", {"no_wrap": True}), ("VERDICT", {"overflow": "fold"}))
    for document in documents:
        state = Text(document.state, style=_COLOURS.get(document.state, "red"))
        table.add_row(f"{document.namespace}/{document.name}", state, Text(document.verdict))
    console.print(table)


def _facts(document: Explanation) -> str:
    facts = [f"priority {document.priority}"]
    if document.profile is not None:
        facts.append(f"profile {document.profile}")
    if document.queue is not None:
        facts.append(f"{_POOLS.get(document.queue.pool, document.queue.pool)} for {document.queue.waiting:.0f} s")
        facts.append(plural(document.queue.attempts, "attempt"))
    return ", ".join(facts)


def _parts(document: Explanation) -> Iterable[tuple[str, Table]]:
    if document.group is not None and document.group.members:
        yield f"Pod group {document.group.name}", _members(document.group)
    if document.causes:
        yield f"Refused by (of {plural(document.node_count, 'node')})", _causes(document)
    if document.nearest:
        yield "Nearest nodes", _nearest(document)
    if document.changes:
        yield "Would help (each checked against all filters)", _changes(document)
    if document.preemption is not None:
        yield "Preemption", _lines([document.preemption.text])
    if document.wakes:
        yield "Tried again when", _wakes(document)
    if document.scores:
        yield _score_title(document), _scores(document.scores, document.node)
    if document.last_decision is not None and document.last_decision.message:
        yield f"Last attempt ({document.last_decision.time})", _lines([document.last_decision.message])
    elif document.message:
        yield "Message", _lines([document.message])


def _table(*columns: tuple[str, dict[str, object]], header: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, show_header=header, header_style="dim")
    for name, options in columns:
        table.add_column(name, **options)  # type: ignore[arg-type]
    return table


def _members(group: Group) -> Table:
    table = _table(("", {"no_wrap": True}), ("", {"no_wrap": True}), ("", {"overflow": "fold"}), header=False)
    for member in group.members:
        table.add_row(member.name, Text(member.state, style=_COLOURS.get(member.state, "red")), Text(member.text))
    return table


def _causes(document: Explanation) -> Table:
    table = _table(("NODES", {"justify": "right"}), ("PLUGIN", {"no_wrap": True}), ("BECAUSE", {"overflow": "fold"}))
    for cause in document.causes:
        because = Text(cause.detail)
        if cause.nodes < document.node_count or document.node_count == 1:
            because.append(f"  {_names(cause.names, cause.nodes)}", style="dim")
        table.add_row(f"{cause.nodes:,}", cause.plugin, because)
    return table


def _names(names: Sequence[str], count: int) -> str:
    shown = list(names[:_SHOWN])
    return listed([*shown, *([""] * (count - len(shown)))], _SHOWN) if count > len(shown) else listed(shown)


def _nearest(document: Explanation) -> Table:
    table = _table(("NODE", {"no_wrap": True}), ("", {"overflow": "fold"}), header=False)
    for near in document.nearest:
        table.add_row(near.node, Text(near.text))
    return table


def _changes(document: Explanation) -> Table:
    table = _table(("", {"justify": "right", "no_wrap": True}), ("", {"overflow": "fold"}), header=False)
    for change in document.changes:
        where = change.names[0] if change.nodes == 1 else plural(change.nodes, "node")
        table.add_row(where, Text(change.text))
    return table


def _wakes(document: Explanation) -> Table:
    table = _table(("", {"no_wrap": True, "style": "dim"}), ("", {"overflow": "fold"}), header=False)
    by_events: dict[tuple[str, ...], list[str]] = {}
    for wake in document.wakes:
        by_events.setdefault(wake.events, []).append(wake.plugin)
    for events, plugins in by_events.items():
        table.add_row("\n".join(plugins), Text(", ".join(events)))
    return table


def _score_title(document: Explanation) -> str:
    count = min(len(document.scores), document.feasible)
    shown = "" if document.feasible <= count else f", {count} shown"
    return f"Scores (fits on {plural(document.feasible, 'node')}{shown})"


def _scores(scores: Sequence[NodeScore], own: str | None) -> Table:
    """A row per plugin, a column per node: names of plugins are long, and there are few nodes."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("PLUGIN", no_wrap=True)
    for score in scores:
        table.add_column(score.node, justify="right", header_style="green" if score.node == own else "dim")
    for plugin in dict.fromkeys(name for score in scores for name in score.plugins):
        values = [score.plugins.get(plugin, 0) for score in scores]
        table.add_row(plugin, *map(str, values), style="" if len(set(values)) > 1 else "dim")
    table.add_row("total", *(str(score.total) for score in scores), style="bold")
    return table


def _lines(texts: Sequence[str]) -> Table:
    table = _table(("", {"overflow": "fold"}), header=False)
    for text in texts:
        table.add_row(Text(text))
    return table
