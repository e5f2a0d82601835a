"""Horizontal bars as one SVG file: a value for each name, and the line where the goal is.

    text = draw("CPU per pod, podium over kube-scheduler", [Bar("SchedulingBasic", 0.21, goal=0.25), …])

A bar that meets its goal is green, another orange; readable in dark mode. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 960, 380, 90, 72, 22
_MET, _MISSED, _NO_GOAL = "#2a9d6f", "#e07b39", "#3b76c4"
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #444; }
  .title { font-size: 18px; font-weight: 600; fill: #1a1a1a; }
  .back { fill: #fff; }
  .goal { stroke: #c0392b; stroke-width: 2; }
  .same { stroke: #999; stroke-dasharray: 3 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b8b8b8; } .title { fill: #f0f0f0; } .back { fill: #17191c; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row. `more`: whether more than the goal is good."""

    name: str
    value: float
    goal: float | None = None
    more: bool = False

    @property
    def colour(self) -> str:
        """Whether the goal is met."""
        if self.goal is None:
            return _NO_GOAL
        return _MET if (self.value >= self.goal if self.more else self.value <= self.goal) else _MISSED


def draw(title: str, subtitle: str, bars: Sequence[Bar]) -> str:
    """The picture; a dashed line at 1, where both are the same."""
    height = _TOP + len(bars) * _ROW + 16
    longest = max([1.0, *(bar.value for bar in bars), *(bar.goal or 0.0 for bar in bars)])
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    parts = [
        f'<text x="20" y="30" class="title">{escape(title)}</text>',
        f'<text x="20" y="50">{escape(subtitle)}</text>',
        f'<line class="same" x1="{_LEFT + scale:.1f}" y1="{_TOP - 8}" x2="{_LEFT + scale:.1f}" y2="{height - 12}"/>',
    ]
    for i, bar in enumerate(bars):
        parts += _row(bar, _TOP + i * _ROW, scale)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{_WIDTH}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _row(bar: Bar, y: float, scale: float) -> list[str]:
    width = bar.value * scale
    parts = [
        f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(bar.name)}</text>',
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_ROW - 6}" fill="{bar.colour}"/>',
        f'<text x="{_LEFT + width + 6:.1f}" y="{y + 12}">{bar.value:.2f}</text>',
    ]
    if bar.goal is not None:
        x = _LEFT + bar.goal * scale
        parts.append(f'<line class="goal" x1="{x:.1f}" y1="{y - 2}" x2="{x:.1f}" y2="{y + _ROW - 4}"/>')
    return parts
