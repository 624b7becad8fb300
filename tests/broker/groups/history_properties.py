"""Any history of a group: joins, syncs, heartbeats, leaves, commits, timeouts, reloads, a sick log.

Whatever happens, in any order:

    there is one leader, and it is a member
    generations only grow, and so do those that are stored
    nobody is assigned what the leader of that generation did not assign to it
    nobody waits who is not a member
    a new id of a static member is told once it is replicated
    what is known is what replaying the log gives, but for a group that has become empty when that
    could not be written: its last generation would be there again
"""

from contextlib import contextmanager, suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.state import GroupState
from odradek.broker.groups.committing import (
    InTransaction,
    NewCommit,
    commit,
    commit_in_transaction,
    delete_offsets,
)
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_expiry import forgetting_unused
from odradek.protocol.errors import KafkaError, KafkaStorageError, RequestTimedOut
from tests.support.group_scene import EPOCH_MS, GROUP, GroupScene

INSTANCES = st.sampled_from([None, None, None, "one", "two"])
OFFERS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
TOPICS = st.sampled_from([("events",), ("events", "other"), ("other",)])
PLACES = st.sampled_from([("events", 0), ("events", 1), ("other", 0)])
MOMENTS = st.sampled_from([1, 1, 3000, 6001, 30_000, 60_001, 400_000])
PRODUCERS = st.integers(1, 2)
#: Of the group, and of somebody who only keeps offsets.
IDS = st.sampled_from([GROUP, "outside"])
FEW = st.integers(0, 30)


