"""Prints rows as a table, as tab-separated lines or as JSON.

    terminal   a table with a title, as wide as the screen
    pipe       the column names, then one tab-separated line for each row
    --json     one line of JSON for each row

A list is a comma-separated text, and a list in JSON.  None is ``-``, and null in JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

Row = Sequence[object]


def add_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--json", action="store_true", help="print each row as a line of JSON")


def show(columns: Sequence[str], rows: Iterable[Row], *, title: str, as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True))))
    elif sys.stdout.isatty():
        _show_table(columns, rows, title)
    else:
        print(*columns, sep="\t")
        for row in rows:
            print(*map(_text, row), sep="\t")


def _show_table(columns: Sequence[str], rows: Iterable[Row], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    Console().print(table)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list):
        return ",".join(map(str, cell))
    return str(cell)
