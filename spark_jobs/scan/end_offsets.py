"""The end offset of each log.

It is the high watermark.  If the high watermark is unknown, it is the offset after the last valid
batch.

Owner: the caller.
"""

from __future__ import annotations

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.catalog import PartitionLog, find_partition_logs
from odradek.spark_jobs.scan.lookup import find_log_end_offset
from odradek.spark_jobs.scan.options import ScanOptions


def find_end_offsets(options: ScanOptions) -> dict[TopicPartition, int]:
    """Return the end offsets of all partitions that the options select."""
    return {
        TopicPartition(log.topic, log.partition): _end_offset(log)
        for log in find_partition_logs(options)
    }


def _end_offset(log: PartitionLog) -> int:
    if log.high_watermark is None:
        return find_log_end_offset(log)
    return max(log.high_watermark, log.log_start_offset)
