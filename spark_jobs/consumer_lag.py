"""Consumer lag: how far consumer groups are behind, and their commit history.

    groups   lag of each group, over all its partitions
    lag      last committed offset, log end and lag of each partition
    commits  commits of each group over time, and the number of records that they advance
    offsets  committed offsets over time, by partition

The job reads __consumer_offsets on disk, without a broker.  Commits of a transaction count if the
transaction was committed.  Deleted commits, and commits past their own expire timestamp, do not
count.  The end of a log is its high watermark in the same directories; a partition that is not in
these directories has no log end and no lag.  A negative lag means that the topic was deleted and
created again.  Compaction removes all commits but the last of each partition, and the history
begins where the log is not compacted yet.

--topics, --topics-pattern and --assign select committed partitions; --starting-timestamp and
--ending-timestamp limit the history.  With --group, only one partition of __consumer_offsets is
read.  It is an error to name a topic that neither exists nor has commits, or a group that has no
records.

Examples:
  odradek spark consumer-lag /var/lib/kafka
  odradek spark consumer-lag /var/lib/kafka --group billing --output html --to billing.html
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.job_runner.durations import choose_bucket_ms, parse_duration_ms
from odradek.spark_jobs.job_runner.flags import SELECTION_FLAGS, parse_timestamp_ms
from odradek.spark_jobs.job_runner.job import DONE, FAILED, Job, JobContext, JobFailed
from odradek.spark_jobs.job_runner.result import Chart, ChartType, Result, Table
from odradek.spark_jobs.job_runner.selection import check_id_exists, check_topics_exist

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

COLUMNS = (
    "recordType,group,topic,partition,offset,leaderEpoch,metadata,commitTimestamp,expireTimestamp,"
    "deleted,logPartition,logOffset,isTransactional,producerId"
)
#: The selection flags apply to the committed partitions, not to records of __consumer_offsets.
UNSET_SELECTION = {flag.option: None for flag in SELECTION_FLAGS}
#: With more lines than that, the chart adds some of them up, and a sum of offsets means nothing.
LINES_MAX = 8

# ``ending`` is the nearest marker after a transactional commit of the same producer; each other
# commit has a window to itself.  No `with` here: Spark does not reuse a cached table defined with
# one in a query that has its own.
COMMITS = """
    select `group`, topic, partition, `offset`, leaderEpoch, metadata, commitTimestamp,
        expireTimestamp, deleted, logOffset
    from (
        select *, last(nullif(recordType, 'OffsetCommit'), true) over (
            partition by logPartition, producerId, if(isTransactional, null, logOffset)
            order by logOffset desc
        ) as ending
        from {records} where recordType in ('OffsetCommit', 'CommitMarker', 'AbortMarker')
    )
    where recordType = 'OffsetCommit' and (not isTransactional or ending = 'CommitMarker')
"""
COMMITTED_PARTITIONS = "select distinct topic, partition from {commits}"
LAG = """
    select `group`, topic, partition, it.`offset` as currentOffset, logEnd,
        logEnd - it.`offset` as lag, it.commitTimestamp as commitTime, it.leaderEpoch, it.metadata
    from (
        select `group`, topic, partition, max_by(struct(*), logOffset) as it
        from {commits} group by `group`, topic, partition
    )
    join {partitions} using (topic, partition)
    where not it.deleted
        and (it.expireTimestamp is null or it.expireTimestamp > timestamp_millis({now_ms}))
    order by `group`, topic, partition
"""
GROUPS = """
    select `group`, count(*) as partitions, sum(lag) as lag, max(lag) as largestLag,
        count_if(lag > 0) as partitionsBehind, max(commitTime) as lastCommit
    from {lag} group by `group` order by lag desc nulls last, `group`
"""
SPAN = """
    select unix_millis(min(commitTimestamp)) as first, unix_millis(max(commitTimestamp)) as last
    from {commits}
"""
OFFSETS = """
    select timestamp_millis(bucket * {size_ms}) as start, `group`, topic, partition, `offset`,
        `offset` - lag(`offset`) over (
            partition by `group`, topic, partition order by bucket
        ) as records,
        commits, concat(`group`, ': ', topic, '-', partition) as place
    from (
        select `group`, topic, partition, unix_millis(commitTimestamp) div {size_ms} as bucket,
            max_by(`offset`, logOffset) as `offset`, count(*) as commits
        from {commits} join {partitions} using (topic, partition)
        where not deleted
            and commitTimestamp >= timestamp_millis({from_ms})
            and commitTimestamp < timestamp_millis({until_ms})
        group by `group`, topic, partition, bucket
    )
    order by `group`, topic, partition, start
