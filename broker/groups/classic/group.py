"""A classic group: its roster, its timers, its rebalances, and what is stored of it.

A rebalance goes through two phases.  First everybody joins:

    prepare_rebalance   whoever waits for an assignment is sent away to join again
    all have joined     or the time is up: those who have not are out, but for static members
    complete_join       another generation; each is told who leads, and the leader who is there

then everybody is given a part: see sync.py.  Whoever never asks for it is out when the time is up.

The first rebalance of an empty group waits for ``group.initial.rebalance.delay.ms``, and for as
long again whenever others have come meanwhile, so that a group that starts does not rebalance for
each.

What must survive the coordinator is stored when the group becomes stable or empty, and when a
static member comes back under another id.  What has not been stored is lost with its coordinator,
and its members join again.

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

log = logging.getLogger(__name__)

#: How long a new member's first rebalance may take.  It has no id to send heartbeats with, and a
#: client that has gone and joined anew would be waited for twice.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


class ClassicGroup:
    """Of one id."""

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
        #: Of the first rebalance: how long it waits now, how much longer at most, and whether
        #: anybody has come meanwhile.
        self._initial_delay_ms = 0
        self._initial_delay_remaining_ms: int | None = None
        self._has_new_member = False
        #: Whether the assignment is replicated, so that members may be told of it.
        self.is_assignment_propagated = True

    @classmethod
    def from_record(
        cls, shard: OwningShard, group_id: str, value: GroupMetadataValue
    ) -> ClassicGroup:
        return cls(shard, group_id, GroupMetadata.from_record_value(value))

    # What any group can tell

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
        """Whether nobody would miss it: it has no members, and never had any."""
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
            raise UnknownMemberId()  # there are members, and only they commit

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may."""

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
            self.prepare_rebalance("it was loaded with too many members")
        elif members and self.metadata.leader is None:
            self.prepare_rebalance("it has been downgraded")
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
        """Refused if it is no member, or thinks of another generation."""
        member = self.metadata.validate_member(member_id, instance_id)
        if generation != self.metadata.generation:
            raise IllegalGeneration()
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """A member is alive; raises what it is told."""
        state = self.metadata.state
        if state is ClassicGroupState.DEAD:
            check_api_allowed(state, ApiKey.HEARTBEAT)
        self.validate_member_generation(member_id, instance_id, generation).reset_session_timer()
        check_api_allowed(state, ApiKey.HEARTBEAT)

    def add_member(self, member: ClassicGroupMember, *, protocol_type: str) -> None:
        """One that waits for its first rebalance."""
        self._cancel_pending_member_timer(member.id)
        is_waiting = self.metadata.state is ClassicGroupState.PREPARING_REBALANCE
        if is_waiting and self.metadata.generation == 0:
            self._has_new_member = True
        self.metadata.add(member, protocol_type=protocol_type)
        member.is_new = True
        self._start_session_timer(member, timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS)

    def add_pending_member(self, member_id: str, *, session_timeout_ms: int) -> None:
        """Whoever was told this id is waited for, as long as for a heartbeat."""
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
        """It is out, without further ado."""
        self._cancel_session_timer(member)
        self.metadata.remove(member.id)
        member.complete_sync_future(SyncGroupResult(error=UnknownMemberId()))

    def remove_member_and_rebalance(self, member: ClassicGroupMember, reason: str) -> None:
        """It is out, and the others share what it had."""
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
        # Who waits for us is heard again when it is answered.
        if not member.has_satisfied_heartbeat:
            log.info("Member %s of %r has not been heard of, and is out", member.id, self.id)
            self.remove_member_and_rebalance(
                member, f"removing member {member.id} on heartbeat expiration"
            )

    # Rebalances: everybody joins

    def prepare_rebalance(self, reason: str) -> None:
        """From any state but the one that it leads to."""
        metadata, settings = self.metadata, self.shard.context.settings
        log.info(
            "Group %r rebalances after generation %d: %s", self.id, metadata.generation, reason
        )
        if metadata.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.reset_assignments_with_error(RebalanceInProgress())
        else:
            # The assignment is stored, and may not be replicated yet.
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
        """Not in a first rebalance: others are about to come."""
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
        metadata = self.metadata
        self._join_timer.cancel()
        for member in [*metadata.members.values()]:
            if member.awaiting_join_future is None and member.instance_id is None:
                log.info("Member %s of %r has not joined, and is out", member.id, self.id)
                self.remove_member(member)
        if metadata.members and not metadata.elect_leader():
            # Static members that are away: their sessions end, or they come back.
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
        log.info("Group %r is in generation %d: %s", self.id, metadata.generation, members)
        for member in metadata.members.values():
            metadata.complete_join_future(member, metadata.build_join_result(member))
            member.is_new = False
            member.reset_session_timer()
            metadata.pending_sync_members.add(member.id)
        self._sync_timer.reset(timeout_ms=metadata.rebalance_timeout_ms)

    def _store_empty(self) -> None:
        log.info("Group %r is empty in generation %d", self.id, self.metadata.generation)
        try:
            self.store()
        except KafkaError as error:
            # Its last generation would come back, and its members' sessions be over soon.
            log.warning("That group %r is empty could not be stored: %s", self.id, error)

    # Rebalances: everybody is given a part

    def remove_pending_sync_member(self, member: ClassicGroupMember) -> None:
        self.metadata.pending_sync_members.discard(member.id)
        if not self.metadata.pending_sync_members:
            self._sync_timer.cancel()

    def set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        """What has been stored; those who wait are told when it is replicated."""
        for member in self.metadata.members.values():
            member.assignment = assignments[member.id]
        self.is_assignment_propagated = False
        # As it was stored: the state's own time is that of the phase before.
        self._transition_to(
            ClassicGroupState.STABLE, timestamp_ms=self.metadata.current_state_timestamp_ms
        )

    def propagate_assignment(self) -> None:
        self.is_assignment_propagated = True
        for member in self.metadata.members.values():
            if member.complete_sync_future(self.metadata.build_sync_result(member)):
                member.reset_session_timer()

    def reset_assignments_with_error(self, error: KafkaError) -> None:
        """Whoever waits is told, and nobody has a part."""
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
        """In whatever state: a leader may have assigned long before others have asked."""
        late_members = [
            self.metadata.members[member_id] for member_id in self.metadata.pending_sync_members
        ]
        for member in late_members:
            self.remove_member(member)
        if late_members:
            self.prepare_rebalance(
                f"removed {len(late_members)} members on pending sync request expiration"
            )

    # What is stored

    def store(self, assignments: Mapping[str, bytes] | None = None) -> LogAppendInfo:
        """Raises what the log does."""
        value = group_value(self.metadata.to_record_value(assignments))
        return self.shard.log.append([(group_key(self.id), value)])

    def _transition_to(self, state: ClassicGroupState, *, timestamp_ms: int | None = None) -> None:
        now_ms = self.shard.context.now_ms() if timestamp_ms is None else timestamp_ms
        self.metadata.transition_to(state, now_ms=now_ms)