class GroupHistory(RuleBasedStateMachine):
    """What clients know may be out of date: they ask all the same."""

    def __init__(self):
        super().__init__()
        self.scene = GroupScene(initial_rebalance_delay_ms=3000, max_size=4, retention_minutes=5)
        #: (member id, instance) of everybody who was ever told an id.
        self.known = []
        self.waiting = []
        #: Those who wait for their part: of which member, in which generation.
        self.syncing = []
        #: By generation and member, what the leader assigned.
        self.assigned = {}
        self.generation = 0
        self.stored_generation = 0
        #: The group, and its generation that is empty and could not be stored.
        self.unstored = None

    def teardown(self):
        self.scene.close()

    def somebody(self, number):
        return self.known[number % len(self.known)] if self.known else ("nobody", None)

    # What clients do

    @rule(instance=INSTANCES, offered=OFFERS, topics=TOPICS, requires_id=st.booleans())
    def join(self, instance, offered, topics, requires_id):
        self.note(
            self.scene.join(
                instance_id=instance,
                offered=offered,
                topics=topics,
                requires_id=requires_id,
                session_ms=6000,
            ),
            instance,
        )

    @rule(number=FEW, offered=OFFERS, topics=TOPICS)
    def join_again(self, number, offered, topics):
        member_id, instance = self.somebody(number)
        joining = self.scene.join(
            member_id, instance_id=instance, offered=offered, topics=topics, session_ms=6000
        )
        self.note(joining, instance)

    @rule()
    def everybody_joins_again(self):
        if self.group is None:
            return
        for member in [*self.group.roster.members.values()]:
            self.note(
                self.scene.join(member.id, instance_id=member.instance_id, session_ms=6000),
                member.instance_id,
            )

    @rule(times=st.integers(1, 2), behind=st.integers(0, 3))
    def static_members_come_back(self, times, behind):
        """And replicas lag, so that some of what is stored of that waits for them."""
        self.replicas_fall_behind()
        instances = [] if self.group is None else [*self.group.roster.instances]
        for instance in instances * times:
            self.note(self.scene.join(instance_id=instance, session_ms=6000), instance)
        self.replicas_catch_up_somewhat(behind)

    def note(self, joining, instance):
        self.waiting.append((joining, instance))
        self.look()

    @invariant()
    def look(self):
        """Clients read their answers."""
        for joining, instance in [*self.waiting]:
            if joining.is_answered:
                self.waiting.remove((joining, instance))
                if joining.result.member_id:
                    self.known.append((joining.result.member_id, instance))
                if joining.error == "NONE" and instance is not None:
                    self.check_is_replicated(joining.result.member_id, instance)
        for syncing, member_id, generation in [*self.syncing]:
            if syncing.is_answered:
                self.syncing.remove((syncing, member_id, generation))
                if syncing.error == "NONE":
                    assert syncing.result.assignment == self.assigned[generation][member_id]

    def check_is_replicated(self, member_id, instance):
        """While the group is stable; what a rebalance tells is stored at its end."""
        roster = self.group.roster
        if roster.state is GroupState.STABLE and roster.instances.get(instance) == member_id:
            replicated = self.scene.replayed(only_replicated=True).groups[GROUP].roster
            assert replicated.instances[instance] == member_id

    @rule(number=FEW, back=st.integers(0, 1), is_failing=st.booleans())
    def sync(self, number, back, is_failing):
        if self.group is None:
            return
        member_id, instance = self.somebody(number)
        self.sync_of(member_id, instance, back=back, is_failing=is_failing)

    @rule()
    def everybody_syncs(self):
        if self.group is not None:
            for member in [*self.group.roster.members.values()]:
                self.sync_of(member.id, member.instance_id)

    @rule()
    def everybody_settles(self):
        """By chance, few histories come to a group that is stable."""
        self.everybody_joins_again()
        self.time_passes(3000)
        self.everybody_syncs()

    def sync_of(self, member_id, instance, *, back=0, is_failing=False):
        roster = self.group.roster
        generation = roster.generation - back
        parts = {each: f"{generation} {each}".encode() for each in roster.members}
        is_asked_for = roster.state is GroupState.COMPLETING_REBALANCE and not back
        if is_asked_for and roster.leader == member_id:
            self.assigned[generation] = parts
        with self.sick_log(is_failing):
            syncing = self.scene.sync(member_id, parts, generation=generation, instance_id=instance)
        # Whoever asks again has given up the answer before.
        self.syncing = [each for each in self.syncing if each[1] != member_id]
        self.syncing.append((syncing, member_id, generation))
        if syncing.error == "waiting":
            return
        self.syncing.pop()
        if syncing.error == "NONE" and syncing.result.assignment:
            told = syncing.result.assignment
            assert told.decode().split()[0] == str(roster.generation)
            assert told in self.assigned[roster.generation].values()
            assert member_id in roster.members

    @rule(number=FEW)
    def heartbeat(self, number):
        member_id, instance = self.somebody(number)
        self.scene.heartbeat(member_id, instance_id=instance)

    @rule()
    def everybody_is_alive(self):
        if self.group is not None:
            for member in [*self.group.roster.members.values()]:
                self.scene.heartbeat(member.id, instance_id=member.instance_id)

    @rule(number=FEW, by_instance=st.booleans(), is_failing=st.booleans())
    def leave(self, number, by_instance, is_failing):
        member_id, instance = self.somebody(number)
        with self.sick_log(is_failing):
            self.scene.leave("" if by_instance and instance else member_id, instance)

    @rule(is_failing=st.booleans())
    def everybody_leaves(self, is_failing):
        members = {} if self.group is None else self.group.roster.members
        with self.sick_log(is_failing):
            for member in [*members.values()]:
                self.scene.leave(member.id, member.instance_id)

    @contextmanager
    def sick_log(self, is_failing):
        """If it is; a group that comes to be empty meanwhile is not stored."""
        was_empty = self.is_empty
        self.scene.log.failure = KafkaStorageError() if is_failing else None
        yield
        self.scene.log.failure = None
        if is_failing and self.is_empty and not was_empty:
            self.unstored = self.group, self.group.roster.generation

    @rule(number=FEW, place=PLACES, group=IDS, offset=FEW)
    def commit(self, number, place, group, offset):
        wanted = [NewCommit(place, offset, -1, "", self.now_ms)]
        self.attempt(commit, group, self.committer(number, group), wanted)

    @rule(number=FEW, place=PLACES, group=IDS, offset=FEW, producer=PRODUCERS)
    def commit_in_transaction(self, number, place, group, offset, producer):
        wanted = [NewCommit(place, offset, -1, "", self.now_ms)]
        committer, transaction = self.committer(number, group), InTransaction(producer, 0)
        self.attempt(commit_in_transaction, group, committer, transaction, wanted)

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end_transaction(self, producer, is_commit):
        self.scene.log.mark(producer, is_commit=is_commit)
        self.scene.shard.complete(producer, is_commit=is_commit)

    @rule(place=PLACES, group=IDS)
    def delete_offset(self, place, group):
        self.attempt(delete_offsets, group, [place])
        if GROUP not in self.scene.shard.groups:
            self.generation = self.stored_generation = 0

    def committer(self, number, group):
        if group != GROUP or self.group is None:
            return Committer("", None, -1)
        member_id, instance = self.somebody(number)
        return Committer(member_id, instance, self.group.roster.generation)

    def attempt(self, deed, group, *arguments):
        with suppress(KafkaError):
            deed(self.scene.shard, group, *arguments)

    # What happens to everybody

    @rule(milliseconds=MOMENTS)
    def time_passes(self, milliseconds):
        self.scene.pass_ms(milliseconds)
        self.look()

    @rule()
    def replicas_fall_behind(self):
        self.scene.log.is_held = True

    @rule(is_failing=st.booleans())
    def replicas_catch_up(self, is_failing):
        self.scene.log.release(RequestTimedOut() if is_failing else None)
        self.look()

    def replicas_catch_up_somewhat(self, behind):
        log = self.scene.log
        log.release_before(max(log.end_offset - behind, log.replicated_offset))
        self.look()

    @rule()
    def unused_offsets_go(self):
        for group in (GROUP, "outside"):
            list(forgetting_unused(self.scene.shard, group))
        if GROUP not in self.scene.shard.groups:
            self.generation = self.stored_generation = 0

    @rule()
    def coordinator_moves(self):
        self.scene.reload()
        self.look()
        self.unstored = None
        self.generation = 0 if self.group is None else self.group.roster.generation

    # What always holds

    @property
    def now_ms(self):
        return EPOCH_MS + self.scene.loop.now_ms()

    @property
    def group(self):
        group = self.scene.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ClassicGroup)
        return group

    @property
    def is_empty(self):
        return self.group is not None and self.group.is_empty

    @property
    def is_unstored(self):
        return self.is_empty and (self.group, self.group.roster.generation) == self.unstored

    @invariant()
    def there_is_one_leader_and_everybody_is_on_the_lists_once(self):
        if self.group is None:
            return
        roster = self.group.roster
        assert (roster.leader in roster.members) == bool(roster.members)
        assert roster.joining <= set(roster.members)
        assert roster.unsynced <= set(roster.members)
        assert not roster.pending & set(roster.members)
        assert roster.joining == {
            each.id for each in roster.members.values() if each.joining is not None
        }
        assert roster.instances == {
            each.instance_id: each.id
            for each in roster.members.values()
            if each.instance_id is not None
        }
        assert (roster.state is GroupState.EMPTY) <= (not roster.members)

    @invariant()
    def nobody_waits_for_a_part_who_is_not_a_member(self):
        members = {} if self.group is None else self.group.roster.members
        for syncing, member_id, _ in self.syncing:
            is_waiting = member_id in members and members[member_id].syncing is not None
            assert syncing.is_answered or is_waiting

    @invariant()
    def generations_only_grow(self):
        if self.group is not None:
            assert self.group.roster.generation >= self.generation
            self.generation = self.group.roster.generation

    @invariant()
    def what_is_known_is_what_the_log_says(self):
        replayed = self.scene.replayed()
        known = self.scene.shard
        assert replayed.offsets.keys() == known.offsets.keys()
        for group_id, offsets in known.offsets.items():
            assert replayed.offsets[group_id].committed == offsets.committed
            assert replayed.offsets[group_id].pending == offsets.pending
        stored = replayed.groups.get(GROUP)
        if self.is_unstored:
            assert stored is None or stored.roster.generation < self.unstored[1]
        elif stored is None:
            # Only one that has not been through a generation yet, or is in the midst of it.
            roster = None if self.group is None else self.group.roster
            is_new = roster is None or (roster.state is GroupState.EMPTY and not roster.generation)
            assert is_new or roster.state not in (GroupState.STABLE, GroupState.EMPTY)
        else:
            self.check_stored(stored)

    def check_stored(self, stored):
        assert stored.roster.generation >= self.stored_generation
        self.stored_generation = stored.roster.generation
        roster = self.group.roster
        assert roster.generation >= stored.roster.generation
        if roster.state in (GroupState.STABLE, GroupState.EMPTY):
            assert roster.stored() == stored.roster.stored()
            assert roster.subscribed == stored.roster.subscribed
            assert roster.state is stored.roster.state


GroupHistory.TestCase.settings = settings(stateful_step_count=60)
TestGroupHistory = GroupHistory.TestCase
