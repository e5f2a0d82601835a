"""A picture of something over time, as one SVG file: panels below each other on a common time axis.

    panel = Panel("Use", [Series("CPU", BLUE, values), …], top=1.0, label="{:.0%}")
    text = draw("Replay of …", "1,523 nodes", times, [panel, …], unit="days")

Plain text, no dependencies; readable by itself (titles, units, values at the ends) and in dark mode. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

BLUE, GREEN, ORANGE, PURPLE = "#3b76c4", "#2a9d6f", "#e07b39", "#8a63b8"

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 64, 120, 84
_GAP, _BOTTOM = 56, 48
#: at most so many marks on an axis, the one at zero left out
_MOST_ACROSS, _MOST_UP = 8, 5
#: more points than pixels say nothing more
_MOST_POINTS = 800
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #444; }
  .title { font-size: 18px; font-weight: 600; fill: #1a1a1a; }
  .head { font-weight: 600; fill: #1a1a1a; }
  .end { font-weight: 600; }
  .back { fill: #fff; }
  .grid { stroke: #e3e3e3; }
  .axis { stroke: #999; }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b8b8b8; } .title, .head { fill: #f0f0f0; } .back { fill: #17191c; }
    .grid { stroke: #2e3136; } .axis { stroke: #666; }
  }
"""


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    colour: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines that share a scale from 0 to `top` (None: the largest value, rounded up)."""

    title: str
    series: Sequence[Series]
    height: int = 180
    top: float | None = None
    label: str = "{:,.0f}"
    fill: bool = False

    def scale(self) -> tuple[float, int]:
        """The value at the upper edge, and how many marks there are up to it."""
        if self.top is not None:
            return self.top, round(self.top / mark_distance(self.top, _MOST_UP))
        largest = max((max(one.values, default=0.0) for one in self.series), default=0.0)
        distance = max(1.0, mark_distance(largest, _MOST_UP))
        marks = max(1, ceil(largest / distance))
        return marks * distance, marks


@dataclass(slots=True)
class _Canvas:
    """The parts of the picture so far."""

    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start", colour: str = "") -> None:
        style = f' style="fill: {colour}"' if colour else ""
        where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self.parts.append(f'<text {where} class="{kind}"{style}>{escape(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')


def mark_distance(value: float, most: int) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (or 0.1, 0.2, …) of which no more than `most` are needed up to a value."""
    if value <= 0:
        return 1.0
    distance = 10.0 ** floor(log10(value / most))
    return next(factor * distance for factor in (1.0, 2.0, 5.0, 10.0) if value <= factor * distance * most * 1.000001)


def round_up(value: float) -> float:
    """A value on an axis that is no smaller, and where a mark stands."""
    distance = mark_distance(value, _MOST_UP)
    return ceil(value / distance - 1e-6) * distance


def draw(title: str, subtitle: str, times: Sequence[float], panels: Sequence[Panel], unit: str) -> str:
    """The picture."""
    canvas = _Canvas()
    height = _TOP + sum(panel.height + _GAP for panel in panels) - _GAP + _BOTTOM
    canvas.text(_LEFT, 30, title, "title")
    canvas.text(_LEFT, 50, subtitle)
    y = _TOP
    for panel in panels:
        _panel(canvas, panel, times, y)
        y += panel.height + _GAP
    _time_axis(canvas, times, y - _GAP, unit)
    body = "\n".join(canvas.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{_WIDTH}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _panel(canvas: _Canvas, panel: Panel, times: Sequence[float], y: float) -> None:
    (top, marks), right = panel.scale(), _WIDTH - _RIGHT
    canvas.text(_LEFT, y - 10, panel.title, "head")
    for tick in range(marks + 1):
        at = y + panel.height * (1 - tick / marks)
        canvas.line(_LEFT, at, right, at, "axis" if tick == 0 else "grid")
        canvas.text(_LEFT - 8, at + 4, panel.label.format(top * tick / marks), anchor="end")
    ends: list[tuple[float, Series]] = []
    for one in panel.series:
        points = _points(times, one.values, top, y, panel.height)
        if not points:
            continue
        path = " ".join(f"{x:.1f},{at:.1f}" for x, at in points)
        if panel.fill:
            base = y + panel.height
            area = f"{points[0][0]:.1f},{base:.1f} {path} {points[-1][0]:.1f},{base:.1f}"
            canvas.parts.append(f'<polygon points="{area}" fill="{one.colour}" fill-opacity="0.18"/>')
        canvas.parts.append(f'<polyline class="line" points="{path}" stroke="{one.colour}"/>')
        ends.append((points[-1][1], one))
    _name_lines(canvas, panel, ends)


def _name_lines(canvas: _Canvas, panel: Panel, ends: list[tuple[float, Series]]) -> None:
    """Each line's name at its end, and its peak; moved apart where they would overlap."""
    last = float("-inf")
    for at, one in sorted(ends, key=lambda end: end[0]):
        last = max(at + 4, last + 28)
        canvas.text(_WIDTH - _RIGHT + 8, last, one.name, "end", colour=one.colour)
        canvas.text(_WIDTH - _RIGHT + 8, last + 13, f"peak {panel.label.format(max(one.values))}")


def _points(
    times: Sequence[float], values: Sequence[float], top: float, y: float, height: float
) -> list[tuple[float, float]]:
    if not times:
        return []
    first, span = times[0], (times[-1] - times[0]) or 1.0
    width = _WIDTH - _LEFT - _RIGHT
    stride = max(1, len(times) // _MOST_POINTS)
    chosen = [*range(0, len(times) - 1, stride), len(times) - 1]
    return [
        (_LEFT + (times[i] - first) / span * width, y + height * (1 - min(values[i] / top, 1.0) if top else 1.0))
        for i in chosen
    ]


def _time_axis(canvas: _Canvas, times: Sequence[float], y: float, unit: str) -> None:
    if not times:
        return
    span, width = times[-1] - times[0], _WIDTH - _LEFT - _RIGHT
    distance = mark_distance(span, _MOST_ACROSS)
    digits = max(0, -floor(log10(distance)))
    for tick in range(int(span / distance * 1.000001) + 1):
        x = _LEFT + (width * tick * distance / span if span else 0)
        canvas.line(x, y, x, y + 5, "axis")
        canvas.text(x, y + 19, f"{times[0] + tick * distance:,.{digits}f}", anchor="middle")
    canvas.text(_LEFT + width / 2, y + 37, unit, anchor="middle")
