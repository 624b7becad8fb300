"""Random histories of a classic group: requests, timeouts, reloads and log errors in any order.

Invariants:

    there is one leader, and it is a member
    generations only grow, and so do stored generations
    a member gets only what the leader of that generation assigned to it
    no one waits for an assignment without being a member
    a new id of a static member is sent only after its record is replicated
    the state equals a replay of the log, except when a group became empty and the log could not be
    written: then the replay has its last generation
"""

from contextlib import contextmanager, suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.state import ClassicGroupState
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    OffsetCommitEntry,
    TransactionalProducer,
    commit_offsets,
    commit_transactional_offsets,
    delete_offsets,
)
from odradek.broker.groups.offset_expiry import cleanup_expired_offsets
from odradek.protocol.errors import KafkaError, KafkaStorageError, RequestTimedOut
from tests.support.group_scene import EPOCH_MS, GROUP, GroupScene

INSTANCES = st.sampled_from([None, None, None, "one", "two"])
OFFERS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
TOPICS = st.sampled_from([("events",), ("events", "other"), ("other",)])
PARTITIONS = st.sampled_from([("events", 0), ("events", 1), ("other", 0)])
MOMENTS = st.sampled_from([1, 1, 3000, 6001, 30_000, 60_001, 400_000])
PRODUCERS = st.integers(1, 2)
# The group, and a group id that only has offsets.
IDS = st.sampled_from([GROUP, "outside"])
FEW = st.integers(0, 30)


