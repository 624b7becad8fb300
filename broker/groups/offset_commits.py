"""OffsetCommit, TxnOffsetCommit and OffsetDelete: decide, append to the group's log, apply.

Records are applied as soon as they are appended.  OffsetCommit and OffsetFetch send their responses
when the records are replicated: an offset that a client has seen is never lost.

Kafka: OffsetMetadataManager.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.broker.coordinator.append_errors import (
    GROUP_UPDATE_ERRORS,
    OFFSET_COMMIT_ERRORS,
    map_append_error,
)
from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.groups.group import Committer, Group
from odradek.broker.groups.offsets import (
    NO_EXPIRE_TIMESTAMP,
    OffsetAndMetadata,
    TopicPartitionTuple,
)
from odradek.broker.groups.records import offset_key, offset_value
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
)
from odradek.storage.producer_state.verification_guards import VerificationGuard
from odradek.storage.unified_log import LogAppendInfo

log = logging.getLogger("kafka.coordinator.group")

#: The maximum number of tombstones in one batch: far below the maximum batch size, and short enough
#: for one time slice.
MAX_TOMBSTONES_PER_BATCH = 500


class OffsetCommitEntry(NamedTuple):
    """An offset to commit."""

    partition: TopicPartitionTuple
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRE_TIMESTAMP


class TransactionalProducer(NamedTuple):
    """The producer of a transactional commit.

    ``guard`` is the verification guard that the transaction's first commit in this partition needs.
    """

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None


def commit_offsets(
    shard: GroupCoordinatorShard,
    group_id: str,
    committer: Committer,
    commits: Sequence[OffsetCommitEntry],
) -> LogAppendInfo | None:
    """Append and apply the commits; return None if there are none.

    Raise KafkaError if the group rejects the committer or the append fails.
    """
    _validate_offset_commit(shard, group_id, committer)
    if not commits:
        return None
    try:
        append_info = shard.log.append(_records(group_id, commits))
    except KafkaError as error:
        raise map_append_error(error, OFFSET_COMMIT_ERRORS) from error
    offsets, record_offset = shard.get_or_create_offsets(group_id), append_info.first_offset
    for partition, offset, leader_epoch, metadata, committed_ms, expires_ms in commits:
        offsets.commit(
            partition,
            OffsetAndMetadata(
                offset, leader_epoch, metadata, committed_ms, expires_ms, record_offset
            ),
        )
        record_offset += 1
    return append_info


def commit_transactional_offsets(
    shard: GroupCoordinatorShard,
    group_id: str,
    committer: Committer,
    producer: TransactionalProducer,
    commits: Sequence[OffsetCommitEntry],
) -> LogAppendInfo | None:
    """Like ``commit_offsets``, but the offsets are pending until the transaction marker arrives."""
    try:
        _validate_offset_commit(shard, group_id, committer, is_transactional=True)
    except StaleMemberEpoch as stale:
        # Producers do not know StaleMemberEpoch.
        raise IllegalGeneration(stale.message) from stale
    if not commits:
        return None
    producer_id = producer.producer_id
    if producer_id < 0 or producer.producer_epoch < 0:
        raise KafkaError("producer id and producer epoch of a transaction: must be at least 0")
    try:
        append_info = shard.log.append_in_transaction(
            _records(group_id, commits),
            producer_id=producer_id,
            producer_epoch=producer.producer_epoch,
            guard=producer.guard,
        )
    except KafkaError as error:
        raise map_append_error(error, OFFSET_COMMIT_ERRORS) from error
    shard.register_pending_commit(producer_id, group_id)
    offsets, record_offset = shard.get_or_create_offsets(group_id), append_info.first_offset
    for partition, offset, leader_epoch, metadata, committed_ms, expires_ms in commits:
        offsets.commit_pending(
            producer_id,
            partition,
            OffsetAndMetadata(
                offset, leader_epoch, metadata, committed_ms, expires_ms, record_offset
            ),
        )
        record_offset += 1
    return append_info


async def wait_until_replicated(shard: GroupCoordinatorShard, append_info: LogAppendInfo) -> None:
    """Wait until the append is replicated; raise the error for the committing client."""
    try:
        await shard.log.wait_until_replicated(append_info)
    except KafkaError as error:
        raise map_append_error(error, OFFSET_COMMIT_ERRORS) from error


def verification_error(error: ErrorCode) -> KafkaError:
    """Return the error for the client if its transaction coordinator rejects the transaction."""
    return map_append_error(KafkaError(error_code=error), OFFSET_COMMIT_ERRORS)


def _validate_offset_commit(
    shard: GroupCoordinatorShard,
    group_id: str,
    committer: Committer,
    *,
    is_transactional: bool = False,
) -> None:
    """Check the committer; a commit without a generation needs no group."""
    group = shard.groups.get(group_id)
    if group is not None:
        group.validate_offset_commit(committer, is_transactional=is_transactional)
    elif committer.generation_or_member_epoch >= 0 and group_id in shard.offsets:
        raise UnknownMemberId()
    elif committer.generation_or_member_epoch >= 0:
        raise IllegalGeneration()  # the group no longer exists


def _records(group_id: str, commits: Iterable[OffsetCommitEntry]) -> list[KeyValue]:
    return [
        (
            offset_key(group_id, *partition),
            offset_value(
                offset,
                leader_epoch,
                metadata,
                commit_timestamp_ms=committed_ms,
                expire_timestamp_ms=expires_ms,
            ),
        )
        for partition, offset, leader_epoch, metadata, committed_ms, expires_ms in commits
    ]


def check_group_exists(shard: GroupCoordinatorShard, group_id: str) -> Group | None:
    """Return the group, or None if only offsets exist; raise GroupIdNotFound if neither exists."""
    group = shard.groups.get(group_id)
    if group is None and group_id not in shard.offsets:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    return group


def delete_offsets(
    shard: GroupCoordinatorShard, group_id: str, partitions: Iterable[TopicPartitionTuple]
) -> dict[TopicPartitionTuple, KafkaError | None]:
    """Return the error or None for each partition; raise KafkaError if the request fails."""
    group = check_group_exists(shard, group_id)
    if group is not None:
        group.validate_offset_delete()
    outcomes: dict[TopicPartitionTuple, KafkaError | None] = {
        partition: GroupSubscribedToTopic()
        if group is not None and group.is_subscribed_to(partition[0])
        else None
        for partition in partitions
    }
    remove_offsets(
        shard, group_id, [partition for partition, error in outcomes.items() if error is None]
    )
    maybe_delete_group(shard, group_id)
    return outcomes


def _remove_offsets_batch(
    shard: GroupCoordinatorShard, group_id: str, partitions: Iterable[TopicPartitionTuple]
) -> int:
    """Delete the offsets of the partitions in one batch; return how many existed.

    Raise KafkaError if the append fails.
    """
    offsets = shard.offsets.get(group_id)
    existing = (
        [] if offsets is None else [partition for partition in partitions if offsets.has(partition)]
    )
    if offsets is None or not existing:
        return 0
    try:
        shard.log.append([(offset_key(group_id, *partition), None) for partition in existing])
    except KafkaError as error:
        raise map_append_error(error, GROUP_UPDATE_ERRORS) from error
    for partition in existing:
        offsets.remove(partition)
    shard.maybe_remove_offsets(group_id)
    return len(existing)


def _committed_before(
    shard: GroupCoordinatorShard,
    group_id: str,
    partitions: Iterable[TopicPartitionTuple],
    before_log_offset: int,
) -> Iterable[TopicPartitionTuple]:
    offsets = shard.offsets.get(group_id)
    return (
        ()
        if offsets is None
        else [
            partition
            for partition in partitions
            if offsets.is_older_than(partition, before_log_offset)
        ]
    )


def remove_offsets(
    shard: GroupCoordinatorShard, group_id: str, partitions: Sequence[TopicPartitionTuple]
) -> int:
    """Delete the offsets in batches, without yielding; return how many existed."""
    return sum(
        _remove_offsets_batch(shard, group_id, partitions[start : start + MAX_TOMBSTONES_PER_BATCH])
        for start in range(0, len(partitions), MAX_TOMBSTONES_PER_BATCH)
    )


def maybe_delete_group(shard: GroupCoordinatorShard, group_id: str) -> None:
    """Delete the group if it is empty and has no offsets.  Raise KafkaError if the append fails."""
    group = shard.groups.get(group_id)
    if group is not None and group.is_empty and group_id not in shard.offsets:
        remove_group(shard, group)


def remove_group(shard: GroupCoordinatorShard, group: Group) -> None:
    """Delete the group.  Its tombstones are appended first: if that fails, the group stays."""
    tombstones = group.tombstone_keys()
    if tombstones:
        try:
            shard.log.append([(key, None) for key in tombstones])
        except KafkaError as error:
            raise map_append_error(error, GROUP_UPDATE_ERRORS) from error
    group.on_unloaded()
    del shard.groups[group.id]


def remove_deleted_partition_offsets(
    shard: GroupCoordinatorShard,
    group_id: str,
    partitions: Sequence[TopicPartitionTuple],
    *,
    before_log_offset: int,
) -> Iterator[None]:
    """Delete what was committed for deleted partitions before this offset of the group's log.

    Yield between batches.  If an append fails, the offsets stay until they expire.
    """
    count = 0
    try:
        for start in range(0, len(partitions), MAX_TOMBSTONES_PER_BATCH):
            batch = partitions[start : start + MAX_TOMBSTONES_PER_BATCH]
            count += _remove_offsets_batch(
                shard, group_id, _committed_before(shard, group_id, batch, before_log_offset)
            )
            yield
        if count:
            maybe_delete_group(shard, group_id)
    except KafkaError as error:
        log.warning(
            "Failed to remove offsets of group %r for deleted partitions: %s", group_id, error
        )
        return
    if count:
        log.info("Removed %d offsets of group %r for deleted partitions", count, group_id)
