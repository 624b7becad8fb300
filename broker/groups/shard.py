"""The groups and offsets of one partition of ``__consumer_offsets``.

    groups     by id, of either kind; one that has never had members is not among them
    offsets    by group id, whether there is such a group or not

What is read when the partition is loaded is dispatched on the version of a record's key, by
``APPLIED_TO``.  Only the last record of each key is ever applied, in the order of the log, and no
tombstone: see coordinator/replay.py.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from odradek.broker.coordinator.partition_log import PartitionLog
from odradek.broker.groups import records
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.consumer.records import KINDS as CONSUMER_GROUP_KEYS
from odradek.broker.groups.consumer.records import from_stored, group_of
from odradek.broker.groups.group import Group
from odradek.broker.groups.offsets import GroupOffsets
from odradek.broker.groups.world import World
from odradek.protocol.errors import KafkaError
from odradek.protocol.internal.log_record import part_version

log = logging.getLogger(__name__)


class GroupShard:
    """What this broker coordinates, as long as it leads the partition."""

    def __init__(self, partition_log: PartitionLog, world: World) -> None:
        self.log = partition_log
        self.world = world
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, GroupOffsets] = {}
        #: Found in the log beneath later groups of another kind: see _apply_classic_group.
        self._overtaken: list[Group] = []
        #: By producer id, the groups that have offsets pending in its transaction.
        self._groups_of: dict[int, set[str]] = {}

    # Loading and unloading

    def apply(self, key: bytes, value: bytes, offset: int) -> None:
        apply = APPLIED_TO.get(part_version(key))
        if apply is None:
            log.debug("A record of kind %d is passed over", part_version(key))
        else:
            apply(self, key, value, offset)

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int) -> None:
        if part_version(key) in records.OFFSET_KEYS:
            place = records.read_offset_key(key)
            commit = records.read_offset_value(value, offset)
            self.note_pending(producer_id, place.group_id)
            self.offsets_of(place.group_id).commit_pending(
                producer_id, (place.topic, place.partition), commit
            )

    def begin(self) -> None:
        self._forget_overtaken()
        for group in [*self.groups.values()]:
            group.begin()

    def _forget_overtaken(self) -> None:
        """Or their members would be there again, should a group of their kind come back."""
        for group in self._overtaken:
            try:
                self.log.append([(key, None) for key in group.tombstones()])
            except KafkaError as failure:
                log.warning("What is left of an older group %r stays: %s", group.id, failure)
        self._overtaken.clear()

    def end(self) -> None:
        for group in [*self.groups.values()]:
            group.end()
        self.groups.clear()
        # Who is still going through them would find offsets that no group needs, and delete them.
        self.offsets.clear()

    # Offsets

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """To be changed; there may be none yet."""
        offsets = self.offsets.get(group_id)
        if offsets is None:
            offsets = self.offsets[group_id] = GroupOffsets()
        return offsets

    def forget_offsets_if_none(self, group_id: str) -> None:
        offsets = self.offsets.get(group_id)
        if offsets is not None and offsets.is_empty:
            del self.offsets[group_id]

    def note_pending(self, producer_id: int, group_id: str) -> None:
        self._groups_of.setdefault(producer_id, set()).add(group_id)

    def complete(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker of the producer is in the log."""
        for group_id in self._groups_of.pop(producer_id, ()):
            offsets = self.offsets.get(group_id)
            if offsets is not None:
                offsets.complete(producer_id, is_commit=is_commit)
                self.forget_offsets_if_none(group_id)


def _apply_offset(shard: GroupShard, key: bytes, value: bytes, offset: int) -> None:
    place = records.read_offset_key(key)
    commit = records.read_offset_value(value, offset)
    shard.offsets_of(place.group_id).commit((place.topic, place.partition), commit)


def _apply_classic_group(shard: GroupShard, key: bytes, value: bytes, offset: int) -> None:
    """A broker that does not know the consumer protocol passes over a group of that, and leaves its
    records, when members of the classic protocol begin one of its name."""
    group_id = records.read_group_key(key)
    if group_id in shard.groups:
        shard._overtaken.append(shard.groups[group_id])
    shard.groups[group_id] = ClassicGroup.loaded(shard, group_id, records.read_group_value(value))


def _apply_to_consumer_group(shard: GroupShard, key: bytes, value: bytes, offset: int) -> None:
    record = from_stored(key, value)
    group_id = group_of(record)
    group = shard.groups.get(group_id)
    if not isinstance(group, LiveGroup):
        group = shard.groups[group_id] = LiveGroup(shard, ConsumerGroup(group_id))
    group.group.apply(record)


#: By the version of a record's key, what it is applied to.
APPLIED_TO: Mapping[int, Callable[[GroupShard, bytes, bytes, int], None]] = {
    **dict.fromkeys(CONSUMER_GROUP_KEYS, _apply_to_consumer_group),
    **dict.fromkeys(records.OFFSET_KEYS, _apply_offset),
    records.GROUP_KEY: _apply_classic_group,
}
