"""What is acknowledged by all replicas in sync outlives the leader."""

import signal
import threading

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.protocol.types import TopicPartition as Place
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until

TOPIC = "events"


@pytest.fixture
def cluster(zookeeper, tmp_path):
    with Cluster(tmp_path, zookeeper).running() as cluster:
        yield cluster


class Load:
    """An idempotent producer that goes on until it is stopped; what was acknowledged, and where."""

    def __init__(self, cluster):
        self.acked = {}
        self.failed = []
        self._producer = Producer(
            {"bootstrap.servers": cluster.addresses, "enable.idempotence": True, "linger.ms": 1}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *failure):
        self._is_over.set()
        self._thread.join()
        assert not self._producer.flush(60)

    def _run(self):
        number = 0
        while not self._is_over.is_set():
            self._producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=self._told)
            number += 1
            self._producer.poll(0.002)

    def _told(self, failure, message):
        if failure is None:
            self.acked[message.value()] = message.offset()
        else:
            self.failed.append(failure)

    def wait_for_more(self, count=100):
        wanted = len(self.acked) + count
        wait_until(lambda: len(self.acked) >= wanted)


def consumed(cluster):
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.addresses,
            "group.id": "checker",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append((message.offset(), message.value()))


def check(cluster, load):
    assert not load.failed
    found = consumed(cluster)
    values = {value: offset for offset, value in found}
    assert len(values) == len(found), "duplicates"
    assert {value: values.get(value) for value in load.acked} == load.acked
    wait_until(lambda: len(set(cluster.logs(Place(TOPIC, 0)))) == 1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_R1_the_leader_ends(cluster, how):
    cluster.create(TOPIC)
    with Load(cluster) as load:
        load.wait_for_more()
        leader = cluster.leader(TOPIC)
        if how == signal.SIGKILL:
            leader.kill()
        else:
            leader.stop()
        load.wait_for_more()
        leader.start()
        wait_until(lambda: cluster.is_whole(TOPIC))
        load.wait_for_more()
    check(cluster, load)
