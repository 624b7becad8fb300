"""A Spark job run in this process: its exit status, and its tables as a program reads them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class JobRun:
    def __init__(self, main: Callable[[list[str]], int], to: Path, *arguments: object) -> None:
        """``to`` is a file of no further use.  Nobody looks for damage: test_job.py does."""
        unchanging = ("--mode", "dropmalformed", "--output", "json", "--to", str(to))
        self.status = main([*map(str, arguments), *unchanging])
        self._tables: dict[str, list[Row]] = defaultdict(list)
        for line in to.read_text().splitlines():
            row = json.loads(line)
            self._tables[row.pop("table")].append(row)

    @property
    def names(self) -> list[str]:
        """Of the tables that have rows."""
        return list(self._tables)

    def table(self, name: str) -> list[Row]:
        assert name in self._tables, self.names
        return self._tables[name]

    def by(self, name: str, *columns: str) -> dict[Any, Row]:
        """The rows of a table, by what stands in these columns."""
        keys = [tuple(row[column] for column in columns) for row in self.table(name)]
        assert len(set(keys)) == len(keys)
        plain = [key[0] if len(columns) == 1 else key for key in keys]
        return dict(zip(plain, self.table(name), strict=True))
