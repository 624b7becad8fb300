"""The audit of two Kafka brokers' directories: their replicas are the same batch by batch."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka import zookeeper_broker
from tests.support.audits import batches_in, findings, flip
from tests.support.live_topics import wait_until

TIMEOUT_S = 60
PROPERTIES = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "log.cleaner.backoff.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
SMALL = {"segment.bytes": "3000", "index.interval.bytes": "200", "min.insync.replicas": "1"}
CLEANED = "cleaner-offset-checkpoint"
COMPACTING = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture
def brokers(tmp_path, zookeeper):
    address = f"{zookeeper.address}/audited"
    made = [
        zookeeper_broker(
            tmp_path / str(number), zookeeper=address, broker_id=number, properties=PROPERTIES
        )
        for number in (1, 2)
    ]
    with made[0], made[1]:
        yield made


def send(client, first, count):
    """Of all kinds, to both topics and both partitions, every fourth transaction aborted."""
    producer = Producer({**client, "transactional.id": "audited", "acks": "all"})
    producer.init_transactions(TIMEOUT_S)
    for number in range(first, first + count):
        producer.begin_transaction()
        for topic in ("kept", "compacted"):
            key = b"key-%d" % (number % 5)
            producer.produce(topic, b"value %d" % number * 5, key=key, partition=number % 2)
        if number % 4:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)


def read(directory, name):
    path = directory / name
    return path.read_text() if path.exists() else ""


def test_replicas_that_kafka_made_are_sound_and_the_same(brokers):
    client = {"bootstrap.servers": ",".join(broker.bootstrap for broker in brokers)}
    admin = AdminClient(client)
    topics = [NewTopic("kept", 2, 2, config=SMALL), NewTopic("compacted", 2, 2, config=COMPACTING)]
    for created in admin.create_topics(topics).values():
        created.result()
    send(client, 0, 40)
    brokers[1].stop()  # the other leads all, in a new epoch
    send(client, 40, 20)
    brokers[1].start()
    send(client, 60, 20)
    directories = [broker.data_directory for broker in brokers]
    wait_until(lambda: all("compacted" in read(path, CLEANED) for path in directories))
    for broker in brokers:
        broker.stop()
    assert findings(*directories) == []
    assert len(read(directories[1], "kept-0/leader-epoch-checkpoint").splitlines()) > 3
    log = max(directories[1].glob("kept-0/*.log"), key=lambda path: path.stat().st_size)
    batch = list(batches_in(log.read_bytes()))[2]
    flip(log, batch.position + batch.size - 1)
    (finding,) = findings(*directories)
    assert (finding.file, finding.position) == (str(log), batch.position)
