"""The result of a job: tables, and charts of their columns.

A table with a single row is displayed as a list of figures.  Columns named ``...Bytes`` are bytes,
``...Ms`` are durations, ``share`` and ``...Share`` are fractions of one: see cell_format.py.

Owner: the driver's only thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class ChartType(Enum):
    LINES = "lines"  # x is a time
    BARS = "bars"  # x is a label


@dataclass(frozen=True, slots=True)
class Chart:
    """One column over another.  ``series`` is the column that names the lines; ``row_filter`` is a
    column and the value that it has in the rows of the chart."""

    title: str
    chart_type: ChartType
    x: str
    y: str
    series: str | None = None
    row_filter: tuple[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """``name`` is for programs and files, ``title`` for display; ``note`` explains the table.

    A table with ``is_damage`` exists only if there is damage, which makes the exit status 1.
    """

    name: str
    title: str
    rows: Any  # a DataFrame, or a pyarrow.Table
    charts: Sequence[Chart] = ()
    note: str = ""
    is_damage: bool = False

    def materialize(self) -> Table:
        """Return the table with its rows as a ``pyarrow.Table``, computed now if necessary."""
        if not hasattr(self.rows, "toArrow"):
            return self
        return replace(self, rows=self.rows.toArrow())


@dataclass(frozen=True, slots=True)
class Result:
    tables: Sequence[Table]
    exit_status: int = 0
