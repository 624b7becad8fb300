"""The offsets of one group id: committed offsets, and pending offsets of open transactions.

    commit                  takes effect at once
    commit_pending          takes effect when its producer's transaction is committed
    remove                  a tombstone: deletes the partition's offset, committed and pending
    complete_transaction    a marker: commits or drops what is pending of the producer

Of two commits for a partition, the one with the later record in the log wins, also if it takes
effect first.

Invariant: offsets change only by these methods, and loading uses the same methods.  The state
therefore equals a replay of the log.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NO_EXPIRE_TIMESTAMP = -1

#: Topic name and partition index.
TopicPartitionTuple = tuple[str, int]


class OffsetAndMetadata(NamedTuple):
    """A committed offset.  Kafka: OffsetAndMetadata."""

    offset: int
    leader_epoch: int  # -1 if the client did not send it
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int  # NO_EXPIRE_TIMESTAMP: the retention of the group applies
    #: The offset of the commit's record in the group's log.
    record_offset: int


class GroupOffsets:
    """The committed and pending offsets of one group id."""

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[TopicPartitionTuple, OffsetAndMetadata] = {}
        #: By producer id.
        self.pending: dict[int, dict[TopicPartitionTuple, OffsetAndMetadata]] = {}

    def copy(self) -> GroupOffsets:
        """Return a copy that shares the immutable commits."""
        clone = GroupOffsets()
        clone.committed = self.committed.copy()
        clone.pending = {
            producer_id: commits.copy() for producer_id, commits in self.pending.items()
        }
        return clone

    @property
    def is_empty(self) -> bool:
        return not self.committed and not self.pending

    def commit(
        self, partition: TopicPartitionTuple, offset_and_metadata: OffsetAndMetadata
    ) -> None:
        current = self.committed.get(partition)
        if current is None or current.record_offset < offset_and_metadata.record_offset:
            self.committed[partition] = offset_and_metadata

    def commit_pending(
        self,
        producer_id: int,
        partition: TopicPartitionTuple,
        offset_and_metadata: OffsetAndMetadata,
    ) -> None:
        self.pending.setdefault(producer_id, {})[partition] = offset_and_metadata

    def remove(self, partition: TopicPartitionTuple) -> None:
        self.committed.pop(partition, None)
        for producer_id, commits in [*self.pending.items()]:
            if commits.pop(partition, None) is not None and not commits:
                del self.pending[producer_id]

    def complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        commits = self.pending.pop(producer_id, {})
        if is_commit:
            for partition, commit in commits.items():
                self.commit(partition, commit)

    def is_pending(self, partition: TopicPartitionTuple) -> bool:
        """Whether an open transaction may still change the offset."""
        return any(partition in commits for commits in self.pending.values())

    def has(self, partition: TopicPartitionTuple) -> bool:
        """Whether the partition has a committed or a pending offset."""
        return partition in self.committed or self.is_pending(partition)

    def is_older_than(self, partition: TopicPartitionTuple, record_offset: int) -> bool:
        """Whether all commits of the partition precede ``record_offset`` in the log."""
        commits_found = (
            commits.get(partition) for commits in (self.committed, *self.pending.values())
        )
        return all(
            commit.record_offset < record_offset for commit in commits_found if commit is not None
        )

    def partitions(self) -> Iterator[TopicPartitionTuple]:
        """Return all partitions with a committed or a pending offset."""
        seen = dict.fromkeys(self.committed)
        for commits in self.pending.values():
            seen.update(dict.fromkeys(commits))
        return iter(seen)
