"""Findings of an audit: a row for each inconsistency in a file.

    error     a reader gets wrong records, or none: damaged batches, replicas that differ, aborted
              transactions that are visible, producer state that misleads the broker
    warning   a broker rebuilds or truncates it when it starts: indexes that are missing or wrong,
              snapshots that are recognizably corrupt, records above the high watermark

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

PROBLEMS_MAX = 100


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """``position`` is a byte position in the file.  Position and offset are None if unknown."""

    severity: Severity
    topic: str | None  # None for a finding about a log directory
    partition: int | None
    file: str
    position: int | None
    offset: int | None
    what: str

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file}: byte {self.position}"
        offset = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.severity}: {where}{offset}: {self.what}"


FINDING_SCHEMA = pa.schema(
    [
        ("severity", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("offset", pa.int64()),
        ("what", pa.string()),
    ]
)


def build_findings_table(findings: Iterable[Finding]) -> pa.Table:
    """Sort the findings by severity, then by file and position."""
    rows = [astuple(finding) for finding in sorted(findings, key=_sort_key)]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(FINDING_SCHEMA)
    return pa.table(
        [
            pa.array(column, field.type)
            for column, field in zip(columns, FINDING_SCHEMA, strict=True)
        ],
        schema=FINDING_SCHEMA,
    )


def _sort_key(finding: Finding) -> tuple[str, str, int, int]:
    position, offset = finding.position, finding.offset
    return (
        finding.severity,
        finding.file,
        -1 if position is None else position,
        -1 if offset is None else offset,
    )


class Problem(NamedTuple):
    """A finding without severity, partition and file, which the caller adds."""

    position: int | None
    offset: int | None
    what: str


def limit_problems(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the first PROBLEMS_MAX problems of a file, since a corrupt file may have a million."""
    remaining = PROBLEMS_MAX
    omitted = 0
    for problem in problems:
        if remaining > 0:
            remaining -= 1
            yield problem
        else:
            omitted += 1
    if omitted:
        yield Problem(None, None, f"{omitted} more problem(s) in this file are not listed")
