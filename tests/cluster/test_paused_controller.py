"""A controller that does not answer holds up nobody for longer than its session lasts."""

import os
import signal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from odradek.protocol.api_keys import ApiKey
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until
from tests.support.wire_client import call

#: It is asked while it is paused, before its session is over; its answer would be long awaited.
SETTINGS = ("zookeeper.session.timeout.ms=6000", "controller.socket.timeout.ms=600000")


@pytest.mark.soak
def test_who_is_in_sync_changes_although_the_last_controller_was_paused_when_it_was_asked(
    zookeeper, tmp_path
):
    with Cluster(tmp_path, zookeeper, *SETTINGS).running() as cluster:
        paused = call(cluster.brokers[0].address, ApiKey.METADATA, 7, topics=[]).controller_id
        leader, follower = (each for each in range(3) if each != paused)
        new = NewTopic("t", 1, replica_assignment=[[leader, follower, paused]])
        cluster.admin.create(new)

        def in_sync():
            return cluster.partitions("t", by=cluster.brokers[leader]).get(0, (-1, set()))[1]

        def is_said(words):
            return words in cluster.brokers[leader].log_text

        wait_until(lambda: len(in_sync()) == 3)
        os.kill(cluster.brokers[paused].pid, signal.SIGSTOP)
        try:
            produce(cluster.brokers[leader])  # what the paused one does not get
            wait_until(lambda: is_said("Shrinking ISR from"))
            wait_until(lambda: in_sync() == {leader, follower})
            wait_until(lambda: is_said(f"controller {paused} does not answer"))
            cluster.brokers[follower].stop()
            cluster.brokers[follower].start()
            wait_until(lambda: in_sync() == {leader, follower})
        finally:
            os.kill(cluster.brokers[paused].pid, signal.SIGCONT)
        wait_until(lambda: len(in_sync()) == 3)


def produce(broker):
    producer = Producer({"bootstrap.servers": broker.address, "acks": 1})
    producer.produce("t", b"v", partition=0)
    assert not producer.flush(30)
