"""Transaction report: open, long and aborted transactions.

    topics   number of transactions of each topic, and how much of the topic was aborted
    open     open transactions: producer, partition, first offset, start time
    long     transactions, ended or open, that took longer than --longer-than
    aborted  aborted transactions, records and bytes, by partition and producer
    ended    commits and aborts over time
    ids      state of each transactional id, as its coordinator last wrote it

All tables but the last come from the logs of the partitions: a transaction is what one producer
wrote into one partition up to its marker, and starts with the first batch that is still in the log.
Times are batch timestamps, set by the producer or the broker, as the topic is configured.
Consumers at read_committed wait at the first offset of an open transaction.  A transaction hangs if
its coordinator has no pending transaction for this partition, or if no transactional id has its
producer id any more.  ``hangs`` is null unless all of __transaction_state is in the directories and
readable.

Examples:
  odradek spark transaction-report /var/lib/kafka
  odradek spark transaction-report /var/lib/kafka --longer-than 5m --tables open,long
  odradek spark transaction-report /var/lib/kafka --output html --to transactions.html
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.spark_jobs.job_runner.durations import choose_bucket_ms, parse_duration_ms
from odradek.spark_jobs.job_runner.flags import SELECTION_FLAGS, parse_timestamp_ms
from odradek.spark_jobs.job_runner.job import DONE, FAILED, Job, JobContext
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table
from odradek.spark_jobs.job_runner.selection import check_id_exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE_COLUMNS = (
    "recordType,transactionalId,state,producerId,producerEpoch,timeoutMs,partitions,"
    "startTimestamp,lastUpdateTimestamp,deleted,logOffset"
)
BATCH_COLUMNS = (
    "topic,partition,baseOffset,lastOffset,count,sizeBytes,maxTimestamp,producerId,producerEpoch,"
    "isTransactional,marker"
)
#: The selection flags apply to the topics of the transactions, not to __transaction_state.
UNSET_SELECTION = {flag.option: None for flag in SELECTION_FLAGS}
#: Default transaction.timeout.ms of producers, after which the coordinator aborts.
LONG_MS = 60_000

TRANSACTIONAL_IDS = """
    select transactionalId, it.state, it.producerId, it.producerEpoch,
        it.startTimestamp as startTime, it.lastUpdateTimestamp as lastUpdate,
        if(it.state in ('Ongoing', 'PrepareCommit', 'PrepareAbort'),
            {now_ms} - unix_millis(it.startTimestamp), null) as openMs,
        it.timeoutMs,
        transform(it.partitions, each -> concat(each.topic, '-', each.partition)) as partitions
    from (
        select transactionalId, max_by(struct(*), logOffset) as it
        from {records} where recordType = 'TransactionLog' group by transactionalId
    )
    where not it.deleted order by openMs desc nulls last, transactionalId
"""
# ``ending`` is the marker that ends the transaction: the next one of the same producer.
# No `with` here nor above: Spark does not reuse cached tables that have one where two are joined.
TRANSACTIONS = """
    select topic, partition, producerId, max(producerEpoch) as producerEpoch,
        coalesce(ending.marker, 'open') as outcome,
        min(baseOffset) as firstOffset, max(lastOffset) as lastOffset,
        sum(count) as records, sum(sizeBytes) as diskBytes,
        min(maxTimestamp) as startTime, ending.time as endTime,
        coalesce(unix_millis(ending.time), {now_ms}) - unix_millis(min(maxTimestamp)) as durationMs
    from (
        select *, last(
            if(marker is null, null, struct(marker, baseOffset as at, maxTimestamp as time)), true
        ) over (partition by topic, partition, producerId order by baseOffset desc) as ending
        from {batches} where isTransactional
    )
    where marker is null
    group by topic, partition, producerId, ending
"""
TRANSACTIONS_OF_PRODUCERS = """
    select * from {transactions} left semi join {records} using (producerId)
"""
TOPICS = """
    select topic, count(*) as transactions, count_if(outcome = 'commit') as committed,
        count_if(outcome = 'abort') as aborted, count_if(outcome = 'open') as open,
        coalesce(sum(records) filter (where outcome = 'abort'), 0) as abortedRecords,
        coalesce(sum(diskBytes) filter (where outcome = 'abort'), 0) as abortedBytes,
        count_if(outcome = 'abort') / count(*) as abortedShare,
        max(durationMs) as longestMs
    from {transactions} group by topic order by transactions desc, topic
"""
OPEN = """
    select topic, partition, producerId, transactions.producerEpoch, transactionalId, state,
        coalesce(not (state in ('Ongoing', 'PrepareCommit', 'PrepareAbort')
            and array_contains(partitions, concat(topic, '-', partition))), {unknown}) as hangs,
        firstOffset, transactions.startTime as since, durationMs as openMs, records, diskBytes
    from {transactions} as transactions left join {ids} using (producerId)
    where outcome = 'open' order by openMs desc, topic, partition, producerId
