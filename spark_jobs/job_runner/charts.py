"""Charts as SVG elements of an HTML page: lines over time, and bars with labels.

Colours come from the style sheet of the page by class (``s0`` to ``s7``): one SVG serves the light
and the dark page.  Each point and bar has a ``title``, which browsers show on hovering.  If there
are more series than colours, those with the largest sums are shown, and the others are added up.

Owner: none; any thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from odradek.spark_jobs.job_runner.cell_format import format_cell, format_number, format_timestamp
from odradek.spark_jobs.job_runner.result import Chart, ChartType
from odradek.spark_jobs.job_runner.scales import Scale, time_label, time_ticks, value_ticks

COLOURS_MAX = 8
OTHERS = "others"
BARS_MAX = 40

_WIDTH, _HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 10, 26
_BAR_HEIGHT, _LABEL_WIDTH = 22, 260

Row = Mapping[str, Any]
Lines = dict[str, dict[float, float]]


def render_chart(chart: Chart, rows: Sequence[Row]) -> str:
    """Return a figure element, or an empty string if there is no data."""
    included = [row for row in rows if _is_included(chart, row)]
    if not included:
        return ""
    svg = (
        _render_lines(chart, included)
        if chart.chart_type is ChartType.LINES
        else _render_bars(chart, included)
    )
    return f"<figure><figcaption>{escape(chart.title)}</figcaption>\n{svg}\n</figure>\n"


def _is_included(chart: Chart, row: Row) -> bool:
    is_selected = chart.row_filter is None or row[chart.row_filter[0]] == chart.row_filter[1]
    return is_selected and row[chart.x] is not None and row[chart.y] is not None


def _render_lines(chart: Chart, rows: Sequence[Row]) -> str:
    lines = _series(chart, rows)
    times = [float(row[chart.x]) for row in rows]
    ticks = value_ticks(max(max(line.values()) for line in lines.values()))
    x = Scale(min(times), max(times), _LEFT, _WIDTH - _RIGHT)
    y = Scale(0, ticks[-1], _HEIGHT - _BOTTOM, _TOP)
    parts = [*_value_axis(chart, ticks, y), *_time_axis(x)]
    for number, (name, line) in enumerate(lines.items()):
        parts += _render_line(chart, name, line, x=x, y=y, colour=number)
    legend = _legend(list(lines)) if chart.series is not None else ""
    return _svg_element(_HEIGHT, chart.title, parts) + legend


def _series(chart: Chart, rows: Sequence[Row]) -> Lines:
    """Return the lines by name: those with the largest sums, and the others added up."""
    lines: Lines = defaultdict(lambda: defaultdict(float))
    for row in rows:
        name = "" if chart.series is None else format_cell(chart.series, row[chart.series])
        lines[name][float(row[chart.x])] += float(row[chart.y])
    largest = sorted(lines, key=lambda name: (-sum(lines[name].values()), name))
    if len(largest) <= COLOURS_MAX:
        return {name: lines[name] for name in largest}
    shown = {name: lines[name] for name in largest[: COLOURS_MAX - 1]}
    rest: dict[float, float] = defaultdict(float)
    for name in largest[COLOURS_MAX - 1 :]:
        for time, value in lines[name].items():
            rest[time] += value
    return {**shown, OTHERS: rest}


def _render_line(
    chart: Chart, name: str, line: dict[float, float], *, x: Scale, y: Scale, colour: int
) -> list[str]:
    points = [(x(time), y(line[time])) for time in sorted(line)]
    path = " ".join(
        f"{'L' if index else 'M'}{px:.1f} {py:.1f}" for index, (px, py) in enumerate(points)
    )
    circles = [
        f'<circle class="s{colour}" cx="{px:.1f}" cy="{py:.1f}" r="{2.5 if len(line) < 80 else 1}">'
        f"<title>{escape(_tooltip(chart, name, time, line[time]))}</title></circle>"
        for (px, py), time in zip(points, sorted(line), strict=True)
    ]
    return [f'<path class="line s{colour}" d="{path}"/>', *circles]


def _tooltip(chart: Chart, name: str, time: float, value: float) -> str:
    prefix = f"{name}, " if name else ""
    return f"{prefix}{format_timestamp(int(time))}: {format_number(chart.y, value)}"


def _value_axis(chart: Chart, ticks: Sequence[float], y: Scale) -> list[str]:
    return [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" '
        f'y2="{y(tick):.1f}"/><text class="right" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}">'
        f"{escape(format_number(chart.y, tick))}</text>"
        for tick in ticks
    ]


def _time_axis(x: Scale) -> list[str]:
    return [
        f'<text class="middle" x="{x(tick):.1f}" y="{_HEIGHT - 6}">'
        f"{time_label(tick, span_ms=x.high - x.low)}</text>"
        for tick in time_ticks(x.low, x.high)
    ]


def _legend(names: Sequence[str]) -> str:
    entries = (
        f'<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="s{number}" width="10" '
        f'height="10"/></svg>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'\n<ul class="legend">{"".join(entries)}</ul>'


def _render_bars(chart: Chart, rows: Sequence[Row]) -> str:
    shown = rows[:BARS_MAX]
    highest = max(float(row[chart.y]) for row in shown)
    x = Scale(0, highest or 1, _LABEL_WIDTH, _WIDTH - 90)
    parts = []
    for number, row in enumerate(shown):
        label, value = format_cell(chart.x, row[chart.x]), float(row[chart.y])
        top, text = number * _BAR_HEIGHT, format_number(chart.y, row[chart.y])
        parts.append(
            f'<text class="right" x="{_LABEL_WIDTH - 8}" '
            f'y="{top + 15}">{escape(_shorten(label))}</text>'
            f'<rect class="s0" x="{_LABEL_WIDTH}" y="{top + 4}" '
            f'width="{max(1, x(value) - _LABEL_WIDTH):.1f}" '
            f'height="{_BAR_HEIGHT - 7}"><title>{escape(f"{label}: {text}")}</title></rect>'
            f'<text x="{max(_LABEL_WIDTH + 1, x(value)) + 6:.1f}" '
            f'y="{top + 15}">{escape(text)}</text>'
        )
    return _svg_element(len(shown) * _BAR_HEIGHT + 4, chart.title, parts)


def _shorten(label: str) -> str:
    return label if len(label) <= 36 else f"{label[:35]}…"


def _svg_element(height: int, title: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        f"\n{body}\n</svg>"
    )
