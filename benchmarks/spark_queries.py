"""Five questions to a log directory, each asked in three ways.

    straightforward   ``binaryFiles`` and a decoder in plain Python, as one writes it with RDDs, so
                      that records never leave the process that decodes them
    odradek           ``spark.read.format("odradek")``, with the columns that the question needs
    alone             the scanner in one process, with no Spark: scan_queries.py

All give the same answer, in plain Python.
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

#: For each processor a few, as the tasks of the source have it, too.
FILE_PARTITIONS_MIN = 16


class QueryContext:
    """Of whom a question is asked."""

    def __init__(self, session: SparkSession, data: LogData) -> None:
        self.session = session
        self.data = data
        for name in ("spark_queries", "scan_queries", "spark_data", "straightforward_decoder"):
            # For the workers.
            session.sparkContext.addPyFile(str(Path(__file__).parent / f"{name}.py"))

    def records(self) -> RDD[Any]:
        """Topic, offset, timestamp, key and value of each."""
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
    """The goal is how many times less CPU time our source should take."""

    goal: float
    straightforward: Callable[[QueryContext], Any]
    odradek: Callable[[QueryContext], Any]
    scan_directory: Callable[[Path], Any]

    def scanner_only(self, context: QueryContext) -> Any:
        return self.scan_directory(context.data.directory)


#: Records, their bytes, the first and the last time.
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
    """Of each topic the number of records, their bytes, the first and the last time."""
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
    """How many records each minute has."""
    return dict(
        context.records().map(lambda row: (row[2] // MINUTE_MS, 1)).reduceByKey(add).collect()
    )


def _records_per_minute_of_source(context: QueryContext) -> Any:
    minutes = f.expr(f"unix_millis(timestamp) div {MINUTE_MS}")
    return dict(context.table("timestamp").groupBy(minutes).count().collect())


def _size_percentiles(context: QueryContext) -> Any:
    """Of the sizes of values."""
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
    "records a minute": Query(
        3, _records_per_minute, _records_per_minute_of_source, scan_queries.records_per_minute
    ),
    "size percentiles": Query(
        3.5, _size_percentiles, _size_percentiles_of_source, scan_queries.size_percentiles
    ),
}
