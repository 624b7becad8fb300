"""Where does each log end?

At the high watermark, for whoever reads; where that is not on record, behind the last sound batch.

Owner: whoever asks.
"""

from __future__ import annotations

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.catalog import PartitionLog, find_partition_logs
from odradek.spark_jobs.scan.lookup import find_log_end_offset
from odradek.spark_jobs.scan.options import ScanOptions


def find_end_offsets(options: ScanOptions) -> dict[TopicPartition, int]:
    """Of all partitions that the options choose."""
    return {
        TopicPartition(log.topic, log.partition): _end_offset(log)
        for log in find_partition_logs(options)
    }


def _end_offset(log: PartitionLog) -> int:
    if log.high_watermark is None:
        return find_log_end_offset(log)
    return max(log.high_watermark, log.log_start_offset)
