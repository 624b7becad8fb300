"""Topic statistics: sizes, rates, batches, compression and key skew.

    topics      records, batches, bytes on disk, offsets and times of each topic
    partitions  the same of each partition, and its share of the topic's records
    batches     batch fill: records and bytes per batch, and batches with a single record
    codecs      compression codecs
    rates       records and bytes per second, over time
    sizes       percentiles of the sizes of keys and values
    keys        number of keys, and how unevenly records are distributed over them

All tables but the last two come from batch headers: they count stored records, including those of
aborted transactions.  A batch counts at its largest timestamp; a batch without a timestamp is in no
rate.  A compressed batch of the formats before Kafka 0.11 does not contain its record count
(uncountedBatches).  The last two tables read every record that a consumer would see, which takes
most of the time: --headers-only omits them.

Examples:
  odradek spark topic-stats /var/lib/kafka --output html --to stats.html
  odradek spark topic-stats /var/lib/kafka --topics orders --headers-only
  odradek spark topic-stats s3://bucket/logs --bucket 5m --tables rates --output csv --to rates.csv
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.spark_jobs.job_runner.durations import choose_bucket_ms, parse_duration_ms
from odradek.spark_jobs.job_runner.job import Job, JobContext
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_COLUMNS = (
    "topic,partition,sizeBytes,baseOffset,lastOffset,count,codec,timestampType,baseTimestamp,"
    "maxTimestamp,isControl"
)
RECORD_COLUMNS = "topic,key,valueSize"

# With LogAppendTime, baseTimestamp still is the producer's.  -1 means no timestamp.
TIMED_BATCHES = """
    select * except (timestampType, baseTimestamp, maxTimestamp),
        nullif(maxTimestamp, timestamp_millis(-1)) as maxTimestamp,
        nullif(if(timestampType = 1, maxTimestamp, baseTimestamp), timestamp_millis(-1))
            as baseTimestamp
    from {batches}
"""
PARTITIONS = """
    select topic, partition,
        coalesce(sum(count) filter (where not isControl), 0) as records,
        count_if(not isControl) as batches,
        count_if(isControl) as markers,
        count_if(count is null) as uncountedBatches,
        sum(sizeBytes) as diskBytes,
        min(coalesce(baseOffset, lastOffset)) as firstOffset,
        max(lastOffset) as lastOffset,
        min(coalesce(baseTimestamp, maxTimestamp)) as firstTime,
        max(maxTimestamp) as lastTime
    from {batches} group by topic, partition
"""
SHARES = """
    select *, records / nullif(sum(records) over (partition by topic), 0) as recordsShare
    from {partitions} order by topic, partition
"""
TOPICS = """
    select topic, count(*) as partitions, sum(records) as records, sum(batches) as batches,
        sum(markers) as markers, sum(uncountedBatches) as uncountedBatches,
        sum(diskBytes) as diskBytes, sum(diskBytes) / nullif(sum(records), 0) as diskBytesPerRecord,
        min(firstTime) as firstTime, max(lastTime) as lastTime
    from {partitions} group by topic order by diskBytes desc, topic
"""
BATCH_FILL = """
    select topic, count(*) as batches, avg(count) as recordsPerBatch,
        percentile(count, 0.5) as p50Records, percentile(count, 0.95) as p95Records,
        max(count) as maxRecords, count_if(count = 1) / count(*) as singleRecordShare,
        avg(sizeBytes) as batchBytes, percentile(sizeBytes, 0.5) as p50Bytes,
        percentile(sizeBytes, 0.95) as p95Bytes, max(sizeBytes) as maxBytes
    from {batches} where not isControl group by topic order by topic
"""
CODECS = """
    select topic, codec, batches, records, diskBytes,
        diskBytes / sum(diskBytes) over (partition by topic) as diskBytesShare
    from (
        select topic, codec, count(*) as batches, sum(count) as records,
            sum(sizeBytes) as diskBytes
        from {batches} where not isControl group by topic, codec
    )
    order by topic, diskBytes desc, codec
"""
SPAN = """
    select unix_millis(max(lastTime)) - unix_millis(min(firstTime)) as spanMs from {partitions}
"""
# Each topic has a row for every bucket of its time, also for those without records.
RATES = """
    with counted as (
        select topic, unix_millis(maxTimestamp) div {size_ms} as bucket,
            sum(count) as records, sum(sizeBytes) as bytes
        from {batches} where not isControl and maxTimestamp is not null
        group by topic, bucket
    ), every as (
        select topic, explode(sequence(min(bucket), max(bucket))) as bucket
        from counted group by topic
    )
    select topic, timestamp_millis(bucket * {size_ms}) as start,
        coalesce(records, 0) as records, coalesce(bytes, 0) as diskBytes,
        coalesce(records, 0) * 1000 / {size_ms} as recordsPerSecond,
        coalesce(bytes, 0) * 1000 / {size_ms} as perSecondBytes
    from every left join counted using (topic, bucket)
    order by topic, start
