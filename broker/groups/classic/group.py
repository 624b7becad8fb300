"""A classic group: its metadata, its timers, its rebalances, and its records in the log.

A rebalance has two phases.  In the first phase all members join:

    prepare_rebalance   waiting SyncGroup requests fail, and their members join again
    all have joined     or the rebalance timeout passes: dynamic members that have not joined are
                        removed, static members stay
    _complete_join      a new generation begins; each member learns the leader, and the leader
                        learns the members

In the second phase each member gets its assignment: see sync.py.  A member that sends no SyncGroup
is removed when the rebalance timeout passes.

The first rebalance of an empty group waits for ``group.initial.rebalance.delay.ms``, and again if
new members have joined meanwhile, up to the rebalance timeout.  A starting group therefore does not
rebalance once per member.

The group is stored when it becomes stable or empty, and when a static member rejoins with a new
member id.  State that is not stored is lost when the coordinator moves, and the members join again.

Kafka: ClassicGroup.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from odradek.broker.groups.classic.group_metadata import UNKNOWN_TIMESTAMP, GroupMetadata
from odradek.broker.groups.classic.member import ClassicGroupMember
from odradek.broker.groups.classic.messages import (
    UNKNOWN_MEMBER_ID,
    JoinGroupResult,
    SyncGroupResult,
)
from odradek.broker.groups.classic.state import ClassicGroupState, check_api_allowed
from odradek.broker.groups.classic.subscriptions import CONSUMER_PROTOCOL_TYPE
from odradek.broker.groups.expiration_timer import ExpirationTimer
from odradek.broker.groups.group import Committer, GroupType
from odradek.broker.groups.offsets import OffsetAndMetadata
from odradek.broker.groups.owning_shard import OwningShard
from odradek.broker.groups.records import group_key, group_value
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import (
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from odradek.protocol.internal.group_log import GroupMetadataValue
from odradek.storage.unified_log import LogAppendInfo

log = logging.getLogger("kafka.coordinator.group")

#: The session timeout of a new member until its first rebalance completes.  The member has no id to
#: send heartbeats with.  If its client disconnects and joins again, the group waits for two members
#: until this timeout removes the first one.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


class ClassicGroup:
    """The classic group of one group id."""

    type = GroupType.CLASSIC

    def __init__(
        self, shard: OwningShard, group_id: str, metadata: GroupMetadata | None = None
    ) -> None:
        self.id = group_id
        self.shard = shard
        self.metadata = metadata or GroupMetadata(now_ms=shard.context.now_ms())
        loop = shard.context.loop
        self._join_timer = ExpirationTimer(loop, self._on_join_timeout)
        self._sync_timer = ExpirationTimer(loop, self._on_sync_timeout)
        self._pending_member_timers: dict[str, ExpirationTimer] = {}
        #: The initial rebalance: the current delay, the remaining delay (None outside of the
        #: initial rebalance), and whether a new member has joined during the current delay.
        self._initial_delay_ms = 0
        self._initial_delay_remaining_ms: int | None = None
        self._has_new_member = False
        #: Whether the assignment is replicated, and SyncGroup may therefore return it.
        self.is_assignment_propagated = True

    @classmethod
    def from_record(
        cls, shard: OwningShard, group_id: str, value: GroupMetadataValue
    ) -> ClassicGroup:
        return cls(shard, group_id, GroupMetadata.from_record_value(value))

    # The interface of any group

    @property
    def state_name(self) -> str:
        return self.metadata.state.value

    @property
    def protocol_type(self) -> str:
        return self.metadata.protocol_type

    @property
    def is_empty(self) -> bool:
        return self.metadata.state is ClassicGroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether the group has no members, never had any, and has no pending member ids."""
        return (
            self.is_empty
            and not self.metadata.generation
            and not self.metadata.pending_join_members
        )

    def validate_offset_commit(self, committer: Committer, *, is_transactional: bool) -> None:
        metadata = self.metadata
        if metadata.state is ClassicGroupState.DEAD:
            check_api_allowed(metadata.state, ApiKey.OFFSET_COMMIT)
        if committer.generation_or_member_epoch < 0 and metadata.state is ClassicGroupState.EMPTY:
            return
        if committer.is_member:
            member = self.validate_member_generation(
                committer.member_id, committer.instance_id, committer.generation_or_member_epoch
            )
            if not is_transactional:
                check_api_allowed(metadata.state, ApiKey.OFFSET_COMMIT)
                member.reset_session_timer()
        elif not is_transactional:
            raise UnknownMemberId()  # the group has members, and only members may commit

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Accept every client: OffsetFetch names members of consumer groups only."""

    def validate_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup()

    def is_subscribed_to(self, topic: str) -> bool:
        if self.is_empty:
            return False
        subscribed_topics = self.metadata.subscribed_topics
        return subscribed_topics is None or topic in subscribed_topics

    def offset_expiration_base_ms(
        self, topic: str, offset_and_metadata: OffsetAndMetadata
    ) -> int | None:
        metadata = self.metadata
        if not metadata.protocol_type:
            return offset_and_metadata.commit_timestamp_ms
        if metadata.state is ClassicGroupState.EMPTY:
            base_ms = metadata.current_state_timestamp_ms
            return (
                offset_and_metadata.commit_timestamp_ms if base_ms == UNKNOWN_TIMESTAMP else base_ms
            )
        is_subscription_known = (
            metadata.protocol_type == CONSUMER_PROTOCOL_TYPE
            and metadata.subscribed_topics is not None
        )
        if (
            is_subscription_known
            and metadata.state is ClassicGroupState.STABLE
            and not self.is_subscribed_to(topic)
        ):
            return offset_and_metadata.commit_timestamp_ms
        return None

    def tombstone_keys(self) -> list[bytes]:
        return [group_key(self.id)] if self.metadata.generation > 0 else []

    def on_loaded(self) -> None:
        members = self.metadata.members
        if len(members) > self.shard.context.settings.max_size:
            self.prepare_rebalance("group was loaded with more members than group.max.size")
        elif members and self.metadata.leader is None:
            self.prepare_rebalance("group was downgraded from the consumer protocol")
        for member in members.values():
            self._start_session_timer(member)

    def on_unloaded(self) -> None:
        for member in [*self.metadata.members.values()]:
            self.metadata.complete_join_future(
                member, JoinGroupResult(member_id=member.id, error=NotCoordinator())
            )
            member.complete_sync_future(SyncGroupResult(error=NotCoordinator()))
            self._cancel_session_timer(member)
        for timer in self._pending_member_timers.values():
            timer.cancel()
        self._join_timer.cancel()
        self._sync_timer.cancel()
        self._transition_to(ClassicGroupState.DEAD)

    # Members

    def validate_member_generation(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ClassicGroupMember:
        """Return the member; raise KafkaError if it is unknown, fenced or in another generation."""
        member = self.metadata.validate_member(member_id, instance_id)
        if generation != self.metadata.generation:
            raise IllegalGeneration()
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Reset the member's session timer; raise KafkaError if the member must act."""
        state = self.metadata.state
        if state is ClassicGroupState.DEAD:
            check_api_allowed(state, ApiKey.HEARTBEAT)
        self.validate_member_generation(member_id, instance_id, generation).reset_session_timer()
        check_api_allowed(state, ApiKey.HEARTBEAT)

    def add_member(self, member: ClassicGroupMember, *, protocol_type: str) -> None:
        """Add a new member, which waits for its first rebalance."""
        self._cancel_pending_member_timer(member.id)
        is_waiting = self.metadata.state is ClassicGroupState.PREPARING_REBALANCE
        if is_waiting and self.metadata.generation == 0:
            self._has_new_member = True
        self.metadata.add(member, protocol_type=protocol_type)
        member.is_new = True
        self._start_session_timer(member, timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS)

    def add_pending_member(self, member_id: str, *, session_timeout_ms: int) -> None:
        """Wait one session timeout for the client that was given this member id (KIP-394)."""
        timer = ExpirationTimer(
            self.shard.context.loop, partial(self.remove_pending_member, member_id)
        )
        timer.reset(timeout_ms=session_timeout_ms)
        self.metadata.pending_join_members.add(member_id)
        self._pending_member_timers[member_id] = timer

    def remove_pending_member(self, member_id: str) -> None:
        self._cancel_pending_member_timer(member_id)
        self.metadata.pending_join_members.discard(member_id)
        self.maybe_complete_join()

    def _cancel_pending_member_timer(self, member_id: str) -> None:
        timer = self._pending_member_timers.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def remove_member(self, member: ClassicGroupMember) -> None:
        """Remove the member without a rebalance."""
        self._cancel_session_timer(member)
        self.metadata.remove(member.id)
        member.complete_sync_future(SyncGroupResult(error=UnknownMemberId()))

    def remove_member_and_rebalance(self, member: ClassicGroupMember, reason: str) -> None:
        """Remove the member; the others rebalance to share its partitions."""
        rejection = JoinGroupResult(member_id=UNKNOWN_MEMBER_ID, error=UnknownMemberId())
        self.metadata.complete_join_future(member, rejection)
        self.remove_member(member)
        state = self.metadata.state
        if state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(reason)
        else:
            self.maybe_complete_join()

    # Sessions

    def _start_session_timer(
        self, member: ClassicGroupMember, *, timeout_ms: int | None = None
    ) -> None:
        self._cancel_session_timer(member)
        member.session_timer = ExpirationTimer(
            self.shard.context.loop, partial(self._on_session_expired, member)
        )
        member.session_timer.reset(
            timeout_ms=member.timeouts.session_timeout_ms if timeout_ms is None else timeout_ms
        )

    def _cancel_session_timer(self, member: ClassicGroupMember) -> None:
        if member.session_timer is not None:
            member.session_timer.cancel()

    def _on_session_expired(self, member: ClassicGroupMember) -> None:
        """Remove the member.  Kafka: onExpireHeartbeat, expireClassicGroupMemberHeartbeat."""
        # A member with a waiting request cannot send heartbeats; its response restarts the session.
        if not member.has_satisfied_heartbeat:
            log.info(
                "Member %s in group %r has failed, removing it from the group", member.id, self.id
            )
            self.remove_member_and_rebalance(
                member, f"removing member {member.id} on heartbeat expiration"
            )

    # Rebalance, first phase: members join

    def prepare_rebalance(self, reason: str) -> None:
        """Start a rebalance, from any state but PREPARING_REBALANCE and DEAD."""
        metadata, settings = self.metadata, self.shard.context.settings
        log.info(
            "Preparing to rebalance group %r with old generation %d (reason: %s)",
            self.id,
            metadata.generation,
            reason,
        )
        if metadata.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.reset_assignments_with_error(RebalanceInProgress())
        else:
            # The assignment is stored but may not be replicated: SyncGroup requests may be waiting.
            self._fail_sync_futures(RebalanceInProgress())
        self._clear_pending_sync()
        if metadata.state is ClassicGroupState.EMPTY:
            wait_ms = settings.initial_rebalance_delay_ms
            self._initial_delay_ms = wait_ms
            self._initial_delay_remaining_ms = max(metadata.rebalance_timeout_ms - wait_ms, 0)
        else:
            self._initial_delay_remaining_ms = None
            wait_ms = metadata.rebalance_timeout_ms
        self._transition_to(ClassicGroupState.PREPARING_REBALANCE)
        self._join_timer.cancel()
        self._join_timer.reset(timeout_ms=wait_ms)
        self.maybe_complete_join()

    def maybe_complete_join(self) -> None:
        """Complete the join if all members have joined, except in the initial rebalance.

        The initial rebalance waits for its delay, since more members are likely to join.
        """
        is_preparing = self.metadata.state is ClassicGroupState.PREPARING_REBALANCE
        is_initial = self._initial_delay_remaining_ms is not None
        if is_preparing and not is_initial and self.metadata.has_all_members_joined:
            self._complete_join()

    def _on_join_timeout(self) -> None:
        remaining_ms = self._initial_delay_remaining_ms
        if remaining_ms and self._has_new_member:
            self._has_new_member = False
            wait_ms = min(self.shard.context.settings.initial_rebalance_delay_ms, remaining_ms)
            self._initial_delay_remaining_ms = max(remaining_ms - self._initial_delay_ms, 0)
            self._initial_delay_ms = wait_ms
            self._join_timer.reset(timeout_ms=wait_ms)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        """Start the next generation.  Kafka: onCompleteJoin, completeClassicGroupJoin."""
        metadata = self.metadata
        self._join_timer.cancel()
        for member in [*metadata.members.values()]:
            if member.awaiting_join_future is None and member.instance_id is None:
                log.info("Removed member %s that has not joined from group %r", member.id, self.id)
                self.remove_member(member)
        if metadata.members and not metadata.elect_leader():
            # Only absent static members: wait until they rejoin or their sessions expire.
            self._initial_delay_remaining_ms = None
            self._join_timer.reset(timeout_ms=metadata.rebalance_timeout_ms)
            return
        self._initial_delay_remaining_ms = None
        self._has_new_member = False
        metadata.init_next_generation(now_ms=self.shard.context.now_ms())
        if metadata.members:
            self._complete_join_futures()
        else:
            self._store_empty()

    def _complete_join_futures(self) -> None:
        metadata = self.metadata
        members = f"{len(metadata.members)} members, leader {metadata.leader}"
        log.info("Stabilized group %r generation %d with %s", self.id, metadata.generation, members)
        for member in metadata.members.values():
            metadata.complete_join_future(member, metadata.build_join_result(member))
            member.is_new = False
            member.reset_session_timer()
            metadata.pending_sync_members.add(member.id)
        self._sync_timer.reset(timeout_ms=metadata.rebalance_timeout_ms)

    def _store_empty(self) -> None:
        log.info("Group %r with generation %d is now empty", self.id, self.metadata.generation)
        try:
            self.store()
        except KafkaError as error:
            # After a failover the last generation is loaded; its members' sessions soon expire.
            log.warning("Failed to store that group %r is empty: %s", self.id, error)

    # Rebalance, second phase: members get their assignments

    def remove_pending_sync_member(self, member: ClassicGroupMember) -> None:
        self.metadata.pending_sync_members.discard(member.id)
        if not self.metadata.pending_sync_members:
            self._sync_timer.cancel()

    def set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        """Apply the stored assignments; SyncGroup requests wait until they are replicated."""
        for member in self.metadata.members.values():
            member.assignment = assignments[member.id]
        self.is_assignment_propagated = False
        # Keep the stored timestamp, which is that of the previous state.
        self._transition_to(
            ClassicGroupState.STABLE, timestamp_ms=self.metadata.current_state_timestamp_ms
        )

    def propagate_assignment(self) -> None:
        self.is_assignment_propagated = True
        for member in self.metadata.members.values():
            if member.complete_sync_future(self.metadata.build_sync_result(member)):
                member.reset_session_timer()

    def reset_assignments_with_error(self, error: KafkaError) -> None:
        """Clear all assignments and fail the waiting SyncGroup requests."""
        for member in self.metadata.members.values():
            member.assignment = b""
        self._fail_sync_futures(error)

    def _fail_sync_futures(self, error: KafkaError) -> None:
        for member in self.metadata.members.values():
            if member.complete_sync_future(SyncGroupResult(error=error)):
                member.reset_session_timer()

    def _clear_pending_sync(self) -> None:
        self.metadata.pending_sync_members.clear()
        self._sync_timer.cancel()

    def _on_sync_timeout(self) -> None:
        """Remove members that have not sent SyncGroup, in any state.

        The group may have been stable for long: the leader may assign before the others sync.
        """
        late_members = [
            self.metadata.members[member_id] for member_id in self.metadata.pending_sync_members
        ]
        for member in late_members:
            self.remove_member(member)
        if late_members:
            self.prepare_rebalance(
                f"removed {len(late_members)} members on pending sync request expiration"
            )

    # Storage

    def store(self, assignments: Mapping[str, bytes] | None = None) -> LogAppendInfo:
        """Append the group's record to the log; raise KafkaError if the append fails."""
        value = group_value(self.metadata.to_record_value(assignments))
        return self.shard.log.append([(group_key(self.id), value)])

    def _transition_to(self, state: ClassicGroupState, *, timestamp_ms: int | None = None) -> None:
        now_ms = self.shard.context.now_ms() if timestamp_ms is None else timestamp_ms
        self.metadata.transition_to(state, now_ms=now_ms)
