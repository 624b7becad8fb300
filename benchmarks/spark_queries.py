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
from spark_data import Written
from straightforward import straightforward

#: For each processor a few, as the tasks of the source have it, too.
FILES_AT_ONCE = 16


class Asked:
    """Of whom a question is asked."""

    def __init__(self, session: SparkSession, written: Written) -> None:
        self.session = session
        self.written = written
        for name in ("spark_queries", "scan_queries", "spark_data", "straightforward"):
            # For the workers.
            session.sparkContext.addPyFile(str(Path(__file__).parent / f"{name}.py"))

    def records(self) -> RDD[Any]:
        """Topic, offset, timestamp, key and value of each."""
        files = self.session.sparkContext.binaryFiles(self.written.logs, FILES_AT_ONCE)
        return files.flatMap(_rows)

    def table(self, columns: str) -> DataFrame:
        source = self.session.read.format("odradek").option("columns", columns)
        return source.load(str(self.written.directory))


def _rows(file: tuple[str, bytes]) -> Any:
    path, content = file
    topic = path.split("/")[-2].rpartition("-")[0]
    return ((topic, *row) for row in straightforward(content))


@dataclass(frozen=True, slots=True)
class Question:
    """The goal is how many times less CPU time our source should take."""

    goal: float
    straightforward: Callable[[Asked], Any]
    odradek: Callable[[Asked], Any]
    of_directory: Callable[[Path], Any]

    def alone(self, asked: Asked) -> Any:
        return self.of_directory(asked.written.directory)


#: Records, their bytes, the first and the last time.
Statistics = tuple[int, int, Any, Any]


def _count(asked: Asked) -> int:
    return asked.records().count()


def _count_of_source(asked: Asked) -> int:
    return asked.table("partition").count()


def _merged(one: Statistics, other: Statistics) -> Statistics:
    return (
        one[0] + other[0],
        one[1] + other[1],
        min(one[2], other[2]),
        max(one[3], other[3]),
    )


def _topic_statistics(asked: Asked) -> Any:
    """Of each topic the number of records, their bytes, the first and the last time."""
    rows = asked.records().map(lambda row: (row[0], (1, len(row[4]), row[2], row[2])))
    return dict(rows.reduceByKey(_merged).collect())


def _topic_statistics_of_source(asked: Asked) -> Any:
    rows = asked.table("topic,timestamp,valueSize").groupBy("topic")
    found = rows.agg(
        f.count("*"),
        f.sum("valueSize"),
        f.unix_millis(f.min("timestamp")),
        f.unix_millis(f.max("timestamp")),
    )
    return {row[0]: tuple(row[1:]) for row in found.collect()}


def _top_keys(asked: Asked) -> Any:
    counts = asked.records().map(lambda row: (row[3], 1)).reduceByKey(add)
    return counts.takeOrdered(TOP_KEYS, key=lambda pair: (-pair[1], pair[0]))


def _top_keys_of_source(asked: Asked) -> Any:
    counts = asked.table("key").groupBy("key").count()
    found = counts.orderBy(f.desc("count"), "key").limit(TOP_KEYS)
    return [(bytes(row[0]), row[1]) for row in found.collect()]


def _rate(asked: Asked) -> Any:
    """How many records each minute has."""
    return dict(
        asked.records().map(lambda row: (row[2] // MINUTE_MS, 1)).reduceByKey(add).collect()
    )


def _rate_of_source(asked: Asked) -> Any:
    minutes = f.expr(f"unix_millis(timestamp) div {MINUTE_MS}")
    return dict(asked.table("timestamp").groupBy(minutes).count().collect())


def _size_percentiles(asked: Asked) -> Any:
    """Of the sizes of values."""
    sizes = asked.records().map(lambda row: (len(row[4]), 1)).reduceByKey(add)
    return percentiles(sizes.collect())


def _size_percentiles_of_source(asked: Asked) -> Any:
    shares = f.array(*map(f.lit, PERCENTILES))
    (row,) = asked.table("valueSize").select(f.percentile("valueSize", shares)).collect()
    return row[0]


QUESTIONS: Mapping[str, Question] = {
    "count": Question(5, _count, _count_of_source, scan_queries.count),
    "per-topic statistics": Question(
        3, _topic_statistics, _topic_statistics_of_source, scan_queries.topic_statistics
    ),
    "top keys": Question(2.2, _top_keys, _top_keys_of_source, scan_queries.top_keys),
    "records a minute": Question(3, _rate, _rate_of_source, scan_queries.rate),
    "size percentiles": Question(
        3.5, _size_percentiles, _size_percentiles_of_source, scan_queries.size_percentiles
    ),
}
