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

from odradek.broker.groups.classic.member import Member
from odradek.broker.groups.classic.outcomes import NO_MEMBER, Joined, Synced
from odradek.broker.groups.classic.roster import UNKNOWN_MS, Roster
from odradek.broker.groups.classic.state import GroupState, check_answer
from odradek.broker.groups.classic.subscriptions import CONSUMER
from odradek.broker.groups.deadline import Deadline
from odradek.broker.groups.group import Committer, GroupType
from odradek.broker.groups.home import Home
from odradek.broker.groups.offsets import Commit
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
from odradek.storage.log import Written

log = logging.getLogger(__name__)

#: How long a new member's first rebalance may take.  It has no id to send heartbeats with, and a
#: client that has gone and joined anew would be waited for twice.
NEW_MEMBER_MS = 5 * 60 * 1000


class ClassicGroup:
    """Of one id."""

    type = GroupType.CLASSIC

    def __init__(self, home: Home, group_id: str, roster: Roster | None = None) -> None:
        self.id = group_id
        self.home = home
        self.roster = roster or Roster(now_ms=home.world.now_ms())
        loop = home.world.loop
        self._join_deadline = Deadline(loop, self._join_time_is_up)
        self._sync_deadline = Deadline(loop, self._sync_time_is_up)
        self._pending_deadlines: dict[str, Deadline] = {}
        #: Of the first rebalance: how long it waits now, how much longer at most, and whether
        #: anybody has come meanwhile.
        self._first_wait_ms = 0
        self._first_wait_left_ms: int | None = None
        self._has_new_member = False
        #: Whether the assignment is replicated, so that members may be told of it.
        self.is_handed_out = True

    @classmethod
    def loaded(cls, home: Home, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        return cls(home, group_id, Roster.restored(value))

    # What any group can tell

    @property
    def state_name(self) -> str:
        return self.roster.state.value

    @property
    def protocol_type(self) -> str:
        return self.roster.protocol_type

    @property
    def is_empty(self) -> bool:
        return self.roster.state is GroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether nobody would miss it: it has no members, and never had any."""
        return self.is_empty and not self.roster.generation and not self.roster.pending

    def check_commit(self, committer: Committer, *, is_transactional: bool) -> None:
        roster = self.roster
        if roster.state is GroupState.DEAD:
            check_answer(roster.state, ApiKey.OFFSET_COMMIT)
        if committer.generation < 0 and roster.state is GroupState.EMPTY:
            return
        if committer.is_member:
            member = self.checked_member(
                committer.member_id, committer.instance_id, committer.generation
            )
            if not is_transactional:
                check_answer(roster.state, ApiKey.OFFSET_COMMIT)
                member.was_heard()
        elif not is_transactional:
            raise UnknownMemberId()  # there are members, and only they commit

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise NonEmptyGroup()

    def is_subscribed_to(self, topic: str) -> bool:
        if self.is_empty:
            return False
        subscribed = self.roster.subscribed
        return subscribed is None or topic in subscribed

    def unused_since(self, topic: str, commit: Commit) -> int | None:
        roster = self.roster
        if not roster.protocol_type:
            return commit.committed_ms
        if roster.state is GroupState.EMPTY:
            since = roster.state_since_ms
            return commit.committed_ms if since == UNKNOWN_MS else since
        is_known = roster.protocol_type == CONSUMER and roster.subscribed is not None
        if is_known and roster.state is GroupState.STABLE and not self.is_subscribed_to(topic):
            return commit.committed_ms
        return None

    def tombstones(self) -> list[bytes]:
        return [group_key(self.id)] if self.roster.generation > 0 else []

    def begin(self) -> None:
        members = self.roster.members
        if len(members) > self.home.world.settings.max_size:
            self.prepare_rebalance("it was loaded with too many members")
        elif members and self.roster.leader is None:
            self.prepare_rebalance("it has been downgraded")
        for member in members.values():
            self._begin_session(member)

    def end(self) -> None:
        for member in [*self.roster.members.values()]:
            self.roster.answer_join(member, Joined(member_id=member.id, failure=NotCoordinator()))
            member.answer_sync(Synced(failure=NotCoordinator()))
            self._end_session(member)
        for deadline in self._pending_deadlines.values():
            deadline.call_off()
        self._join_deadline.call_off()
        self._sync_deadline.call_off()
        self._move(GroupState.DEAD)

    # Members

    def checked_member(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """Refused if it is no member, or thinks of another generation."""
        member = self.roster.checked(member_id, instance_id)
        if generation != self.roster.generation:
            raise IllegalGeneration()
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """A member is alive; raises what it is told."""
        state = self.roster.state
        if state is GroupState.DEAD:
            check_answer(state, ApiKey.HEARTBEAT)
        self.checked_member(member_id, instance_id, generation).was_heard()
        check_answer(state, ApiKey.HEARTBEAT)

    def add(self, member: Member, *, protocol_type: str) -> None:
        """One that waits for its first rebalance."""
        self._end_pending(member.id)
        is_waiting = self.roster.state is GroupState.PREPARING_REBALANCE
        if is_waiting and self.roster.generation == 0:
            self._has_new_member = True
        self.roster.add(member, protocol_type=protocol_type)
        member.is_new = True
        self._begin_session(member, by_ms=NEW_MEMBER_MS)

    def add_pending(self, member_id: str, *, session_ms: int) -> None:
        """Whoever was told this id is waited for, as long as for a heartbeat."""
        deadline = Deadline(self.home.world.loop, partial(self.remove_pending, member_id))
        deadline.put_off(by_ms=session_ms)
        self.roster.pending.add(member_id)
        self._pending_deadlines[member_id] = deadline

    def remove_pending(self, member_id: str) -> None:
        self._end_pending(member_id)
        self.roster.pending.discard(member_id)
        self.complete_join_if_all_joined()

    def _end_pending(self, member_id: str) -> None:
        deadline = self._pending_deadlines.pop(member_id, None)
        if deadline is not None:
            deadline.call_off()

    def drop(self, member: Member) -> None:
        """It is out, without further ado."""
        self._end_session(member)
        self.roster.remove(member.id)
        member.answer_sync(Synced(failure=UnknownMemberId()))

    def remove(self, member: Member, reason: str) -> None:
        """It is out, and the others share what it had."""
        refused = Joined(member_id=NO_MEMBER, failure=UnknownMemberId())
        self.roster.answer_join(member, refused)
        self.drop(member)
        state = self.roster.state
        if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance(reason)
        else:
            self.complete_join_if_all_joined()

    # Sessions

    def _begin_session(self, member: Member, *, by_ms: int | None = None) -> None:
        self._end_session(member)
        member.session = Deadline(self.home.world.loop, partial(self._session_is_over, member))
        member.session.put_off(by_ms=member.timeouts.session_ms if by_ms is None else by_ms)

    def _end_session(self, member: Member) -> None:
        if member.session is not None:
            member.session.call_off()

    def _session_is_over(self, member: Member) -> None:
        # Who waits for us is heard again when it is answered.
        if not member.is_excused:
            log.info("Member %s of %r has not been heard of, and is out", member.id, self.id)
            self.remove(member, f"the session of {member.id} is over")

    # Rebalances: everybody joins

    def prepare_rebalance(self, reason: str) -> None:
        """From any state but the one that it leads to."""
        roster, settings = self.roster, self.home.world.settings
        log.info("Group %r rebalances after generation %d: %s", self.id, roster.generation, reason)
        if roster.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_assignments(RebalanceInProgress())
        else:
            # The assignment is stored, and may not be replicated yet.
            self._refuse_waiting(RebalanceInProgress())
        self._end_sync()
        if roster.state is GroupState.EMPTY:
            wait_ms = settings.initial_rebalance_delay_ms
            self._first_wait_ms = wait_ms
            self._first_wait_left_ms = max(roster.rebalance_timeout_ms - wait_ms, 0)
        else:
            self._first_wait_left_ms = None
            wait_ms = roster.rebalance_timeout_ms
        self._move(GroupState.PREPARING_REBALANCE)
        self._join_deadline.call_off()
        self._join_deadline.put_off(by_ms=wait_ms)
        self.complete_join_if_all_joined()

    def complete_join_if_all_joined(self) -> None:
        """Not in a first rebalance: others are about to come."""
        is_waited_for = self.roster.state is GroupState.PREPARING_REBALANCE
        is_first = self._first_wait_left_ms is not None
        if is_waited_for and not is_first and self.roster.have_all_joined:
            self._complete_join()

    def _join_time_is_up(self) -> None:
        left_ms = self._first_wait_left_ms
        if left_ms and self._has_new_member:
            self._has_new_member = False
            wait_ms = min(self.home.world.settings.initial_rebalance_delay_ms, left_ms)
            self._first_wait_left_ms = max(left_ms - self._first_wait_ms, 0)
            self._first_wait_ms = wait_ms
            self._join_deadline.put_off(by_ms=wait_ms)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        roster = self.roster
        self._join_deadline.call_off()
        for member in [*roster.members.values()]:
            if member.joining is None and member.instance_id is None:
                log.info("Member %s of %r has not joined, and is out", member.id, self.id)
                self.drop(member)
        if roster.members and not roster.elect_leader():
            # Static members that are away: their sessions end, or they come back.
            self._first_wait_left_ms = None
            self._join_deadline.put_off(by_ms=roster.rebalance_timeout_ms)
            return
        self._first_wait_left_ms = None
        self._has_new_member = False
        roster.begin_generation(now_ms=self.home.world.now_ms())
        if roster.members:
            self._tell_of_generation()
        else:
            self._store_empty()

    def _tell_of_generation(self) -> None:
        roster = self.roster
        members = f"{len(roster.members)} members, led by {roster.leader}"
        log.info("Group %r is in generation %d: %s", self.id, roster.generation, members)
        for member in roster.members.values():
            roster.answer_join(member, roster.joined(member))
            member.is_new = False
            member.was_heard()
            roster.unsynced.add(member.id)
        self._sync_deadline.put_off(by_ms=roster.rebalance_timeout_ms)

    def _store_empty(self) -> None:
        log.info("Group %r is empty in generation %d", self.id, self.roster.generation)
        try:
            self.store()
        except KafkaError as failure:
            # Its last generation would come back, and its members' sessions be over soon.
            log.warning("That group %r is empty could not be stored: %s", self.id, failure)

    # Rebalances: everybody is given a part

    def has_synced(self, member: Member) -> None:
        self.roster.unsynced.discard(member.id)
        if not self.roster.unsynced:
            self._sync_deadline.call_off()

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """What has been stored; those who wait are told when it is replicated."""
        for member in self.roster.members.values():
            member.assignment = assignments[member.id]
        self.is_handed_out = False
        # As it was stored: the state's own time is that of the phase before.
        self._move(GroupState.STABLE, since_ms=self.roster.state_since_ms)

    def hand_out(self) -> None:
        self.is_handed_out = True
        for member in self.roster.members.values():
            if member.answer_sync(self.roster.synced(member)):
                member.was_heard()

    def refuse_assignments(self, failure: KafkaError) -> None:
        """Whoever waits is told, and nobody has a part."""
        for member in self.roster.members.values():
            member.assignment = b""
        self._refuse_waiting(failure)

    def _refuse_waiting(self, failure: KafkaError) -> None:
        for member in self.roster.members.values():
            if member.answer_sync(Synced(failure=failure)):
                member.was_heard()

    def _end_sync(self) -> None:
        self.roster.unsynced.clear()
        self._sync_deadline.call_off()

    def _sync_time_is_up(self) -> None:
        """In whatever state: a leader may have assigned long before others have asked."""
        late = [self.roster.members[each] for each in self.roster.unsynced]
        for member in late:
            self.drop(member)
        if late:
            self.prepare_rebalance(f"{len(late)} members have not asked for their assignment")

    # What is stored

    def store(self, assignments: Mapping[str, bytes] | None = None) -> Written:
        """Raises what the log does."""
        value = group_value(self.roster.stored(assignments))
        return self.home.log.append([(group_key(self.id), value)])

    def _move(self, state: GroupState, *, since_ms: int | None = None) -> None:
        now_ms = self.home.world.now_ms() if since_ms is None else since_ms
        self.roster.move(state, now_ms=now_ms)
