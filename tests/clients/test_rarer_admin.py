"""What of the administration only kafka-python asks for: producers, directories, reassignments."""

import time
import warnings

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import BEGINNING, Options, Sent
from tests.support.confluent_driver import ConfluentDriver

with warnings.catch_warnings():
    # It reads its schemas by a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka import errors
    from kafka.structs import TopicPartitionReplica

WAIT_S = 20
RECORDS = 500
INVALID_REPLICA_ASSIGNMENT = 39


@pytest.fixture(scope="module")
def broker(tmp_path_factory, new_store):
    """With a second log directory, to which partitions can move."""
    folder = tmp_path_factory.mktemp("broker")
    both = f"log.dirs={folder / 'logs'},{folder / 'more'}"
    with BrokerProcess(folder / "logs", both, *new_store()).start() as running:
        yield running


@pytest.fixture
def admin(broker):
    made = kafka.KafkaAdminClient(bootstrap_servers=broker.address)
    yield made
    made.close()


def write(broker, topic, *, is_idempotent=False):
    with ConfluentDriver().producer(
        broker.address, Options(is_idempotent=is_idempotent)
    ) as producer:
        producer.send(topic, [Sent(b"%d" % number * 100) for number in range(RECORDS)])


def folder_of(admin, topic):
    """Of the log in use; one that is on its way to it is not counted."""
    (told,) = admin.describe_log_dirs([topic])
    (path,) = {
        each["log_dir"]
        for each in told["log_dirs"]
        for found in each["topics"]
        for partition in found["partitions"]
        if not partition["is_future_key"]
    }
    return path


def test_producers_are_described(broker, admin, new_topic):
    topic = new_topic()
    write(broker, topic, is_idempotent=True)
    partition = kafka.TopicPartition(topic, 0)
    (producer,) = admin.describe_producers([partition])[partition].active_producers
    assert producer.last_sequence == RECORDS - 1
    assert abs(producer.last_timestamp / 1000 - time.time()) < 60


def test_partitions_are_described_page_by_page(admin, new_topic):
    topic, found, cursor = new_topic(partitions=5), [], None
    for _ in range(3):
        page = admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
        found += [each["partition_index"] for each in page["topics"][0]["partitions"]]
        cursor = page["next_cursor"]
    assert found == list(range(5))
    assert cursor is None


def test_a_reassignment_to_where_it_is_has_nothing_to_do(admin, new_topic):
    partition = kafka.TopicPartition(new_topic(), 0)
    (described,) = admin.describe_topics([partition.topic])
    replicas = described["partitions"][0]["replica_nodes"]
    assert admin.alter_partition_reassignments({partition: replicas}) == {partition: None}
    assert admin.alter_partition_reassignments({partition: [12345]}) == {
        partition: errors.for_code(INVALID_REPLICA_ASSIGNMENT)
    }
    assert admin.list_partition_reassignments() == {}


def test_a_partition_moves_to_another_directory(broker, admin, new_topic):
    topic = new_topic()
    write(broker, topic)
    before = folder_of(admin, topic)
    (target,) = {str(broker.data_dir), str(broker.data_dir.with_name("more"))} - {before}
    (broker_id,) = [each["broker_id"] for each in admin.describe_cluster()["brokers"]]
    replica = TopicPartitionReplica(topic, 0, broker_id)
    assert admin.alter_replica_log_dirs({replica: target}) == {replica: errors.NoError}
    deadline = time.monotonic() + WAIT_S
    while folder_of(admin, topic) != target:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    write(broker, topic)
    with ConfluentDriver().consumer(broker.address) as consumer:
        received = consumer.read(topic, {0: BEGINNING}, count=2 * RECORDS)
    assert [each.offset for each in received] == list(range(2 * RECORDS))


def test_a_partition_does_not_move_to_where_no_directory_is(broker, admin, new_topic):
    topic = new_topic()
    (broker_id,) = [each["broker_id"] for each in admin.describe_cluster()["brokers"]]
    replica = TopicPartitionReplica(topic, 0, broker_id)
    told = admin.alter_replica_log_dirs({replica: str(broker.data_dir / "nowhere")})
    assert told == {replica: errors.LogDirNotFoundError}
