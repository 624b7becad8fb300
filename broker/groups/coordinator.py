"""The coordinator of groups: its shards, and which of them a group is in.

Whatever is asked of a group is asked of its shard, if this broker has it and has loaded it; who
asks elsewhere is told NOT_COORDINATOR, and looks for the coordinator again.

The empty id is no name for a group with members.  Offsets may be kept under it all the same, and
whoever kept them may see and delete them.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from odradek.broker.coordinator.loading import Shards
from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_log import Means, PartitionLog
from odradek.broker.groups.committing import forgetting_partitions
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.offset_expiry import forgetting_unused
from odradek.broker.groups.shard import GroupShard
from odradek.broker.groups.world import World
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.turns import Turn
from odradek.protocol.errors import InvalidGroupId, KafkaError
from odradek.protocol.types import TopicPartition


class GroupCoordinator:
    """All groups that this broker coordinates."""

    def __init__(self, lookup: CoordinatorLookup, world: World, means: Means) -> None:
        self.world = world
        self.lookup = lookup
        self._means = means
        self.shards: Shards[GroupShard] = Shards(CONSUMER_OFFSETS, self._new_shard, means)

    def _new_shard(self, partition_log: PartitionLog) -> GroupShard:
        return GroupShard(partition_log, self.world)

    def __iter__(self) -> Iterator[GroupShard]:
        return iter(self.shards)

    def shard(self, group_id: str) -> GroupShard:
        """Of any id; raises what whoever asks is told if it is not here."""
        return self.shards.shard(self.lookup.led_partition_of(group_id))

    def find_shard(self, group_id: str) -> GroupShard | None:
        """None if it is not here."""
        try:
            return self.shard(group_id)
        except KafkaError:
            return None

    def shard_of_members(self, group_id: str) -> GroupShard:
        """Of a group that may have members."""
        if not group_id:
            raise InvalidGroupId()
        return self.shard(group_id)

    def forget_unused_expressions(self) -> None:
        """If there are many whose topics are remembered."""
        remembered = self.world.topics.expressions
        if remembered.are_many:
            groups = (group for shard in self.shards for group in shard.groups.values())
            live = [group.group for group in groups if isinstance(group, LiveGroup)]
            remembered.forget_all_but({each for group in live for each in group.used_expressions()})

    def transaction_ended(self, index: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker is in partition ``index`` of the log; perhaps after what is being loaded."""
        self.shards.when_loaded(
            index, lambda shard: shard.complete(producer_id, is_commit=is_commit)
        )

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Their offsets go too; not what is committed meanwhile, for a topic of the same name."""
        self._start_forgetting(partitions, [*self.shards])
        self.shards.after_loading(lambda shard: self._start_forgetting(partitions, [shard]))

    def _start_forgetting(
        self, partitions: Sequence[TopicPartition], shards: Iterable[GroupShard]
    ) -> None:
        ends = [(shard, shard.log.end_offset) for shard in shards]
        work = self._forget_partitions(partitions, ends)
        self._means.start(work, "offsets of deleted partitions")

    async def _forget_partitions(
        self, partitions: Sequence[TopicPartition], ends: Iterable[tuple[GroupShard, int]]
    ) -> None:
        await _in_turns(
            step
            for shard, end in ends
            for group_id in [*shard.offsets]
            for step in forgetting_partitions(shard, group_id, partitions, before=end)
        )

    async def forget_unused(self) -> None:
        """Offsets that nobody uses any more, and groups that are left without."""
        await _in_turns(
            step
            for shard in self.shards
            for group_id in {**shard.offsets, **shard.groups}
            for step in forgetting_unused(shard, group_id)
        )

    async def close(self) -> None:
        """No timer is left, and nobody who waits."""
        self.shards.close()


async def _in_turns(steps: Iterable[None]) -> None:
    turn = Turn()
    for _ in steps:
        if turn.is_over:
            await turn.next()
