"""Random histories of a group with members of both protocols, on a virtual clock.

Members join, leave and return as static members do, also with the other protocol, so the group is
upgraded and downgraded; or they fall silent until their session expires.  Topics change; the broker
restarts; its log fails.  G10: two members can never commit for a partition that both read, and
when all members follow the protocol, each partition is read by exactly one.
"""

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.broker.groups.classic.state import ClassicGroupState
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.partitions import topic_partitions
from odradek.protocol.errors import KafkaError, KafkaStorageError
from tests.support.consumer_group_scene import parts
from tests.support.group_scene import GROUP
from tests.support.live_group_scene import LiveGroupScene
from tests.support.migrating_clients import ClassicConsumer, NewConsumer

SUBSCRIPTIONS = st.sampled_from([("a",), ("a",), ("a", "b")])
KINDS = st.sampled_from(["new", "eager", "cooperative"])
NUMBERS = st.integers(0, 9)
MAX_CLIENTS = 4
#: Long enough for silent members to expire and for the others to share the partitions.
ROUNDS, ROUND_MS = 60, 3_000


#: Events before a member restarts with the other protocol.
DISTURBANCES = [
    lambda history: history.join("eager", False, ("a",)),
    lambda history: history.join("cooperative", True, ("a",)),
    lambda history: history.clients and history.leave(0),
    lambda history: history.clients and history.fall_silent(1),
    lambda history: history.grow("a", 1),
    lambda history: history.reload(),
]


