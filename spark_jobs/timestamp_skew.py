"""Timestamp skew: late records, timestamps out of order, and partitions that lag behind.

    topics      by topic: records out of order and late, and the greatest lateness
    partitions  by partition, with first and last time, and how far it is behind its topic
    lateness    number of records by lateness
    time        records, late records and the greatest lateness, over time
    latest      the records with the greatest lateness, with their offsets

A record is out of order if an earlier record of its partition has a greater timestamp.  Its
lateness is the difference to the greatest earlier timestamp.  It is late if its lateness exceeds
--late: a window that waits for that long has closed without it.  Records with a timestamp after
--now are future records.  A record without a timestamp, such as any of magic 0, is untimed, and is
neither late nor in time.

Examples:
  odradek spark timestamp-skew /var/lib/kafka --topics clicks --late 30s
  odradek spark timestamp-skew /var/lib/kafka --output html --to skew.html
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from odradek.spark_jobs.job_runner.durations import choose_bucket_ms, parse_duration_ms
from odradek.spark_jobs.job_runner.flags import parse_timestamp_ms
from odradek.spark_jobs.job_runner.job import Job, JobContext
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table

RECORD_COLUMNS = "topic,partition,offset,timestamp"
LATE_MS = 60_000
MOST_LATE_MAX = 20

# Magic 0 has no timestamps, and records of magic 1 and 2 may lack one: -1.
SPAN = """
    select unix_millis(max(maxTimestamp))
        - unix_millis(min(coalesce(baseTimestamp, maxTimestamp))) as spanMs
    from {batches} where maxTimestamp <> timestamp_millis(-1)
"""
# Number of records by lateness and time bucket.  Most records are in order and share a few rows.
TALLY = """
    with timed as (
        select topic, partition, offset, nullif(unix_millis(timestamp), -1) as at from {records}
    ), behind as (
        select *, greatest(0, max(at) over (
            partition by topic, partition order by offset
            rows between unbounded preceding and 1 preceding
        ) - at) as lateMs
        from timed
    )
    select topic, partition, at div {size_ms} as bucket, at is null as isUntimed,
        at > {now_ms} as isFuture, lateMs, count(*) as n,
        min(at) as first, max(at) as last, min(offset) as offset
    from behind group by topic, partition, bucket, isUntimed, isFuture, lateMs
"""
COUNTS = """
    sum(n) as records,
    coalesce(sum(n) filter (where lateMs > 0), 0) as outOfOrder,
    coalesce(sum(n) filter (where lateMs > 0), 0) / sum(n) as outOfOrderShare,
    coalesce(sum(n) filter (where lateMs > {late_ms}), 0) as late,
    coalesce(sum(n) filter (where lateMs > {late_ms}), 0) / sum(n) as lateShare,
    percentile(lateMs, 0.5, n) filter (where lateMs > 0) as p50LateMs,
    percentile(lateMs, 0.99, n) filter (where lateMs > 0) as p99LateMs,
    max(lateMs) as maxLateMs,
    coalesce(sum(n) filter (where isFuture), 0) as future,
    coalesce(sum(n) filter (where isUntimed), 0) as untimed
"""
PARTITIONS = f"""
    select *, unix_millis(max(lastTime) over (partition by topic)) - unix_millis(lastTime)
        as behindTopicMs
    from (
        select topic, partition, {COUNTS}, timestamp_millis(min(first)) as firstTime,
            timestamp_millis(max(last)) as lastTime
        from {{tally}} group by topic, partition
    )
    order by topic, partition
"""
TOPICS = f"""
    select counts.*, skewMs
    from (select topic, {COUNTS} from {{tally}} group by topic) counts
    join (
        select topic, max(behindTopicMs) as skewMs from {{partitions}} group by topic
    ) using (topic)
    order by late desc, topic
"""
LATENESS = """
    select topic, least as atLeastMs, sum(n) as records
    from (
        select topic, n, case
            when lateMs >= 86400000 then 86400000 when lateMs >= 3600000 then 3600000
            when lateMs >= 600000 then 600000 when lateMs >= 60000 then 60000
            when lateMs >= 10000 then 10000 when lateMs >= 1000 then 1000
            when lateMs >= 100 then 100 else 1 end as least
        from {tally} where lateMs > 0
    )
    group by topic, least order by topic, least
"""
OVER_TIME = """
    select topic, timestamp_millis(bucket * {size_ms}) as start, sum(n) as records,
        coalesce(sum(n) filter (where lateMs > {late_ms}), 0) as late, max(lateMs) as maxLateMs
    from {tally} where bucket is not null group by topic, bucket order by topic, start
"""
MOST_LATE = """
    select topic, partition, offset, lateMs from {tally} where lateMs > 0
    order by lateMs desc, topic, partition, offset limit {count}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--late",
        metavar="DURATION",
        type=parse_duration_ms,
        default=LATE_MS,
        help="how late a record may be, such as 500ms, 30s or 1h; default: 1m",
    )
    parser.add_argument(
        "--now",
        metavar="WHEN",
        type=parse_timestamp_ms,
        help="time after which timestamps count as future; default: start of the job",
    )
    parser.add_argument(
        "--bucket",
        metavar="DURATION",
        type=parse_duration_ms,
        help="length of the time buckets, such as 10s or 5m; default: chosen by the time span",
    )


def run(context: JobContext) -> Result:
    sql, args = context.sql, context.args
    context.report_progress("reading batch headers")
    batches = context.read(view="batches", columns="baseTimestamp,maxTimestamp")
    (span,) = sql(SPAN, batches=batches).collect()
    size_ms = args.bucket or choose_bucket_ms(span["spanMs"] or 0)
    now_ms = int(args.now) if args.now is not None else time.time_ns() // 1_000_000
    context.report_progress("reading timestamps")
    records = context.read(columns=RECORD_COLUMNS)
    tally = context.cache(sql(TALLY, records=records, size_ms=size_ms, now_ms=now_ms))
    partitions = sql(PARTITIONS, tally=tally, late_ms=args.late)
    return Result(
        [
            Table(
                "topics",
                "Topics",
                sql(TOPICS, tally=tally, partitions=partitions, late_ms=args.late),
                [Chart("Late records", ChartType.BARS, "topic", "late")],
                note="skewMs is how far the slowest partition is behind its topic.",
            ),
            Table("partitions", "Partitions", partitions),
            Table("lateness", "Lateness of records out of order", sql(LATENESS, tally=tally)),
            Table(
                "time",
                "Over time",
                sql(OVER_TIME, tally=tally, size_ms=size_ms, late_ms=args.late),
                [
                    Chart("Late records", ChartType.LINES, "start", "late", "topic"),
                    Chart("Greatest lateness", ChartType.LINES, "start", "maxLateMs", "topic"),
                ],
            ),
            Table("latest", "Latest records", sql(MOST_LATE, tally=tally, count=MOST_LATE_MAX)),
        ]
    )


JOB = Job("timestamp-skew", __doc__, add_arguments, run)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