"""
# One pass over the records for both tables: counts by size of the value, and by key.  A 64-bit hash
# replaces the key, since numbers are counted much faster; a collision would not change a statistic
# noticeably.
TALLY = """
    select topic, valueSize, keySize, keyHash, grouping(keyHash) = 1 as isOfValues, count(*) as n
    from (
        select topic, valueSize, length(key) as keySize,
            if(key is null, null, xxhash64(key)) as keyHash
        from {records}
    )
    group by grouping sets ((topic, valueSize), (topic, keySize, keyHash))
"""
SIZES = """
    select topic, field, coalesce(sum(n) filter (where size is not null), 0) as records,
        coalesce(sum(n) filter (where size is null), 0) as nulls,
        sum(n * size) as bytes, sum(n * size) / sum(n) filter (where size is not null) as meanBytes,
        min(size) as minBytes, percentile(size, 0.5, n) as p50Bytes,
        percentile(size, 0.9, n) as p90Bytes, percentile(size, 0.99, n) as p99Bytes,
        max(size) as maxBytes
    from (
        select topic, n, if(isOfValues, 'value', 'key') as field,
            if(isOfValues, valueSize, keySize) as size
        from {tally}
    )
    group by topic, field order by topic, field
"""
# Number of keys by number of records per key: few rows, even with many keys.
KEYS = """
    with heights as (
        select topic, keyHash is null as isKeyless, n, count(*) as keys
        from {tally} where not isOfValues group by topic, isKeyless, n
    ), totals as (
        select topic, sum(n * keys) as records,
            coalesce(sum(n) filter (where isKeyless), 0) as keyless,
            coalesce(sum(keys) filter (where not isKeyless), 0) as keys,
            max(n) filter (where not isKeyless) as topKeyRecords
        from heights group by topic
    ), hottest as (
        select topic, n, keys, coalesce(sum(keys) over (
            partition by topic order by n desc rows between unbounded preceding and 1 preceding
        ), 0) as hotter
        from heights where not isKeyless
    )
    select topic, first(t.records) as records, first(t.keyless) as keyless, first(t.keys) as keys,
        (first(t.records) - first(t.keyless)) / nullif(first(t.keys), 0) as recordsPerKey,
        first(topKeyRecords) as topKeyRecords,
        first(topKeyRecords) / first(t.records) as topKeyShare,
        sum(n * greatest(0, least(hottest.keys, ceil(t.keys / 100) - hotter))) / first(t.records)
            as topPercentOfKeysShare
    from totals t left join hottest using (topic)
    group by topic order by topic
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--headers-only",
        action="store_true",
        help="read batch headers only, which is much faster: omits the tables sizes and keys",
    )
    parser.add_argument(
        "--bucket",
        metavar="DURATION",
        type=parse_duration_ms,
        help="length of the time buckets, such as 10s, 5m or 1h; default: chosen by the time span",
    )


def run(context: JobContext) -> Result:
    sql = context.sql
    context.report_progress("reading batch headers")
    batches = context.cache(
        sql(TIMED_BATCHES, batches=context.read(view="batches", columns=BATCH_COLUMNS))
    )
    partitions = context.cache(sql(PARTITIONS, batches=batches))
    tables = [
        Table(
            "topics",
            "Topics",
            sql(TOPICS, partitions=partitions),
            [Chart("Bytes on disk", ChartType.BARS, "topic", "diskBytes")],
        ),
        Table("partitions", "Partitions", sql(SHARES, partitions=partitions)),
        Table("batches", "Batch fill", sql(BATCH_FILL, batches=batches)),
        Table("codecs", "Compression", sql(CODECS, batches=batches)),
        _rates_table(context, batches, partitions),
    ]
    if not context.args.headers_only:
        context.report_progress("reading records")
        tally = context.cache(sql(TALLY, records=context.read(columns=RECORD_COLUMNS)))
        tables += [
            Table("sizes", "Sizes of keys and values", sql(SIZES, tally=tally)),
            Table(
                "keys",
                "Distribution of records over keys",
                sql(KEYS, tally=tally),
                note="topPercentOfKeysShare is the share of records whose key is one of the "
                "hottest 1 % of keys: about 1 % if all keys are equally frequent.",
            ),
        ]
    return Result(tables)


def _rates_table(context: JobContext, batches: DataFrame, partitions: DataFrame) -> Table:
    (span,) = context.sql(SPAN, partitions=partitions).collect()
    size_ms = context.args.bucket or choose_bucket_ms(span["spanMs"] or 0)
    return Table(
        "rates",
        "Rates over time",
        context.sql(RATES, batches=batches, size_ms=size_ms),
        [
            Chart("Records per second", ChartType.LINES, "start", "recordsPerSecond", "topic"),
            Chart("Bytes per second, on disk", ChartType.LINES, "start", "perSecondBytes", "topic"),
        ],
    )


JOB = Job("topic-stats", __doc__, add_arguments, run)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
