"""Expiration of offsets and of groups without offsets (KIP-211).

An offset expires when ``offsets.retention.minutes`` have passed

    since the group became empty, or
    since the commit, if the group's members do not subscribe to the topic, or if the group never
    had members.

A commit with its own expire timestamp (OffsetCommit v1) expires then.  An offset with a pending
transactional commit does not expire.

A group that is empty and has no offsets is deleted.

Kafka: OffsetExpirationConditionImpl, cleanupExpiredOffsets.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from odradek.broker.groups.group import Group
from odradek.broker.groups.offset_commits import (
    MAX_TOMBSTONES_PER_BATCH,
    check_group_exists,
    maybe_delete_group,
    remove_group,
    remove_offsets,
)
from odradek.broker.groups.offsets import (
    NO_EXPIRE_TIMESTAMP,
    OffsetAndMetadata,
    TopicPartitionTuple,
)
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.protocol.errors import KafkaError, NonEmptyGroup

log = logging.getLogger("kafka.coordinator.group")


def cleanup_expired_offsets(shard: GroupCoordinatorShard, group_id: str) -> Iterator[None]:
    """Remove expired offsets in batches, and yield between the batches.

    If an append fails, the next run tries again.
    """
    offsets, count = shard.offsets.get(group_id), 0
    partitions = [] if offsets is None else [*offsets.committed]
    try:
        for start in range(0, len(partitions) or 1, MAX_TOMBSTONES_PER_BATCH):
            count += remove_offsets(
                shard,
                group_id,
                _expired_offsets(
                    shard, group_id, partitions[start : start + MAX_TOMBSTONES_PER_BATCH]
                ),
            )
            yield
        maybe_delete_group(shard, group_id)
    except KafkaError as error:
        log.warning("Failed to remove expired offsets of group %r: %s", group_id, error)
    if count:
        log.info("Removed %d expired offsets of group %r", count, group_id)


def _expired_offsets(
    shard: GroupCoordinatorShard, group_id: str, partitions: Iterable[TopicPartitionTuple]
) -> list[TopicPartitionTuple]:
    """Return the partitions whose offsets have expired now."""
    group, offsets = shard.groups.get(group_id), shard.offsets.get(group_id)
    if offsets is None:
        return []
    context, committed = shard.context, offsets.committed
    now_ms, retention_ms = context.now_ms(), context.settings.retention_ms
    return [
        partition
        for partition in partitions
        if partition in committed
        and _is_offset_expired(group, partition[0], committed[partition], now_ms, retention_ms)
        and not offsets.is_pending(partition)
    ]


def _is_offset_expired(
    group: Group | None,
    topic: str,
    offset_and_metadata: OffsetAndMetadata,
    now_ms: int,
    retention_ms: int,
) -> bool:
    base_ms = (
        offset_and_metadata.commit_timestamp_ms
        if group is None
        else group.offset_expiration_base_ms(topic, offset_and_metadata)
    )
    if base_ms is None:
        return False
    if offset_and_metadata.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
        return now_ms >= offset_and_metadata.expire_timestamp_ms
    return now_ms - base_ms >= retention_ms


def delete_group(shard: GroupCoordinatorShard, group_id: str) -> None:
    """Delete the group and its offsets; raise KafkaError if it has members or does not exist."""
    group = check_group_exists(shard, group_id)
    if group is not None and not group.is_empty:
        raise NonEmptyGroup()
    offsets = shard.offsets.get(group_id)
    if offsets is not None:
        remove_offsets(shard, group_id, list(offsets.partitions()))
    if group is not None:
        remove_group(shard, group)
