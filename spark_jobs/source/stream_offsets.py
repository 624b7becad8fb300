"""The offsets of a stream: where each partition is to be read from next.

In Spark's checkpoint they are JSON, as Spark's own Kafka source writes it:

    {"orders": {"0": 23, "1": 7}}

always in the same order, as Spark compares them as text to tell whether there is anything new.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping

Key = tuple[str, int]  # topic and partition
Offsets = dict[Key, int]
Written = dict[str, dict[str, int]]


def to_checkpoint(offsets: Mapping[Key, int]) -> Written:
    found: Written = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return found


def from_checkpoint(checkpoint: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(partition)): offset
        for topic, partitions in checkpoint.items()
        for partition, offset in partitions.items()
    }


def limited(starts: Offsets, ends: Offsets, count: int) -> Offsets:
    """Ends so that no more than about ``count`` offsets lie between, shared out by what there is.

    No partition with something to read is left without, lest it wait for ever: with more partitions
    than ``count`` it is exceeded.
    """
    waiting = {key: ends[key] - starts[key] for key in ends if ends[key] > starts[key]}
    total = sum(waiting.values())
    if total <= count:
        return ends
    return {
        key: starts[key] + max(1, waiting[key] * count // total) if key in waiting else end
        for key, end in ends.items()
    }
