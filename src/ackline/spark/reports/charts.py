"""Charts as inline SVG without scripts or external files; the page's style sheet sets colours.

Names are escaped here.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 860, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 8, 10, 26

FEW_POINTS = 3
"""Up to this many points are drawn as dots: they hardly make a line."""

LONGEST_NAME = 24
"""Characters that fit beside a bar, even in the larger type of a phone."""

Series = tuple[str, str, Sequence[float]]
"""A name, a class for its colour, and its values."""

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def round_up_axis(highest: float) -> float:
    """The next round number that is not below.

    >>> round_up_axis(7.2), round_up_axis(130), round_up_axis(0)
    (8.0, 200.0, 1.0)
    """
    if highest <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(highest))
    return next(step * size for step in (1, 2, 4, 6, 8, 10) if step * size >= highest * (1 - 1e-9))


def axis_ticks(highest: float) -> list[float]:
    """The labels of an axis of counts, from zero to a round number.

    >>> axis_ticks(2), axis_ticks(6), axis_ticks(100)
    ([0.0, 1.0, 2.0], [0.0, 2.0, 4.0, 6.0], [0.0, 20.0, 40.0, 60.0, 80.0, 100.0])
    """
    leading = round(highest / 10.0 ** math.floor(math.log10(highest)))
    steps = max(1, min({1: 5, 2: 4, 4: 4, 6: 3, 8: 4}[leading], round(highest)))
    return [highest * step / steps for step in range(steps + 1)]


def format_short(value: float) -> str:
    """A number in few characters.

    >>> format_short(1234567), format_short(12300), format_short(0.25), format_short(12)
    ('1.2M', '12k', '0.25', '12')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 10 and scaled % 1 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def line_chart(times: Sequence[datetime.datetime], series: Sequence[Series], title: str) -> str:
    """Values over time, one line each, the first one filled."""
    highest = round_up_axis(max((max(values, default=0) for _, _, values in series), default=0))
    parts = [_grid(highest), _time_axis(times)]
    # A line needs two points: if there are few, the points themselves are shown.
    dot = "dot seen" if len(times) <= FEW_POINTS else "dot"
    for index, (name, colour, values) in enumerate(series):
        points = [
            _point(times, highest, at, value) for at, value in zip(times, values, strict=True)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if index == 0 and points:
            baseline = HEIGHT - BOTTOM
            area = f"{points[0][0]:.1f},{baseline} {path} {points[-1][0]:.1f},{baseline}"
            parts.append(f'<polygon class="fill {colour}" points="{area}"/>')
        parts.append(f'<polyline class="line {colour}" points="{path}"/>')
        parts += [
            f'<circle class="{dot} {colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
            f"<title>{format_time(at)}: {value:,.0f} {escape(name)}</title></circle>"
            for at, value, (x, y) in zip(times, values, points, strict=True)
        ]
    return _figure("".join(parts), title, [(name, colour) for name, colour, _ in series])


def heatmap(cells: dict[tuple[int, int], float], title: str) -> str:
    """A week as seven rows of twenty-four; the darker, the more."""
    highest = max(cells.values(), default=0) or 1
    width, height = (WIDTH - LEFT - RIGHT) / 24, 24
    parts = []
    for weekday, name in enumerate(WEEKDAYS, start=1):
        y = TOP + (weekday - 1) * height
        parts.append(f'<text class="label end" x="{LEFT - 8}" y="{y + 16}">{name}</text>')
        for hour in range(24):
            value = cells.get((weekday, hour), 0.0)
            # Square roots, because quiet hours would otherwise look like empty ones.
            shade = math.sqrt(value / highest)
            parts.append(
                f'<rect class="cell" x="{LEFT + hour * width + 1:.1f}" y="{y + 1}" rx="2" '
                f'width="{width - 2:.1f}" height="{height - 2}" style="--shade:{shade:.3f}">'
                f"<title>{name} {hour:02d}:00: {value:,.1f} jobs</title></rect>"
            )
    baseline = TOP + 7 * height
    parts += [
        f'<text class="label" x="{LEFT + hour * width + 2:.1f}" y="{baseline + 16}">'
        f"{hour:02d}:00</text>"
        for hour in range(0, 24, 3)
    ]
    return _figure("".join(parts), title, [], baseline + 24)


def bar_chart(rows: Sequence[tuple[str, Sequence[tuple[str, float | None]]]], title: str) -> str:
    """Quantiles of each row as marks on one axis of seconds, which is logarithmic."""
    known = [value for _, marks in rows for _, value in marks if value]
    low = 10.0 ** math.floor(math.log10(min(known, default=0.001)))
    high = max(round_up_axis(max(known, default=1.0)), low * 10)
    row_height, left = 26, 190

    def x_of(value: float) -> float:
        share = math.log10(max(value, low) / low) / math.log10(high / low)
        return left + share * (WIDTH - left - 60)

    baseline = TOP + len(rows) * row_height
    parts = []
    for power in range(round(math.log10(low)), math.floor(math.log10(high)) + 1):
        x = x_of(10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{baseline}"/>')
        parts.append(
            f'<text class="label mid" x="{x:.1f}" '
            f'y="{baseline + 16}">{format_duration(10**power)}</text>'
        )
    for index, (name, marks) in enumerate(rows):
        y = TOP + index * row_height + row_height / 2
        parts.append(_bar(name, [(n, v, x_of(v)) for n, v in marks if v is not None], left, y))
    names = [(name, f"q{index}") for index, (name, _) in enumerate(rows[0][1])] if rows else []
    return _figure("".join(parts), title, names, baseline + 24)


def _bar(name: str, marks: Sequence[tuple[str, float, float]], left: int, y: float) -> str:
    shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    svg = f'<text class="label end" x="{left - 10}" y="{y + 4}">{escape(shown)}</text>'
    if not marks:
        return svg
    first, last = marks[0][2], marks[-1][2]
    svg += f'<line class="range" x1="{first:.1f}" x2="{last:.1f}" y1="{y}" y2="{y}"/>'
    for index, (mark, value, x) in enumerate(marks):
        svg += (
            f'<circle class="mark q{index}" cx="{x:.1f}" cy="{y}" r="4.5">'
            f"<title>{escape(name)} {mark}: {format_duration(value)}</title></circle>"
        )
    return (
        svg + f'<text class="label" x="{last + 9:.1f}" '
        f'y="{y + 4}">{format_duration(marks[-1][1])}</text>'
    )


def format_duration(seconds: float | None) -> str:
    """A duration in two or three digits.

    >>> format_duration(0.0042), format_duration(0.25), format_duration(90), format_duration(7200)
    ('4 ms', '250 ms', '90 s', '2.0 h')
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for size, unit, limit in ((1, "s", 120), (60, "min", 120), (3600, "h", 48)):
        if seconds / size < limit:
            count = seconds / size
            return f"{count:.1f} {unit}" if count < 10 and unit != "s" else f"{count:.3g} {unit}"
    return f"{seconds / 86400:.0f} d"


def format_time(at: datetime.datetime) -> str:
    """A time in UTC, as reports show it."""
    return at.strftime("%Y-%m-%d %H:%M")


def _point(
    times: Sequence[datetime.datetime], highest: float, at: datetime.datetime, value: float
) -> tuple[float, float]:
    whole = (times[-1] - times[0]).total_seconds() or 1.0
    x = LEFT + (at - times[0]).total_seconds() / whole * (WIDTH - LEFT - RIGHT)
    return x, HEIGHT - BOTTOM - value / highest * (HEIGHT - TOP - BOTTOM)


def _grid(highest: float) -> str:
    svg = ""
    for value in axis_ticks(highest):
        y = HEIGHT - BOTTOM - value / highest * (HEIGHT - TOP - BOTTOM)
        svg += f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        svg += (
            f'<text class="label end" x="{LEFT - 8}" y="{y + 4:.1f}">{format_short(value)}</text>'
        )
    return svg


def _time_axis(times: Sequence[datetime.datetime]) -> str:
    """At most eight labels, at the starts of days if there are several."""
    if not times:
        return ""
    long = (times[-1] - times[0]).total_seconds() > 3 * 86_400
    days = [at for before, at in pairwise(times) if at.date() != before.date()]
    labelled = days if long else list(times)
    svg = ""
    for at in labelled[:: math.ceil(len(labelled) / 8)]:
        x, baseline = _point(times, 1.0, at, 0.0)
        svg += f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{baseline}" y2="{baseline + 5}"/>'
        if x < WIDTH - 60:
            text = at.strftime("%d %b") if long else at.strftime("%d %b %H:%M")
            svg += f'<text class="label" x="{x + 3:.1f}" y="{HEIGHT - 8}">{text}</text>'
    return svg


def _figure(
    content: str, title: str, names: Sequence[tuple[str, str]], height: float = HEIGHT
) -> str:
    legend = "".join(f'<span class="key {colour}">{escape(name)}</span>' for name, colour in names)
    return (
        f'<figure><figcaption>{escape(title)} <span class="keys">{legend}</span></figcaption>'
        f'<div class="plot"><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{content}</svg></div></figure>'
    )
