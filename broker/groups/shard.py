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

from odradek.broker.coordinator.partition_log import CoordinatorPartitionLog
from odradek.broker.groups import records
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.records import RECORD_KEY_VERSIONS as CONSUMER_GROUP_KEYS
from odradek.broker.groups.consumer.records import deserialize_record, group_id_of
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.group import Group
from odradek.broker.groups.offsets import GroupOffsets
from odradek.protocol.errors import KafkaError
from odradek.protocol.internal.coordinator_record import read_version_prefix

log = logging.getLogger(__name__)


class GroupCoordinatorShard:
    """What this broker coordinates, as long as it leads the partition."""

    def __init__(self, partition_log: CoordinatorPartitionLog, context: GroupContext) -> None:
        self.log = partition_log
        self.context = context
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, GroupOffsets] = {}
        #: Found in the log beneath later groups of another kind: see _apply_classic_group.
        self._superseded_groups: list[Group] = []
        #: By producer id, the groups that have offsets pending in its transaction.
        self._groups_by_producer_id: dict[int, set[str]] = {}

    # Loading and unloading

    def apply(self, key: bytes, value: bytes, offset: int) -> None:
        handler = RECORD_HANDLERS.get(read_version_prefix(key))
        if handler is None:
            log.debug("A record of kind %d is passed over", read_version_prefix(key))
        else:
            handler(self, key, value, offset)

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int) -> None:
        if read_version_prefix(key) in records.OFFSET_KEY_VERSIONS:
            record_key = records.read_offset_key(key)
            commit = records.read_offset_value(value, offset)
            self.register_pending_commit(producer_id, record_key.group_id)
            self.get_or_create_offsets(record_key.group_id).commit_pending(
                producer_id, (record_key.topic, record_key.partition), commit
            )

    def on_loaded(self) -> None:
        self._delete_superseded_groups()
        for group in [*self.groups.values()]:
            group.on_loaded()

    def _delete_superseded_groups(self) -> None:
        """Or their members would be there again, should a group of their kind come back."""
        for group in self._superseded_groups:
            try:
                self.log.append([(key, None) for key in group.tombstone_keys()])
            except KafkaError as error:
                log.warning("What is left of an older group %r stays: %s", group.id, error)
        self._superseded_groups.clear()

    def on_unloaded(self) -> None:
        for group in [*self.groups.values()]:
            group.on_unloaded()
        self.groups.clear()
        # Who is still going through them would find offsets that no group needs, and delete them.
        self.offsets.clear()

    # Offsets

    def get_or_create_offsets(self, group_id: str) -> GroupOffsets:
        """To be changed; there may be none yet."""
        offsets = self.offsets.get(group_id)
        if offsets is None:
            offsets = self.offsets[group_id] = GroupOffsets()
        return offsets

    def maybe_remove_offsets(self, group_id: str) -> None:
        offsets = self.offsets.get(group_id)
        if offsets is not None and offsets.is_empty:
            del self.offsets[group_id]

    def register_pending_commit(self, producer_id: int, group_id: str) -> None:
        self._groups_by_producer_id.setdefault(producer_id, set()).add(group_id)

    def complete_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker of the producer is in the log."""
        for group_id in self._groups_by_producer_id.pop(producer_id, ()):
            offsets = self.offsets.get(group_id)
            if offsets is not None:
                offsets.complete_transaction(producer_id, is_commit=is_commit)
                self.maybe_remove_offsets(group_id)


def _apply_offset(shard: GroupCoordinatorShard, key: bytes, value: bytes, offset: int) -> None:
    record_key = records.read_offset_key(key)
    commit = records.read_offset_value(value, offset)
    shard.get_or_create_offsets(record_key.group_id).commit(
        (record_key.topic, record_key.partition), commit
    )


def _apply_classic_group(
    shard: GroupCoordinatorShard, key: bytes, value: bytes, offset: int
) -> None:
    """A broker that does not know the consumer protocol passes over a group of that, and leaves its
    records, when members of the classic protocol begin one of its name."""
    group_id = records.read_group_key(key)
    if group_id in shard.groups:
        shard._superseded_groups.append(shard.groups[group_id])
    shard.groups[group_id] = ClassicGroup.from_record(
        shard, group_id, records.read_group_value(value)
    )


def _apply_to_consumer_group(
    shard: GroupCoordinatorShard, key: bytes, value: bytes, offset: int
) -> None:
    record = deserialize_record(key, value)
    group_id = group_id_of(record)
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroupRuntime):
        group = shard.groups[group_id] = ConsumerGroupRuntime(shard, ConsumerGroup(group_id))
    group.group.apply(record)


#: By the version of a record's key, what it is applied to.
RECORD_HANDLERS: Mapping[int, Callable[[GroupCoordinatorShard, bytes, bytes, int], None]] = {
    **dict.fromkeys(CONSUMER_GROUP_KEYS, _apply_to_consumer_group),
    **dict.fromkeys(records.OFFSET_KEY_VERSIONS, _apply_offset),
    records.GROUP_KEY_VERSION: _apply_classic_group,
}
