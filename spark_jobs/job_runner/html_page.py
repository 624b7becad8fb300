"""A result as a self-contained HTML page: style sheet and charts are inline, without scripts.

The page is light or dark as the reader's system is, and prints black on white.  Wide tables scroll.
A table with one row is shown as a list of figures.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from odradek.spark_jobs.job_runner.cell_format import format_cell, timestamp_columns, to_rows
from odradek.spark_jobs.job_runner.charts import render_chart
from odradek.spark_jobs.job_runner.result import Table

#: Limit for a readable page; the other outputs have all rows.
ROWS_MAX = 1000
#: A longer table is collapsed, to keep the tables after it in sight.
ROWS_EXPANDED_MAX = 30

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --faint: #6b7480; --rule: #e2e6ea;
  --s0: #2563c9; --s1: #d9632b; --s2: #2a8f5b; --s3: #a83f8f; --s4: #b8860b; --s5: #16889c;
  --s6: #7a5bd0; --s7: #78818c; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e4e8ec; --faint: #98a2ad;
  --rule: #2d3339; --s0: #6ea3ff; --s1: #ff9a62; --s2: #5fce92; --s3: #e583cf; --s4: #e6bd55;
  --s5: #5ccbe0; --s6: #b39dff; --s7: #a3adb8; } }
body { margin: 2rem auto; padding: 0 1rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p, figcaption { color: var(--faint); margin: .25rem 0 .75rem; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; }
figure > svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font: 12px system-ui, sans-serif; }
svg .right { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--rule); } svg .line { fill: none; stroke-width: 1.6; }
.s0 { fill: var(--s0); stroke: var(--s0); } .s1 { fill: var(--s1); stroke: var(--s1); }
.s2 { fill: var(--s2); stroke: var(--s2); } .s3 { fill: var(--s3); stroke: var(--s3); }
.s4 { fill: var(--s4); stroke: var(--s4); } .s5 { fill: var(--s5); stroke: var(--s5); }
.s6 { fill: var(--s6); stroke: var(--s6); } .s7 { fill: var(--s7); stroke: var(--s7); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0;
  margin: .5rem 0; } .legend svg { width: .7em; margin-right: .4em; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; border-bottom: 1px solid var(--rule);
  white-space: nowrap; } th { color: var(--faint); font-weight: 600; }
.number { text-align: right; } summary { cursor: pointer; color: var(--faint); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .75rem; }
dt { color: var(--faint); } dd { margin: 0; font-size: 1.25rem; }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; } }
"""


def render_page(tables: Sequence[Table], *, title: str, subtitle: str) -> str:
    """``subtitle`` names the paths.  The tables must be materialized."""
    sections = "\n".join(_render_section(table) for table in tables)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n"
        f"<p>{escape(subtitle)}; created {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; all times are "
        "UTC</p>\n"
        f"{sections}\n</body>\n</html>\n"
    )


def _render_section(table: Table) -> str:
    rows = to_rows(table.rows)
    note = f"<p>{escape(table.note)}</p>\n" if table.note else ""
    charts = "".join(render_chart(chart, rows) for chart in table.charts)
    content = _render_figures(table, rows[0]) if len(rows) == 1 else _render_table(table, rows)
    return (
        f'<section id="{escape(table.name, quote=True)}">\n<h2>{escape(table.title)}</h2>\n'
        f"{note}{charts}{content}</section>"
    )


def _render_figures(table: Table, row: dict[str, Any]) -> str:
    times = timestamp_columns(table.rows)
    entries = (
        f"<div><dt>{escape(name)}</dt>"
        f"<dd>{escape(format_cell(name, cell, is_timestamp=name in times))}</dd></div>"
        for name, cell in row.items()
    )
    return f"<dl>{''.join(entries)}</dl>\n"


def _render_table(table: Table, rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "<p>None.</p>\n"
    times = timestamp_columns(table.rows)
    names = table.rows.column_names
    head = "".join(f"<th{_cell_class(rows, name)}>{escape(name)}</th>" for name in names)
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{_cell_class(rows, name)}>"
            f"{escape(format_cell(name, row[name], is_timestamp=name in times))}</td>"
            for name in names
        )
        + "</tr>"
        for row in rows[:ROWS_MAX]
    )
    more = f"<p>{len(rows) - ROWS_MAX:,} more rows are not shown.</p>" * (len(rows) > ROWS_MAX)
    content = (
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n'
        f"</table></div>\n{more}"
    )
    if len(rows) <= ROWS_EXPANDED_MAX:
        return content
    return f"<details><summary>{len(rows):,} rows</summary>\n{content}</details>\n"


def _cell_class(rows: Sequence[dict[str, Any]], name: str) -> str:
    is_number = any(isinstance(row[name], int | float) for row in rows[:20])
    return ' class="number"' if is_number else ""
