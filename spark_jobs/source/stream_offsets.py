"""The offsets of a stream: the next offset to read of each partition.

In Spark's checkpoint they are JSON, in the format of Spark's own Kafka source:

    {"orders": {"0": 23, "1": 7}}

The order is always the same, because Spark compares the text to detect new data.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping

PartitionKey = tuple[str, int]  # topic and partition
PartitionOffsets = dict[PartitionKey, int]
CheckpointOffsets = dict[str, dict[str, int]]


def to_checkpoint(offsets: Mapping[PartitionKey, int]) -> CheckpointOffsets:
    checkpoint: CheckpointOffsets = {}
    for topic, partition in sorted(offsets):
        checkpoint.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return checkpoint


def from_checkpoint(checkpoint: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    return {
        (topic, int(partition)): offset
        for topic, partitions in checkpoint.items()
        for partition, offset in partitions.items()
    }


def limit_end_offsets(
    start_offsets: PartitionOffsets, end_offsets: PartitionOffsets, max_offsets: int
) -> PartitionOffsets:
    """Limit the end offsets to about ``max_offsets`` offsets, shared by what is available.

    Every partition with something to read gets at least one offset, so that none starves: with more
    partitions than ``max_offsets`` the limit is exceeded.
    """
    available = {
        key: end_offsets[key] - start_offsets[key]
        for key in end_offsets
        if end_offsets[key] > start_offsets[key]
    }
    total = sum(available.values())
    if total <= max_offsets:
        return end_offsets
    return {
        key: start_offsets[key] + max(1, available[key] * max_offsets // total)
        if key in available
        else end
        for key, end in end_offsets.items()
    }
