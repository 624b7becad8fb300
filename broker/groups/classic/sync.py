"""The leader's assignment: stored, then handed out to every member that asks for its part.

Whoever asks before the leader has assigned, and the log's replicas have it, waits for that.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from odradek.broker.coordinator.log_failures import OF_A_GROUP, told
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.outcomes import Synced
from odradek.broker.groups.classic.state import GroupState, check_answer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import InconsistentGroupProtocol, KafkaError

log = logging.getLogger(__name__)

#: At once, or when the leader has assigned.
Syncing = Synced | asyncio.Future[Synced]


@dataclass(slots=True, kw_only=True)
class SyncRequest:
    """``assignments`` are the leader's, by member id.  Not to be changed: see outcomes.py."""

    member_id: str
    instance_id: str | None
    generation: int
    #: None where the client is too old to say.
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


def sync(group: ClassicGroup, request: SyncRequest) -> Syncing:
    """Raises what the member is told."""
    roster = group.roster
    if roster.state is GroupState.DEAD:
        check_answer(roster.state, ApiKey.SYNC_GROUP)
    member = group.checked_member(request.member_id, request.instance_id, request.generation)
    _check_protocol(group, request)
    check_answer(roster.state, ApiKey.SYNC_GROUP)
    group.has_synced(member)
    if roster.state is GroupState.STABLE and group.is_handed_out:
        member.was_heard()
        return roster.synced(member)
    waiting: asyncio.Future[Synced] = group.home.world.loop.create_future()
    member.syncing = waiting
    if roster.leader == member.id and roster.state is not GroupState.STABLE:
        _assign(group, request.assignments)
    return waiting


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    roster = group.roster
    if request.protocol_type not in (None, roster.protocol_type):
        raise InconsistentGroupProtocol()
    if request.protocol not in (None, roster.protocol):
        raise InconsistentGroupProtocol()


def _assign(group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    complete = {each: assignments.get(each, b"") for each in group.roster.members}
    try:
        written = group.store(complete)
    except KafkaError as failure:
        _refuse(group, failure)
        return
    group.assign(complete)
    generation = group.roster.generation
    group.home.log.when_replicated(written, partial(_hand_out, group, generation))


def _hand_out(group: ClassicGroup, generation: int, failure: KafkaError | None) -> None:
    roster = group.roster
    if roster.state is not GroupState.STABLE or roster.generation != generation:
        return  # another rebalance has begun, and has sent everybody away
    if failure is None:
        group.hand_out()
    else:
        _refuse(group, failure)


def _refuse(group: ClassicGroup, failure: KafkaError) -> None:
    group.refuse_assignments(told(failure, OF_A_GROUP))
    group.prepare_rebalance(f"its assignment could not be stored: {failure}")
