"""Hot keys: which keys have the most records, or the most bytes.

    keys    the hottest keys of each topic, with their share of all its records (or bytes)
    topics  how many records and keys there are, and how many records have no key

A hot key makes a hot partition, and compaction cannot help while it is the newest that is wanted.
Bytes are those of keys and values, before compression.

Examples:
  odradek spark hot-keys /var/lib/kafka --topics orders
  odradek spark hot-keys /var/lib/kafka --by bytes --top 5 --output html --to hot.html
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from odradek.spark_jobs.running.job import Call, Job
from odradek.spark_jobs.running.result import Chart, Result, Shape, Table

RECORDS, BYTES = "records", "bytes"
CHARTS_MAX = 8

COUNTED = "select topic, key, count(*) as records from {rows} group by topic, key"
WEIGHED = """
    select topic, key, count(*) as records,
        sum(coalesce(length(key), 0) + coalesce(valueSize, 0)) as bytes
    from {rows} group by topic, key
"""
KEYS = """
    with totals as (select topic, sum({by}) as total from {counts} group by topic),
    ranked as (
        select *, row_number() over (partition by topic order by {by} desc, key) as rank
        from {counts} where key is not null
    )
    select topic, rank, ranked.* except (topic, rank), {by} / total as share
    from ranked join totals using (topic) where rank <= {top} order by topic, rank
"""
TOPICS = """
    select topic, sum(records) as records, count(key) as keys,
        coalesce(sum(records) filter (where key is null), 0) as keyless,
        sum(records) filter (where key is not null) / count(key) as recordsPerKey
    from {counts} group by topic order by records desc, topic
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--top", metavar="N", type=int, default=20, help="so many keys of each topic; 20"
    )
    parser.add_argument(
        "--by", choices=[RECORDS, BYTES], default=RECORDS, help="what counts; records"
    )


def run(call: Call) -> Result:
    """The sizes of values are asked for only if they count: every column costs time."""
    by, sql = call.args.by, call.sql
    is_weighed = by == BYTES
    call.progress("counting keys")
    rows = call.read(columns="topic,key,valueSize" if is_weighed else "topic,key")
    counts = call.keep(sql(WEIGHED if is_weighed else COUNTED, rows=rows))
    topics = sql(TOPICS, counts=counts)
    ranked = sql(KEYS, counts=counts, by=by, top=call.args.top)
    names = [row["topic"] for row in topics.limit(CHARTS_MAX).collect()]
    charts = [
        Chart(f"{name}: {by} by key", Shape.BARS, "key", by, only=("topic", name)) for name in names
    ]
    return Result(
        [
            Table("keys", "Hottest keys", ranked, charts),
            Table("topics", "Topics", topics),
        ]
    )


JOB = Job("hot-keys", __doc__, add_arguments, run)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
