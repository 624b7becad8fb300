"""A stream: tails the segments; Spark's checkpoint stores how far it has read.

    initialOffset    where a new query begins: startingOffsets or startingTimestamp
    latestOffset     how far the next batch goes: to the readable end, or by maxOffsetsPerTrigger
    partitions       the splits between two offsets; repeated calls give the same splits
    read             in a worker: the rows of some of the splits

A batch that began before a crash is planned again from the offsets in the checkpoint.  The records
between them no longer change, because they were below the last stable offset.  A partition that
appears while the query runs is read from offset 0 on.

Data is lost if retention has removed records that were not read yet; if a partition no longer
exists or ends before the offset already read, because it was deleted and perhaps created again; or
if a log ends before its high watermark.  With failOnDataLoss=false the stream continues with what
is left.

Owner: the driver process of one stream; workers have copies that never refresh.
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
from odradek.spark_jobs.source.batch_reader import to_input_partitions
from odradek.spark_jobs.source.row_reader import read_rows
from odradek.spark_jobs.source.source_options import SourceOptions
from odradek.spark_jobs.source.stream_offsets import (
    CheckpointOffsets,
    PartitionKey,
    PartitionOffsets,
    from_checkpoint,
    limit_end_offsets,
    to_checkpoint,
)
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.scan.plan import OffsetRange, Split
    from odradek.spark_jobs.source.partition_tracker import PartitionTracker, TrackedPartition

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of ``spark.readStream``."""

    def __init__(self, source_options: SourceOptions) -> None:
        _check_stream_options(source_options)
        self._source_options = source_options
        self._tracker: PartitionTracker | None = None
        # Set for a query with the trigger availableNow: the end offsets when it started.
        self._available_now_offsets: PartitionOffsets | None = None
        self._latest_offsets: PartitionOffsets = {}

    def initialOffset(self) -> CheckpointOffsets:
        self._check_partitions_exist()
        return to_checkpoint(
            {key: self._initial_offset(tracked) for key, tracked in self._refresh().items()}
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        count = self._source_options.max_offsets_per_trigger
        return ReadAllAvailable() if count is None else ReadMaxRows(count)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now_offsets = {
            key: tracked.readable_end_offset for key, tracked in self._refresh().items()
        }

    def latestOffset(self, start: CheckpointOffsets, limit: ReadLimit) -> CheckpointOffsets:
        start_offsets = from_checkpoint(start)
        partitions = self._refresh()
        for key in start_offsets.keys() - partitions.keys():
            self._report_data_loss(key, "no longer exists")
        for key, tracked in partitions.items():
            self._check_log_end(key, tracked)
        ends = {
            key: self._end_offset(key, tracked, start_offsets.get(key, 0))
            for key, tracked in partitions.items()
            if self._available_now_offsets is None
            or key in self._available_now_offsets
            or key in start_offsets
        }
        if isinstance(limit, ReadMaxRows):
            starts = {
                key: max(start_offsets.get(key, 0), partitions[key].log.log_start_offset)
                for key in ends
            }
            ends = limit_end_offsets(starts, ends, limit.max_rows)
        return to_checkpoint(ends)

    def reportLatestOffset(self) -> CheckpointOffsets:
        return to_checkpoint(self._latest_offsets)

    def partitions(self, start: CheckpointOffsets, end: CheckpointOffsets) -> list[InputPartition]:
        with report_missing_packages():
            from odradek.spark_jobs.scan.plan import retry_on_missing_file

            starts, ends = from_checkpoint(start), from_checkpoint(end)
            splits = retry_on_missing_file(lambda: self._plan_splits(starts, ends))
            return to_input_partitions(splits, self._source_options.scan_options.max_split_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_rows(partition.value, self._source_options)

    def commit(self, end: CheckpointOffsets) -> None:
        if self._tracker is not None:
            self._tracker.forget_before(from_checkpoint(end))

    def _check_partitions_exist(self) -> None:
        """Check the named topics at the start; one that disappears later counts as data loss."""
        with report_missing_packages():
            from odradek.spark_jobs.scan.catalog import find_partition_logs

            find_partition_logs(self._source_options.scan_options)

    def _check_log_end(self, key: PartitionKey, tracked: TrackedPartition) -> None:
        watermark = tracked.log.high_watermark
        if watermark is not None and tracked.log_end_offset < watermark:
            end = tracked.log_end_offset
            self._report_data_loss(
                key, f"ends at offset {end}, before its high watermark {watermark}"
            )

    def _refresh(self) -> dict[PartitionKey, TrackedPartition]:
        with report_missing_packages():
            from odradek.spark_jobs.source.partition_tracker import PartitionTracker

            if self._tracker is None:
                self._tracker = PartitionTracker(self._source_options.scan_options)
            partitions = self._tracker.refresh()
        self._latest_offsets = {
            key: tracked.readable_end_offset for key, tracked in partitions.items()
        }
        return partitions

    def _initial_offset(self, tracked: TrackedPartition) -> int:
        from odradek.spark_jobs.scan.plan import resolve_offset_range

        options = self._source_options.scan_options
        has_starting_position = (
            self._source_options.starting_offsets or options.starting_timestamp is not None
        )
        if not has_starting_position or self._source_options.starting_offsets == "latest":
            return tracked.readable_end_offset
        return resolve_offset_range(tracked.log, options, tracked.readable_end_offset).start

    def _end_offset(self, key: PartitionKey, tracked: TrackedPartition, start_offset: int) -> int:
        """Return the end offset of the next batch for a partition read up to ``start_offset``."""
        end = (
            tracked.readable_end_offset
            if self._available_now_offsets is None
            else self._available_now_offsets.get(key, start_offset)
        )
        if end < start_offset and self._is_truncated(key, tracked, start_offset):
            return end
        return max(start_offset, end)

    def _is_truncated(self, key: PartitionKey, tracked: TrackedPartition, offset: int) -> bool:
        """Whether the log ends before ``offset``; a lower high watermark alone is no loss."""
        if tracked.log_end_offset >= offset:
            return False
        self._report_data_loss(
            key, f"ends at offset {tracked.log_end_offset}, before offset {offset}"
        )
        return True

    def _plan_splits(
        self, start_offsets: PartitionOffsets, end_offsets: PartitionOffsets
    ) -> list[Split]:
        from odradek.spark_jobs.scan.plan import plan_splits

        splits: list[Split] = []
        partitions = self._refresh()
        for key, end in end_offsets.items():
            start = start_offsets.get(key, 0)
            if start == end:
                continue
            if key not in partitions:
                self._report_data_loss(key, "no longer exists")
                continue
            tracked = partitions[key]
            offset_range = self._available_range(key, tracked, start, end)
            splits += plan_splits(
                tracked.log, offset_range, tracked.transactions, self._source_options.scan_options
            )
        return splits

    def _available_range(
        self, key: PartitionKey, tracked: TrackedPartition, start: int, end: int
    ) -> OffsetRange:
        """Return the part of the range that still exists."""
        from odradek.spark_jobs.scan.plan import OffsetRange

        earliest = tracked.log.log_start_offset
        if end < start:  # the partition was created again, and latestOffset has reported that
            return OffsetRange(earliest, end)
        if tracked.readable_end_offset < end:
            self._is_truncated(key, tracked, end)
        if start < earliest:
            self._report_data_loss(key, f"starts at offset {earliest}, but {start} is next")
        return OffsetRange(max(start, earliest), end)

    def _report_data_loss(self, key: PartitionKey, reason: str) -> None:
        topic, partition = key
        if self._source_options.scan_options.fail_on_data_loss:
            raise ScanFailed(
                f"{topic}-{partition} {reason}: data was lost; "
                "set failOnDataLoss=false to continue without it"
            )
        _log.warning("Skipping lost data of %s-%d: the partition %s", topic, partition, reason)


def _check_stream_options(source_options: SourceOptions) -> None:
    options = source_options.scan_options
    if options.ending_offsets or options.ending_timestamp is not None:
        raise ScanFailed("endingOffsets and endingTimestamp: not supported for streams")
    if source_options.is_damage_report:
        raise ScanFailed("view=damage: not supported for streams")
    if options.view is View.BATCHES and source_options.max_offsets_per_trigger is not None:
        raise ScanFailed(
            "maxOffsetsPerTrigger: not supported with view=batches, it could split a batch"
        )
