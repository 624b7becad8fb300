"""A consumer group with its log and its timers.

A decision is appended to the log and applied at once; its response is sent when the records are
replicated.  The timers of a member:

    session       the member sent no heartbeat for ``group.consumer.session.timeout.ms``, or for the
                  session timeout that is set for its group
    revocation    the member did not revoke partitions within its rebalance timeout
    rejoin        a classic member did not rejoin, or send SyncGroup, within its rebalance timeout:
                  see classic_members.py

A member whose timer expires is removed.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from odradek.broker.coordinator.append_errors import STORE_GROUP_ERRORS, map_append_error
from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.assignors import parse_assignors
from odradek.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from odradek.broker.groups.consumer.group_update import DecisionContext, GroupUpdate
from odradek.broker.groups.consumer.member import ConsumerGroupMember, MemberState
from odradek.broker.groups.consumer.member_removal import decide_removal
from odradek.broker.groups.consumer.migration import downgrade, may_downgrade
from odradek.broker.groups.consumer.records import CoordinatorRecord, serialize_record
from odradek.broker.groups.expiration_timer import ExpirationTimer
from odradek.broker.groups.group import Committer, GroupType
from odradek.broker.groups.offsets import OffsetAndMetadata
from odradek.broker.groups.owning_shard import OwningShard
from odradek.protocol.errors import (
    IllegalGeneration,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.protocol.internal.consumer_group_log import ConsumerGroupCurrentMemberAssignmentKey
from odradek.storage.unified_log import LogAppendInfo

log = logging.getLogger("kafka.coordinator.group")

#: The maximum number of generated member ids that no client has joined with yet.
MAX_PENDING_MEMBER_IDS = 1_000


class ConsumerGroupRuntime:
    """The consumer group of one group id.  Kafka: ConsumerGroup and its timers."""

    type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, shard: OwningShard, group: ConsumerGroup) -> None:
        self.shard = shard
        self.group = group
        self._session_timers: dict[str, ExpirationTimer] = {}
        self._revocation_timers: dict[str, ExpirationTimer] = {}
        self._rejoin_timers: dict[str, ExpirationTimer] = {}
        #: Member ids that were given to classic members, which have not joined with them (KIP-394).
        self.pending_member_ids: set[str] = set()

    def add_pending_member_id(self, member_id: str) -> None:
        if len(self.pending_member_ids) >= MAX_PENDING_MEMBER_IDS:
            # A client that joins with a removed id is rejected once, and gets another id.
            self.pending_member_ids.clear()
        self.pending_member_ids.add(member_id)

    # The interface of any group

    @property
    def id(self) -> str:
        return self.group.id

    @property
    def state_name(self) -> str:
        return self.group.state.value

    @property
    def is_empty(self) -> bool:
        return self.group.state is ConsumerGroupState.EMPTY

    def validate_offset_commit(self, committer: Committer, *, is_transactional: bool) -> None:
        if committer.generation_or_member_epoch < 0 and self.is_empty:
            return
        if is_transactional and not committer.is_member:
            return  # the producer does not send its group's metadata
        member = self._get_member(committer.member_id)
        if is_transactional and committer.generation_or_member_epoch != member.epoch:
            raise IllegalGeneration()  # producers do not know StaleMemberEpoch
        if not (is_transactional or member.is_classic or committer.supports_member_epochs):
            raise UnsupportedVersion(
                "Members of the consumer protocol must use OffsetCommit version 9 or above."
            )
        _check_member_epoch(member, committer.generation_or_member_epoch)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        _check_member_epoch(self._get_member(member_id or ""), member_epoch)

    def validate_offset_delete(self) -> None:
        """Accept the request: the subscribed topics are always known."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.group.subscribed_topics()

    def offset_expiration_base_ms(
        self, topic: str, offset_and_metadata: OffsetAndMetadata
    ) -> int | None:
        return None if self.is_subscribed_to(topic) else offset_and_metadata.commit_timestamp_ms

    def tombstone_keys(self) -> list[bytes]:
        return [serialize_record(record)[0] for record in self.deletion_records()]

    def on_loaded(self) -> None:
        for member in self.group.members.values():
            self.reset_session_timer(member)
            self._schedule_revocation_timeout(member)

    def on_unloaded(self) -> None:
        for timers in (self._session_timers, self._revocation_timers, self._rejoin_timers):
            for timer in timers.values():
                timer.cancel()
            timers.clear()

    # Decisions

    @property
    def decision_context(self) -> DecisionContext:
        """The inputs of a decision beside the group and the request."""
        context = self.shard.context
        settings = context.consumer_settings
        return DecisionContext(
            context.topics_provider.current,
            context.now_ms(),
            parse_assignors(settings.assignors),
            settings.max_size,
        )

    def deletion_records(self) -> list[CoordinatorRecord]:
        """Return the tombstones of the group and of everything in it."""
        return records.new_group_tombstones(
            self.id, self.group.members, self.group.resolved_regexes
        )

    def write(self, update: GroupUpdate) -> LogAppendInfo | None:
        """Append the update's records and apply them; on KafkaError the group is unchanged."""
        if not update.records:
            return None
        append_info = self._append([serialize_record(record) for record in update.records])
        self.apply_update(update)
        return append_info

    def _append(self, encoded_records: Sequence[KeyValue]) -> LogAppendInfo:
        try:
            return self.shard.log.append(encoded_records)
        except KafkaError as error:
            raise map_append_error(error, STORE_GROUP_ERRORS) from error

    def apply_update(self, update: GroupUpdate) -> None:
        """Replace the group by the updated one: its records are in the log."""
        self.group = update.group
        for record in update.records:
            if isinstance(record.key, ConsumerGroupCurrentMemberAssignmentKey):
                member = self.group.members.get(record.key.member_id)
                if member is None:
                    self._cancel_timers(record.key.member_id)
                else:
                    self._schedule_revocation_timeout(member)

    def delete(self) -> None:
        """Delete all records of the group, so that a classic group of this id can replace it.

        Its offsets stay.
        """
        self._append([(key, None) for key in self.tombstone_keys()])
        self.on_unloaded()
        del self.shard.groups[self.id]

    def remove_members(self, member_ids: Sequence[str]) -> None:
        """Remove members; downgrade the group if only classic members remain."""
        if may_downgrade(self, leaving_member_ids=member_ids):
            downgrade(self, leaving_member_ids=member_ids)
        else:
            self.write(decide_removal(self.group, member_ids, self.decision_context))

    # Timers

    def reset_session_timer(self, member: ConsumerGroupMember) -> None:
        """Remove the member at the timeout.  Kafka: scheduleConsumerGroupSessionTimeout."""
        timer = self._session_timers.get(member.id)
        if timer is None:
            timer = self._session_timers[member.id] = self._new_timer(
                member.id, "sent no heartbeat within its session timeout"
            )
        classic_metadata = member.metadata.classic_metadata
        default_ms = self.shard.context.group_settings_for(self.id).session_timeout_ms
        timer.reset(
            timeout_ms=default_ms
            if classic_metadata is None
            else classic_metadata.session_timeout_ms
        )

    def schedule_rejoin_timeout(self, member: ConsumerGroupMember, *, restart: bool) -> None:
        """Start the rejoin timer; if it runs already, restart it only if ``restart`` is set."""
        timer = self._rejoin_timers.get(member.id)
        if timer is None:
            timer = self._rejoin_timers[member.id] = self._new_timer(
                member.id, "did not rejoin within its rebalance timeout"
            )
        if restart or not timer.is_scheduled:
            timer.reset(timeout_ms=member.metadata.rebalance_timeout_ms)

    def cancel_rejoin_timeout(self, member_id: str) -> None:
        _cancel_timer(self._rejoin_timers, member_id)

    def _schedule_revocation_timeout(self, member: ConsumerGroupMember) -> None:
        _cancel_timer(self._revocation_timers, member.id)
        if (
            member.current_assignment.state is MemberState.UNREVOKED_PARTITIONS
            and not member.is_classic
        ):
            reason = f"did not revoke its partitions in epoch {member.epoch} in time"
            timer = self._revocation_timers[member.id] = self._new_timer(member.id, reason)
            timer.reset(timeout_ms=member.metadata.rebalance_timeout_ms)

    def _new_timer(self, member_id: str, reason: str) -> ExpirationTimer:
        return ExpirationTimer(
            self.shard.context.loop, partial(self._on_timeout, member_id, reason)
        )

    def _on_timeout(self, member_id: str, reason: str) -> None:
        log.info("Member %s in group %r %s, removing it from the group", member_id, self.id, reason)
        try:
            self.remove_members([member_id])
        except KafkaError as error:
            log.warning("Failed to remove member %s from group %r: %s", member_id, self.id, error)
            self._reschedule_timers(self.group.members[member_id])

    def _reschedule_timers(self, member: ConsumerGroupMember) -> None:
        """Restart the timers of the member that have expired."""
        session, rejoin = self._session_timers.get(member.id), self._rejoin_timers.get(member.id)
        if session is None or not session.is_scheduled:
            self.reset_session_timer(member)
        if (
            member.id in self._revocation_timers
            and not self._revocation_timers[member.id].is_scheduled
        ):
            self._schedule_revocation_timeout(member)
        if rejoin is not None:
            self.schedule_rejoin_timeout(member, restart=False)

    def _cancel_timers(self, member_id: str) -> None:
        for timers in (self._session_timers, self._revocation_timers, self._rejoin_timers):
            _cancel_timer(timers, member_id)

    def _get_member(self, member_id: str) -> ConsumerGroupMember:
        member = self.group.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not in group {self.id}.")
        return member


def _check_member_epoch(member: ConsumerGroupMember, epoch: int) -> None:
    if epoch != member.epoch:
        message = f"The coordinator has member epoch {member.epoch}, the request has {epoch}."
        raise IllegalGeneration(message) if member.is_classic else StaleMemberEpoch(message)


def _cancel_timer(timers: dict[str, ExpirationTimer], member_id: str) -> None:
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()
