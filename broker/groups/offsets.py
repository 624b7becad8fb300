"""The offsets of one group id: those that are committed, and those of open transactions.

    commit              counts at once
    commit_pending      counts when its producer's transaction is committed
    forget              a tombstone: nothing is left for the partition, pending or not
    complete            a marker: what is pending of the producer counts now, or never

Of two commits for a partition the one that is later in the log counts, however they come to count.

Invariant: these are the only ways of change, and loading takes the same; so what is here is what
replaying the log gives.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NO_EXPIRE_TIMESTAMP = -1

#: A topic and a partition's number.
TopicPartitionTuple = tuple[str, int]


class OffsetAndMetadata(NamedTuple):
    """How far somebody has read."""

    offset: int
    leader_epoch: int  # -1 if the client did not say
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int  # NEVER: the group decides
    #: Where the commit is in the group's log.
    record_offset: int


class GroupOffsets:
    """Of one group id."""

    __slots__ = ("committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[TopicPartitionTuple, OffsetAndMetadata] = {}
        #: By producer id.
        self.pending: dict[int, dict[TopicPartitionTuple, OffsetAndMetadata]] = {}

    def copy(self) -> GroupOffsets:
        """Commits are shared: they never change."""
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
        """Whether a transaction may still change what is committed."""
        return any(partition in commits for commits in self.pending.values())

    def has(self, partition: TopicPartitionTuple) -> bool:
        """Whether there is anything of it."""
        return partition in self.committed or self.is_pending(partition)

    def is_older_than(self, partition: TopicPartitionTuple, record_offset: int) -> bool:
        """Whether all that there is of it comes before this in the log."""
        commits_found = (
            commits.get(partition) for commits in (self.committed, *self.pending.values())
        )
        return all(
            commit.record_offset < record_offset for commit in commits_found if commit is not None
        )

    def partitions(self) -> Iterator[TopicPartitionTuple]:
        """All that there is anything of."""
        seen = dict.fromkeys(self.committed)
        for commits in self.pending.values():
            seen.update(dict.fromkeys(commits))
        return iter(seen)
