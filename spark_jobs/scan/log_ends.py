"""Where does each log end?

At the high watermark, for whoever reads; where that is not on record, behind the last sound batch.

Owner: whoever asks.
"""

from __future__ import annotations

from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan.catalog import PartitionLog, partition_logs
from odradek.spark_jobs.scan.lookup import LOOKUP_BYTES, SegmentLookup
from odradek.spark_jobs.scan.options import Options
from odradek.spark_jobs.scan.walk import OFFSET_MAX, Stretch, Walk


def log_ends(options: Options) -> dict[TopicPartition, int]:
    """Of all partitions that the options choose."""
    return {
        TopicPartition(log.topic, log.partition): _end_of(log) for log in partition_logs(options)
    }


def _end_of(log: PartitionLog) -> int:
    if log.high_watermark is not None:
        return max(log.high_watermark, log.log_start_offset)
    if not log.segments:
        return log.log_start_offset
    last = log.segments[-1]
    with log.system.open(last.path) as file:
        start = SegmentLookup(log.system, last, file).at_or_before(OFFSET_MAX)
        stretch = Stretch(start.position, file.size_bytes, start.offset)
        walk = Walk(file, stretch, group_bytes=LOOKUP_BYTES)
        for _ in walk:
            continue
    return max(walk.next_offset, log.log_start_offset)
