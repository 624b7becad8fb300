"""A group of the consumer protocol at work: its log, and its timers.

What is decided is appended, counts at once, and is told when it is replicated.  There are timers:

    a session       a member was not heard for ``group.consumer.session.timeout.ms``, or for as
                    long as is set for its group
    a revocation    a member was told to give up partitions, and has not within its own
                    rebalance timeout
    a rejoin        a member of the classic protocol was told to join again, or to ask for its
                    assignment, and has not within that time: see classic_members.py

Whoever is late is out.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.log_failures import OF_A_GROUP, told
from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.assignors import assignors_of
from odradek.broker.groups.consumer.draft import Draft, Surroundings
from odradek.broker.groups.consumer.group import ConsumerGroup, GroupState
from odradek.broker.groups.consumer.leaving import decide_removal
from odradek.broker.groups.consumer.member import Member, MemberState
from odradek.broker.groups.consumer.migration import downgrade, may_downgrade
from odradek.broker.groups.consumer.records import Record, as_stored
from odradek.broker.groups.deadline import Deadline
from odradek.broker.groups.group import Committer, GroupType
from odradek.broker.groups.home import Home
from odradek.broker.groups.offsets import Commit
from odradek.protocol.errors import (
    IllegalGeneration,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.protocol.internal.consumer_group_log import ConsumerGroupCurrentMemberAssignmentKey
from odradek.storage.log import Written

log = logging.getLogger(__name__)

#: So many ids are remembered that nobody has joined with yet.
HANDED_OUT_MAX = 1_000


class LiveGroup:
    """Of one id."""

    type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, home: Home, group: ConsumerGroup) -> None:
        self.home = home
        self.group = group
        self._sessions: dict[str, Deadline] = {}
        self._revocations: dict[str, Deadline] = {}
        self._rejoins: dict[str, Deadline] = {}
        #: Ids that classic members were told to join with (KIP-394), and have not yet.
        self.handed_out: set[str] = set()

    def hand_out(self, member_id: str) -> None:
        if len(self.handed_out) >= HANDED_OUT_MAX:
            self.handed_out.clear()  # who comes later is refused once, and given another
        self.handed_out.add(member_id)

    # What any group can tell

    @property
    def id(self) -> str:
        return self.group.id

    @property
    def state_name(self) -> str:
        return self.group.state.value

    @property
    def is_empty(self) -> bool:
        return self.group.state is GroupState.EMPTY

    def check_commit(self, committer: Committer, *, is_transactional: bool) -> None:
        if committer.generation < 0 and self.is_empty:
            return
        if is_transactional and not committer.is_member:
            return  # of a producer that does not tell of the group
        member = self._member(committer.member_id)
        if is_transactional and committer.generation != member.epoch:
            raise IllegalGeneration()  # producers know of generations alone
        if not (is_transactional or member.is_classic or committer.knows_epochs):
            raise UnsupportedVersion("Members of the consumer protocol commit by version 9 or up.")
        _check_epoch(member, committer.generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self._member(member_id or ""), member_epoch)

    def check_offset_delete(self) -> None:
        """What the members subscribe to is known."""

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.group.subscribed_topics()

    def unused_since(self, topic: str, commit: Commit) -> int | None:
        return None if self.is_subscribed_to(topic) else commit.committed_ms

    def tombstones(self) -> list[bytes]:
        return [as_stored(record)[0] for record in self.deletions()]

    def begin(self) -> None:
        for member in self.group.members.values():
            self.heard(member)
            self._watch_revocation(member)

    def end(self) -> None:
        for deadlines in (self._sessions, self._revocations, self._rejoins):
            for deadline in deadlines.values():
                deadline.call_off()
            deadlines.clear()

    # Decisions

    @property
    def around(self) -> Surroundings:
        """What is decided by."""
        world = self.home.world
        settings = world.consumer_settings
        return Surroundings(
            world.topics.now,
            world.now_ms(),
            assignors_of(settings.assignors),
            settings.max_size,
        )

    def deletions(self) -> list[Record]:
        """Of the group, with all that is in it."""
        return records.without_group(self.id, self.group.members, self.group.expressions)

    def write(self, draft: Draft) -> Written | None:
        """What was drafted is the group now; raises what the members are told, and it is not."""
        if not draft.records:
            return None
        place = self._append([as_stored(record) for record in draft.records])
        self.adopt(draft)
        return place

    def _append(self, stored: Sequence[KeyValue]) -> Written:
        try:
            return self.home.log.append(stored)
        except KafkaError as failure:
            raise told(failure, OF_A_GROUP) from failure

    def adopt(self, draft: Draft) -> None:
        """Its records are in the log."""
        self.group = draft.group
        for record in draft.records:
            if isinstance(record.key, ConsumerGroupCurrentMemberAssignmentKey):
                member = self.group.members.get(record.key.member_id)
                if member is None:
                    self._forget(record.key.member_id)
                else:
                    self._watch_revocation(member)

    def delete(self) -> None:
        """All but its offsets, to make room for a classic group of its name."""
        self._append([(key, None) for key in self.tombstones()])
        self.end()
        del self.home.groups[self.id]

    def remove(self, member_ids: Sequence[str]) -> None:
        """For good; those who stay may be a classic group then."""
        if may_downgrade(self, without=member_ids):
            downgrade(self, without=member_ids)
        else:
            self.write(decide_removal(self.group, member_ids, self.around))

    # Timers

    def heard(self, member: Member) -> None:
        """Its session begins anew."""
        deadline = self._sessions.get(member.id)
        if deadline is None:
            deadline = self._sessions[member.id] = self._deadline(member.id, "was not heard")
        classic = member.metadata.classic
        default_ms = self.home.world.timings_of(self.id).session_timeout_ms
        deadline.put_off(by_ms=default_ms if classic is None else classic.session_timeout_ms)

    def expect_rejoin(self, member: Member, *, anew: bool) -> None:
        """Within its rebalance timeout, from now if ``anew``, else if it was not expected yet."""
        deadline = self._rejoins.get(member.id)
        if deadline is None:
            deadline = self._rejoins[member.id] = self._deadline(member.id, "has not joined again")
        if anew or not deadline.is_set:
            deadline.put_off(by_ms=member.metadata.rebalance_timeout_ms)

    def has_rejoined(self, member_id: str) -> None:
        _call_off(self._rejoins, member_id)

    def _watch_revocation(self, member: Member) -> None:
        _call_off(self._revocations, member.id)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            reason = f"has not given up its partitions in epoch {member.epoch}"
            deadline = self._revocations[member.id] = self._deadline(member.id, reason)
            deadline.put_off(by_ms=member.metadata.rebalance_timeout_ms)

    def _deadline(self, member_id: str, reason: str) -> Deadline:
        return Deadline(self.home.world.loop, partial(self._is_late, member_id, reason))

    def _is_late(self, member_id: str, reason: str) -> None:
        log.info("Member %s of %r %s, and is out", member_id, self.id, reason)
        try:
            self.remove([member_id])
        except KafkaError as failure:
            log.warning("Member %s of %r could not be removed: %s", member_id, self.id, failure)
            self._watch_again(self.group.members[member_id])

    def _watch_again(self, member: Member) -> None:
        """Each of its moments that has passed is waited for once more."""
        session, rejoin = self._sessions.get(member.id), self._rejoins.get(member.id)
        if session is None or not session.is_set:
            self.heard(member)
        if member.id in self._revocations and not self._revocations[member.id].is_set:
            self._watch_revocation(member)
        if rejoin is not None:
            self.expect_rejoin(member, anew=False)

    def _forget(self, member_id: str) -> None:
        for deadlines in (self._sessions, self._revocations, self._rejoins):
            _call_off(deadlines, member_id)

    def _member(self, member_id: str) -> Member:
        member = self.group.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id} is not in the group {self.id}.")
        return member


def _check_epoch(member: Member, epoch: int) -> None:
    if epoch != member.epoch:
        text = f"The member is in epoch {member.epoch}, not {epoch}."
        raise IllegalGeneration(text) if member.is_classic else StaleMemberEpoch(text)


def _call_off(deadlines: dict[str, Deadline], member_id: str) -> None:
    deadline = deadlines.pop(member_id, None)
    if deadline is not None:
        deadline.call_off()
