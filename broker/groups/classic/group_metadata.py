"""The members of a classic group: who they are, what they agree on, who leads them.

Pure: no log, no timers; time is an argument.  What is stored of a group is made here, and a group
is made here of what was stored.

    pending     ids that were handed out, and have not come back yet (KIP-394)
    joining     members that wait for the rebalance to end
    unsynced    members that know of the generation, and have not asked for their part yet

Invariant: the leader is a member, if there are members.  One that was of the consumer protocol has
none until it has rebalanced: see consumer/migration.py.
Invariant: a member's offers include one that all others offer too.

Owner: the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from odradek.broker.groups.classic.member import Member, answer
from odradek.broker.groups.classic.outcomes import (
    Client,
    Joined,
    JoinedMember,
    Offer,
    Synced,
    Timeouts,
)
from odradek.broker.groups.classic.state import MOVES, GroupState, IllegalMove
from odradek.broker.groups.classic.subscriptions import CONSUMER, subscribed_topics
from odradek.protocol.errors import FencedInstanceId, UnknownMemberId
from odradek.protocol.internal.group_log import GroupMetadataValue

UNKNOWN_MS = -1
_NO_TIMEOUT_YET = -1


class Roster:
    """One group's."""

    def __init__(self, *, now_ms: int) -> None:
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.protocol_type = ""
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        #: Static members' ids by their instances.
        self.instances: dict[str, str] = {}
        self.pending: set[str] = set()
        self.joining: set[str] = set()
        self.unsynced: set[str] = set()
        #: None if nobody can tell.
        self.subscribed: frozenset[str] | None = None
        #: How many members offer each protocol.
        self._offered: Counter[str] = Counter()

    # States

    def move(self, state: GroupState, *, now_ms: int) -> None:
        if state not in MOVES[self.state]:
            raise IllegalMove(f"{self.state} -> {state}")
        self.state, self.state_since_ms = state, now_ms

    def begin_generation(self, *, now_ms: int) -> None:
        """Of those who have joined; empty if nobody has."""
        self.generation += 1
        self.unsynced.clear()
        if self.members:
            self.protocol = self.elect_protocol()
            self.move(GroupState.COMPLETING_REBALANCE, now_ms=now_ms)
        else:
            self.protocol = None
            self.move(GroupState.EMPTY, now_ms=now_ms)
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        self.subscribed = None
        if self.protocol_type == CONSUMER and not self.members:
            self.subscribed = frozenset()
        elif self.protocol_type == CONSUMER and self.protocol is not None:
            told = (member.metadata(self.protocol) for member in self.members.values())
            self.subscribed = subscribed_topics(told)

    # Members

    def add(self, member: Member, *, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        assert member.id not in self.members, member.id
        if member.instance_id is not None:
            assert member.instance_id not in self.instances, member.instance_id
            self.instances[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._offered.update(names_of(member.offers))
        self.pending.discard(member.id)

    def remove(self, member_id: str) -> Member | None:
        """Whoever it is, also one that is only pending."""
        self.pending.discard(member_id)
        self.joining.discard(member_id)
        self.unsynced.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._offered.subtract(names_of(member.offers))
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, old_id: str, new_id: str) -> Member:
        """A static member has come back, under another id; the old one is fenced."""
        member = self.members.pop(old_id)
        assert member.instance_id is not None
        self.answer_join(member, Joined(member_id=old_id, failure=FencedInstanceId()))
        member.answer_sync(Synced(failure=FencedInstanceId()))
        self.unsynced.discard(old_id)
        member.id = new_id
        self.members[new_id] = member
        self.instances[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def update(self, member: Member, offers: Sequence[Offer], timeouts: Timeouts) -> None:
        member.timeouts = timeouts
        if not member.offers_the_same(offers):
            self._offered.subtract(names_of(member.offers))
            member.offers = tuple(offers)
            self._offered.update(names_of(member.offers))

    def answer_join(self, member: Member, outcome: Joined) -> None:
        """If it waits for one."""
        waiting, member.joining = member.joining, None
        self.joining.discard(member.id)
        answer(waiting, outcome)

    def checked(self, member_id: str, instance_id: str | None) -> Member:
        """The member; refused if another is this instance, or nobody is this member."""
        if instance_id is not None:
            present = self.instances.get(instance_id)
            if present is None:
                raise UnknownMemberId()
            if present != member_id:
                raise FencedInstanceId()
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId()
        return member

    @property
    def have_all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the most patient of them."""
        return max((each.timeouts.rebalance_ms for each in self.members.values()), default=0)

    # What they agree on

    def supports(self, protocol_type: str, offers: Sequence[Offer]) -> bool:
        """Whether somebody who offers this could join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(offers)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._offered[offer.name] == count for offer in offers
        )

    def elect_protocol(self) -> str:
        """Of those that all offer, the one that most prefer."""
        count = len(self.members)
        candidates = frozenset(name for name, offered in self._offered.items() if offered == count)
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_leader(self) -> bool:
        """One that has joined, the present one if it has; False if nobody has."""
        if self.leader in self.joining:
            return True
        joined = next((each for each in self.members if each in self.joining), None)
        if joined is None:
            return False
        self.leader = joined
        return True

    # What they are told

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """Of the present generation."""
        return Joined(
            member_id=member.id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            skip_assignment=skip_assignment,
            members=self.described() if self.leader == member.id else (),
        )

    def described(self) -> list[JoinedMember]:
        assert self.protocol is not None
        return [
            JoinedMember(member.id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        ]

    def synced(self, member: Member) -> Synced:
        return Synced(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=member.assignment,
        )

    # What is stored

    def stored(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """With these assignments, or those that the members have."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_since_ms,
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client.id,
                    client_host=member.client.host,
                    rebalance_timeout=member.timeouts.rebalance_ms,
                    session_timeout=member.timeouts.session_ms,
                    subscription=member.metadata(self.protocol) if self.protocol else b"",
                    assignment=(
                        member.assignment if assignments is None else assignments[member.id]
                    ),
                )
                for member in self.members.values()
            ],
        )

    @classmethod
    def restored(cls, value: GroupMetadataValue) -> Roster:
        """A group is stored when it is stable, or empty."""
        roster = cls(now_ms=value.current_state_timestamp)
        roster.generation = value.generation
        roster.protocol_type = value.protocol_type
        roster.protocol = value.protocol
        for stored in value.members:
            roster.add(_restored(stored, value.protocol), protocol_type=value.protocol_type)
        roster.leader = value.leader
        roster.state = GroupState.STABLE if roster.members else GroupState.EMPTY
        roster.note_subscriptions()
        return roster


def _restored(stored: GroupMetadataValue.MemberMetadata, protocol: str | None) -> Member:
    rebalance_ms = stored.rebalance_timeout
    member = Member(
        stored.member_id,
        instance_id=stored.group_instance_id,
        client=Client(stored.client_id, stored.client_host),
        timeouts=Timeouts(
            stored.session_timeout,
            # In the oldest version the session's served for both.
            stored.session_timeout if rebalance_ms == _NO_TIMEOUT_YET else rebalance_ms,
        ),
        offers=[Offer(protocol or "", stored.subscription)],
    )
    member.assignment = stored.assignment
    return member


def names_of(offers: Iterable[Offer]) -> frozenset[str]:
    """Each once, however often it is offered."""
    return frozenset([offer.name for offer in offers])
