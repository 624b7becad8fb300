"""The questions of spark_queries.py, answered in one process: the scanner, and Arrow's own sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, floor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odradek.spark_jobs.scan.scanner import scan

MINUTE_MS = 60_000
TOP_KEYS = 10
PERCENTILES = (0.5, 0.95, 0.99)
#: Arrow's sums over groups are for many rows at a time.
ROWS_AT_A_TIME = 1_000_000
_MICROSECONDS = 1000


def count(directory: Path) -> int:
    return sum(rows.num_rows for rows in scan(path=str(directory), columns="partition"))


def topic_statistics(directory: Path) -> Any:
    told = [("topic", "count"), ("valueSize", "sum"), ("timestamp", "min"), ("timestamp", "max")]
    parts = [
        rows.group_by("topic").aggregate(told)
        for rows in _tables(directory, "topic,timestamp,valueSize")
    ]
    merged = pa.concat_tables(parts).group_by("topic")
    found = merged.aggregate(
        [
            ("topic_count", "sum"),
            ("valueSize_sum", "sum"),
            ("timestamp_min", "min"),
            ("timestamp_max", "max"),
        ]
    )
    times = [pc.divide(found[at].cast("int64"), _MICROSECONDS).to_pylist() for at in (3, 4)]
    columns = [found[0].to_pylist(), found[1].to_pylist(), found[2].to_pylist(), *times]
    return {row[0]: row[1:] for row in zip(*columns, strict=True)}


def top_keys(directory: Path) -> Any:
    found = _counts(rows["key"] for rows in _tables(directory, "key"))
    ordered = found.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, TOP_KEYS)
    return list(zip(ordered["value"].to_pylist(), ordered["count"].to_pylist(), strict=True))


def rate(directory: Path) -> Any:
    minute_us = MINUTE_MS * _MICROSECONDS
    tables = _tables(directory, "timestamp")
    found = _counts(pc.divide(rows["timestamp"].cast("int64"), minute_us) for rows in tables)
    return dict(zip(found["value"].to_pylist(), found["count"].to_pylist(), strict=True))


def size_percentiles(directory: Path) -> Any:
    found = _counts(rows["valueSize"] for rows in _tables(directory, "valueSize"))
    return percentiles(zip(found["value"].to_pylist(), found["count"].to_pylist(), strict=True))


def percentiles(counts: Iterable[tuple[int, int]]) -> list[float]:
    """Of sizes, of which each is there so often; interpolated as Spark does it."""
    sizes = sorted(counts)
    last = sum(count for _, count in sizes) - 1
    found = []
    for share in PERCENTILES:
        place = last * share
        low, high = _size_at(sizes, floor(place)), _size_at(sizes, ceil(place))
        found.append(low + (high - low) * (place % 1))
    return found


def _size_at(sizes: list[tuple[int, int]], place: int) -> int:
    """The size that would be at the place if all were put in order."""
    for size, count in sizes:
        place -= count
        if place < 0:
            return size
    raise ValueError(place)


def _tables(directory: Path, columns: str) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    for rows in scan(path=str(directory), columns=columns):
        gathered.append(rows)
        if sum(each.num_rows for each in gathered) >= ROWS_AT_A_TIME:
            yield pa.Table.from_batches(gathered)
            gathered.clear()
    if gathered:
        yield pa.Table.from_batches(gathered)


def _counts(columns: Iterator[pa.ChunkedArray]) -> pa.Table:
    """How often each value is there."""
    parts = [
        pa.table({"value": column}).group_by("value").aggregate([("value", "count")])
        for column in columns
    ]
    found = pa.concat_tables(parts).group_by("value").aggregate([("value_count", "sum")])
    return found.rename_columns(["value", "count"])
