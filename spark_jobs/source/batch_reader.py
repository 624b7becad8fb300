"""A table: distributes the splits of a scan among Spark's tasks.

The plan has already excluded everything that the options do not select.  A task costs some
milliseconds, so small splits share one, but not so many that a few tasks get all the work.

Owner: none; Spark pickles it from process to process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source.row_reader import read_rows
from odradek.spark_jobs.source.source_options import SourceOptions
from odradek.spark_jobs.source.worker_packages import report_missing_packages

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.scan.plan import Split

#: Splits share tasks only if a scan still has about this many; an estimate, for tens of cores.
TASKS_MIN = 64
TASK_BYTES_MIN = 4 * 1024 * 1024
#: The cost of opening a file, as the bytes that could be read in that time; an estimate too.
OPEN_COST_BYTES = 256 * 1024


class BatchReader(DataSourceReader):
    """The reader of ``spark.read``."""

    def __init__(self, source_options: SourceOptions) -> None:
        if source_options.max_offsets_per_trigger is not None:
            raise ScanFailed("maxOffsetsPerTrigger: only supported for streams")
        if source_options.starting_offsets == "latest":
            raise ScanFailed("startingOffsets=latest: only supported for streams")
        self._source_options = source_options

    def partitions(self) -> list[InputPartition]:
        with report_missing_packages():
            from odradek.spark_jobs.scan.plan import plan

            return to_input_partitions(
                plan(self._source_options.scan_options),
                self._source_options.scan_options.max_split_bytes,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there are no partitions, Spark creates one without a value.
        return read_rows(partition.value or (), self._source_options)


def to_input_partitions(splits: list[Split], max_split_bytes: int) -> list[InputPartition]:
    """Group splits into tasks; a task reads its splits one after the other, in plan order."""
    total_bytes = sum(split.size_bytes for split in splits)
    task_bytes_max = min(max_split_bytes, max(TASK_BYTES_MIN, total_bytes // TASKS_MIN))
    tasks: list[list[Split]] = []
    task_bytes = 0
    for split in splits:
        cost_bytes = split.size_bytes + OPEN_COST_BYTES
        if not tasks or task_bytes + cost_bytes > task_bytes_max:
            tasks.append([])
            task_bytes = 0
        tasks[-1].append(split)
        task_bytes += cost_bytes
    return [InputPartition(tuple(task)) for task in tasks]
