"""Compaction report: what the log cleaner would remove, and how much space that would save.

    overall     totals in one row
    topics      by topic
    partitions  by partition

    superseded  records that a later record with the same key in the same partition replaces
    keyless     records without a key, which compaction removes as well
    aborted     records of aborted transactions
    tombstones  records without a value that are the last of their key: the cleaner keeps them for
                delete.retention.ms after the first compaction that reads them, then removes them

Records are counted as the cleaners of Kafka and Odradek count them: up to the last stable offset,
and a key in an aborted transaction replaces nothing.  Neither cleaner touches the active segment:
--without-active-segment ignores it, both as removable and as replacing earlier records.  Bytes are
those of keys and values before compression; savedDiskBytes is an estimate by their share of the
disk bytes.  The isolation level is always read_committed.

The report ignores cleanup.policy: select compacted topics with --topics.

Examples:
  odradek spark compaction-report /var/lib/kafka --topics customers --without-active-segment
  odradek spark compaction-report /var/lib/kafka --output html --to compaction.html
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.spark_jobs.job_runner.job import Job, JobContext
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from odradek.spark_jobs.scan.options import ScanOptions
    from odradek.spark_jobs.scan.plan import Split

BATCH_COLUMNS = "topic,partition,sizeBytes,baseOffset,count,producerId,isTransactional,isControl"
RECORD_COLUMNS = "topic,partition,key,offset,valueSize"
#: Estimated bytes of a record besides key and value: varints of lengths, offset, time and headers.
RECORD_OVERHEAD_BYTES = 8

DISK_BYTES = """
    select topic, partition, sum(sizeBytes) as diskBytes
    from {batches} group by topic, partition
"""
ABORTED = """
    select batch.topic, batch.partition, sum(batch.count) as aborted,
        sum(batch.sizeBytes) as abortedDiskBytes
    from {batches} batch join {transactions} transaction
        on batch.topic = transaction.topic and batch.partition = transaction.partition
        and batch.producerId = transaction.producerId
        and batch.baseOffset between transaction.firstOffset and transaction.lastOffset
    where batch.isTransactional and not batch.isControl
    group by batch.topic, batch.partition
"""
KEY_TOTALS = """
    select topic, partition, key, count(*) as records, sum(size) as bytes,
        max(struct(offset, size, isTombstone)) as last
    from (
        select topic, partition, key, offset, valueSize is null as isTombstone,
            cast(coalesce(length(key), 0) + coalesce(valueSize, 0) as bigint) as size
        from {records}
    )
    group by topic, partition, key
"""
VISIBLE_RECORDS = """
    select topic, partition, sum(records) as records, sum(bytes) as bytes,
        sum(if(key is null, 0, records - 1)) as superseded,
        sum(if(key is null, 0, bytes - last.size)) as supersededBytes,
        sum(if(key is null, records, 0)) as keyless,
        sum(if(key is null, bytes, 0)) as keylessBytes,
        count_if(key is not null and last.isTombstone) as tombstones,
        sum(if(key is not null and last.isTombstone, last.size, 0)) as tombstoneBytes
    from {keys} group by topic, partition
"""
PARTITIONS = """
    select topic, partition,
        coalesce(records, 0) + coalesce(aborted, 0) as records,
        coalesce(superseded, 0) as superseded, coalesce(keyless, 0) as keyless,
        coalesce(aborted, 0) as aborted, coalesce(tombstones, 0) as tombstones,
        coalesce(bytes, 0) as bytes, coalesce(supersededBytes, 0) as supersededBytes,
        coalesce(keylessBytes, 0) as keylessBytes, coalesce(tombstoneBytes, 0) as tombstoneBytes,
        diskBytes,
        cast(coalesce(abortedDiskBytes, 0) + coalesce(
            (diskBytes - coalesce(abortedDiskBytes, 0))
            * (supersededBytes + keylessBytes + {overhead} * (superseded + keyless))
            / (bytes + {overhead} * records), 0) as bigint) as savedDiskBytes
    from {stored} left join {visible} using (topic, partition)
        left join {aborted} using (topic, partition)
