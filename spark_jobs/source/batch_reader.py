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
from odradek.spark_jobs.source.request import Request
from odradek.spark_jobs.source.rows import rows_of
from odradek.spark_jobs.source.workers import needing_wheels

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark_jobs.scan.plan import Split

#: So many tasks a scan should have before splits share one; a guess, for tens of cores.
TASKS_MIN = 64
SHARED_BYTES_MIN = 4 * 1024 * 1024
#: What opening a file costs, in bytes that could be read meanwhile; a guess, too.
OPENING_BYTES = 256 * 1024


class BatchReader(DataSourceReader):
    """Of ``spark.read``."""

    def __init__(self, request: Request) -> None:
        if request.max_offsets_per_trigger is not None:
            raise ScanFailed("maxOffsetsPerTrigger: only a stream has triggers")
        if request.starting_offsets == "latest":
            raise ScanFailed("startingOffsets: latest makes sense for a stream only")
        self._request = request

    def partitions(self) -> list[InputPartition]:
        with needing_wheels():
            from odradek.spark_jobs.scan.plan import plan

            return tasks_of(plan(self._request.options), self._request.options.max_split_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes up a partition where there is none.
        return rows_of(partition.value or (), self._request)


def tasks_of(splits: list[Split], max_split_bytes: int) -> list[InputPartition]:
    """Splits that are read one after the other by one task, in the order of the plan."""
    total_bytes = sum(split.size_bytes for split in splits)
    room_bytes = min(max_split_bytes, max(SHARED_BYTES_MIN, total_bytes // TASKS_MIN))
    tasks: list[list[Split]] = []
    taken_bytes = 0
    for split in splits:
        cost_bytes = split.size_bytes + OPENING_BYTES
        if not tasks or taken_bytes + cost_bytes > room_bytes:
            tasks.append([])
            taken_bytes = 0
        tasks[-1].append(split)
        taken_bytes += cost_bytes
    return [InputPartition(tuple(task)) for task in tasks]
