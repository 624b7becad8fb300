"""Members of the classic protocol in a group of the consumer protocol: while a group migrates.

To them the group looks like a classic one whose leader is somebody else.  JoinGroup is what a
heartbeat is to the others: it tells the subscription and what the member has, and leads it one
step.  The member's epoch is its generation.  SyncGroup tells what it was given; Heartbeat says when
it is to join again: for a new epoch, to give up partitions, or since what it waited for is free.

Owner: the event loop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain

from odradek.broker.groups.classic.outcomes import NO_MEMBER, Joined, JoinRequest, Synced
from odradek.broker.groups.classic.subscriptions import CONSUMER
from odradek.broker.groups.classic.sync import SyncRequest
from odradek.broker.groups.consumer import target
from odradek.broker.groups.consumer.classic_blobs import (
    ReadSubscription,
    read_subscription,
    written_assignment,
)
from odradek.broker.groups.consumer.draft import Draft, Surroundings
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.heartbeat import (
    check_instance,
    check_room,
    lead,
    note,
    take_over,
)
from odradek.broker.groups.consumer.leaving import leaving_member
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.consumer.member import (
    ClassicMember,
    ClassicProtocol,
    Member,
    MemberMetadata,
    MemberState,
    Subscription,
)
from odradek.broker.groups.consumer.migration import downgrade, may_downgrade, protocols_of
from odradek.protocol.errors import (
    DecodeError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)

# JoinGroup


def join(live: LiveGroup, request: JoinRequest) -> Joined:
    try:
        return _joined(live, request)
    except KafkaError as failure:
        return Joined(member_id=request.member_id, failure=failure)


def _joined(live: LiveGroup, request: JoinRequest) -> Joined:
    around = live.around
    member_id = request.member_id or request.id_with(live.home.world.new_id())
    check_room(live.group, member_id, around)
    _check_protocols(live.group, request)
    if request.member_id == NO_MEMBER and request.instance_id is None and request.requires_id:
        live.hand_out(member_id)
        return Joined(member_id=member_id, failure=MemberIdRequired())
    is_fresh = request.member_id == NO_MEMBER or member_id in live.handed_out
    draft, epoch = decide_join(live.group, member_id, request, around, is_fresh=is_fresh)
    live.write(draft)
    live.handed_out.discard(member_id)
    member = live.group.members[member_id]
    live.heard(member)
    live.expect_rejoin(member, anew=True)
    if may_downgrade(live, without=()):
        return _downgraded(live, member_id, can_lead=request.can_skip_assignment)
    return Joined(
        member_id=member_id,
        generation=epoch,
        protocol_type=CONSUMER,
        protocol=request.offers[0].name,
        is_of_the_log=True,
    )


def _downgraded(live: LiveGroup, member_id: str, *, can_lead: bool) -> Joined:
    """A static member came back as a classic one, and was the last that was not.

    All have what they shall have: it leads, if it knows of leaders that have nothing to assign.
    """
    roster = downgrade(live, without=(), leader=member_id if can_lead else None).roster
    is_leader = roster.leader == member_id
    joined = roster.joined(roster.members[member_id], skip_assignment=is_leader)
    return replace(joined, is_of_the_log=True)


def decide_join(
    group: ConsumerGroup,
    member_id: str,
    request: JoinRequest,
    around: Surroundings,
    *,
    is_fresh: bool,
) -> tuple[Draft, int]:
    """What is to be written, and the member's epoch afterwards.  Raises what it is told.

    An id that ``is_fresh`` was made for this joining.
    """
    draft = Draft(group)
    member = _known_member(draft, member_id, request)
    try:
        said = read_subscription(request.offers[0].metadata, around.topics)
    except DecodeError as broken:
        raise InconsistentGroupProtocol(f"The subscription cannot be read: {broken}") from broken
    if not is_fresh:
        _check_is_new_or_known(draft.group, member_id, said)
    has_changed = note(draft, member, _metadata(request, said), around)
    if has_changed or group.seen is not around.topics:
        target.raise_epoch(draft, around, has_changed=has_changed)
    target.assign(draft, around)
    return draft, lead(draft, member_id, said.owned).epoch


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """One of those offered must be one that all classic members offer."""
    classic = [member for member in group.members.values() if member.is_classic]
    # Each once, however often a member offers it.
    names = [{each.name for each in protocols_of(member)} for member in classic]
    offered = Counter(chain.from_iterable(names))
    is_common = any(offered[offer.name] == len(classic) for offer in request.offers)
    if request.protocol_type != CONSUMER or not is_common:
        raise InconsistentGroupProtocol()


def _known_member(draft: Draft, member_id: str, request: JoinRequest) -> Member:
    if request.instance_id is None:
        return draft.group.members.get(member_id) or Member(member_id)
    known = draft.group.static_member(request.instance_id)
    if request.member_id != NO_MEMBER:
        return check_instance(known, member_id, request.instance_id)
    return Member(member_id) if known is None else take_over(draft, known, member_id)


def _check_is_new_or_known(group: ConsumerGroup, member_id: str, said: ReadSubscription) -> None:
    """Who is new reads nothing yet.  Who does has been missed, and others may read that by now.

    Refused once: some clients go on to name what they had when they join with a fresh id, and
    Kafka lets in all of them.
    """
    if said.owned and member_id not in group.members:
        raise UnknownMemberId(f"{member_id} is no longer in the group {group.id}.")


def _metadata(request: JoinRequest, said: ReadSubscription) -> MemberMetadata:
    return MemberMetadata(
        instance_id=request.instance_id,
        rack_id=said.rack_id,
        client_id=request.client.id,
        client_host=request.client.host,
        subscription=Subscription(said.names),
        rebalance_timeout_ms=request.timeouts.rebalance_ms,
        classic=ClassicMember(
            request.timeouts.session_ms,
            tuple(ClassicProtocol(each.name, each.metadata) for each in request.offers),
        ),
    )


# SyncGroup, Heartbeat, LeaveGroup


def sync(live: LiveGroup, request: SyncRequest) -> Synced:
    """Raises what the member is told."""
    member = _classic_member(live, request.member_id, request.instance_id, request.generation)
    if (
        live.group.epoch > member.epoch
        and member.current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        live.expect_rejoin(member, anew=False)
        raise RebalanceInProgress()
    # After that, unlike in Kafka: who joined before an upgrade was told what its group had chosen,
    # and need not prefer it.  Clients give up if their protocol is refused.
    first = protocols_of(member)[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, first.name):
        raise InconsistentGroupProtocol()
    live.has_rejoined(member.id)
    live.heard(member)
    return Synced(
        protocol_type=CONSUMER,
        protocol=first.name,
        assignment=written_assignment(
            member.current.assigned, live.home.world.topics.now, like=first.metadata
        ),
        is_of_the_log=True,
    )


def heartbeat(live: LiveGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    """Raises what the member is told."""
    member = _classic_member(live, member_id, instance_id, generation)
    live.heard(member)
    if must_join_again(live.group, member):
        live.expect_rejoin(member, anew=False)
        raise RebalanceInProgress()


def must_join_again(group: ConsumerGroup, member: Member) -> bool:
    match member.current.state:
        case _ if member.epoch < group.epoch:
            return True
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS:
            missing = group.target_of(member.id) - member.current.assigned
            return all(map(group.is_free_for(member.id), missing))
        case _:
            return False


def leave(live: LiveGroup, member_id: str, instance_id: str | None) -> None:
    """Raises what is said against it."""
    if member_id == NO_MEMBER and instance_id is not None:
        known = live.group.static_member(instance_id)
        if known is None:
            raise UnknownMemberId()
        member_id = known.id
    member = leaving_member(live.group, member_id, instance_id)
    live.remove([member.id])


def _classic_member(
    live: LiveGroup, member_id: str, instance_id: str | None, generation: int
) -> Member:
    member = leaving_member(live.group, member_id, instance_id)
    if not member.is_classic:
        raise UnknownMemberId(f"{member_id} does not speak the classic protocol.")
    if generation != member.epoch:
        raise IllegalGeneration()
    return member
