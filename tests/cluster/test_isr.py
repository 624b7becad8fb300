"""Who is in sync: followers that fall behind are left out, and come back."""

import os
import signal

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import ResourceType

from tests.support.cluster_load import TOPIC, Load, check
from tests.support.group_members import wait_until


def followers(cluster):
    leader = cluster.leader(TOPIC)
    return [each for each in cluster.brokers if each is not leader]


def in_sync(cluster, by):
    """None before it has heard of the topic at all."""
    known = cluster.partitions(TOPIC, by=by)
    return len(known[0][1]) if known else None


def test_r2_a_follower_that_is_paused_is_out_of_sync_and_comes_back(cluster):
    cluster.create(TOPIC)
    with Load(cluster, TOPIC) as load:
        load.wait_for_more()
        leader, (paused, _) = cluster.leader(TOPIC), followers(cluster)
        os.kill(paused.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: in_sync(cluster, leader) == 2)
            load.wait_for_more()
        finally:
            os.kill(paused.pid, signal.SIGCONT)
        wait_until(lambda: cluster.is_whole(TOPIC, by=leader))
        load.wait_for_more()
    check(cluster, load)


def test_r3_too_few_in_sync_acknowledge_nothing(cluster):
    cluster.create(TOPIC)
    leader = cluster.leader(TOPIC)
    for broker in followers(cluster):
        broker.kill()
    wait_until(lambda: in_sync(cluster, leader) == 1)
    told = []
    producer = Producer(
        {
            "bootstrap.servers": leader.address,
            "acks": "all",
            "retries": 0,
            "message.timeout.ms": 20_000,
        }
    )
    producer.produce(TOPIC, b"v", partition=0, on_delivery=lambda failure, _: told.append(failure))
    producer.flush(30)
    (failure,) = told
    assert failure.code() in (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._MSG_TIMED_OUT)


def end_for_consumers(broker):
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "nobody"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)[1]
    finally:
        consumer.close()


def write_to(broker):
    """It is acknowledged by its leader alone."""
    told = []
    producer = Producer({"bootstrap.servers": broker.address, "acks": 1})
    producer.produce(TOPIC, b"v", partition=0, on_delivery=lambda failure, _: told.append(failure))
    assert producer.flush(30) == 0
    assert told == [None]


def test_r3_what_too_few_in_sync_have_is_read_when_another_has_it(cluster):
    cluster.create(TOPIC)
    leader, killed = cluster.leader(TOPIC), followers(cluster)
    for broker in killed:
        broker.kill()
    wait_until(lambda: in_sync(cluster, leader) == 1)
    write_to(leader)
    write_to(leader)
    assert end_for_consumers(leader) == 0
    killed[0].start()
    wait_until(lambda: in_sync(cluster, leader) == 2)
    wait_until(lambda: end_for_consumers(leader) == 2)


def test_r3_and_when_fewer_are_wanted_in_sync(cluster):
    cluster.create(TOPIC)
    leader = cluster.leader(TOPIC)
    for broker in followers(cluster):
        broker.kill()
    wait_until(lambda: in_sync(cluster, leader) == 1)
    write_to(leader)
    assert end_for_consumers(leader) == 0
    cluster.admin.configure(ResourceType.TOPIC, TOPIC, {"min.insync.replicas": "1"})
    wait_until(lambda: end_for_consumers(leader) == 1)
