"""Five queries on a log directory, each in three implementations.

    straightforward   ``binaryFiles`` and a decoder in plain Python with RDDs, so records never
                      leave the process that decodes them
    odradek           ``spark.read.format("odradek")``, with the columns that the query needs
    scanner_only      the scanner in one process, without Spark: scan_queries.py

All return the same result, as plain Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any

import scan_queries
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from scan_queries import MINUTE_MS, PERCENTILES, TOP_KEYS, percentiles
from spark_data import LogData
from straightforward_decoder import decode_segment

#: A few per processor, like the tasks of the source.
FILE_PARTITIONS_MIN = 16


class QueryContext:
    """The Spark session and the data of a query."""

    def __init__(self, session: SparkSession, data: LogData) -> None:
        self.session = session
        self.data = data
        for name in ("spark_queries", "scan_queries", "spark_data", "straightforward_decoder"):
            # The workers import these modules.
            session.sparkContext.addPyFile(str(Path(__file__).parent / f"{name}.py"))

    def records(self) -> RDD[Any]:
        """Return topic, offset, timestamp, key and value of each record."""
        files = self.session.sparkContext.binaryFiles(self.data.log_files_glob, FILE_PARTITIONS_MIN)
        return files.flatMap(_rows)

    def table(self, columns: str) -> DataFrame:
        source = self.session.read.format("odradek").option("columns", columns)
        return source.load(str(self.data.directory))


def _rows(file: tuple[str, bytes]) -> Any:
    path, content = file
    topic = path.split("/")[-2].rpartition("-")[0]
    return ((topic, *row) for row in decode_segment(content))


@dataclass(frozen=True, slots=True)
class Query:
    """One query; ``goal`` is the ratio by which our source should use less CPU time."""

    goal: float
    straightforward: Callable[[QueryContext], Any]
    odradek: Callable[[QueryContext], Any]
    scan_directory: Callable[[Path], Any]

    def scanner_only(self, context: QueryContext) -> Any:
        return self.scan_directory(context.data.directory)


#: Record count, value bytes, first and last timestamp.
Statistics = tuple[int, int, Any, Any]


def _count(context: QueryContext) -> int:
    return context.records().count()


def _count_of_source(context: QueryContext) -> int:
    return context.table("partition").count()


def _merge_statistics(one: Statistics, other: Statistics) -> Statistics:
    return (
        one[0] + other[0],
        one[1] + other[1],
        min(one[2], other[2]),
        max(one[3], other[3]),
    )


def _topic_statistics(context: QueryContext) -> Any:
    """Return record count, value bytes, first and last timestamp of each topic."""
    rows = context.records().map(lambda row: (row[0], (1, len(row[4]), row[2], row[2])))
    return dict(rows.reduceByKey(_merge_statistics).collect())


def _topic_statistics_of_source(context: QueryContext) -> Any:
    rows = context.table("topic,timestamp,valueSize").groupBy("topic")
    result = rows.agg(
        f.count("*"),
        f.sum("valueSize"),
        f.unix_millis(f.min("timestamp")),
        f.unix_millis(f.max("timestamp")),
    )
    return {row[0]: tuple(row[1:]) for row in result.collect()}


def _top_keys(context: QueryContext) -> Any:
    counts = context.records().map(lambda row: (row[3], 1)).reduceByKey(add)
    return counts.takeOrdered(TOP_KEYS, key=lambda pair: (-pair[1], pair[0]))


def _top_keys_of_source(context: QueryContext) -> Any:
    counts = context.table("key").groupBy("key").count()
    result = counts.orderBy(f.desc("count"), "key").limit(TOP_KEYS)
    return [(bytes(row[0]), row[1]) for row in result.collect()]


def _records_per_minute(context: QueryContext) -> Any:
    """Return the record count of each minute."""
    return dict(
        context.records().map(lambda row: (row[2] // MINUTE_MS, 1)).reduceByKey(add).collect()
    )


def _records_per_minute_of_source(context: QueryContext) -> Any:
    minutes = f.expr(f"unix_millis(timestamp) div {MINUTE_MS}")
    return dict(context.table("timestamp").groupBy(minutes).count().collect())


def _size_percentiles(context: QueryContext) -> Any:
    """Return percentiles of the value sizes."""
    sizes = context.records().map(lambda row: (len(row[4]), 1)).reduceByKey(add)
    return percentiles(sizes.collect())


def _size_percentiles_of_source(context: QueryContext) -> Any:
    shares = f.array(*map(f.lit, PERCENTILES))
    (row,) = context.table("valueSize").select(f.percentile("valueSize", shares)).collect()
    return row[0]


QUERIES: Mapping[str, Query] = {
    "count": Query(5, _count, _count_of_source, scan_queries.count),
    "per-topic statistics": Query(
        3, _topic_statistics, _topic_statistics_of_source, scan_queries.topic_statistics
    ),
    "top keys": Query(2.2, _top_keys, _top_keys_of_source, scan_queries.top_keys),
    "records per minute": Query(
        3, _records_per_minute, _records_per_minute_of_source, scan_queries.records_per_minute
    ),
    "size percentiles": Query(
        3.5, _size_percentiles, _size_percentiles_of_source, scan_queries.size_percentiles
    ),
}
