"""Who is in sync: followers that fall behind are left out, and come back.

All tests share three brokers, which are whole again after each.
"""

import time
from contextlib import ExitStack, contextmanager

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import ResourceType

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.types import TopicPartition
from tests.support.batches import batch_of
from tests.support.cluster_admin import ClusterAdmin
from tests.support.cluster_faults import ALL_IN_SYNC, LEADER_ONLY, paused, write
from tests.support.cluster_load import Load, check
from tests.support.group_members import wait_until
from tests.support.partition_client import PartitionClient

ACKNOWLEDGED = [b"acknowledged %d" % number for number in range(5)]
#: Longer than it takes until nobody but the leader is in sync.
TIMEOUT_MS = 6_000
NOT_ENOUGH = ErrorCode.NOT_ENOUGH_REPLICAS


def in_sync(cluster, topic, by):
    """None before it has heard of the topic at all."""
    known = cluster.partitions(topic, by=by)
    return len(known[0][1]) if known else None


def test_r2_a_follower_that_is_paused_is_out_of_sync_and_comes_back(shared):
    cluster, topic = shared, "r2"
    cluster.create(topic)
    with Load(cluster, topic) as load:
        load.wait_for_more()
        leader = cluster.leader(topic)
        with paused(cluster.others(leader)[0]):
            wait_until(lambda: in_sync(cluster, topic, leader) == 2)
            load.wait_for_more()
        wait_until(lambda: cluster.is_whole(topic, by=leader))
        load.wait_for_more()
    check(cluster, load)


@contextmanager
def all_paused(brokers):
    with ExitStack() as stack:
        for each in brokers:
            stack.enter_context(paused(each))
        yield


def test_r3_too_few_in_sync_acknowledge_nothing_and_lose_nothing(shared):
    cluster, topic = shared, "r3"
    cluster.create(topic)
    leader = cluster.leader(topic)
    first, second = cluster.others(leader)
    for value in ACKNOWLEDGED:
        assert write(leader, topic, value, acks=ALL_IN_SYNC) is ErrorCode.NONE
    with PartitionClient(leader.address, topic) as client, paused(first):
        with paused(second):
            # All are in sync yet, as far as the leader knows.
            client.wire.send(ApiKey.PRODUCE, 9, **written_in_vain(client))
            wait_until(lambda: in_sync(cluster, topic, leader) == 1)
            assert write(leader, topic, b"refused", acks=ALL_IN_SYNC) is NOT_ENOUGH
            assert told_to_a_client(leader, topic) == KafkaError.NOT_ENOUGH_REPLICAS
            assert write(leader, topic, b"alone", acks=LEADER_ONLY) is ErrorCode.NONE
            answer = client.answer_to_produce(client.wire.answer(ApiKey.PRODUCE, 9))
            assert ErrorCode.for_code(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT
            assert read_up_to(client) == len(ACKNOWLEDGED)
        # What too few have is read when another has it.
        wait_until(lambda: in_sync(cluster, topic, leader) == 2)
        wait_until(lambda: read_up_to(client) == len(ACKNOWLEDGED) + 2)
    cluster.wait_until_whole(topic)
    wait_until(lambda: cluster.are_alike(TopicPartition(topic, 0)))
    with PartitionClient(cluster.leader(topic).address, topic) as client:
        values = [each.value for each in client.records()]
    assert values == [*ACKNOWLEDGED, b"in vain", b"alone"]


def read_up_to(client):
    """What ListOffsets may not tell if the same broker leads in a new epoch."""
    return client.fetch(0).high_watermark


def written_in_vain(client):
    """A request that is answered when enough have the record, or after a while."""
    now_ms = time.time_ns() // 10**6  # else it is too old at once
    batch = batch_of(Record(0, now_ms, None, b"in vain"))
    return client.produce_values(batch) | {"timeout_ms": TIMEOUT_MS}


def told_to_a_client(leader, topic):
    """Which does not try again."""
    told = []
    producer = Producer({"bootstrap.servers": leader.address, "acks": "all", "retries": 0})
    producer.produce(topic, b"v", partition=0, on_delivery=lambda failure, _: told.append(failure))
    producer.flush(30)
    (failure,) = told
    return failure.code()


def test_r3_what_too_few_in_sync_have_is_read_when_fewer_are_wanted(shared):
    cluster, topic = shared, "r3-fewer"
    cluster.create(topic)
    leader = cluster.leader(topic)
    with PartitionClient(leader.address, topic) as client, all_paused(cluster.others(leader)):
        wait_until(lambda: in_sync(cluster, topic, leader) == 1)
        assert write(leader, topic, b"alone", acks=LEADER_ONLY) is ErrorCode.NONE
        assert read_up_to(client) == 0
        # Of the others none would answer.
        wanted = {"min.insync.replicas": "1"}
        ClusterAdmin(leader.address).configure(ResourceType.TOPIC, topic, wanted)
        wait_until(lambda: read_up_to(client) == 1)
    cluster.wait_until_whole(topic)