class MixedHistory(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.scene = LiveGroupScene({"a": 3})
        self.clients = []
        #: Silent members that have not noticed their expiration and may commit what they have read.
        self.silent = []
        self.instances = 0
        self.deleted = set()

    def teardown(self):
        self.scene.close()

    @property
    def group(self):
        return self.scene.shard.groups.get(GROUP)

    @property
    def live(self):
        return self.group if isinstance(self.group, ConsumerGroupRuntime) else None

    # Members

    def new(self, kind, topics, instance_id):
        if kind == "new":
            return NewConsumer(self.scene, topics, instance_id=instance_id)
        is_eager = kind == "eager"
        return ClassicConsumer(self.scene, topics, is_eager=is_eager, instance_id=instance_id)

    @initialize(
        kinds=st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=3),
        is_settled=st.booleans(),
    )
    def begin(self, kinds, is_settled):
        """Start with members: rules are left out at random, and many runs would have none."""
        for kind, is_static in kinds:
            self.join(kind, is_static, ("a",))
        if is_settled:
            self.settle()

    @rule(kind=KINDS, is_static=st.booleans(), topics=SUBSCRIPTIONS)
    def join(self, kind, is_static, topics):
        if len(self.clients) < MAX_CLIENTS:
            self.instances += is_static
            instance_id = f"i{self.instances}" if is_static else None
            self.clients.append(self.new(kind, topics, instance_id))

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS, kind=KINDS, leaves_first=st.booleans())
    def restart(self, number, kind, leaves_first):
        """Restart a member as one of this kind; without ``leaves_first`` it was killed.

        It keeps its topics: classic groups do not rebalance for a returning static member.
        """
        before = self.pop_client(number)
        if leaves_first:
            before.stop(for_good=False)
        else:
            self.silent.append(before)
        self.clients.append(self.new(kind, before.topics, before.instance_id))

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS)
    def leave(self, number):
        self.pop_client(number).stop(for_good=True)

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS)
    def fall_silent(self, number):
        self.silent.append(self.pop_client(number))

    def pop_client(self, number):
        return self.clients.pop(number % len(self.clients))

    @precondition(lambda self: self.clients)
    @rule(numbers=st.lists(NUMBERS, min_size=3, max_size=12), is_log_failing=st.booleans())
    def step(self, numbers, is_log_failing):
        """Run client steps; ``is_log_failing`` makes the log fail during the first one."""
        for number in numbers:
            self.scene.base.log.failure = KafkaStorageError() if is_log_failing else None
            self.clients[number % len(self.clients)].step()
            self.scene.base.log.failure, is_log_failing = None, False
            self.g10_no_partition_is_read_by_two_who_can_commit()

    @rule(
        number=NUMBERS,
        kind=KINDS,
        leaves_first=st.booleans(),
        disturbances=st.lists(st.sampled_from(DISTURBANCES), max_size=2),
        numbers=st.lists(NUMBERS, min_size=1, max_size=12),
    )
    def migrate(self, number, kind, leaves_first, disturbances, numbers):
        """Restart one member in a settled group after some disturbances."""
        self.settle()
        for disturb in disturbances:
            disturb(self)
            if self.clients:
                self.step(numbers, is_log_failing=False)
        if self.clients:
            self.restart(number, kind, leaves_first)
            self.step(numbers, is_log_failing=False)
        self.settle()

    # Environment

    @rule(milliseconds=st.sampled_from([100, 3_000, 9_000, 16_000, 46_000]))
    def pass_time(self, milliseconds):
        self.scene.base.pass_ms(milliseconds)

    @rule(topic=st.sampled_from(["a", "b"]), more=st.integers(1, 2))
    def grow(self, topic, more):
        if topic not in self.deleted:
            topic_metadata = self.scene.cluster.snapshot.topics.get(topic)
            self.scene.set_topic(
                topic, more + (0 if topic_metadata is None else len(topic_metadata.partitions))
            )

    @precondition(lambda self: "b" in self.scene.cluster.snapshot.topics)
    @rule()
    def delete(self):
        """Delete topic b permanently: classic members commit by name, to any topic of that name."""
        self.deleted.add("b")
        self.scene.set_topic("b", 0)

    @rule()
    def reload(self):
        self.scene.base.reload()

    @rule()
    def settle(self):
        """All members follow the protocol until each partition is read."""
        for _ in range(ROUNDS):
            for client in self.clients:
                client.step()
                self.g10_no_partition_is_read_by_two_who_can_commit()
            if self.is_shared and self.group is not None and self.group.state_name == "Stable":
                return
            self.scene.base.pass_ms(ROUND_MS)
        assert self.is_shared or not self.clients, self.shares()

    @property
    def is_shared(self):
        """Whether each partition has one reader; partitions of deleted topics do not count."""
        names = self.scene.cluster.snapshot.topic_names
        owned = [
            partition
            for client in self.clients
            for partition in client.owned
            if partition[0] in names
        ]
        return len(owned) == len(set(owned)) and set(owned) == self.subscribed()

    def subscribed(self):
        topics = self.scene.cluster.snapshot.topics
        names = {name for client in self.clients for name in client.topics if name in topics}
        return {
            partition
            for name in names
            for partition in topic_partitions(topics[name].id, topics[name].partitions)
        }

    def shares(self):
        return self.group.state_name, {client.id: client.owned for client in self.clients}

    # Invariants

    @invariant()
    def g10_no_partition_is_held_by_two(self):
        if self.live:
            held = [each.current_assignment.held for each in self.live.group.members.values()]
            assert sum(map(len, held)) == len(frozenset().union(*held))

    @invariant()
    def g10_no_partition_is_read_by_two_who_can_commit(self):
        owned = [each.owned for each in (*self.clients, *self.silent) if self.can_commit(each)]
        assert sum(map(len, owned)) == len(frozenset().union(*owned))

    def can_commit(self, client):
        if self.group is None or self.group.is_empty or not client.owned:
            return False
        with suppress(KafkaError):
            # A non-transactional check would count as a heartbeat in a classic group.
            self.group.validate_offset_commit(client.committer, is_transactional=not self.live)
            return True
        return False

    @invariant()
    def replayed_and_live_are_the_same(self):
        replayed = self.scene.base.replayed().groups
        assert replayed.keys() <= self.scene.shard.groups.keys()
        if self.live:
            assert parts(replayed[GROUP].group) == parts(self.live.group)
        elif self.group is not None and self.group.metadata.state is ClassicGroupState.STABLE:
            assert stored(replayed[GROUP]) == stored(self.group)
        elif GROUP in replayed:
            assert replayed[GROUP].metadata.generation <= self.group.metadata.generation

    @invariant()
    def epochs_only_grow(self):
        if self.live:
            group = self.live.group
            assert group.assignment_epoch <= group.epoch
            assert all(each.epoch <= group.assignment_epoch for each in group.members.values())

    @invariant()
    def no_task_fails_unnoticed(self):
        assert not self.scene.base.loop.unseen


def stored(classic):
    """The record without the order of members: a rejected member that returned is the last."""
    value = classic.metadata.to_record_value()
    value.members.sort(key=lambda member: member.member_id)
    return value


TestMixedHistory = MixedHistory.TestCase
TestMixedHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
