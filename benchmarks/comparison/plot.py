"""Bars of the drain as an SVG that reads well on a light and on a dark ground."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

from comparison.report import drained, name

WIDTH, MARGIN, LABELS, NUMBERS = 900, 24, 210, 90
BAR, STEP, TOP = 22, 34, 84

STYLE = """
    .ground { fill: #ffffff; stroke: #d0d7de; }
    .ours { fill: #1a7f37; }
    .peer { fill: #8c959f; }
    .title { fill: #1f2328; font-size: 18px; font-weight: 600; }
    .name { fill: #1f2328; font-size: 14px; text-anchor: end; }
    .number { fill: #1f2328; font-size: 14px; font-variant-numeric: tabular-nums; }
    .note { fill: #57606a; font-size: 12px; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; stroke: #30363d; }
      .ours { fill: #3fb950; }
      .peer { fill: #6e7681; }
      .title, .name, .number { fill: #e6edf3; }
      .note { fill: #9da7b1; }
    }
"""


def svg(measured: dict[str, Any]) -> str:
    bars = sorted(
        ((rate, queue) for queue in measured["queues"] if (rate := drained(queue))),
        key=lambda bar: -bar[0],
    )
    height = TOP + STEP * len(bars) + MARGIN
    most = max((rate for rate, _ in bars), default=1.0)
    rows = "\n".join(row(at, rate, most, queue) for at, (rate, queue) in enumerate(bars))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" \
aria-labelledby="title about" \
font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif">
  <title id="title">Jobs per second, drained by one worker process</title>
  <desc id="about">{escape(description(bars))}</desc>
  <style>{STYLE}  </style>
  <rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>
  <text class="title" x="{MARGIN}" y="36">Jobs per second, drained by one worker process</text>
  <text class="note" x="{MARGIN}" y="58">{escape(note(measured))}</text>
{rows}
</svg>
"""


def row(at: int, rate: float, most: float, queue: dict[str, Any]) -> str:
    top, start = TOP + STEP * at, LABELS + 10
    length = max(1.0, (WIDTH - start - NUMBERS - MARGIN) * rate / most)
    kind = "ours" if queue["name"] == "Ackline" else "peer"
    middle = top + BAR / 2 + 5
    return f"""\
  <text class="name" x="{LABELS}" y="{middle:g}">{escape(label(queue))}</text>
  <rect class="{kind}" x="{start}" y="{top}" width="{length:.1f}" height="{BAR}" rx="3"/>
  <text class="number" x="{start + length + 8:.1f}" y="{middle:g}">{rate:,.0f}</text>"""


def label(queue: dict[str, Any]) -> str:
    """The label of a bar, with its delivery guarantee if that is weaker."""
    guarantee = queue["delivery"]
    return f"{name(queue)} ({guarantee})" if guarantee == "at most once" else name(queue)


def description(bars: list[tuple[float, dict[str, Any]]]) -> str:
    return "; ".join(f"{label(queue)}: {rate:,.0f}" for rate, queue in bars)


def note(measured: dict[str, Any]) -> str:
    return f"{measured['server']}, {measured['durability']}. {measured['machine']}."
