"""Hot keys: which keys have the most records, or the most bytes.

    keys    hottest keys of each topic, with their share of its records (or bytes)
    topics  number of records, of keys, and of records without a key

A hot key makes a hot partition; compaction does not help while its newest record is needed.  Bytes
are those of keys and values before compression.

Examples:
  odradek spark hot-keys /var/lib/kafka --topics orders
  odradek spark hot-keys /var/lib/kafka --by bytes --top 5 --output html --to hot.html
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from odradek.spark_jobs.job_runner.job import Job, JobContext
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table

RECORDS, BYTES = "records", "bytes"
CHARTS_MAX = 8

RECORD_COUNTS = "select topic, key, count(*) as records from {rows} group by topic, key"
RECORD_AND_BYTE_COUNTS = """
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
        "--top", metavar="N", type=int, default=20, help="number of keys of each topic; default: 20"
    )
    parser.add_argument(
        "--by", choices=[RECORDS, BYTES], default=RECORDS, help="what to count; default: records"
    )


def run(context: JobContext) -> Result:
    """Read the sizes of values only if bytes are counted, since every column costs time."""
    by, sql = context.args.by, context.sql
    counts_bytes = by == BYTES
    context.report_progress("counting keys")
    rows = context.read(columns="topic,key,valueSize" if counts_bytes else "topic,key")
    counts = context.cache(
        sql(RECORD_AND_BYTE_COUNTS if counts_bytes else RECORD_COUNTS, rows=rows)
    )
    topics = sql(TOPICS, counts=counts)
    ranked = sql(KEYS, counts=counts, by=by, top=context.args.top)
    names = [row["topic"] for row in topics.limit(CHARTS_MAX).collect()]
    charts = [
        Chart(f"{name}: {by} by key", ChartType.BARS, "key", by, row_filter=("topic", name))
        for name in names
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
