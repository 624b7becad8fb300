"""Offsets committed and deleted: decided, written to the group's log, applied.

What is written is applied at once.  Whoever committed, and whoever asks for offsets, is answered
when it is replicated: an offset that was told is never lost.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.log_failures import OF_A_CHANGE, OF_A_COMMIT, told
from odradek.broker.groups.group import Committer, Group
from odradek.broker.groups.offsets import NEVER, Commit, Place
from odradek.broker.groups.records import offset_key, offset_value
from odradek.broker.groups.shard import GroupShard
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
)
from odradek.storage.log import Written
from odradek.storage.producers.verification_guards import VerificationGuard

log = logging.getLogger(__name__)

#: So many offsets are deleted at once: far from the size that a batch may have, and in a turn.
AT_ONCE = 500


class NewCommit(NamedTuple):
    """What is to be committed."""

    place: Place
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NEVER


class InTransaction(NamedTuple):
    """Whose transaction, and what its first commit here has to present."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None


def commit(
    shard: GroupShard, group_id: str, committer: Committer, commits: Sequence[NewCommit]
) -> Written | None:
    """Raises what the group or its log says against it; None if there was nothing to write."""
    _check(shard, group_id, committer)
    if not commits:
        return None
    try:
        written = shard.log.append(_records(group_id, commits))
    except KafkaError as failure:
        raise told(failure, OF_A_COMMIT) from failure
    offsets, at = shard.offsets_of(group_id), written.first_offset
    for place, offset, leader_epoch, metadata, committed_ms, expires_ms in commits:
        offsets.commit(place, Commit(offset, leader_epoch, metadata, committed_ms, expires_ms, at))
        at += 1
    return written


def commit_in_transaction(
    shard: GroupShard,
    group_id: str,
    committer: Committer,
    transaction: InTransaction,
    commits: Sequence[NewCommit],
) -> Written | None:
    """As ``commit``, but pending until the producer's marker comes."""
    try:
        _check(shard, group_id, committer, is_transactional=True)
    except StaleMemberEpoch as stale:
        raise IllegalGeneration(stale.message) from stale  # which is what producers know
    if not commits:
        return None
    producer_id = transaction.producer_id
    if producer_id < 0 or transaction.producer_epoch < 0:
        raise KafkaError("a transaction of no producer")
    try:
        written = shard.log.append_in_transaction(
            _records(group_id, commits),
            producer_id=producer_id,
            producer_epoch=transaction.producer_epoch,
            guard=transaction.guard,
        )
    except KafkaError as failure:
        raise told(failure, OF_A_COMMIT) from failure
    shard.note_pending(producer_id, group_id)
    offsets, at = shard.offsets_of(group_id), written.first_offset
    for place, offset, leader_epoch, metadata, committed_ms, expires_ms in commits:
        offsets.commit_pending(
            producer_id,
            place,
            Commit(offset, leader_epoch, metadata, committed_ms, expires_ms, at),
        )
        at += 1
    return written


async def wait_until_replicated(shard: GroupShard, written: Written) -> None:
    """Raises what whoever committed is told."""
    try:
        await shard.log.wait_until_replicated(written)
    except KafkaError as failure:
        raise told(failure, OF_A_COMMIT) from failure


def unverified(error: ErrorCode) -> KafkaError:
    """What whoever commits in a transaction is told if its coordinator does not know of it."""
    return told(KafkaError(error=error), OF_A_COMMIT)


def _check(
    shard: GroupShard, group_id: str, committer: Committer, *, is_transactional: bool = False
) -> None:
    """Whoever commits from outside needs no group."""
    group = shard.groups.get(group_id)
    if group is not None:
        group.check_commit(committer, is_transactional=is_transactional)
    elif committer.generation >= 0 and group_id in shard.offsets:
        raise UnknownMemberId()
    elif committer.generation >= 0:
        raise IllegalGeneration()  # of a group that is gone


def _records(group_id: str, commits: Iterable[NewCommit]) -> list[KeyValue]:
    return [
        (
            offset_key(group_id, *place),
            offset_value(
                offset, leader_epoch, metadata, committed_ms=committed_ms, expires_ms=expires_ms
            ),
        )
        for place, offset, leader_epoch, metadata, committed_ms, expires_ms in commits
    ]


def check_exists(shard: GroupShard, group_id: str) -> Group | None:
    """The group, if it ever had members; raises GroupIdNotFound if there are no offsets either."""
    group = shard.groups.get(group_id)
    if group is None and group_id not in shard.offsets:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    return group


def delete_offsets(
    shard: GroupShard, group_id: str, places: Iterable[Place]
) -> dict[Place, KafkaError | None]:
    """What becomes of each; raises what stands against all of it."""
    group = check_exists(shard, group_id)
    if group is not None:
        group.check_offset_delete()
    outcomes: dict[Place, KafkaError | None] = {
        place: GroupSubscribedToTopic()
        if group is not None and group.is_subscribed_to(place[0])
        else None
        for place in places
    }
    forget(shard, group_id, [place for place, failure in outcomes.items() if failure is None])
    forget_group_if_unused(shard, group_id)
    return outcomes


def _forget(shard: GroupShard, group_id: str, places: Iterable[Place]) -> int:
    """Delete what there is at these places; how many there were.  Raises what the log does."""
    offsets = shard.offsets.get(group_id)
    gone = [] if offsets is None else [place for place in places if offsets.has(place)]
    if offsets is None or not gone:
        return 0
    try:
        shard.log.append([(offset_key(group_id, *place), None) for place in gone])
    except KafkaError as failure:
        raise told(failure, OF_A_CHANGE) from failure
    for place in gone:
        offsets.forget(place)
    shard.forget_offsets_if_none(group_id)
    return len(gone)


def _older(
    shard: GroupShard, group_id: str, places: Iterable[Place], before: int
) -> Iterable[Place]:
    offsets = shard.offsets.get(group_id)
    return () if offsets is None else [each for each in places if offsets.is_older(each, before)]


def forget(shard: GroupShard, group_id: str, places: Sequence[Place]) -> int:
    """All of them, some at a time, in one go."""
    return sum(
        _forget(shard, group_id, places[begin : begin + AT_ONCE])
        for begin in range(0, len(places), AT_ONCE)
    )


def forget_group_if_unused(shard: GroupShard, group_id: str) -> None:
    """One that is empty, and has no offsets left.  Raises what the log does."""
    group = shard.groups.get(group_id)
    if group is not None and group.is_empty and group_id not in shard.offsets:
        forget_group(shard, group)


def forget_group(shard: GroupShard, group: Group) -> None:
    """The log comes first, so that the group is still there where it cannot be written."""
    tombstones = group.tombstones()
    if tombstones:
        try:
            shard.log.append([(key, None) for key in tombstones])
        except KafkaError as failure:
            raise told(failure, OF_A_CHANGE) from failure
    group.end()
    del shard.groups[group.id]


def forgetting_partitions(
    shard: GroupShard, group_id: str, partitions: Sequence[Place], *, before: int
) -> Iterator[None]:
    """They are gone, and so is what was committed for them before this offset of the log.

    Where that cannot be written, it stays until it expires.
    """
    count = 0
    try:
        for begin in range(0, len(partitions), AT_ONCE):
            some = partitions[begin : begin + AT_ONCE]
            count += _forget(shard, group_id, _older(shard, group_id, some, before))
            yield
        if count:
            forget_group_if_unused(shard, group_id)
    except KafkaError as failure:
        log.warning("Offsets of %r for deleted partitions stay: %s", group_id, failure)
        return
    if count:
        log.info("%d offsets of %r are deleted with their partitions", count, group_id)
