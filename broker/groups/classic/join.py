"""Who may join a classic group, and what comes of it.

    a new member        is given an id, and asked to come again with it (KIP-394), unless its client
                        is older than that; then it is in, and everybody has to join again
    one that knows its  joins again: that starts a rebalance if it leads or offers something else,
    id                  else it is told of the generation that there is
    a static member     that has lost its id takes its own place again (KIP-345): if the group is
                        stable, and nothing changes for the others, without a rebalance

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from odradek.broker.coordinator.log_failures import OF_A_GROUP, told
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.member import Member
from odradek.broker.groups.classic.outcomes import NO_MEMBER, Joined, JoinRequest
from odradek.broker.groups.classic.state import GroupState, check_answer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import (
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    UnknownMemberId,
)

log = logging.getLogger(__name__)

#: At once, or when the rebalance has ended.
Joining = Joined | asyncio.Future[Joined]


def join(group: ClassicGroup, request: JoinRequest) -> Joining:
    try:
        return _joined(group, request)
    except KafkaError as failure:
        is_named = not isinstance(failure, GroupMaxSizeReached)
        return Joined(member_id=request.member_id if is_named else NO_MEMBER, failure=failure)


def _joined(group: ClassicGroup, request: JoinRequest) -> Joining:
    if not _has_room(group, request.member_id):
        _turn_away(group, request.member_id)
        raise GroupMaxSizeReached()
    if group.roster.state is GroupState.DEAD:
        check_answer(GroupState.DEAD, ApiKey.JOIN_GROUP)
    if not group.roster.supports(request.protocol_type, request.offers):
        raise InconsistentGroupProtocol()
    if request.member_id == NO_MEMBER:
        return _new_member(group, request)
    if request.member_id in group.roster.pending:
        if request.instance_id is not None:
            raise UnknownMemberId()  # ids that are pending are of members without an instance
        return _added(group, request.member_id, request)
    return _again(group, request)


def _turn_away(group: ClassicGroup, member_id: str) -> None:
    member = group.roster.members.get(member_id)
    if member is not None:
        group.drop(member)
        group.complete_join_if_all_joined()
    elif member_id in group.roster.pending:
        group.remove_pending(member_id)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    roster, most = group.roster, group.home.world.settings.max_size
    if roster.state is GroupState.PREPARING_REBALANCE:
        # By those who have joined: if the group is too large, the last to come are out.
        return member_id in roster.joining or len(roster.joining) < most
    if roster.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return member_id in roster.members or len(roster.members) < most
    return True


def _new_member(group: ClassicGroup, request: JoinRequest) -> Joining:
    instance_id = request.instance_id
    member_id = request.id_with(group.home.world.new_id())
    if instance_id is not None:
        present = group.roster.instances.get(instance_id)
        if present is not None:
            return _replaced(group, present, member_id, request)
    elif request.requires_id:
        group.add_pending(member_id, session_ms=request.timeouts.session_ms)
        return Joined(member_id=member_id, failure=MemberIdRequired())
    return _added(group, member_id, request)


def _added(group: ClassicGroup, member_id: str, request: JoinRequest) -> Joining:
    member = Member(
        member_id,
        instance_id=request.instance_id,
        client=request.client,
        timeouts=request.timeouts,
        offers=request.offers,
    )
    group.add(member, protocol_type=request.protocol_type)
    waiting = _wait(group, member)
    _rebalance(group, f"{member_id} joins; {request.reason or 'no reason given'}")
    return waiting


def _wait(group: ClassicGroup, member: Member) -> asyncio.Future[Joined]:
    """Whoever waited before has been given up by its client."""
    waiting: asyncio.Future[Joined] = group.home.world.loop.create_future()
    member.joining = waiting
    group.roster.joining.add(member.id)
    return waiting


def _rebalance(group: ClassicGroup, reason: str) -> None:
    if group.roster.state is GroupState.PREPARING_REBALANCE:
        group.complete_join_if_all_joined()
    else:
        group.prepare_rebalance(reason)


# Members that come again


def _again(group: ClassicGroup, request: JoinRequest) -> Joining:
    roster = group.roster
    member = roster.checked(request.member_id, request.instance_id)
    check_answer(roster.state, ApiKey.JOIN_GROUP)
    is_same = member.offers_the_same(request.offers)
    is_leader = roster.leader == member.id
    # A leader joins again when it sees that what is to be assigned has changed.
    is_told = roster.state is GroupState.COMPLETING_REBALANCE or (
        roster.state is GroupState.STABLE and not is_leader
    )
    if is_told and is_same:
        # It has missed the answer, or wants to know: the generation is as it was.
        return roster.joined(member)
    roster.update(member, request.offers, request.timeouts)
    waiting = _wait(group, member)
    _rebalance(group, f"{member.id} joins again; {request.reason or 'no reason given'}")
    return waiting


# Static members that come back


def _replaced(group: ClassicGroup, old_id: str, new_id: str, request: JoinRequest) -> Joining:
    roster = group.roster
    was_leader = roster.leader
    before = roster.members[old_id]
    old_offers, old_timeouts = before.offers, before.timeouts
    member = roster.replace(old_id, new_id)
    roster.update(member, request.offers, request.timeouts)
    member.was_heard()
    waiting = _wait(group, member)
    if roster.state is GroupState.STABLE and roster.elect_protocol() == roster.protocol:
        answer = partial(_tell_replaced, group, member, waiting, request, was_leader)
        try:
            written = group.store()
        except KafkaError as failure:
            # Nobody knows of the new id: the old one is the member's again.
            roster.answer_join(
                member, Joined(member_id=NO_MEMBER, failure=told(failure, OF_A_GROUP))
            )
            roster.replace(new_id, old_id)
            roster.update(member, old_offers, old_timeouts)
            return waiting
        roster.note_subscriptions()  # as whoever loads it would
        group.home.log.when_replicated(written, answer)
        return waiting
    # Not stable: the leader may know of the old id already, so that all have to join again.
    reason = f"static member {request.instance_id} is back; {request.reason or 'no reason given'}"
    _rebalance(group, reason)
    return waiting


def _tell_replaced(
    group: ClassicGroup,
    member: Member,
    waiting: asyncio.Future[Joined],
    request: JoinRequest,
    was_leader: str | None,
    failure: KafkaError | None,
) -> None:
    roster = group.roster
    if member.joining is not waiting:
        return  # answered: it is another's by now, who waits for another record, or is out
    if failure is not None:
        refused = Joined(member_id=NO_MEMBER, failure=told(failure, OF_A_GROUP))
        roster.answer_join(member, refused)
        member.was_heard()
        return
    if roster.state is not GroupState.STABLE:
        return  # a rebalance has begun meanwhile, and answers it
    joined = roster.joined(member, skip_assignment=roster.leader == member.id)
    if not request.can_skip_assignment:
        # A leader of this age would assign, in vain.  It does not know itself by its old id.
        joined = Joined(
            member_id=member.id,
            generation=roster.generation,
            protocol_type=roster.protocol_type,
            protocol=roster.protocol,
            leader=was_leader or "",
        )
    roster.answer_join(member, joined)
    member.was_heard()
