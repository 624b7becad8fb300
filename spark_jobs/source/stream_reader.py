"""A stream: the segments are tailed, and Spark's checkpoint remembers how far.

    initialOffset    where a new query begins: startingOffsets or startingTimestamp
    latestOffset     how far the next batch goes: what can be read now, or maxOffsetsPerTrigger
    partitions       the splits between two offsets, the same ones whenever they are asked for
    read             in a worker: the rows of some of them

A batch that was begun before a crash is planned again from the offsets in the checkpoint.  What
lies between them does not change any more: it was below the last stable offset.  A partition that
appears while the query runs is read from offset 0 on.

Data is lost if retention has removed what was to come; if a partition is gone or shorter than what
has been read of it, since it was deleted, and perhaps created again; and if a log ends before its
high watermark.  With failOnDataLoss=false the stream goes on with what there is.

Owner: the driver's process of one stream; workers have copies that have never looked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.options import View
from odradek.spark_jobs.source.batch_reader import tasks_of
from odradek.spark_jobs.source.request import Request
from odradek.spark_jobs.source.rows import rows_of
from odradek.spark_jobs.source.stream_offsets import (
    Key,
    Offsets,
    Written,
    from_checkpoint,
    limited,
    to_checkpoint,
)
from odradek.spark_jobs.source.workers import needing_wheels

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.scan.plan import OffsetRange, Split
    from odradek.spark_jobs.source.tails import Reach, Tails

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of ``spark.readStream``."""

    def __init__(self, request: Request) -> None:
        _check_makes_sense(request)
        self._request = request
        self._tails: Tails | None = None
        self._target: Offsets | None = None  # of a query that ends with what there is
        self._latest: Offsets = {}

    def initialOffset(self) -> Written:
        self._check_named()
        return to_checkpoint({key: self._first_offset(each) for key, each in self._look().items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        count = self._request.max_offsets_per_trigger
        return ReadAllAvailable() if count is None else ReadMaxRows(count)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {key: reach.end_offset for key, reach in self._look().items()}

    def latestOffset(self, start: Written, limit: ReadLimit) -> Written:
        begun = from_checkpoint(start)
        reaches = self._look()
        for key in begun.keys() - reaches.keys():
            self._tell_of_loss(key, "is gone")
        for key, reach in reaches.items():
            self._check_is_whole(key, reach)
        ends = {
            key: self._end(key, reach, begun.get(key, 0))
            for key, reach in reaches.items()
            if self._target is None or key in self._target or key in begun
        }
        if isinstance(limit, ReadMaxRows):
            starts = {
                key: max(begun.get(key, 0), reaches[key].log.log_start_offset) for key in ends
            }
            ends = limited(starts, ends, limit.max_rows)
        return to_checkpoint(ends)

    def reportLatestOffset(self) -> Written:
        return to_checkpoint(self._latest)

    def partitions(self, start: Written, end: Written) -> list[InputPartition]:
        with needing_wheels():
            from odradek.spark_jobs.scan.plan import undisturbed

            starts, ends = from_checkpoint(start), from_checkpoint(end)
            splits = undisturbed(lambda: self._splits(starts, ends))
            return tasks_of(splits, self._request.options.max_split_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition.value, self._request)

    def commit(self, end: Written) -> None:
        if self._tails is not None:
            self._tails.forget_before(from_checkpoint(end))

    def _check_named(self) -> None:
        """Later, a topic that goes is data that is lost."""
        with needing_wheels():
            from odradek.spark_jobs.scan.catalog import partition_logs

            partition_logs(self._request.options)

    def _check_is_whole(self, key: Key, reach: Reach) -> None:
        watermark = reach.log.high_watermark
        if watermark is not None and reach.log_end_offset < watermark:
            end = reach.log_end_offset
            self._tell_of_loss(key, f"ends at offset {end}, before its high watermark {watermark}")

    def _look(self) -> dict[Key, Reach]:
        with needing_wheels():
            from odradek.spark_jobs.source.tails import Tails

            if self._tails is None:
                self._tails = Tails(self._request.options)
            reaches = self._tails.look()
        self._latest = {key: reach.end_offset for key, reach in reaches.items()}
        return reaches

    def _first_offset(self, reach: Reach) -> int:
        from odradek.spark_jobs.scan.plan import wanted_range

        options = self._request.options
        is_told = self._request.starting_offsets or options.starting_timestamp is not None
        if not is_told or self._request.starting_offsets == "latest":
            return reach.end_offset
        return wanted_range(reach.log, options, reach.end_offset).start

    def _end(self, key: Key, reach: Reach, begun: int) -> int:
        """How far a partition goes that has been read up to ``begun``."""
        end = reach.end_offset if self._target is None else self._target.get(key, begun)
        if end < begun and self._is_shorter(key, reach, begun):
            return end
        return max(begun, end)

    def _is_shorter(self, key: Key, reach: Reach, offset: int) -> bool:
        """Whether the log has lost its end; a high watermark may only have been forgotten."""
        if reach.log_end_offset >= offset:
            return False
        self._tell_of_loss(key, f"ends at offset {reach.log_end_offset}, before {offset}")
        return True

    def _splits(self, starts: Offsets, ends: Offsets) -> list[Split]:
        from odradek.spark_jobs.scan.plan import splits_between

        splits: list[Split] = []
        reaches = self._look()
        for key, end in ends.items():
            start = starts.get(key, 0)
            if start == end:
                continue
            if key not in reaches:
                self._tell_of_loss(key, "is gone")
                continue
            reach = reaches[key]
            wanted = self._wanted(key, reach, start, end)
            splits += splits_between(reach.log, wanted, reach.known, self._request.options)
        return splits

    def _wanted(self, key: Key, reach: Reach, start: int, end: int) -> OffsetRange:
        """What there is of what was to come."""
        from odradek.spark_jobs.scan.plan import OffsetRange

        earliest = reach.log.log_start_offset
        if end < start:  # it was created again, and that has been told
            return OffsetRange(earliest, end)
        if reach.end_offset < end:
            self._is_shorter(key, reach, end)
        if start < earliest:
            self._tell_of_loss(key, f"begins at offset {earliest}, and {start} was to come")
        return OffsetRange(max(start, earliest), end)

    def _tell_of_loss(self, key: Key, what: str) -> None:
        topic, partition = key
        if self._request.options.fail_on_data_loss:
            raise ScanFailed(
                f"{topic}-{partition} {what}: data was lost; failOnDataLoss=false goes on without"
            )
        _log.warning("%s-%d %s: the stream goes on without what was lost", topic, partition, what)


def _check_makes_sense(request: Request) -> None:
    options = request.options
    if options.ending_offsets or options.ending_timestamp is not None:
        raise ScanFailed("endingOffsets and endingTimestamp: a stream has no end")
    if request.is_damage_report:
        raise ScanFailed("view=damage: only of a table, not of a stream")
    if options.view is View.BATCHES and request.max_offsets_per_trigger is not None:
        raise ScanFailed("maxOffsetsPerTrigger: with view=batches, a batch would be cut in two")
