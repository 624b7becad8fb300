"""The partition count of an internal topic includes partitions that never had a leader."""

from odradek.broker.coordinator.partition_count_cache import PartitionCountCache
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.controller.store.base import SessionExpired
from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.group_wire import committed, find_coordinator, name_of
from tests.support.metadata_updates import GOING, cluster, state, topic_id, update
from tests.support.minimal_requests import create
from tests.support.wire_client import call

BROKER, ABSENT_BROKER = 7, 8


class CountScene:
    """A partition count cache with a fake metadata store."""

    def __init__(self):
        self.cluster = cluster(update({CONSUMER_OFFSETS: [state(0), state(1)]}))
        self.stored_count = 3
        self.error = None
        self.reads = 0
        self.count = PartitionCountCache(CONSUMER_OFFSETS, self, start_task=self.start)
        self.started = []

    def start(self, work, name):
        self.started.append(work)

    async def partition_count(self, topic):
        assert topic == CONSUMER_OFFSETS
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.stored_count

    def cached(self):
        return self.count.get(self.cluster.topic(CONSUMER_OFFSETS))

    async def refreshed(self):
        """Return the count after all started tasks have ended."""
        while self.started:
            await self.started.pop()
        return self.cached()


async def test_partition_that_never_had_a_leader_counts():
    scene = CountScene()
    assert [scene.cached(), scene.cached()] == [None, None]
    assert await scene.refreshed() == 3
    assert scene.reads == 1


async def test_count_read_before_the_metadata_update_is_used():
    scene = CountScene()
    await scene.count.refresh(None)
    assert (scene.cached(), scene.reads) == (3, 1)


async def test_recreated_topic_is_counted_again_after_a_late_deletion():
    scene = CountScene()
    scene.cached()
    assert await scene.refreshed() == 3
    going = [state(0, leader=GOING), state(1, leader=GOING)]
    scene.cluster.update(update({CONSUMER_OFFSETS: going}))
    await scene.count.refresh(scene.cluster.topic(CONSUMER_OFFSETS))
    recreated = update({CONSUMER_OFFSETS: [state(0), state(1)]})
    recreated.topic_states[0].topic_id = topic_id("another")
    scene.stored_count = 2
    scene.cluster.update(recreated)
    assert scene.cached() is None
    assert await scene.refreshed() == 2


async def test_leader_change_does_not_read_the_count_again():
    scene = CountScene()
    scene.cached()
    await scene.refreshed()
    scene.cluster.update(update({CONSUMER_OFFSETS: [state(1, leader=2)]}))
    scene.cluster.update(update({CONSUMER_OFFSETS: [state(2)]}))
    assert (scene.cached(), scene.reads) == (3, 1)


async def test_added_partition_reads_the_count_again():
    scene = CountScene()
    scene.cached()
    await scene.refreshed()
    scene.stored_count = 5
    scene.cluster.update(update({CONSUMER_OFFSETS: [state(3)]}))
    assert scene.cached() is None
    assert await scene.refreshed() == 5


async def test_new_topic_id_reads_the_count_again():
    scene = CountScene()
    scene.cached()
    await scene.refreshed()
    gone = [state(0, leader=GOING), state(1, leader=GOING)]
    scene.cluster.update(update({CONSUMER_OFFSETS: gone}))
    recreated = update({CONSUMER_OFFSETS: [state(0)]})
    recreated.topic_states[0].topic_id = topic_id("another")
    scene.cluster.update(recreated)
    scene.stored_count = 1
    assert scene.cached() is None
    assert await scene.refreshed() == 1


async def test_stale_or_unavailable_store_is_read_again():
    scene = CountScene()
    scene.stored_count = 1
    scene.cached()
    assert await scene.refreshed() is None
    scene.error = SessionExpired()
    assert await scene.refreshed() is None
    scene.stored_count, scene.error = 3, None
    await scene.refreshed()
    assert await scene.refreshed() == 3


def find_coordinator_error(broker, group):
    request = {"key_type": 0, "coordinator_keys": [group]}
    (coordinator,) = call(broker.address, ApiKey.FIND_COORDINATOR, 4, **request).coordinators
    return name_of(coordinator.error_code)


def commit_as_simple_consumer(broker, group, topic, offset):
    partition = {"partition_index": 0, "committed_offset": offset}
    response = call(
        broker.address,
        ApiKey.OFFSET_COMMIT,
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [partition]}],
    )
    return name_of(response.topics[0].partitions[0].error_code)


def test_group_partition_does_not_change_when_missing_leaders_are_elected(tmp_path):
    """With only the known partitions, both groups would be in partition 0, and one would move."""
    led, leaderless = "f", "g"  # ord("f") is even
    with BrokerProcess(tmp_path / "logs", f"broker.id={BROKER}").start() as broker:
        create(broker.address, "events")
        assignments = [
            {"partition_index": 0, "broker_ids": [BROKER]},
            {"partition_index": 1, "broker_ids": [ABSENT_BROKER]},
        ]
        topic = {"name": CONSUMER_OFFSETS, "num_partitions": -1, "replication_factor": -1}
        response = call(
            broker.address,
            ApiKey.CREATE_TOPICS,
            7,
            topics=[topic | {"assignments": assignments}],
            timeout_ms=1,
        )
        # The topic exists, but not all partitions have leaders in time.
        assert name_of(response.topics[0].error_code) == "REQUEST_TIMED_OUT"
        find_coordinator(broker.address, led)
        for _ in ("created", "restarted"):
            assert find_coordinator_error(broker, leaderless) == "COORDINATOR_NOT_AVAILABLE"
            assert commit_as_simple_consumer(broker, leaderless, "events", 5) == "NOT_COORDINATOR"
            assert commit_as_simple_consumer(broker, led, "events", 5) == "NONE"
            broker.restart()
            assert committed(broker.address, led) == {("events", 0): 5}
