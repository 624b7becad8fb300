"""Internal topics of a Kafka that runs, scanned: the offsets and states that it tells itself."""

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka_jars import KAFKA_4_1
from tests.support.scans import Scanned
from tests.support.transaction_wire import WireProducer, state_of

TOPIC = "scanned-contents"
PROTOCOLS = {"kafka_39": ("classic",), "kafka_41": ("classic", "consumer")}
COMMITTER, WRITER = "scanned-committer", "scanned-writer"
TIMEOUT_S = 30


@pytest.fixture(params=PROTOCOLS)
def kafka(request):
    """With groups of every protocol that it has, one that is deleted, and transactions."""
    broker = request.getfixturevalue(request.param)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result()
    with WireProducer(broker.bootstrap, WRITER) as producer:
        producer.init()
        producer.write(TOPIC, b"1", b"2", b"3")
        producer.commit()
    for protocol in PROTOCOLS[request.param]:
        _read_and_commit(broker, protocol)
    _commit(broker, "scanned-gone", 1)
    for deleted in admin.delete_consumer_groups(["scanned-gone"]).values():
        deleted.result()
    with WireProducer(broker.bootstrap, COMMITTER) as producer:
        producer.init()
        for offset, end in ((1, producer.commit), (2, producer.abort)):
            producer.commit_offset("scanned-copied", TOPIC, offset)
            end()
    return broker


def _read_and_commit(broker, protocol):
    """As a member of a group, so that the coordinator has more to write than offsets."""
    session = {"session.timeout.ms": 6000} if protocol == "classic" else {}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"scanned-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **session,
        }
    )
    consumer.subscribe([TOPIC])
    for _ in range(3):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        consumer.commit(message, asynchronous=False)
    consumer.close()


def _commit(broker, group, offset):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def _scanned(broker, content, **options):
    """All of it: the high watermarks on disk may be seconds behind."""
    path = str(broker.data_directory)
    return Scanned(path, content=content, mode="FAILFAST", ignoreHighWatermark="true", **options)


def _told(broker, group):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result().topic_partitions
    return {(each.topic, each.partition): each.offset for each in found}


def test_contents_are_what_kafka_tells(kafka):
    kinds = {(row["group"], row["recordType"]) for row in _scanned(kafka, "offsets").rows}
    assert ("scanned-classic", "GroupMetadata") in kinds
    if kafka.version == KAFKA_4_1:
        assert ("scanned-consumer", "ConsumerGroupMemberMetadata") in kinds
        assert ("scanned-consumer", "ConsumerGroupMetadata") in kinds
    assert not any(kind.isdigit() for _, kind in kinds)
    groups = {group for group, _ in kinds}
    ours = {group for group in groups if group is not None and group.startswith("scanned-")}
    assert len(ours) >= 3
    for group in ours:
        rows = _scanned(kafka, "offsets", group=group).rows
        last = {
            (row["topic"], row["partition"]): row
            for row in rows
            if row["recordType"] == "OffsetCommit"
        }
        offsets = {place: row["offset"] for place, row in last.items() if not row["deleted"]}
        assert offsets == _told(kafka, group), group
        assert len({row["logPartition"] for row in rows}) == 1
    for transactional_id in (WRITER, COMMITTER):
        row = _scanned(kafka, "transactions", transactionalId=transactional_id).rows[-1]
        assert row["state"] == state_of(kafka.bootstrap, transactional_id)
