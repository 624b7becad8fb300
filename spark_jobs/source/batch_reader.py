"""A table: the splits of a scan, shared out among Spark's tasks.

What is not wanted has been left out by the plan, before anything is read.  A task costs some
milliseconds, so small splits share one, but not so many that a few tasks have all the work.

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

#: So many tasks a scan should have before splits share one; a guess, for tens of cores.
TASKS_MIN = 64
TASK_BYTES_MIN = 4 * 1024 * 1024
#: What opening a file costs, in bytes that could be read meanwhile; a guess, too.
OPEN_COST_BYTES = 256 * 1024


class BatchReader(DataSourceReader):
    """Of ``spark.read``."""

    def __init__(self, source_options: SourceOptions) -> None:
        if source_options.max_offsets_per_trigger is not None:
            raise ScanFailed("maxOffsetsPerTrigger: only a stream has triggers")
        if source_options.starting_offsets == "latest":
            raise ScanFailed("startingOffsets: latest makes sense for a stream only")
        self._source_options = source_options

    def partitions(self) -> list[InputPartition]:
        with report_missing_packages():
            from odradek.spark_jobs.scan.plan import plan

            return to_input_partitions(
                plan(self._source_options.scan_options),
                self._source_options.scan_options.max_split_bytes,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition where there is none.
        return read_rows(partition.value or (), self._source_options)


def to_input_partitions(splits: list[Split], max_split_bytes: int) -> list[InputPartition]:
    """Splits that are read one after the other by one task, in the order of the plan."""
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
