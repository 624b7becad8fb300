"""The groups and offsets of one partition of ``__consumer_offsets``.

    groups     by id, classic and consumer groups; a group that never had members is not stored here
    offsets    by group id, with or without a group of that id

When the partition is loaded, the version of a record's key selects the handler in
``RECORD_HANDLERS``.  Only the last record of each key is applied, in log order, and tombstones are
not applied: see coordinator/replay.py.

Kafka: GroupCoordinatorShard.

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

log = logging.getLogger("kafka.coordinator.group")


class GroupCoordinatorShard:
    """The state that this broker holds while it leads the partition."""

    def __init__(self, partition_log: CoordinatorPartitionLog, context: GroupContext) -> None:
        self.log = partition_log
        self.context = context
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, GroupOffsets] = {}
        #: Groups in the log that a later group of the same id replaces: see _apply_classic_group.
        self._superseded_groups: list[Group] = []
        #: By producer id, the groups with pending offsets in its transaction.
        self._groups_by_producer_id: dict[int, set[str]] = {}

    # Loading and unloading

    def apply(self, key: bytes, value: bytes, offset: int) -> None:
        handler = RECORD_HANDLERS.get(read_version_prefix(key))
        if handler is None:
            log.debug("Ignoring a record with unknown key version %d", read_version_prefix(key))
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
        """Write tombstones, or old members would reappear if the id becomes a consumer group."""
        for group in self._superseded_groups:
            try:
                self.log.append([(key, None) for key in group.tombstone_keys()])
            except KafkaError as error:
                log.warning(
                    "Failed to write tombstones of superseded group %r: %s", group.id, error
                )
        self._superseded_groups.clear()

    def on_unloaded(self) -> None:
        for group in [*self.groups.values()]:
            group.on_unloaded()
        self.groups.clear()
        # A clean-up that is still running would find the offsets without a group and delete them.
        self.offsets.clear()

    # Offsets

    def get_or_create_offsets(self, group_id: str) -> GroupOffsets:
        """Return the offsets of a group id for an update; create them if there are none."""
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
        """Commit or drop what is pending: a marker of the producer is in the log."""
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
    """Load a classic group.  It replaces a consumer group of the same id.

    A broker without the consumer protocol ignores a consumer group's records and leaves them in the
    log when classic members start a group of that id.
    """
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


#: The version of a record's key -> the handler that applies the record.
RECORD_HANDLERS: Mapping[int, Callable[[GroupCoordinatorShard, bytes, bytes, int], None]] = {
    **dict.fromkeys(CONSUMER_GROUP_KEYS, _apply_to_consumer_group),
    **dict.fromkeys(records.OFFSET_KEY_VERSIONS, _apply_offset),
    records.GROUP_KEY_VERSION: _apply_classic_group,
}
