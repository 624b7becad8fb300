"""Administration by every client library: topics, partitions, configurations, records, cluster."""

import itertools
import time

import pytest

from tests.support.admin_driver import Described
from tests.support.aiokafka_admin import AiokafkaAdmin
from tests.support.client_driver import Refused, Sent
from tests.support.confluent_admin import ConfluentAdmin
from tests.support.confluent_driver import ConfluentDriver
from tests.support.kafka_python_admin import KafkaPythonAdmin

ADMINS = [ConfluentAdmin, KafkaPythonAdmin, AiokafkaAdmin]
WAIT_S = 10
_NUMBERS = itertools.count()


@pytest.fixture(params=ADMINS, ids=lambda admin: admin.name)
def admin(request, broker):
    with request.param(broker.address) as made:
        yield made


@pytest.fixture
def topic():
    return f"administered-{next(_NUMBERS)}"


def skip_without(admin, method):
    if method in admin.lacks:
        pytest.skip(f"{admin.name} cannot ask for that")


def fill(broker, topic, count):
    with ConfluentDriver().producer(broker.address) as producer:
        producer.send(topic, [Sent(b"%d" % number) for number in range(count)])


def wait_for(is_so):
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_made(admin, topic):
    """As in Kafka, one that was deleted is out of sight a moment before it is gone."""
    try:
        admin.create(topic, partitions=1)
    except Refused as refusal:
        if str(refusal) not in {"TOPIC_ALREADY_EXISTS", "TopicAlreadyExistsError"}:
            raise
        return False
    return True


def test_a_topic_is_created_listed_described_and_deleted(admin, topic):
    admin.create(topic, partitions=3)
    assert topic in admin.topics()
    (broker_id,) = admin.cluster().brokers
    alone = Described(broker_id, (broker_id,), (broker_id,))
    assert admin.describe(topic) == {0: alone, 1: alone, 2: alone}
    admin.delete(topic)
    wait_for(lambda: topic not in admin.topics())


def test_a_topic_that_was_deleted_may_be_made_again(admin, broker, topic):
    for _ in range(3):
        wait_for(lambda: is_made(admin, topic))
        fill(broker, topic, 10)
        admin.delete(topic)
        wait_for(lambda: topic not in admin.topics())


def test_a_topic_gets_more_partitions(admin, broker, topic):
    admin.create(topic, partitions=1)
    admin.grow(topic, partitions=4)
    wait_for(lambda: set(admin.describe(topic)) == {0, 1, 2, 3})
    with ConfluentDriver().producer(broker.address) as producer:
        assert producer.send(topic, [Sent(b"x", partition=3)]) == [0]


@pytest.mark.parametrize(
    ("name", "partitions", "configs", "refusal"),
    [
        ("a/b", 1, {}, r"TOPIC_EXCEPTION|InvalidTopicError"),
        ("fine", 0, {}, r"INVALID_PARTITIONS|InvalidPartitionsError"),
        ("fine", 1, {"cleanup.policy": "x"}, r"INVALID_CONFIG|InvalidConfigurationError"),
        ("fine", 1, {"no.such": "1"}, r"INVALID_CONFIG|InvalidConfigurationError"),
    ],
)
def test_what_is_wrong_with_a_new_topic_is_told(admin, name, partitions, configs, refusal):
    with pytest.raises(Refused, match=refusal):
        admin.create(name, partitions=partitions, configs=configs)
    assert name not in admin.topics()


def test_a_topic_that_is_there_is_not_made_and_one_that_is_not_is_not_deleted(admin, topic):
    admin.create(topic, partitions=1)
    with pytest.raises(Refused, match=r"TOPIC_ALREADY_EXISTS|TopicAlreadyExistsError"):
        admin.create(topic, partitions=1)
    with pytest.raises(Refused, match=r"INVALID_PARTITIONS|InvalidPartitionsError"):
        admin.grow(topic, partitions=1)
    with pytest.raises(Refused, match=r"UNKNOWN_TOPIC_OR_PART|UnknownTopicOrPartitionError"):
        admin.delete(f"no-{topic}")


def test_the_configuration_of_a_topic_is_told_and_altered(admin, topic):
    admin.create(topic, partitions=1, configs={"retention.ms": "123456"})
    assert admin.configs(topic)["retention.ms"] == "123456"
    assert admin.configs(topic)["cleanup.policy"] == "delete"
    admin.alter(topic, {"segment.bytes": "654321"})
    wait_for(lambda: admin.configs(topic)["segment.bytes"] == "654321")
    assert admin.configs(topic)["retention.ms"] == "604800000"
    with pytest.raises(Refused, match=r"(?i)invalid.?config"):
        admin.alter(topic, {"segment.bytes": "many"})


def test_some_of_the_configuration_of_a_topic_is_altered(admin, topic):
    skip_without(admin, "alter_some")
    admin.create(topic, partitions=1, configs={"retention.ms": "123456"})
    admin.alter_some(topic, {"segment.bytes": "654321"})
    wait_for(lambda: admin.configs(topic)["segment.bytes"] == "654321")
    assert admin.configs(topic)["retention.ms"] == "123456"


def test_the_configuration_of_a_broker_is_told(admin, broker):
    (broker_id,) = admin.cluster().brokers
    told = admin.broker_configs(broker_id)
    assert told["log.dirs"] == str(broker.data_dir)
    assert told["message.max.bytes"] == "1048588"


def test_records_are_deleted(admin, broker, topic):
    admin.create(topic, partitions=1)
    fill(broker, topic, 20)
    assert admin.delete_records(topic, before=7) == 7
    with ConfluentDriver().consumer(broker.address) as consumer:
        received = consumer.read(topic, {0: 7}, count=13)
        assert [each.offset for each in received] == list(range(7, 20))
        with pytest.raises(Refused):
            consumer.read(topic, {0: 6}, count=1)
    with pytest.raises(Refused, match=r"OFFSET_OUT_OF_RANGE|OffsetOutOfRangeError"):
        admin.delete_records(topic, before=21)


def test_the_first_and_the_next_offset_are_told(admin, broker, topic):
    skip_without(admin, "first_and_next_offset")
    admin.create(topic, partitions=1)
    assert admin.first_and_next_offset(topic) == (0, 0)
    fill(broker, topic, 20)
    assert admin.first_and_next_offset(topic) == (0, 20)


def test_log_directories_are_described(admin, broker, topic):
    skip_without(admin, "log_dirs")
    admin.create(topic, partitions=2)
    fill(broker, topic, 20)
    (sizes,) = [admin.log_dirs(topic)[str(broker.data_dir)]]
    assert set(sizes) == {0, 1}
    assert sizes[0] > sizes[1] == 0


def test_a_leader_that_leads_already_need_not_be_elected(admin, topic):
    skip_without(admin, "elect")
    admin.create(topic, partitions=1)
    assert admin.elect(topic) == "ELECTION_NOT_NEEDED"


def test_the_cluster_is_one_broker_which_is_its_controller(admin, broker):
    cluster = admin.cluster()
    assert list(cluster.brokers.values()) == [broker.address]
    assert cluster.controller in cluster.brokers
    assert len(cluster.cluster_id) == 22
