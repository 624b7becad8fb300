"""Random histories of a consumer group: members join, leave, lag and expire; topics; restarts.

G10: no partition is held by two members, or read by two members that follow the protocol.
"""

from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.broker.groups.consumer.group import ConsumerGroupState
from odradek.broker.groups.consumer.member import MemberState
from odradek.protocol.errors import FencedMemberEpoch, UnreleasedInstanceId
from tests.support.consumer_group_scene import GroupScene, compacted, parts, replayed
from tests.support.consumer_protocol_client import ProtocolClient
from tests.support.subscriptions import check_complete, subscriber

MEMBERS = ["m0", "m1", "m2", "m3"]
TOPICS = ["a", "b", "c"]
SUBSCRIPTIONS = st.sampled_from([("a",), ("a", "b"), ("b", "c"), ()])
#: What a member may do; most of the time it follows the protocol.
ACTIONS = [
    ProtocolClient.heartbeat,
    ProtocolClient.heartbeat,
    ProtocolClient.revoke,
    ProtocolClient.take,
    partial(ProtocolClient.heartbeat, tells_owned=False),
    partial(ProtocolClient.heartbeat, is_answer_lost=True),
]


class GroupHistory(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.scene = GroupScene({"a": 3, "b": 2})
        self.clients = {}
        self.incarnation = 0
        self.epochs = [0]

    # Members

    @initialize(
        subscriptions=st.lists(SUBSCRIPTIONS, min_size=1, max_size=3), is_settled=st.booleans()
    )
    def begin(self, subscriptions, is_settled):
        """Start with members: rules are left out at random, and many runs would have none."""
        for names in subscriptions:
            self.join(names, None, None, None)
        if is_settled:
            self.settle()

    @rule(
        names=SUBSCRIPTIONS,
        expression=st.sampled_from([None, "", ".*", "[ab]", "c"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
        instance_id=st.sampled_from([None, None, "i0", "i1"]),
    )
    def join(self, names, expression, assignor, instance_id):
        if len(self.clients) >= len(MEMBERS):
            return
        self.incarnation += 1
        client = ProtocolClient(
            self.scene,
            f"m{self.incarnation}",
            names=names,
            expression=expression,
            assignor=assignor,
            instance_id=instance_id,
        )
        try:
            client.join()
        except UnreleasedInstanceId:
            return
        self.clients[client.id] = client

    def draw_client(self, data):
        return self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    @precondition(lambda self: self.clients)
    @rule(
        actions=st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from(ACTIONS)), min_size=6, max_size=20
        )
    )
    def act(self, actions):
        for number, action in actions:
            if self.clients:
                client = self.clients[sorted(self.clients)[number % len(self.clients)]]
                action(client)
                self.g10_no_partition_is_read_by_two()
                if not client.is_member:
                    del self.clients[client.id]

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), names=SUBSCRIPTIONS)
    def subscribe(self, data, names):
        client = self.draw_client(data)
        try:
            client.subscribe(*names)
        except FencedMemberEpoch:  # it missed a response
            client.heartbeat()
            if not client.is_member:
                del self.clients[client.id]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data):
        client = self.draw_client(data)
        self.scene.heartbeat(client.id, -1)
        del self.clients[client.id]

    @precondition(lambda self: any(each.instance_id for each in self.clients.values()))
    @rule(data=st.data())
    def leave_for_a_while(self, data):
        static = sorted(each.id for each in self.clients.values() if each.instance_id)
        client = self.clients.pop(data.draw(st.sampled_from(static)))
        self.scene.heartbeat(client.id, -2, instance_id=client.instance_id)

    @precondition(lambda self: self.scene.group.members)
    @rule(data=st.data())
    def time_out(self, data):
        member = data.draw(st.sampled_from(sorted(self.scene.group.members)))
        self.scene.now_ms += 45_000
        self.scene.expire(member)
        self.clients.pop(member, None)  # by then the client has noticed that it got no response

    # Environment

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow(self, topic, more):
        topic_metadata = self.scene.cluster.snapshot.topics.get(topic)
        self.scene.set_topic(
            topic, more + (0 if topic_metadata is None else len(topic_metadata.partitions))
        )

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic):
        if topic in self.scene.cluster.snapshot.topics:
            self.scene.set_topic(topic, 0)

    @rule()
    def reload(self):
        self.scene.reload()

    @rule()
    def compact(self):
        self.scene.log = compacted(self.scene.log)
        self.scene.reload()

    @rule()
    def settle(self):
        """All members follow the protocol until the group is stable."""
        for _ in range(20):
            for client in list(self.clients.values()):
                client.heartbeat()
                if not client.is_member:
                    del self.clients[client.id]
                    continue
                client.revoke()
                client.take()
        away = self.scene.group.members.keys() - self.clients.keys()
        if away or not self.clients:
            return
        assert self.scene.group.state is ConsumerGroupState.STABLE
        for client in self.clients.values():
            assert client.owned == self.scene.group.target_assignment_of(client.id)

    # Invariants

    @invariant()
    def g10_no_partition_is_held_by_two(self):
        held = [each.current_assignment.held for each in self.scene.group.members.values()]
        assert (
            sum(map(len, held))
            == len(frozenset().union(*held))
            == len(self.scene.group.partition_owners)
        )

    @invariant()
    def g10_no_partition_is_read_by_two(self):
        owned = [each.owned for each in self.clients.values()]
        assert sum(map(len, owned)) == len(frozenset().union(*owned))

    @invariant()
    def replayed_and_live_are_the_same(self):
        assert parts(replayed(self.scene.log)) == parts(self.scene.group)
        assert parts(replayed(compacted(self.scene.log))) == parts(self.scene.group)

    @invariant()
    def epochs_only_grow(self):
        group = self.scene.group
        assert group.epoch >= self.epochs[-1]
        self.epochs.append(group.epoch)
        assert group.assignment_epoch <= group.epoch
        assert all(each.epoch <= group.assignment_epoch for each in group.members.values())

    @invariant()
    def targets_are_of_members(self):
        group = self.scene.group
        assert group.target_assignment.keys() <= group.members.keys()
        for member in group.members.values():
            if member.current_assignment.state is not MemberState.UNREVOKED_PARTITIONS:
                assert not member.current_assignment.pending_revocation

    @invariant()
    def a_current_target_is_complete(self):
        group, topics = self.scene.group, self.scene.topics
        if (
            group.last_seen_topics is not topics
            or group.epoch != group.assignment_epoch
            or not group.members
        ):
            return
        subscribers = {
            each.id: subscriber(*topics.partition_counts(group.topics_of(each.subscription)))
            for each in group.members.values()
        }
        counts = topics.partition_counts(group.subscribed_topics())
        target = {each: group.target_assignment_of(each) for each in group.members}
        check_complete(subscribers, counts, target)


TestGroupHistory = GroupHistory.TestCase
TestGroupHistory.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
