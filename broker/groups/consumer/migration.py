"""Groups that pass from the classic to the consumer protocol, and back, while they have members.

A classic group is upgraded when a member of the new protocol joins it.  Its members stay, with what
they have, go on speaking the classic protocol (classic_members.py), and rebalance.  When the last
member of the new protocol goes, those who are left are a classic group again, and rebalance: the
record that says so names no leader, so that whoever loads it knows.  If it came back as a classic
member, and all have what they shall have, there is nothing to share.

Either way the records of the one are deleted and those of the other written in one batch, so that
the log never has both, or neither.  ``group.consumer.migration.policy`` says what is allowed.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from odradek.broker.coordinator.log_failures import OF_A_GROUP, told
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.outcomes import Joined, Offer, Synced, Timeouts
from odradek.broker.groups.classic.roster import Roster
from odradek.broker.groups.classic.subscriptions import CONSUMER
from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.classic_blobs import (
    read_assignment,
    read_subscription,
    written_assignment,
)
from odradek.broker.groups.consumer.group import ConsumerGroup, GroupState
from odradek.broker.groups.consumer.member import (
    ClassicMember,
    ClassicProtocol,
    CurrentAssignment,
    Member,
    MemberMetadata,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import TopicIdPartition
from odradek.broker.groups.consumer.records import Record, as_stored
from odradek.broker.groups.consumer.topics import Topics
from odradek.broker.groups.records import group_key, group_value
from odradek.protocol.errors import DecodeError, GroupIdNotFound, KafkaError, RebalanceInProgress
from odradek.protocol.internal.group_log import GroupMetadataValue

if TYPE_CHECKING:
    from odradek.broker.groups.classic.member import Member as MemberOfClassic
    from odradek.broker.groups.consumer.live_group import LiveGroup

log = logging.getLogger(__name__)

#: The hash of no topics, so that the first heartbeat has them shared.  What the members have was
#: shared by one of them, of topics that may have grown since, and perhaps among others.
_SHARED_BY_OTHERS = 0


# From classic to consumer


def check_upgrade(classic: ClassicGroup) -> None:
    """Raises GroupIdNotFound, as to whoever asks for a consumer group where there is none."""
    settings = classic.home.world.consumer_settings
    if not settings.may_upgrade:
        raise GroupIdNotFound(f"{classic.id} is a classic group, and may not be upgraded.")
    if classic.protocol_type != CONSUMER:
        raise GroupIdNotFound(f"{classic.id} is a classic group, and not one of consumers.")
    if len(classic.roster.members) > settings.max_size:
        raise GroupIdNotFound(f"{classic.id} is a classic group, and too large to be upgraded.")


def upgraded(classic: ClassicGroup, topics: Topics) -> tuple[ConsumerGroup, list[Record]]:
    """The group as one of ours, and its records.  Raises GroupIdNotFound."""
    try:
        members = list(_members(classic.roster, topics))
    except DecodeError as broken:
        raise GroupIdNotFound(
            f"{classic.id} is a classic group whose members speak otherwise: {broken}"
        ) from broken
    group, epoch = ConsumerGroup(classic.id), classic.roster.generation
    written = [
        *(records.member_metadata(group.id, each.id, each.metadata) for each in members),
        records.group_epoch(group.id, epoch, _SHARED_BY_OTHERS),
        *(records.target_member(group.id, each.id, each.current.assigned) for each in members),
        records.target_epoch(group.id, epoch),
        *(records.current_assignment(group.id, each.id, each.current) for each in members),
    ]
    for record in written:
        group.apply(record)
    return group, written


def dismiss(classic: ClassicGroup) -> None:
    """It has become one of ours: whoever waits joins again, and finds it so."""
    for member in [*classic.roster.members.values()]:
        failure = RebalanceInProgress()
        classic.roster.answer_join(member, Joined(member_id=member.id, failure=failure))
        member.answer_sync(Synced(failure=failure))
    classic.end()


def _members(roster: Roster, topics: Topics) -> Iterator[Member]:
    given = {each.id: read_assignment(each.assignment, topics) for each in roster.members.values()}
    of_somebody = frozenset().union(*given.values())
    taken: set[TopicIdPartition] = set()
    for member in roster.members.values():
        offered = {each.name: each.metadata for each in member.offers}
        # One that came for the next generation need not offer what was chosen for this one.
        told_by = offered.get(roster.protocol or "", member.offers[0].metadata)
        subscription = read_subscription(told_by, topics)
        # A cooperative member reads on what it had when it joined, and may commit that, until it
        # joins again: what the leader is about to move, or has not come to assign anew.
        held = given[member.id] | (subscription.owned - of_somebody)
        assigned = held - taken
        taken |= assigned
        yield Member(
            member.id,
            MemberMetadata(
                instance_id=member.instance_id,
                rack_id=subscription.rack_id,
                client_id=member.client.id,
                client_host=member.client.host,
                subscription=Subscription(subscription.names),
                rebalance_timeout_ms=member.timeouts.rebalance_ms,
                classic=_classic(member),
            ),
            CurrentAssignment(roster.generation, roster.generation, assigned=assigned),
        )


def _classic(member: MemberOfClassic) -> ClassicMember:
    return ClassicMember(
        member.timeouts.session_ms,
        tuple(ClassicProtocol(each.name, each.metadata) for each in member.offers),
    )


# From consumer to classic


def may_downgrade(live: LiveGroup, *, without: Collection[str]) -> bool:
    """Whether those who would be left, if these go, all speak the classic protocol."""
    world, members = live.home.world, live.group.members
    left = [member for member in members.values() if member.id not in without]
    return (
        world.consumer_settings.may_downgrade
        and 0 < len(left) <= world.settings.max_size
        and all(member.is_classic for member in left)
    )


def downgrade(
    live: LiveGroup, *, without: Collection[str], leader: str | None = None
) -> ClassicGroup:
    """Raises what the members are told, and nothing has changed then.

    ``leader`` is one that will be told so: without any, or if there is something to share, the
    group rebalances.  A leader that did not know would not see topics grow.
    """
    topics = live.around.topics
    left = [member for member in live.group.members.values() if member.id not in without]
    roster = _roster(
        live.group,
        left,
        topics,
        leader=leader if live.group.state is GroupState.STABLE else None,
        now_ms=live.home.world.now_ms(),
    )
    deleted = [(as_stored(record)[0], None) for record in live.deletions()]
    stored = (group_key(live.id), group_value(roster.stored()))
    try:
        live.home.log.append([*deleted, stored])
    except KafkaError as failure:
        raise told(failure, OF_A_GROUP) from failure
    log.info("Group %r is a classic one again, with %d members", live.id, len(left))
    live.end()
    classic = ClassicGroup(live.home, live.id, roster)
    live.home.groups[live.id] = classic
    classic.begin()
    return classic


def _roster(
    group: ConsumerGroup, left: list[Member], topics: Topics, *, leader: str | None, now_ms: int
) -> Roster:
    protocol = _common_protocol(left)
    roster = Roster.restored(
        GroupMetadataValue(
            protocol_type=CONSUMER,
            generation=group.epoch,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=now_ms,
            members=[_stored_member(member, protocol, topics) for member in left],
        )
    )
    for member in left:
        assert member.metadata.classic is not None
        offers = [Offer(each.name, each.metadata) for each in member.metadata.classic.protocols]
        timeouts = Timeouts(
            member.metadata.classic.session_timeout_ms, member.metadata.rebalance_timeout_ms
        )
        roster.update(roster.members[member.id], offers, timeouts)
    return roster


def _common_protocol(members: list[Member]) -> str:
    """One that all offer, as was checked when they joined."""
    offered = [[each.name for each in protocols_of(member)] for member in members]
    return next((name for name in offered[0] if all(name in each for each in offered)), "")


def _stored_member(
    member: Member, protocol: str, topics: Topics
) -> GroupMetadataValue.MemberMetadata:
    blob = next((each.metadata for each in protocols_of(member) if each.name == protocol), b"")
    classic = member.metadata.classic
    return GroupMetadataValue.MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        rebalance_timeout=member.metadata.rebalance_timeout_ms,
        session_timeout=0 if classic is None else classic.session_timeout_ms,
        subscription=blob,
        # All that it may still be reading, until a rebalance that follows.
        assignment=written_assignment(member.current.held, topics, like=blob),
    )


def protocols_of(member: Member) -> tuple[ClassicProtocol, ...]:
    """None, if it does not speak the classic protocol."""
    classic = member.metadata.classic
    return () if classic is None else classic.protocols
