"""What `podium demo` shows: progress while pods are bound, then one screen of what went where.

Owner: the demo command. Listens to the service's own informer; measures on the loop's clock.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kube.api.core import Pod
from podium.tables import node_table
from podium.wiring import PODS, Service
from simulator.apiserver.watch_cache import Event
from simulator.cluster import Cluster
from simulator.offline import NodeResult

_MOMENT = 0.5


class Story(Protocol):
    """What a demo points at besides the figures."""

    #: whether enough happens at once for a throughput to mean something
    is_load: bool

    def stop(self) -> None:
        """Follow no longer."""

    def lines(self) -> list[tuple[str, str]]:
        """(title, text) of what there is to point at."""

    def table(self) -> Table | None:
        """What is shown in place of the nodes; None for the nodes."""


class DemoReport:
    """Counts what happens."""

    def __init__(self, service: Service, cluster: Cluster, story: Story) -> None:
        self._service = service
        self.story = story
        self._unfollow = cluster.server.store.listen("pods", self._on_pod)
        self._created_at: dict[str, float] = {}
        self.latencies: list[float] = []
        self.started = perf_counter()
        self._last_news = self.started
        self._bound_at: list[float] = []
        self._first_stage: float | None = None
        service.factory.informer(Pod, PODS).add_handler(update=self._updated)

    def stop(self) -> None:
        """Count no more."""
        self.story.stop()
        self._unfollow()

    def _on_pod(self, event: Event) -> None:
        if event.type == "ADDED":
            self._last_news = perf_counter()
            self._created_at[event.revision.obj["metadata"]["uid"]] = self._last_news

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name:
            now = self._last_news = perf_counter()
            self._bound_at.append(now)
            created = self._created_at.get(new.metadata.uid)
            if created is not None:
                self.latencies.append(now - created)

    @property
    def total(self) -> int:
        """Pods created."""
        return len(self._created_at)

    @property
    def bound(self) -> int:
        """Pods bound."""
        return len(self.latencies)

    @property
    def throughput(self) -> float:
        """Pods bound a second in the first stage, up to the nineteenth of twenty: the last ones wait for volumes."""
        if self._first_stage is not None:
            return self._first_stage
        most = self._bound_at[: max(1, len(self._bound_at) * 19 // 20)] or [self.started + 1]
        return len(self._bound_at) and len(most) / max(most[-1] - self.started, 1e-9)

    def stage_over(self) -> None:
        """A stage has settled; what comes after the first is too little to measure a throughput."""
        if self._first_stage is None:
            self._first_stage = self.throughput

    def pending(self) -> dict[str, int]:
        """Pods per pool."""
        return self._service.scheduler.queue.lengths()

    def settled(self, quiet: float, *, retried: bool = False) -> bool:
        """Whether all are bound, or nothing was bound for `quiet` seconds and nothing is being tried.

        `retried`: what waits for its next try does not count.
        """
        silence = perf_counter() - self._last_news
        if self.bound >= self.total:
            return silence > _MOMENT  # the controllers may be about to make more
        if retried:
            return silence > quiet and not self.pending()["active"]
        return silence > quiet and self._service.scheduler.idle

    def print(self) -> None:
        """The final screen."""
        console = Console(highlight=False)
        console.print(Panel(self._summary(), title="podium demo", title_align="left", border_style="green"))
        console.print(self.story.table() or node_table(self._nodes()))
        reasons = self._reasons()
        if reasons:
            console.print()
            console.print(self._pending_table(reasons))

    def _summary(self) -> Table:
        ordered = sorted(self.latencies) or [0.0]
        p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        table = Table.grid(padding=(0, 3))
        table.add_row(
            "bound", f"[bold]{self.bound}[/] of {self.total} pods on {self._service.cache.node_count()} nodes"
        )
        if self.story.is_load:
            table.add_row(
                "throughput", f"[bold]{self.throughput:,.0f}[/] pods/s, over HTTP, API server in the same process"
            )
        table.add_row(
            "latency", f"create to bound: median [bold]{p50 * 1000:,.0f}[/] ms, p99 [bold]{p99 * 1000:,.0f}[/] ms"
        )
        cycles = [d.seconds for d in self._service.scheduler.decisions if d.result == "scheduled"]
        if cycles:
            table.add_row(
                "cycle", f"median [bold]{sorted(cycles)[len(cycles) // 2] * 1e6:,.0f}[/] µs, every node scored"
            )
        for title, text in self.story.lines():
            table.add_row(title, text)
        return table

    def _nodes(self) -> list[NodeResult]:
        infos = sorted(self._service.snapshot.node_infos(), key=lambda info: info.name)
        return [NodeResult(i.name, len(i.pods), dict(i.requested), dict(i.allocatable)) for i in infos]

    def _reasons(self) -> list[tuple[str, str]]:
        rows = []
        latest = {d.uid: d.message for d in reversed([*self._service.scheduler.decisions])}
        for item, pool in self._service.scheduler.queue.pending_pods():
            message = item.gating_message if pool == "gated" else latest.get(item.uid, "")
            rows.append((item.pod_info.key, message))
        return sorted(rows)

    def _pending_table(self, rows: list[tuple[str, str]]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("PENDING", no_wrap=True, style="yellow")
        table.add_column("BECAUSE", overflow="fold")
        alike = _alike(rows)
        for names, message in alike[:20]:
            table.add_row(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more", Text(message))
        rest = Counter({message: len(names) for names, message in alike[20:]})
        if rest:
            table.add_row(f"… {rest.total()} more", Text(f"most of them: {rest.most_common(1)[0][0]}"))
        return table


def _alike(rows: list[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Pods that are called alike and wait for the same reason, together."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, message in rows:
        found.setdefault((name.rpartition("-")[0] or name, message), []).append(name)
    return [(names, message) for (_, message), names in found.items()]


class Progress:
    """A live line while pods are bound; nothing where stdout is no terminal."""

    def __init__(self, report: DemoReport) -> None:
        self._report = report
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self) -> None:
        """Show where we are."""
        if not self._console.is_terminal:
            return
        report = self._report
        pools = ", ".join(f"{name} {count}" for name, count in report.pending().items() if count)
        line = Text(f"{report.bound} of {report.total} bound, {report.throughput:,.0f} pods/s  {pools}")
        self._live.update(Group(ProgressBar(total=max(report.total, 1), completed=report.bound, width=60), line))
