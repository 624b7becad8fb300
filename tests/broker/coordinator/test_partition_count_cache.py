"""How many partitions an internal topic has, though nobody tells of some of them."""

from odradek.broker.coordinator.partition_count import PartitionCount
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.controller.store.base import SessionExpired
from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import committed, find_coordinator, name_of
from tests.support.metadata_updates import GOING, cluster, state, topic_id, update
from tests.support.minimal_requests import create
from tests.support.wire_client import call

BROKER, ABSENT_BROKER = 7, 8


class Counting:
    """A count, and the tree that it asks."""

    def __init__(self):
        self.cluster = cluster(update({CONSUMER_OFFSETS: [state(0), state(1)]}))
        self.in_tree = 3
        self.failure = None
        self.asked = 0
        self.count = PartitionCount(CONSUMER_OFFSETS, self, start=self.start)
        self.started = []

    def start(self, work, name):
        self.started.append(work)

    async def partition_count(self, topic):
        assert topic == CONSUMER_OFFSETS
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return self.in_tree

    def now(self):
        return self.count.of(self.cluster.topic(CONSUMER_OFFSETS))

    async def soon(self):
        """When all has ended that was started."""
        while self.started:
            await self.started.pop()
        return self.now()


async def test_a_partition_that_never_had_a_leader_counts():
    counting = Counting()
    assert [counting.now(), counting.now()] == [None, None]
    assert await counting.soon() == 3
    assert counting.asked == 1


async def test_it_is_known_at_once_if_it_was_counted_before_it_was_told_of():
    counting = Counting()
    await counting.count.learn(None)
    assert (counting.now(), counting.asked) == (3, 1)


async def test_a_topic_that_is_made_again_is_counted_again_though_the_old_one_was_late_to_go():
    counting = Counting()
    counting.now()
    assert await counting.soon() == 3
    going = [state(0, leader=GOING), state(1, leader=GOING)]
    counting.cluster.update(update({CONSUMER_OFFSETS: going}))
    await counting.count.learn(counting.cluster.topic(CONSUMER_OFFSETS))
    again = update({CONSUMER_OFFSETS: [state(0), state(1)]})
    again.topic_states[0].topic_id = topic_id("another")
    counting.in_tree = 2
    counting.cluster.update(again)
    assert counting.now() is None
    assert await counting.soon() == 2


async def test_the_tree_is_not_asked_again_when_others_lead():
    counting = Counting()
    counting.now()
    await counting.soon()
    counting.cluster.update(update({CONSUMER_OFFSETS: [state(1, leader=2)]}))
    counting.cluster.update(update({CONSUMER_OFFSETS: [state(2)]}))
    assert (counting.now(), counting.asked) == (3, 1)


async def test_it_is_asked_again_when_there_are_more():
    counting = Counting()
    counting.now()
    await counting.soon()
    counting.in_tree = 5
    counting.cluster.update(update({CONSUMER_OFFSETS: [state(3)]}))
    assert counting.now() is None
    assert await counting.soon() == 5


async def test_it_is_asked_again_for_another_topic_of_the_name():
    counting = Counting()
    counting.now()
    await counting.soon()
    gone = [state(0, leader=GOING), state(1, leader=GOING)]
    counting.cluster.update(update({CONSUMER_OFFSETS: gone}))
    again = update({CONSUMER_OFFSETS: [state(0)]})
    again.topic_states[0].topic_id = topic_id("another")
    counting.cluster.update(again)
    counting.in_tree = 1
    assert counting.now() is None
    assert await counting.soon() == 1


async def test_a_tree_that_is_behind_or_away_is_asked_again():
    counting = Counting()
    counting.in_tree = 1
    counting.now()
    assert await counting.soon() is None
    counting.failure = SessionExpired()
    assert await counting.soon() is None
    counting.in_tree, counting.failure = 3, None
    await counting.soon()
    assert await counting.soon() == 3


def coordinator_of(broker, group):
    asked = {"key_type": 0, "coordinator_keys": [group]}
    (found,) = call(broker.address, ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
    return name_of(found.error_code)


def commit_from_outside(broker, group, topic, offset):
    line = {"partition_index": 0, "committed_offset": offset}
    answer = call(
        broker.address,
        ApiKey.OFFSET_COMMIT,
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [line]}],
    )
    return name_of(answer.topics[0].partitions[0].error_code)


def test_groups_are_where_they_will_be_when_all_partitions_have_leaders(tmp_path):
    """By those that are told of, both would be in partition 0, and one moved to another later."""
    led, leaderless = "f", "g"  # ord("f") is even
    with BrokerProcess(tmp_path / "logs", f"broker.id={BROKER}").start() as broker:
        create(broker.address, "events")
        assignments = [
            {"partition_index": 0, "broker_ids": [BROKER]},
            {"partition_index": 1, "broker_ids": [ABSENT_BROKER]},
        ]
        topic = {"name": CONSUMER_OFFSETS, "num_partitions": -1, "replication_factor": -1}
        answer = call(
            broker.address,
            ApiKey.CREATE_TOPICS,
            7,
            topics=[topic | {"assignments": assignments}],
            timeout_ms=1,
        )
        # It is there, but not all of it has leaders in time.
        assert name_of(answer.topics[0].error_code) == "REQUEST_TIMED_OUT"
        find_coordinator(broker.address, led)
        for _ in ("as it was made", "as it is found by whoever starts"):
            assert coordinator_of(broker, leaderless) == "COORDINATOR_NOT_AVAILABLE"
            assert commit_from_outside(broker, leaderless, "events", 5) == "NOT_COORDINATOR"
            assert commit_from_outside(broker, led, "events", 5) == "NONE"
            broker.restart()
            assert committed(broker.address, led) == {("events", 0): 5}