class GroupHistory(RuleBasedStateMachine):
    """The clients' knowledge may be out of date; they send requests all the same."""

    def __init__(self):
        super().__init__()
        self.scene = GroupScene(initial_rebalance_delay_ms=3000, max_size=4, retention_minutes=5)
        #: (member id, instance) of each member id ever sent to a client.
        self.known = []
        self.waiting = []
        #: Waiting syncs with their member and generation.
        self.syncing = []
        #: What the leader assigned, by generation and member.
        self.assigned = {}
        self.generation = 0
        self.stored_generation = 0
        #: An empty group that could not be stored, with its generation.
        self.unstored = None

    def teardown(self):
        self.scene.close()

    def some_member(self, number):
        return self.known[number % len(self.known)] if self.known else ("nobody", None)

    # Requests

    @rule(instance=INSTANCES, offered=OFFERS, topics=TOPICS, requires_id=st.booleans())
    def join(self, instance, offered, topics, requires_id):
        self.note(
            self.scene.join(
                instance_id=instance,
                offered=offered,
                topics=topics,
                requires_known_member_id=requires_id,
                session_ms=6000,
            ),
            instance,
        )

    @rule(number=FEW, offered=OFFERS, topics=TOPICS)
    def join_again(self, number, offered, topics):
        member_id, instance = self.some_member(number)
        joining = self.scene.join(
            member_id, instance_id=instance, offered=offered, topics=topics, session_ms=6000
        )
        self.note(joining, instance)

    @rule()
    def all_rejoin(self):
        if self.group is None:
            return
        for member in [*self.group.metadata.members.values()]:
            self.note(
                self.scene.join(member.id, instance_id=member.instance_id, session_ms=6000),
                member.instance_id,
            )

    @rule(times=st.integers(1, 2), behind=st.integers(0, 3))
    def static_members_come_back(self, times, behind):
        """Replicas lag, so some of the new records wait for replication."""
        self.replicas_fall_behind()
        instances = [] if self.group is None else [*self.group.metadata.static_members]
        for instance in instances * times:
            self.note(self.scene.join(instance_id=instance, session_ms=6000), instance)
        self.replicas_catch_up_somewhat(behind)

    def note(self, joining, instance):
        self.waiting.append((joining, instance))
        self.read_responses()

    @invariant()
    def read_responses(self):
        """Read the responses that have arrived."""
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
        """Only in a stable group; a rebalance stores the new id at its end."""
        metadata = self.group.metadata
        if (
            metadata.state is ClassicGroupState.STABLE
            and metadata.static_members.get(instance) == member_id
        ):
            replicated = self.scene.replayed(only_replicated=True).groups[GROUP].metadata
            assert replicated.static_members[instance] == member_id

    @rule(number=FEW, back=st.integers(0, 1), is_failing=st.booleans())
    def sync(self, number, back, is_failing):
        if self.group is None:
            return
        member_id, instance = self.some_member(number)
        self.sync_of(member_id, instance, back=back, is_failing=is_failing)

    @rule()
    def all_sync(self):
        if self.group is not None:
            for member in [*self.group.metadata.members.values()]:
                self.sync_of(member.id, member.instance_id)

    @rule()
    def all_settle(self):
        """Random histories rarely reach a stable group by themselves."""
        self.all_rejoin()
        self.time_passes(3000)
        self.all_sync()

    def sync_of(self, member_id, instance, *, back=0, is_failing=False):
        metadata = self.group.metadata
        generation = metadata.generation - back
        parts = {each: f"{generation} {each}".encode() for each in metadata.members}
        is_expected = metadata.state is ClassicGroupState.COMPLETING_REBALANCE and not back
        if is_expected and metadata.leader == member_id:
            self.assigned[generation] = parts
        with self.failing_log(is_failing):
            syncing = self.scene.sync(member_id, parts, generation=generation, instance_id=instance)
        # A repeated sync replaces the sync before.
        self.syncing = [each for each in self.syncing if each[1] != member_id]
        self.syncing.append((syncing, member_id, generation))
        if syncing.error == "waiting":
            return
        self.syncing.pop()
        if syncing.error == "NONE" and syncing.result.assignment:
            assignment = syncing.result.assignment
            assert assignment.decode().split()[0] == str(metadata.generation)
            assert assignment in self.assigned[metadata.generation].values()
            assert member_id in metadata.members

    @rule(number=FEW)
    def heartbeat(self, number):
        member_id, instance = self.some_member(number)
        self.scene.heartbeat(member_id, instance_id=instance)

    @rule()
    def all_send_heartbeats(self):
        if self.group is not None:
            for member in [*self.group.metadata.members.values()]:
                self.scene.heartbeat(member.id, instance_id=member.instance_id)

    @rule(number=FEW, by_instance=st.booleans(), is_failing=st.booleans())
    def leave(self, number, by_instance, is_failing):
        member_id, instance = self.some_member(number)
        with self.failing_log(is_failing):
            self.scene.leave("" if by_instance and instance else member_id, instance)

    @rule(is_failing=st.booleans())
    def all_leave(self, is_failing):
        members = {} if self.group is None else self.group.metadata.members
        with self.failing_log(is_failing):
            for member in [*members.values()]:
                self.scene.leave(member.id, member.instance_id)

    @contextmanager
    def failing_log(self, is_failing):
        """Fail appends if ``is_failing``; a group that becomes empty meanwhile is not stored."""
        was_empty = self.is_empty
        self.scene.log.failure = KafkaStorageError() if is_failing else None
        yield
        self.scene.log.failure = None
        if is_failing and self.is_empty and not was_empty:
            self.unstored = self.group, self.group.metadata.generation

    @rule(number=FEW, partition=PARTITIONS, group=IDS, offset=FEW)
    def commit(self, number, partition, group, offset):
        entries = [OffsetCommitEntry(partition, offset, -1, "", self.now_ms)]
        self.attempt(commit_offsets, group, self.committer(number, group), entries)

    @rule(number=FEW, partition=PARTITIONS, group=IDS, offset=FEW, producer=PRODUCERS)
    def commit_in_transaction(self, number, partition, group, offset, producer):
        entries = [OffsetCommitEntry(partition, offset, -1, "", self.now_ms)]
        committer, transaction = self.committer(number, group), TransactionalProducer(producer, 0)
        self.attempt(commit_transactional_offsets, group, committer, transaction, entries)

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end_transaction(self, producer, is_commit):
        self.scene.log.mark(producer, is_commit=is_commit)
        self.scene.shard.complete_transaction(producer, is_commit=is_commit)

    @rule(partition=PARTITIONS, group=IDS)
    def delete_offset(self, partition, group):
        self.attempt(delete_offsets, group, [partition])
        if GROUP not in self.scene.shard.groups:
            self.generation = self.stored_generation = 0

    def committer(self, number, group):
        if group != GROUP or self.group is None:
            return Committer("", None, -1)
        member_id, instance = self.some_member(number)
        return Committer(member_id, instance, self.group.metadata.generation)

    def attempt(self, operation, group, *arguments):
        with suppress(KafkaError):
            operation(self.scene.shard, group, *arguments)

    # Time, replication, reload

    @rule(milliseconds=MOMENTS)
    def time_passes(self, milliseconds):
        self.scene.pass_ms(milliseconds)
        self.read_responses()

    @rule()
    def replicas_fall_behind(self):
        self.scene.log.is_held = True

    @rule(is_failing=st.booleans())
    def replicas_catch_up(self, is_failing):
        self.scene.log.release(RequestTimedOut() if is_failing else None)
        self.read_responses()

    def replicas_catch_up_somewhat(self, behind):
        log = self.scene.log
        log.release_before(max(log.log_end_offset - behind, log.replicated_offset))
        self.read_responses()

    @rule()
    def expire_offsets(self):
        for group in (GROUP, "outside"):
            list(cleanup_expired_offsets(self.scene.shard, group))
        if GROUP not in self.scene.shard.groups:
            self.generation = self.stored_generation = 0

    @rule()
    def reload_coordinator(self):
        self.scene.reload()
        self.read_responses()
        self.unstored = None
        self.generation = 0 if self.group is None else self.group.metadata.generation

    # Invariants

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
        return self.is_empty and (self.group, self.group.metadata.generation) == self.unstored

    @invariant()
    def one_leader_and_consistent_member_lists(self):
        if self.group is None:
            return
        metadata = self.group.metadata
        assert (metadata.leader in metadata.members) == bool(metadata.members)
        assert metadata.members_awaiting_join <= set(metadata.members)
        assert metadata.pending_sync_members <= set(metadata.members)
        assert not metadata.pending_join_members & set(metadata.members)
        assert metadata.members_awaiting_join == {
            each.id for each in metadata.members.values() if each.awaiting_join_future is not None
        }
        assert metadata.static_members == {
            each.instance_id: each.id
            for each in metadata.members.values()
            if each.instance_id is not None
        }
        assert (metadata.state is ClassicGroupState.EMPTY) <= (not metadata.members)

    @invariant()
    def only_members_wait_for_an_assignment(self):
        members = {} if self.group is None else self.group.metadata.members
        for syncing, member_id, _ in self.syncing:
            is_waiting = (
                member_id in members and members[member_id].awaiting_sync_future is not None
            )
            assert syncing.is_answered or is_waiting

    @invariant()
    def generations_only_grow(self):
        if self.group is not None:
            assert self.group.metadata.generation >= self.generation
            self.generation = self.group.metadata.generation

    @invariant()
    def state_equals_a_replay_of_the_log(self):
        replayed = self.scene.replayed()
        known = self.scene.shard
        assert replayed.offsets.keys() == known.offsets.keys()
        for group_id, offsets in known.offsets.items():
            assert replayed.offsets[group_id].committed == offsets.committed
            assert replayed.offsets[group_id].pending == offsets.pending
        stored = replayed.groups.get(GROUP)
        if self.is_unstored:
            assert stored is None or stored.metadata.generation < self.unstored[1]
        elif stored is None:
            # Only a group that has not completed its first generation yet, or is about to.
            metadata = None if self.group is None else self.group.metadata
            is_new = metadata is None or (
                metadata.state is ClassicGroupState.EMPTY and not metadata.generation
            )
            assert is_new or metadata.state not in (
                ClassicGroupState.STABLE,
                ClassicGroupState.EMPTY,
            )
        else:
            self.check_stored(stored)

    def check_stored(self, stored):
        assert stored.metadata.generation >= self.stored_generation
        self.stored_generation = stored.metadata.generation
        metadata = self.group.metadata
        assert metadata.generation >= stored.metadata.generation
        if metadata.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY):
            assert metadata.to_record_value() == stored.metadata.to_record_value()
            assert metadata.subscribed_topics == stored.metadata.subscribed_topics
            assert metadata.state is stored.metadata.state


GroupHistory.TestCase.settings = settings(stateful_step_count=60)
TestGroupHistory = GroupHistory.TestCase
