"""Consumer lag and commit history: how far groups have read, and when they said so.

    groups   how far each group is behind, over all its partitions
    lag      the last commit of each partition, the end of its log, and the lag between them
    commits  how often each group commits, and how many records it gets ahead, over time
    offsets  what was committed over time, partition by partition

It is what __consumer_offsets has on disk, with no broker: commits of a transaction count if that
was committed; what was deleted, or has expired by a time of its own, is gone.  The end of a log is
its high watermark in the same directories; a partition that is not there has none, and no lag.
A lag below 0 tells that the topic was deleted and is there again.  Compaction forgets all but the
last commit, so the history begins where it has not come yet.

--topics, --topics-pattern and --assign choose by what was committed, --starting-timestamp and
--ending-timestamp bound the history.  With --group, one partition of __consumer_offsets is read.
A topic that is named and neither there nor committed for is an error, and so is a group of which
nothing is known.

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
from odradek.spark_jobs.running.durations import bucket_ms, duration_ms
from odradek.spark_jobs.running.flags import SELECTION, milliseconds
from odradek.spark_jobs.running.job import DONE, FAILED, Call, Job, JobFailed
from odradek.spark_jobs.running.result import Chart, Result, Shape, Table
from odradek.spark_jobs.running.selection import check_known, check_topics_known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

COLUMNS = (
    "recordType,group,topic,partition,offset,leaderEpoch,metadata,commitTimestamp,expireTimestamp,"
    "deleted,logPartition,logOffset,isTransactional,producerId"
)
#: The user's choice is of what was committed, and not of records in __consumer_offsets.
ALL_RECORDS = {flag.option: None for flag in SELECTION}
#: More lines than that are drawn as one, and a sum of offsets means nothing.
LINES_MAX = 8

# The nearest marker behind each commit of the same producer; others stand alone in their windows.
# No `with` here: a kept table that has one is not found again by a query that has its own.
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
PLACES = "select distinct topic, partition from {commits}"
LAG = """
    select `group`, topic, partition, it.`offset` as currentOffset, logEnd,
        logEnd - it.`offset` as lag, it.commitTimestamp as commitTime, it.leaderEpoch, it.metadata
    from (
        select `group`, topic, partition, max_by(struct(*), logOffset) as it
        from {commits} group by `group`, topic, partition
    )
    join {places} using (topic, partition)
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
        from {commits} join {places} using (topic, partition)
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
    parser.add_argument("--group", metavar="ID", help="only this one")
    parser.add_argument(
        "--bucket",
        metavar="DURATION",
        type=duration_ms,
        help="how long a time each row of the history is of, such as 10s or 5m; as fits, if not "
        "given",
    )
    parser.add_argument(
        "--as-of",
        metavar="WHEN",
        type=milliseconds,
        help="what has expired by then is gone; now, if not given",
    )


def run(call: Call) -> Result:
    _check(call)
    sql = call.sql
    call.progress("reading what was committed")
    content = {"content": "offsets", "group": call.args.group, **ALL_RECORDS}
    # Behind an open transaction there may be commits of other groups that count.
    content["isolationLevel"] = "read_uncommitted"
    records = call.read(columns=COLUMNS, includeControl="true", **content)
    commits = call.keep(sql(COMMITS, records=records))
    call.progress("looking where logs end")
    places = _places(call, commits)
    now_ms = int(call.args.as_of or time.time() * 1000)
    lag = call.keep(sql(LAG, commits=commits, places=places, now_ms=now_ms))
    damage = call.damage(**content)
    if call.args.group is not None and not damage:
        check_known(call, call.args.group, "group", records.where("`group` is not null"))
    bars = Chart("Lag, in records", Shape.BARS, "group", "lag")
    return Result(
        [
            Table("groups", "Groups", sql(GROUPS, lag=lag), [bars]),
            Table("lag", "Lag of each partition", lag),
            *_history(call, commits, places),
            *damage,
        ],
        exit_status=FAILED if damage else DONE,
    )


def _check(call: Call) -> None:
    for option in ("startingOffsets", "endingOffsets"):
        if option in call.options:
            raise JobFailed(f"{option}: a group's last commits may be anywhere in the log")


def _places(call: Call, commits: DataFrame) -> DataFrame:
    """The partitions that the user has chosen of those committed, and the ends of their logs."""
    from odradek.spark_jobs.scan.log_ends import log_ends
    from odradek.spark_jobs.scan.options import options_of

    options = options_of(call.options)
    committed = [TopicPartition(*row) for row in _rows(call, PLACES, commits)]
    check_topics_known(options, committed)
    chosen = frozenset(place for place in committed if options.wants(*place))
    # Of a partition that is not in these directories the lag is not known: that is no failure.
    ends = log_ends(replace(options, assign=chosen, fail_on_data_loss=False))
    return call.session.createDataFrame(
        [(*place, ends.get(place)) for place in sorted(chosen)],
        "topic string, partition int, logEnd bigint",
    )


def _rows(call: Call, query: str, commits: DataFrame) -> list[Row]:
    return call.sql(query, commits=commits).collect()


def _history(call: Call, commits: DataFrame, places: DataFrame) -> list[Table]:
    (span,) = _rows(call, SPAN, commits)
    size_ms = call.args.bucket or bucket_ms((span["last"] or 0) - (span["first"] or 0))
    offsets = call.keep(
        call.sql(
            OFFSETS,
            commits=commits,
            places=places,
            size_ms=size_ms,
            from_ms=int(call.options.get("startingTimestamp", EARLIEST_MS)),
            until_ms=int(call.options.get("endingTimestamp", LATEST_MS)),
        )
    )
    rates = call.sql(RATES, offsets=offsets, size_ms=size_ms)
    is_drawn = offsets.select("place").distinct().count() <= LINES_MAX
    line = Chart("Committed offsets", Shape.LINES, "start", "offset", "place")
    return [
        Table(
            "commits",
            "Commits over time",
            rates,
            [
                Chart("Commits a second", Shape.LINES, "start", "commitsPerSecond", "group"),
                Chart("Records got ahead", Shape.LINES, "start", "records", "group"),
            ],
        ),
        Table(
            "offsets",
            "Committed offsets over time",
            offsets,
            [line] if is_drawn else [],
            note="The last commit of each time, and how many records it is ahead of the last.",
        ),
    ]


JOB = Job("consumer-lag", __doc__, add_arguments, run, tells_damage=False)


def main(argv: Sequence[str] | None = None) -> int:
    return JOB.main(argv)


if __name__ == "__main__":
    sys.exit(main())
