"""S1: a broker that is killed or stopped under load, again and again, loses nothing acknowledged.

Idempotent producers, which repeat what was not acknowledged in time, leave no duplicates; a
consumer that reads all the while sees every offset once, and in order.
"""

import time
from random import Random

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.crash_rounds import seeds
from tests.support.partition_client import create_topic
from tests.support.persistent_load import PersistentConsumer, PersistentProducer
from tests.support.persistent_load import check as check_clients

TOPIC = "killed"
PARTITIONS = 3
#: Small, so that segments are rolled, and producers' snapshots written, when the end comes.
SEGMENT_BYTES = 20_000
ROUNDS = 10
STOPS = 5
STOP_S_MAX = 10
LIFE_S_MAX = 0.2
CATCH_UP_S = 30
KINDS = {
    "at once": {"linger.ms": 0},
    "in batches": {"linger.ms": 20, "compression.type": "lz4"},
}


@pytest.mark.parametrize("seed", seeds(5))
def test_s1_nothing_acknowledged_is_lost_or_repeated_by_a_kill(tmp_path, seed):
    ended_under_load(tmp_path, BrokerProcess.kill, rounds=ROUNDS, seed=seed)


@pytest.mark.parametrize("seed", seeds(1))
def test_nothing_acknowledged_is_lost_or_repeated_by_a_stop(tmp_path, seed):
    ended_under_load(tmp_path, stop_within_seconds, rounds=STOPS, seed=seed)


def stop_within_seconds(broker):
    begun = time.monotonic()
    broker.stop()
    assert time.monotonic() - begun < STOP_S_MAX


def ended_under_load(tmp_path, end, *, rounds, seed):
    random = Random(seed)
    with BrokerProcess(tmp_path / "logs").start() as broker:
        create_topic(broker.address, TOPIC, partitions=PARTITIONS, segment_bytes=SEGMENT_BYTES)
        producers = [
            PersistentProducer(broker.address, TOPIC, name=name, partitions=PARTITIONS, **more)
            for name, more in KINDS.items()
        ]
        consumer = PersistentConsumer(broker.address, TOPIC, partitions=PARTITIONS)
        for client in (*producers, consumer):
            client.start()
        for _ in range(rounds):
            wait_until_under_load(producers)
            time.sleep(random.uniform(0, LIFE_S_MAX))
            end(broker)
            broker.start()
        for producer in producers:
            producer.stop()
        consumer.wait_for(sum(len(producer.acknowledged) for producer in producers))
        consumer.stop()
        check(producers, consumer)
        assert "Traceback" not in broker.log_text


def wait_until_under_load(producers):
    before = [len(producer.acknowledged) for producer in producers]
    deadline = time.monotonic() + CATCH_UP_S
    while any(len(each.acknowledged) <= n for each, n in zip(producers, before, strict=True)):
        assert time.monotonic() < deadline, [producer.failures for producer in producers]
        time.sleep(0.005)


def check(producers, consumer):
    """Nothing was refused for good, so that all was acknowledged, and nothing else is there."""
    for producer in producers:
        assert set(producer.acknowledged) == {
            each for sent in producer.sent.values() for each in sent
        }
        assert len(producer.acknowledged) > STOPS
    check_clients(producers, [consumer])
    for found in consumer.found.values():
        assert [offset for offset, _ in found] == list(range(len(found)))
