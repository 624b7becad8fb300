"""The members of a classic group, its state, generation, protocol and leader.

No log and no timers; time is an argument.  This module builds the group's record for the log, and
builds a group from its record.

    pending_join_members    member ids that were returned with MEMBER_ID_REQUIRED, and whose clients
                            have not joined with them yet (KIP-394)
    members_awaiting_join   members whose JoinGroup waits for the rebalance to complete
    pending_sync_members    members that know the generation and have not sent SyncGroup yet

Invariant: if there are members, the leader is one of them.  A group that was downgraded from the
consumer protocol has no leader until it has rebalanced: see consumer/migration.py.
Invariant: at least one protocol of a member is supported by all members.

Kafka: ClassicGroup.

Owner: the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from odradek.broker.groups.classic.member import ClassicGroupMember, complete_future
from odradek.broker.groups.classic.messages import (
    ClientIdentity,
    JoinGroupMember,
    JoinGroupResult,
    MemberProtocol,
    SyncGroupResult,
    Timeouts,
)
from odradek.broker.groups.classic.state import (
    VALID_TRANSITIONS,
    ClassicGroupState,
    IllegalTransition,
)
from odradek.broker.groups.classic.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from odradek.protocol.errors import FencedInstanceId, UnknownMemberId
from odradek.protocol.internal.group_log import GroupMetadataValue

UNKNOWN_TIMESTAMP = -1
_NO_REBALANCE_TIMEOUT = -1


class GroupMetadata:
    """The state and the members of one classic group."""

    def __init__(self, *, now_ms: int) -> None:
        self.state = ClassicGroupState.EMPTY
        self.current_state_timestamp_ms = now_ms
        self.protocol_type = ""
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        #: Member ids of static members, by group instance id.
        self.static_members: dict[str, str] = {}
        self.pending_join_members: set[str] = set()
        self.members_awaiting_join: set[str] = set()
        self.pending_sync_members: set[str] = set()
        #: None if the subscriptions are unknown.
        self.subscribed_topics: frozenset[str] | None = None
        #: The number of members that support each protocol.
        self._supported_protocol_counts: Counter[str] = Counter()

    # States

    def transition_to(self, state: ClassicGroupState, *, now_ms: int) -> None:
        if state not in VALID_TRANSITIONS[self.state]:
            raise IllegalTransition(f"{self.state} -> {state}")
        self.state, self.current_state_timestamp_ms = state, now_ms

    def init_next_generation(self, *, now_ms: int) -> None:
        """Start the next generation with the members that have joined; it is empty without any."""
        self.generation += 1
        self.pending_sync_members.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.transition_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms=now_ms)
        else:
            self.protocol = None
            self.transition_to(ClassicGroupState.EMPTY, now_ms=now_ms)
        self.compute_subscribed_topics()

    def compute_subscribed_topics(self) -> None:
        self.subscribed_topics = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.protocol is not None:
            member_metadata = (member.metadata(self.protocol) for member in self.members.values())
            self.subscribed_topics = subscribed_topics(member_metadata)

    # Members

    def add(self, member: ClassicGroupMember, *, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        assert member.id not in self.members, member.id
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, member.instance_id
            self.static_members[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._supported_protocol_counts.update(protocol_names(member.supported_protocols))
        self.pending_join_members.discard(member.id)

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove a member or a pending member id; return the member, if there was one."""
        self.pending_join_members.discard(member_id)
        self.members_awaiting_join.discard(member_id)
        self.pending_sync_members.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._supported_protocol_counts.subtract(protocol_names(member.supported_protocols))
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static_member(self, old_id: str, new_id: str) -> ClassicGroupMember:
        """Give a static member that rejoined a new member id, and fence the old id."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        self.complete_join_future(
            member, JoinGroupResult(member_id=old_id, error=FencedInstanceId())
        )
        member.complete_sync_future(SyncGroupResult(error=FencedInstanceId()))
        self.pending_sync_members.discard(old_id)
        member.id = new_id
        self.members[new_id] = member
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def update_member(
        self, member: ClassicGroupMember, protocols: Sequence[MemberProtocol], timeouts: Timeouts
    ) -> None:
        member.timeouts = timeouts
        if not member.has_same_protocols(protocols):
            self._supported_protocol_counts.subtract(protocol_names(member.supported_protocols))
            member.supported_protocols = tuple(protocols)
            self._supported_protocol_counts.update(protocol_names(member.supported_protocols))

    def complete_join_future(self, member: ClassicGroupMember, result: JoinGroupResult) -> None:
        """Complete the member's waiting JoinGroup, if there is one."""
        future, member.awaiting_join_future = member.awaiting_join_future, None
        self.members_awaiting_join.discard(member.id)
        complete_future(future, result)

    def validate_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """Return the member.

        Raise FencedInstanceId if another member has the instance id, and UnknownMemberId if the
        instance or the member does not exist.
        """
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                raise UnknownMemberId()
            if current_id != member_id:
                raise FencedInstanceId()
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId()
        return member

    @property
    def has_all_members_joined(self) -> bool:
        return (
            len(self.members_awaiting_join) == len(self.members) and not self.pending_join_members
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max(
            (member.timeouts.rebalance_timeout_ms for member in self.members.values()), default=0
        )

    # Protocol selection

    def supports_protocols(self, protocol_type: str, protocols: Sequence[MemberProtocol]) -> bool:
        """Whether a member with these protocols could join."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supported_protocol_counts[protocol.name] == count for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with most votes among those that all members support."""
        count = len(self.members)
        candidates = frozenset(
            name
            for name, supporters in self._supported_protocol_counts.items()
            if supporters == count
        )
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, or elect one that has; return False if none has."""
        if self.leader in self.members_awaiting_join:
            return True
        joined_id = next(
            (member_id for member_id in self.members if member_id in self.members_awaiting_join),
            None,
        )
        if joined_id is None:
            return False
        self.leader = joined_id
        return True

    # Results

    def build_join_result(
        self, member: ClassicGroupMember, *, skip_assignment: bool = False
    ) -> JoinGroupResult:
        """Return the result of JoinGroup in the current generation."""
        return JoinGroupResult(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            skip_assignment=skip_assignment,
            members=self.describe_members() if self.leader == member.id else (),
        )

    def describe_members(self) -> list[JoinGroupMember]:
        assert self.protocol is not None
        return [
            JoinGroupMember(member.id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        ]

    def build_sync_result(self, member: ClassicGroupMember) -> SyncGroupResult:
        return SyncGroupResult(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # Storage

    def to_record_value(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """Build the record value with these assignments, or with the members' current ones."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.current_state_timestamp_ms,
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client.id,
                    client_host=member.client.host,
                    rebalance_timeout=member.timeouts.rebalance_timeout_ms,
                    session_timeout=member.timeouts.session_timeout_ms,
                    subscription=member.metadata(self.protocol) if self.protocol else b"",
                    assignment=(
                        member.assignment if assignments is None else assignments[member.id]
                    ),
                )
                for member in self.members.values()
            ],
        )

    @classmethod
    def from_record_value(cls, value: GroupMetadataValue) -> GroupMetadata:
        """Build the group from its record; a stored group is stable or empty."""
        metadata = cls(now_ms=value.current_state_timestamp)
        metadata.generation = value.generation
        metadata.protocol_type = value.protocol_type
        metadata.protocol = value.protocol
        for record in value.members:
            metadata.add(
                _member_from_record(record, value.protocol), protocol_type=value.protocol_type
            )
        metadata.leader = value.leader
        metadata.state = ClassicGroupState.STABLE if metadata.members else ClassicGroupState.EMPTY
        metadata.compute_subscribed_topics()
        return metadata


def _member_from_record(
    record: GroupMetadataValue.MemberMetadata, protocol: str | None
) -> ClassicGroupMember:
    rebalance_timeout_ms = record.rebalance_timeout
    member = ClassicGroupMember(
        record.member_id,
        instance_id=record.group_instance_id,
        client=ClientIdentity(record.client_id, record.client_host),
        timeouts=Timeouts(
            record.session_timeout,
            # Version 0 has only the session timeout, which applies to rebalances as well.
            record.session_timeout
            if rebalance_timeout_ms == _NO_REBALANCE_TIMEOUT
            else rebalance_timeout_ms,
        ),
        protocols=[MemberProtocol(protocol or "", record.subscription)],
    )
    member.assignment = record.assignment
    return member


def protocol_names(protocols: Iterable[MemberProtocol]) -> frozenset[str]:
    """Return each name once, even if a member lists it twice."""
    return frozenset([protocol.name for protocol in protocols])