"""
RATES = """
    select start, `group`, sum(commits) as commits, sum(commits) * 1000 / {size_ms}
        as commitsPerSecond, coalesce(sum(records), 0) as records
    from {offsets} group by start, `group` order by `group`, start
"""
EARLIEST_MS, LATEST_MS = 0, 253_402_300_800_000  # up to the year 10000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="ID", help="report only this group")
    parser.add_argument(
        "--bucket",
        metavar="DURATION",
        type=parse_duration_ms,
        help="length of the time buckets of the history, such as 10s or 5m; default: chosen by "
        "the time span",
    )
    parser.add_argument(
        "--as-of",
        metavar="WHEN",
        type=parse_timestamp_ms,
        help="ignore commits that have expired by this time; default: now",
    )


def run(context: JobContext) -> Result:
    _check_options(context)
    sql = context.sql
    context.report_progress("reading committed offsets")
    content = {"content": "offsets", "group": context.args.group, **UNSET_SELECTION}
    # After the offset of an open transaction there may be valid commits of other groups.
    content["isolationLevel"] = "read_uncommitted"
    records = context.read(columns=COLUMNS, includeControl="true", **content)
    commits = context.cache(sql(COMMITS, records=records))
    context.report_progress("finding the end offsets of logs")
    partitions = _committed_partitions(context, commits)
    now_ms = int(context.args.as_of or time.time() * 1000)
    lag = context.cache(sql(LAG, commits=commits, partitions=partitions, now_ms=now_ms))
    damage = context.find_damage(**content)
    if context.args.group is not None and not damage:
        check_id_exists(context, context.args.group, "group", records.where("`group` is not null"))
    bars = Chart("Lag, in records", ChartType.BARS, "group", "lag")
    return Result(
        [
            Table("groups", "Groups", sql(GROUPS, lag=lag), [bars]),
            Table("lag", "Lag of each partition", lag),
            *_history_tables(context, commits, partitions),
            *damage,
        ],
        exit_status=FAILED if damage else DONE,
    )


def _check_options(context: JobContext) -> None:
    for option in ("startingOffsets", "endingOffsets"):
        if option in context.options:
            raise JobFailed(
                f"{option}: cannot be set, since a group's last commits may be anywhere in the log"
            )


def _committed_partitions(context: JobContext, commits: DataFrame) -> DataFrame:
    """Return the selected partitions among those committed, with their end offsets."""
    from odradek.spark_jobs.scan.end_offsets import find_end_offsets
    from odradek.spark_jobs.scan.options import parse_options

    options = parse_options(context.options)
    committed = [
        TopicPartition(*row) for row in _collect_rows(context, COMMITTED_PARTITIONS, commits)
    ]
    check_topics_exist(options, committed)
    selected = frozenset(partition for partition in committed if options.selects(*partition))
    # The lag of a partition outside of these directories is unknown, which is not an error.
    ends = find_end_offsets(replace(options, assign=selected, fail_on_data_loss=False))
    return context.session.createDataFrame(
        [(*partition, ends.get(partition)) for partition in sorted(selected)],
        "topic string, partition int, logEnd bigint",
    )


def _collect_rows(context: JobContext, query: str, commits: DataFrame) -> list[Row]:
    return context.sql(query, commits=commits).collect()


def _history_tables(context: JobContext, commits: DataFrame, partitions: DataFrame) -> list[Table]:
    (span,) = _collect_rows(context, SPAN, commits)
    size_ms = context.args.bucket or choose_bucket_ms((span["last"] or 0) - (span["first"] or 0))
    offsets = context.cache(
        context.sql(
            OFFSETS,
            commits=commits,
            partitions=partitions,
            size_ms=size_ms,
            from_ms=int(context.options.get("startingTimestamp", EARLIEST_MS)),
            until_ms=int(context.options.get("endingTimestamp", LATEST_MS)),
        )
    )
    rates = context.sql(RATES, offsets=offsets, size_ms=size_ms)
    has_few_lines = offsets.select("place").distinct().count() <= LINES_MAX
    line = Chart("Committed offsets", ChartType.LINES, "start", "offset", "place")
    return [
        Table(
            "commits",
            "Commits over time",
            rates,
            [
                Chart("Commits per second", ChartType.LINES, "start", "commitsPerSecond", "group"),
                Chart("Records advanced", ChartType.LINES, "start", "records", "group"),
            ],
        ),
        Table(
            "offsets",
            "Committed offsets over time",
            offsets,
            [line] if has_few_lines else [],
            note="The last commit of each time bucket, and how many records it advances the "
            "commit of the bucket before.",
        ),
    ]


JOB = Job("consumer-lag", __doc__, add_arguments, run, reports_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