"""
LONG = """
    select topic, partition, producerId, transactionalId, outcome, durationMs,
        transactions.startTime, endTime, firstOffset, lastOffset, records, diskBytes
    from {transactions} as transactions left join {ids} using (producerId)
    where durationMs > {long_ms} order by durationMs desc, topic, partition, firstOffset
"""
ABORTED = """
    select topic, partition, producerId, transactionalId, count(*) as aborted,
        sum(records) as records, sum(diskBytes) as diskBytes, max(endTime) as lastAbort,
        concat(topic, '-', partition, ' by ', coalesce(transactionalId, string(producerId)))
            as place
    from {transactions} left join {ids} using (producerId)
    where outcome = 'abort' group by topic, partition, producerId, transactionalId
    order by diskBytes desc, topic, partition, producerId
"""
SPAN = """
    select unix_millis(min(endTime)) as first, unix_millis(max(endTime)) as last
    from {transactions}
"""
ENDED = """
    select timestamp_millis(unix_millis(endTime) div {size_ms} * {size_ms}) as start, outcome,
        count(*) as transactions, sum(records) as records, sum(diskBytes) as diskBytes
    from {transactions} where endTime is not null group by start, outcome order by start, outcome
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=parse_duration_ms,
        default=LONG_MS,
        help="duration of a long transaction, such as 500ms, 10s or 5m; default: 1m",
    )
    parser.add_argument(
        "--transactional-id",
        metavar="ID",
        help="report only this transactional id, and what its producers wrote",
    )
    parser.add_argument(
        "--bucket",
        metavar="DURATION",
        type=parse_duration_ms,
        help="length of the time buckets of the table `ended`; default: chosen by the time span",
    )
    parser.add_argument(
        "--as-of",
        metavar="WHEN",
        type=parse_timestamp_ms,
        help="end time for the duration of open transactions; default: now",
    )


def run(context: JobContext) -> Result:
    sql, args = context.sql, context.args
    now_ms = int(args.as_of or time.time() * 1000)
    content = {
        "content": "transactions",
        "transactionalId": args.transactional_id,
        **UNSET_SELECTION,
    }
    context.report_progress("reading the states of transactional ids")
    records = context.read(columns=STATE_COLUMNS, **content)
    ids = context.cache(sql(TRANSACTIONAL_IDS, records=records, now_ms=now_ms))
    context.report_progress("reading batch headers")
    batches = context.read(view="batches", columns=BATCH_COLUMNS)
    transactions = sql(TRANSACTIONS, batches=batches, now_ms=now_ms)
    if args.transactional_id is not None:
        transactions = sql(TRANSACTIONS_OF_PRODUCERS, transactions=transactions, records=records)
    transactions = context.cache(transactions)
    unreadable = [
        replace(table, name="unreadable", title="Unreadable records of coordinators")
        for table in context.find_damage(**content)
    ]
    if args.transactional_id is not None and not unreadable:
        check_id_exists(context, args.transactional_id, "transactional id", records)
    # The column ``hangs`` of a transaction whose producer id belongs to no transactional id.
    hangs_default = "true" if _has_all_state_partitions(context) and not unreadable else "null"
    return Result(
        [
            Table("topics", "Topics", sql(TOPICS, transactions=transactions)),
            Table(
                "open",
                "Open transactions",
                sql(OPEN, transactions=transactions, ids=ids, unknown=hangs_default),
            ),
            Table(
                "long",
                "Long transactions",
                sql(LONG, transactions=transactions, ids=ids, long_ms=args.longer_than),
            ),
            Table(
                "aborted",
                "Aborted transactions",
                sql(ABORTED, transactions=transactions, ids=ids),
                [Chart("Aborted, in bytes on disk", ChartType.BARS, "place", "diskBytes")],
            ),
            _ended_table(context, transactions),
            Table("ids", "Transactional ids", ids),
            *unreadable,
        ],
        exit_status=FAILED if unreadable else DONE,
    )


def _has_all_state_partitions(context: JobContext) -> bool:
    """Return whether the directories have all partitions of __transaction_state.

    See coordinator_partition.py for the limits of this check.
    """
    from odradek.spark_jobs.internal_topics.coordinator_partition import is_complete
    from odradek.spark_jobs.scan.catalog import find_partition_logs
    from odradek.spark_jobs.scan.options import parse_options

    options = {
        name: value for name, value in context.options.items() if name not in UNSET_SELECTION
    }
    logs = find_partition_logs(parse_options({**options, "content": "transactions"}))
    return is_complete([log.partition for log in logs])


def _ended_table(context: JobContext, transactions: DataFrame) -> Table:
    (span,) = context.sql(SPAN, transactions=transactions).collect()
    size_ms = context.args.bucket or choose_bucket_ms((span["last"] or 0) - (span["first"] or 0))
    return Table(
        "ended",
        "Ended over time",
        context.sql(ENDED, transactions=transactions, size_ms=size_ms),
        [Chart("Ended transactions", ChartType.LINES, "start", "transactions", "outcome")],
    )


JOB = Job("transaction-report", __doc__, add_arguments, run)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
