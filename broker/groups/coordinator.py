"""The group coordinator: its shards, and the lookup of a group's shard.

A request for a group goes to the group's shard, if this broker leads the shard's partition and has
loaded it.  Otherwise the request fails, for example with NOT_COORDINATOR, and the client looks for
the coordinator again.

A group with members needs a non-empty id.  Offsets may be committed, fetched and deleted under the
empty id.

Kafka: GroupCoordinatorService.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_log import CoordinatorContext, CoordinatorPartitionLog
from odradek.broker.coordinator.runtime import CoordinatorRuntime
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.offset_commits import remove_deleted_partition_offsets
from odradek.broker.groups.offset_expiry import cleanup_expired_offsets
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.errors import InvalidGroupId, KafkaError
from odradek.protocol.types import TopicPartition


class GroupCoordinator:
    """All groups that this broker coordinates, by shard."""

    def __init__(
        self,
        lookup: CoordinatorLookup,
        context: GroupContext,
        coordinator_context: CoordinatorContext,
    ) -> None:
        self.context = context
        self.lookup = lookup
        self._coordinator_context = coordinator_context
        self.runtime: CoordinatorRuntime[GroupCoordinatorShard] = CoordinatorRuntime(
            CONSUMER_OFFSETS, self._new_shard, coordinator_context
        )

    def _new_shard(self, partition_log: CoordinatorPartitionLog) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(partition_log, self.context)

    def __iter__(self) -> Iterator[GroupCoordinatorShard]:
        return iter(self.runtime)

    def shard(self, group_id: str) -> GroupCoordinatorShard:
        """Return the shard of any group id; raise KafkaError if it is not loaded on this broker."""
        return self.runtime.shard(self.lookup.known_partition_for(group_id))

    def find_shard(self, group_id: str) -> GroupCoordinatorShard | None:
        """Return the shard of a group id, or None if it is not loaded on this broker."""
        try:
            return self.shard(group_id)
        except KafkaError:
            return None

    def shard_for_nonempty_id(self, group_id: str) -> GroupCoordinatorShard:
        """Return the shard of a group that may have members; raise InvalidGroupId for ""."""
        if not group_id:
            raise InvalidGroupId()
        return self.shard(group_id)

    def evict_unused_regexes(self) -> None:
        """Remove regexes that no group subscribes to, if the regex cache is over its capacity."""
        cache = self.context.topics_provider.regex_cache
        if cache.is_over_capacity:
            groups = (group for shard in self.runtime for group in shard.groups.values())
            consumer_groups = [
                group.group for group in groups if isinstance(group, ConsumerGroupRuntime)
            ]
            cache.retain_only(
                {regex for group in consumer_groups for regex in group.subscribed_regexes()}
            )

    def on_transaction_completed(
        self, partition_index: int, producer_id: int, *, is_commit: bool
    ) -> None:
        """Complete a transaction: its marker is in ``partition_index`` of the log.

        If that partition is still loading, the marker may follow the records that are being read;
        the shard is updated when it is loaded.
        """
        self.runtime.run_when_loaded(
            partition_index,
            lambda shard: shard.complete_transaction(producer_id, is_commit=is_commit),
        )

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of deleted partitions.

        Offsets that are committed from now on stay: they may be for a new topic of the same name.
        """
        self._start_offset_removal(partitions, [*self.runtime])
        self.runtime.run_after_pending_loads(
            lambda shard: self._start_offset_removal(partitions, [shard])
        )

    def _start_offset_removal(
        self, partitions: Sequence[TopicPartition], shards: Iterable[GroupCoordinatorShard]
    ) -> None:
        end_offsets = [(shard, shard.log.log_end_offset) for shard in shards]
        removal = self._remove_partition_offsets(partitions, end_offsets)
        self._coordinator_context.start_task(removal, "offsets of deleted partitions")

    async def _remove_partition_offsets(
        self,
        partitions: Sequence[TopicPartition],
        shard_end_offsets: Iterable[tuple[GroupCoordinatorShard, int]],
    ) -> None:
        await _run_sliced(
            step
            for shard, end in shard_end_offsets
            for group_id in [*shard.offsets]
            for step in remove_deleted_partition_offsets(
                shard, group_id, partitions, before_log_offset=end
            )
        )

    async def cleanup_group_metadata(self) -> None:
        """Remove expired offsets, and empty groups without offsets."""
        await _run_sliced(
            step
            for shard in self.runtime
            for group_id in {**shard.offsets, **shard.groups}
            for step in cleanup_expired_offsets(shard, group_id)
        )

    async def close(self) -> None:
        """Cancel all timers and complete all waiting requests."""
        self.runtime.close()


async def _run_sliced(steps: Iterable[None]) -> None:
    time_slice = TimeSlice()
    for _ in steps:
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
