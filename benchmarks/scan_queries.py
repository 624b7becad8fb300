"""The queries of spark_queries.py in one process, with the scanner and Arrow's aggregations."""

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
#: Arrow's grouped aggregations are efficient only on many rows at a time.
ROWS_PER_TABLE = 1_000_000
_MICROSECONDS_PER_MS = 1000


def count(directory: Path) -> int:
    return sum(rows.num_rows for rows in scan(path=str(directory), columns="partition"))


def topic_statistics(directory: Path) -> Any:
    aggregations = [
        ("topic", "count"),
        ("valueSize", "sum"),
        ("timestamp", "min"),
        ("timestamp", "max"),
    ]
    parts = [
        rows.group_by("topic").aggregate(aggregations)
        for rows in _tables(directory, "topic,timestamp,valueSize")
    ]
    merged = pa.concat_tables(parts).group_by("topic")
    result = merged.aggregate(
        [
            ("topic_count", "sum"),
            ("valueSize_sum", "sum"),
            ("timestamp_min", "min"),
            ("timestamp_max", "max"),
        ]
    )
    times = [
        pc.divide(result[index].cast("int64"), _MICROSECONDS_PER_MS).to_pylist() for index in (3, 4)
    ]
    columns = [result[0].to_pylist(), result[1].to_pylist(), result[2].to_pylist(), *times]
    return {row[0]: row[1:] for row in zip(*columns, strict=True)}


def top_keys(directory: Path) -> Any:
    result = _count_values(rows["key"] for rows in _tables(directory, "key"))
    ordered = result.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, TOP_KEYS)
    return list(zip(ordered["value"].to_pylist(), ordered["count"].to_pylist(), strict=True))


def records_per_minute(directory: Path) -> Any:
    minute_us = MINUTE_MS * _MICROSECONDS_PER_MS
    tables = _tables(directory, "timestamp")
    result = _count_values(pc.divide(rows["timestamp"].cast("int64"), minute_us) for rows in tables)
    return dict(zip(result["value"].to_pylist(), result["count"].to_pylist(), strict=True))


def size_percentiles(directory: Path) -> Any:
    result = _count_values(rows["valueSize"] for rows in _tables(directory, "valueSize"))
    return percentiles(zip(result["value"].to_pylist(), result["count"].to_pylist(), strict=True))


def percentiles(counts: Iterable[tuple[int, int]]) -> list[float]:
    """Compute percentiles of sizes, given as (size, count), with Spark's interpolation."""
    sizes = sorted(counts)
    last = sum(count for _, count in sizes) - 1
    result = []
    for share in PERCENTILES:
        position = last * share
        low, high = _size_at(sizes, floor(position)), _size_at(sizes, ceil(position))
        result.append(low + (high - low) * (position % 1))
    return result


def _size_at(sizes: list[tuple[int, int]], index: int) -> int:
    """Return the size at an index of the sorted list of all sizes."""
    for size, count in sizes:
        index -= count
        if index < 0:
            return size
    raise ValueError(index)


def _tables(directory: Path, columns: str) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    for rows in scan(path=str(directory), columns=columns):
        batches.append(rows)
        if sum(each.num_rows for each in batches) >= ROWS_PER_TABLE:
            yield pa.Table.from_batches(batches)
            batches.clear()
    if batches:
        yield pa.Table.from_batches(batches)


def _count_values(columns: Iterator[pa.ChunkedArray]) -> pa.Table:
    """Count how often each value occurs."""
    parts = [
        pa.table({"value": column}).group_by("value").aggregate([("value", "count")])
        for column in columns
    ]
    result = pa.concat_tables(parts).group_by("value").aggregate([("value_count", "sum")])
    return result.rename_columns(["value", "count"])
