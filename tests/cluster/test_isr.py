"""Who is in sync: followers that fall behind are left out, and come back."""

import time
from contextlib import ExitStack

from confluent_kafka import KafkaError, Producer

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record import Record
from odradek.protocol.types import TopicPartition
from tests.support.batches import batch_of
from tests.support.cluster_faults import ALL_IN_SYNC, paused, write
from tests.support.cluster_load import Load, check
from tests.support.group_members import wait_until
from tests.support.partition_client import PartitionClient

ACKNOWLEDGED = [b"acknowledged %d" % number for number in range(5)]
#: Longer than it takes until nobody but the leader is in sync.
TIMEOUT_MS = 6_000
#: Of what is in the log of too few: it depends on whether the high watermark comes to it.
NOT_REPLICATED = (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)


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


def test_r3_too_few_in_sync_acknowledge_nothing_and_lose_nothing(shared):
    cluster, topic = shared, "r3"
    cluster.create(topic)
    leader = cluster.leader(topic)
    for value in ACKNOWLEDGED:
        assert write(leader, topic, value, acks=ALL_IN_SYNC) is ErrorCode.NONE
    with ExitStack() as stack, PartitionClient(leader.address, topic) as client:
        for follower in cluster.others(leader):
            stack.enter_context(paused(follower))
        # All are in sync yet, as far as the leader knows.
        client.wire.send(ApiKey.PRODUCE, 9, **appended(client))
        wait_until(lambda: in_sync(cluster, topic, leader) == 1)
        assert write(leader, topic, b"refused", acks=ALL_IN_SYNC) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert told_to_a_client(leader, topic) == KafkaError.NOT_ENOUGH_REPLICAS
        answer = client.answer_to_produce(client.wire.answer(ApiKey.PRODUCE, 9))
        assert ErrorCode.of(answer.error_code) in NOT_REPLICATED
    cluster.wait_until_whole(topic)
    wait_until(lambda: cluster.are_alike(TopicPartition(topic, 0)))
    assert write(cluster.leader(topic), topic, b"again", acks=ALL_IN_SYNC) is ErrorCode.NONE
    with PartitionClient(cluster.leader(topic).address, topic) as client:
        values = [each.value for each in client.records()]
    assert [each for each in values if each != b"appended"] == [*ACKNOWLEDGED, b"again"]
    assert values.count(b"appended") <= 1


def appended(client):
    """A request that is answered when all in sync have it, or after a while."""
    now_ms = time.time_ns() // 10**6  # else it is too old at once
    batch = batch_of(Record(0, now_ms, None, b"appended"))
    return client.produce_values(batch) | {"timeout_ms": TIMEOUT_MS}


def told_to_a_client(leader, topic):
    """Which does not try again."""
    told = []
    producer = Producer({"bootstrap.servers": leader.address, "acks": "all", "retries": 0})
    producer.produce(topic, b"v", partition=0, on_delivery=lambda failure, _: told.append(failure))
    producer.flush(30)
    (failure,) = told
    return failure.code()
