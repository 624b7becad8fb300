"""Transaction report: which transactions are open, which took long, which were aborted.

    topics   how many transactions each topic has seen, and how much of it was aborted
    open     transactions that have not ended: who has begun them, where, and since when
    long     those, ended or not, that took longer than --longer-than
    aborted  how many transactions, records and bytes each producer has aborted in each partition
    ended    how many were committed and aborted, over time
    ids      the state of each transactional id, as its coordinator last wrote it

All but the last come from the logs of the partitions themselves: a transaction is what one producer
wrote into one partition up to its marker, and begins with the first batch that is still there.  Its
time is that of the batch, by the clock of the producer or of the broker, as the topic is set.
Below an open transaction consumers at read_committed wait.  It hangs if its coordinator knows of
nothing to be done for it in its partition, or no transactional id has its producer any more.  That
cannot be told, and is null, unless all of __transaction_state is in the directories and readable.

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
#: What the user chooses are the topics that were written to, not __transaction_state.
UNSET_SELECTION = {flag.option: None for flag in SELECTION_FLAGS}
#: Producers have a minute by default, then the coordinator aborts.
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
# Each batch is followed, among those of its producer, by the marker that ends its transaction.
# No `with` here nor above: kept tables that have one are not found again where two are joined.
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
        help="what counts as long, such as 500ms, 10s or 5m; 1m, if not given",
    )
    parser.add_argument(
        "--transactional-id", metavar="ID", help="only this one, and what its producers wrote"
    )
    parser.add_argument(
        "--bucket",
        metavar="DURATION",
        type=parse_duration_ms,
        help="how long a time each row of the table `ended` is of; as fits, if not given",
    )
    parser.add_argument(
        "--as-of",
        metavar="WHEN",
        type=parse_timestamp_ms,
        help="until when open transactions are reckoned; now, if not given",
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
    context.report_progress("reading the headers of batches")
    batches = context.read(view="batches", columns=BATCH_COLUMNS)
    transactions = sql(TRANSACTIONS, batches=batches, now_ms=now_ms)
    if args.transactional_id is not None:
        transactions = sql(TRANSACTIONS_OF_PRODUCERS, transactions=transactions, records=records)
    transactions = context.cache(transactions)
    unreadable = [
        replace(table, name="unreadable", title="Records of coordinators that cannot be read")
        for table in context.find_damage(**content)
    ]
    if args.transactional_id is not None and not unreadable:
        check_id_exists(context, args.transactional_id, "transactional id", records)
    # Of a transaction whose producer no transactional id has.
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
    """Whether all partitions of __transaction_state are there, as far as that can be told."""
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
        [Chart("Transactions that ended", ChartType.LINES, "start", "transactions", "outcome")],
    )


JOB = Job("transaction-report", __doc__, add_arguments, run)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
