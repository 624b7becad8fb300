"""Any history of a group with members of both protocols, on a clock that the test passes.

Members come, go, are silent until their time is up; topics change; the broker restarts.  G10: no
partition is held by two members, or read by two that are still heard.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.broker.groups.consumer.live_group import LiveGroup
from tests.support.consumer_group_scene import parts
from tests.support.group_scene import GROUP
from tests.support.live_group_scene import LiveGroupScene
from tests.support.migrating_clients import ClassicConsumer, NewConsumer

TOPICS = ["a", "b"]
MOST = 5


class MixedHistory(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.scene = LiveGroupScene({"a": 3})
        self.clients = []
        self.count = 0
        self.epoch = 0

    def teardown(self):
        self.scene.close()

    @property
    def live(self):
        group = self.scene.shard.groups.get(GROUP)
        return group if isinstance(group, LiveGroup) else None

    def tidy(self):
        """Those who are refused are done, and so is whoever was left to a classic group."""
        known = self.live.group.members if self.live else {}
        self.clients = [each for each in self.clients if not each.is_done and each.id in known]

    # Members

    @initialize(
        kinds=st.lists(st.sampled_from(["new", "eager", "cooperative"]), max_size=4),
        is_settled=st.booleans(),
    )
    def begin(self, kinds, is_settled):
        """Or half of all runs would have nobody: rules are left out at random."""
        self.join(("a",))
        for kind in kinds:
            if kind == "new":
                self.join(("a",))
            else:
                self.join_as_of_old(("a",), is_eager=kind == "eager")
        if is_settled:
            self.settle()

    @rule(topics=st.sampled_from([("a",), ("a", "b"), ()]))
    def join(self, topics):
        group = self.scene.shard.groups.get(GROUP)
        if len(self.clients) < MOST and (group is None or self.live or group.is_empty):
            self.count += 1
            self.clients.append(NewConsumer(self.scene, f"m{self.count}", *topics))

    @precondition(lambda self: self.live and not self.live.is_empty)
    @rule(topics=st.sampled_from([("a",), ("a", "b")]), is_eager=st.booleans())
    def join_as_of_old(self, topics, is_eager):
        if len(self.clients) < MOST:
            self.clients.append(ClassicConsumer(self.scene, *topics, is_eager=is_eager))
            self.tidy()

    @precondition(lambda self: self.clients)
    @rule(numbers=st.lists(st.integers(0, 9), min_size=3, max_size=12))
    def step(self, numbers):
        for number in numbers:
            if self.clients:
                self.clients[number % len(self.clients)].step()
                self.tidy()
                self.g10_no_partition_is_read_by_two()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data):
        data.draw(st.sampled_from(self.clients)).leave()
        self.tidy()

    # Surroundings

    @rule(milliseconds=st.sampled_from([100, 3_000, 9_000, 16_000, 46_000]))
    def pass_time(self, milliseconds):
        self.scene.base.pass_ms(milliseconds)
        self.tidy()

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow(self, topic, more):
        known = self.scene.cluster.picture.topics.get(topic)
        self.scene.set_topic(topic, more + (0 if known is None else len(known.partitions)))

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic):
        if topic in self.scene.cluster.picture.topics:
            self.scene.set_topic(topic, 0)

    @rule()
    def reload(self):
        self.scene.base.reload()

    @rule()
    def settle(self):
        """All do what they are told, as often as it takes: then all have what they shall have."""
        for _ in range(30):
            for client in list(self.clients):
                client.step()
            self.tidy()
        if self.clients and self.live.group.members.keys() == {each.id for each in self.clients}:
            assert self.live.state_name == "Stable"
            for client in self.clients:
                assert client.owned == self.live.group.target_of(client.id)

    # What is always so

    @invariant()
    def g10_no_partition_is_held_by_two(self):
        if self.live:
            held = [each.current.held for each in self.live.group.members.values()]
            assert sum(map(len, held)) == len(frozenset().union(*held))

    @invariant()
    def g10_no_partition_is_read_by_two(self):
        owned = [each.owned for each in self.clients]
        assert sum(map(len, owned)) == len(frozenset().union(*owned))

    @invariant()
    def replayed_and_live_are_the_same(self):
        if self.live:
            replayed = self.scene.base.replayed().groups[GROUP]
            assert parts(replayed.group) == parts(self.live.group)
        for key in self.scene.base.replayed().groups:
            assert key in self.scene.shard.groups

    @invariant()
    def epochs_only_grow(self):
        if self.live:
            group = self.live.group
            assert group.assignment_epoch <= group.epoch
            assert all(each.epoch <= group.assignment_epoch for each in group.members.values())

    @invariant()
    def nothing_fails_unseen(self):
        assert not self.scene.base.loop.unseen


TestMixedHistory = MixedHistory.TestCase
TestMixedHistory.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
