"""Which partition has all records of one group, or of one transactional id?

Java's hash of the id tells, modulo the number of partitions that the internal topic has.  That
number stands in no log directory.  If the directories have all partitions from 0 on without a gap,
as those of a whole cluster do, it is how many there are; if some are missing, it cannot be told,
and whoever looks for an id has to read what is there, unless they know the number themselves.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.protocol.internal.key_partition import partition_for


def find_coordinator_partition(
    coordinator_key: str, partitions: Collection[int], partition_count: int | None
) -> int | None:
    """None if it cannot be told; ``present`` are the partitions that were found."""
    if partition_count is None and is_complete(partitions):
        partition_count = len(partitions)
    return partition_for(coordinator_key, partition_count) if partition_count else None


def is_complete(partitions: Collection[int]) -> bool:
    """Whether there are some, from 0 on without a gap."""
    return len(partitions) > 0 and set(partitions) == set(range(len(partitions)))