"""
SUMS = """
    sum(records) as records, sum(superseded) as superseded, sum(keyless) as keyless,
    sum(aborted) as aborted, sum(tombstones) as tombstones, sum(bytes) as bytes,
    sum(supersededBytes) as supersededBytes, sum(keylessBytes) as keylessBytes,
    sum(tombstoneBytes) as tombstoneBytes, sum(diskBytes) as diskBytes,
    sum(savedDiskBytes) as savedDiskBytes, sum(savedDiskBytes) / sum(diskBytes) as savedShare
"""
OVERALL = f"select {SUMS} from {{partitions}}"
TOPICS = (
    f"select topic, {SUMS} from {{partitions}} group by topic order by savedDiskBytes desc, topic"
)
PARTITIONS_WITH_SHARE = """
    select *, savedDiskBytes / diskBytes as savedShare from {partitions} order by topic, partition
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--without-active-segment",
        action="store_true",
        help="ignore the last segment of each partition, as the cleaner does",
    )


def run(context: JobContext) -> Result:
    sql = context.sql
    splits, ends = _cleanable_splits(context)
    bounds = {
        "endingOffsets": json.dumps(ends),
        "endingTimestamp": None,
        "isolationLevel": "read_committed",
    }
    context.report_progress("reading batch headers")
    batches = context.cache(context.read(view="batches", columns=BATCH_COLUMNS, **bounds))
    transactions = _aborted_transactions(context, splits)
    context.report_progress("reading keys")
    keys = sql(KEY_TOTALS, records=context.read(columns=RECORD_COLUMNS, **bounds))
    partitions = context.cache(
        sql(
            PARTITIONS,
            stored=sql(DISK_BYTES, batches=batches),
            visible=sql(VISIBLE_RECORDS, keys=keys),
            aborted=sql(ABORTED, batches=batches, transactions=transactions),
            overhead=RECORD_OVERHEAD_BYTES,
        )
    )
    saved = Chart("Bytes on disk that would be saved", ChartType.BARS, "topic", "savedDiskBytes")
    return Result(
        [
            Table("overall", "Overall", sql(OVERALL, partitions=partitions)),
            Table("topics", "Topics", sql(TOPICS, partitions=partitions), [saved]),
            Table("partitions", "Partitions", sql(PARTITIONS_WITH_SHARE, partitions=partitions)),
        ]
    )


def _cleanable_splits(context: JobContext) -> tuple[list[Split], dict[str, dict[str, int]]]:
    """Return the splits to read, and the offset at which the cleaner would stop, by partition."""
    from odradek.spark_jobs.scan.options import parse_options
    from odradek.spark_jobs.scan.plan import plan

    options = parse_options(
        {**context.options, "columns": "offset", "isolationLevel": "read_committed"}
    )
    splits = plan(options)
    stops = _active_segment_base_offsets(options) if context.args.without_active_segment else {}
    ends: dict[str, dict[str, int]] = defaultdict(dict)
    for split in splits:
        stop = stops.get((split.topic, split.partition), split.end_offset)
        ends[split.topic][str(split.partition)] = min(stop, split.end_offset)
    return splits, ends


def _active_segment_base_offsets(options: ScanOptions) -> dict[tuple[str, int], int]:
    """Return the base offset of the last segment of each partition."""
    from odradek.spark_jobs.scan.catalog import find_partition_logs

    return {
        (log.topic, log.partition): log.segments[-1].base_offset
        for log in find_partition_logs(options)
        if log.segments
    }


def _aborted_transactions(context: JobContext, splits: Sequence[Split]) -> DataFrame:
    aborted = {
        (split.topic, split.partition, txn.producer_id, txn.first_offset, txn.last_offset)
        for split in splits
        for txn in split.aborted
    }
    return context.session.createDataFrame(
        sorted(aborted),
        "topic string, partition int, producerId long, firstOffset long, lastOffset long",
    )


JOB = Job("compaction-report", __doc__, add_arguments, run)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
