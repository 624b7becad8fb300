"""The damage report: damaged ranges as rows (``view=damage``).

All records are read and decoded, and then discarded.

Owner: the caller that iterates.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from odradek.spark_jobs.scan.damage import Damage, ScanFailed
from odradek.spark_jobs.scan.options import ScanOptions
from odradek.spark_jobs.scan.plan import Split
from odradek.spark_jobs.scan.scanner import read_split

DAMAGE_COLUMNS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "file": pa.string(),
    "position": pa.int64(),
    "end": pa.int64(),
    "firstOffset": pa.int64(),
    "reason": pa.string(),
}


def damage_schema(columns: str = "") -> pa.Schema:
    """Return the schema; ``columns`` is the option: a list of names, or empty for all."""
    names = [name.strip() for name in columns.split(",") if name.strip()] or list(DAMAGE_COLUMNS)
    for name in names:
        if name not in DAMAGE_COLUMNS:
            known = ", ".join(DAMAGE_COLUMNS)
            raise ScanFailed(f"columns: unknown column {name!r}; known columns: {known}")
    return pa.schema([(name, DAMAGE_COLUMNS[name]) for name in names])


def damage_rows(split: Split, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Yield the damage of one split, as one batch at most."""
    damages: list[Damage] = []
    for _ in read_split(split, options, damages.append):
        continue
    if damages:
        rows = [_row(damage) for damage in damages]
        yield pa.RecordBatch.from_pylist(rows, schema=damage_schema())


def _row(damage: Damage) -> dict[str, object]:
    return {
        "topic": damage.topic,
        "partition": damage.partition,
        "file": damage.segment,
        "position": damage.position,
        "end": damage.end_position,
        "firstOffset": damage.first_offset,
        "reason": damage.reason,
    }
