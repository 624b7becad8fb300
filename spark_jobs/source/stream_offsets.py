"""The offsets of a stream: where each partition is to be read from next.

In Spark's checkpoint they are JSON, as Spark's own Kafka source writes it:

    {"orders": {"0": 23, "1": 7}}

always in the same order, as Spark compares them as text to tell whether there is anything new.

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
    """Ends so that no more than about ``count`` offsets lie between, shared out by what there is.

    No partition with something to read is left without, lest it wait for ever: with more partitions
    than ``count`` it is exceeded.
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
