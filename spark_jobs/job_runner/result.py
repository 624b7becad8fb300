"""What a job has found: tables, and charts of what stands in them.

A table with a single row is shown to a person as a list of figures.  Columns named ``...Bytes`` are
amounts of bytes, ``...Ms`` are durations, ``share`` and ``...Share`` parts of one: see cells.py.

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
    """One column over another.  ``series`` is the column that tells several lines apart, ``only``
    the name of a column and what stands there in the rows that are meant."""

    title: str
    chart_type: ChartType
    x: str
    y: str
    series: str | None = None
    row_filter: tuple[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """``name`` is for programs and files, ``title`` for a person; ``note`` says how to read it.

    One ``of_damage`` is there only if something could not be read, which makes the exit status 1.
    """

    name: str
    title: str
    rows: Any  # a DataFrame, or a pyarrow.Table
    charts: Sequence[Chart] = ()
    note: str = ""
    is_damage: bool = False

    def materialize(self) -> Table:
        """The same with its rows as a ``pyarrow.Table``, computed now if they were not before."""
        if not hasattr(self.rows, "toArrow"):
            return self
        return replace(self, rows=self.rows.toArrow())


@dataclass(frozen=True, slots=True)
class Result:
    tables: Sequence[Table]
    exit_status: int = 0
