"""The partition of an internal topic that has all records of a group or transactional id.

It is Java's hash of the id modulo the partition count of the topic (Kafka: partitionFor).  No file
of a log directory contains the partition count.  If the directories have all partitions from 0
without a gap, as those of a whole cluster do, their number is the partition count.  If some are
missing, the partition is unknown, and all partitions in the directories must be read, unless the
caller gives the count.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.protocol.internal.key_partition import partition_for


def find_coordinator_partition(
    coordinator_key: str, partitions: Collection[int], partition_count: int | None
) -> int | None:
    """Return None if it is unknown; ``partitions`` are those in the directories."""
    if partition_count is None and is_complete(partitions):
        partition_count = len(partitions)
    return partition_for(coordinator_key, partition_count) if partition_count else None


def is_complete(partitions: Collection[int]) -> bool:
    """Return whether the partitions are 0 to some number, without a gap."""
    return len(partitions) > 0 and set(partitions) == set(range(len(partitions)))
