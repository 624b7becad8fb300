"""Consumers with ``group.protocol=consumer`` (KIP-848): confluent-kafka on a broker process."""

import itertools
import random
import subprocess
import sys

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from odradek.controller.tied_process import tied_command
from tests.support.broker_process import BrokerProcess
from tests.support.protocol_consumers import QUICK, TIMEOUT_S, ConsumerFleet

_NUMBERS = itertools.count()

A_CONSUMER_TO_KILL = """
import sys
from confluent_kafka import Consumer
address, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"})
consumer.subscribe([topic], on_assign=lambda _, given: given and print(len(given), flush=True))
while True:
    consumer.poll(0.1)
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    directory = tmp_path_factory.mktemp("consumer-protocol") / "logs"
    with BrokerProcess(directory, *QUICK).start() as broker:
        yield broker


@pytest.fixture
def admin(broker):
    return new_admin(broker)


@pytest.fixture
def group():
    return f"group-{next(_NUMBERS)}"


@pytest.fixture
def new_topic(admin):
    def make(partitions=4, prefix="topic"):
        name = f"{prefix}-{next(_NUMBERS)}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)
        return name

    return make


def send(broker, topic, values, *, partitions=4):
    producer = Producer({"bootstrap.servers": broker.address})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(TIMEOUT_S) == 0


def places(topic, count):
    return [(topic, number) for number in range(count)]


def new_admin(broker):
    """After a restart, another: librdkafka may wait in vain for whom it knew (cluster_admin.py)."""
    return AdminClient({"bootstrap.servers": broker.address})


def described(admin, group):
    return admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)


def is_stable(admin, group):
    return described(admin, group).state is ConsumerGroupState.STABLE


def test_members_share_evenly_as_they_come_and_go(broker, new_topic, group):
    topic = new_topic(6)
    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("a")
        fleet.wait_until(lambda: fleet.sizes() == [6])
        fleet.add("b")
        fleet.wait_until(lambda: fleet.sizes() == [3, 3])
        fleet.add("c")
        fleet.wait_until(lambda: fleet.sizes() == [2, 2, 2])
        fleet.close("a")
        fleet.wait_until(lambda: fleet.sizes() == [3, 3])
        assert fleet.held() == places(topic, 6)
    assert "Traceback" not in broker.log_text


def test_every_record_is_read_through_rebalances(broker, new_topic, group):
    topic, values = new_topic(), [b"%d" % number for number in range(400)]
    send(broker, topic, values)
    with ConsumerFleet(broker.address, group, topic) as fleet:
        for name in ("a", "b", "c"):
            fleet.add(name)
            fleet.wait_until(lambda name=name: bool(fleet.members[name].has))
            fleet.commit()
        fleet.wait_until(lambda: {*values} == fleet.read())


def test_a_member_takes_up_where_another_has_committed(broker, new_topic, group):
    topic, values = new_topic(1), [b"%d" % number for number in range(20)]
    send(broker, topic, values, partitions=1)
    with ConsumerFleet(broker.address, group, topic) as fleet:
        first = fleet.add("a")
        fleet.wait_until(lambda: len(first.values) == 20)
        first.consumer.commit(offsets=[TopicPartition(topic, 0, 12)], asynchronous=False)
        fleet.close("a")
        second = fleet.add("b")
        fleet.wait_until(lambda: len(second.values) >= 8)
        assert second.values == values[12:]


def test_a_static_member_comes_back_to_what_it_had(broker, admin, new_topic, group):
    topic = new_topic()
    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("a", group_instance_id="first")
        fleet.add("b", group_instance_id="second")
        fleet.wait_until(lambda: fleet.sizes() == [2, 2] and is_stable(admin, group))
        had, other = set(fleet.members["a"].has), fleet.members["b"]
        rebalances = other.rebalances
        fleet.close("a")
        fleet.add("again", group_instance_id="first")
        fleet.wait_until(lambda: fleet.members["again"].has == had)
        assert other.rebalances == rebalances


def test_a_regular_expression_follows_topics(broker, new_topic, group):
    prefix = f"pattern{next(_NUMBERS)}"
    first, _ = new_topic(2, prefix=prefix), new_topic(2)
    with ConsumerFleet(broker.address, group, f"^{prefix}.*") as fleet:
        fleet.add("a")
        fleet.wait_until(lambda: fleet.held() == places(first, 2))
        second = new_topic(3, prefix=prefix)
        fleet.wait_until(lambda: fleet.held() == sorted(places(first, 2) + places(second, 3)))


def test_new_partitions_are_assigned(broker, admin, new_topic, group):
    topic = new_topic(2)
    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("a")
        fleet.add("b")
        fleet.wait_until(lambda: fleet.sizes() == [1, 1])
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(TIMEOUT_S)
        fleet.wait_until(lambda: fleet.sizes() == [3, 3])


def test_a_topic_that_is_created_later_is_assigned(broker, admin, group):
    topic = f"later-{next(_NUMBERS)}"
    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("a")
        fleet.turn()
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
        fleet.wait_until(lambda: fleet.held() == places(topic, 2))


def test_a_killed_member_is_missed_and_the_others_take_over(broker, new_topic, group):
    topic = new_topic()
    command = [sys.executable, "-c", A_CONSUMER_TO_KILL, broker.address, group, topic]
    with subprocess.Popen(tied_command(command), stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"4\n"
        with ConsumerFleet(broker.address, group, topic) as fleet:
            fleet.add("a")
            fleet.wait_until(lambda: fleet.sizes() == [2])
            victim.kill()
            fleet.wait_until(lambda: fleet.sizes() == [4])


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_group_outlives_its_broker_without_a_rebalance(tmp_path, ending):
    with BrokerProcess(tmp_path / "logs", *QUICK[2:]).start() as broker:
        admin = new_admin(broker)
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(TIMEOUT_S)
        with ConsumerFleet(broker.address, "g", "t") as fleet:
            fleet.add("a")
            fleet.add("b")
            fleet.wait_until(lambda: fleet.sizes() == [2, 2] and is_stable(admin, "g"))
            before = {
                each.name: (set(each.has), each.rebalances) for each in fleet.members.values()
            }
            send(broker, "t", [b"%d" % number for number in range(4)])
            fleet.wait_until(lambda: len(fleet.read()) == 4)
            fleet.commit()
            getattr(broker, ending)()
            broker.start()
            send(broker, "t", [b"%d" % number for number in range(4, 8)])
            fleet.wait_until(lambda: len(fleet.read()) == 8)
            after = {each.name: (set(each.has), each.rebalances) for each in fleet.members.values()}
            assert after == before
            assert is_stable(new_admin(broker), "g")
        assert "Traceback" not in broker.log_text


def test_admins_list_describe_and_delete_such_groups(broker, admin, new_topic, group):
    topic = new_topic(2)
    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("a", group_remote_assignor="range")
        fleet.wait_until(lambda: fleet.sizes() == [2])
        listed = {each.group_id: each for each in admin.list_consumer_groups().result().valid}
        assert listed[group].type is ConsumerGroupType.CONSUMER
        shown = described(admin, group)
        assert shown.type is ConsumerGroupType.CONSUMER
        assert shown.partition_assignor == "range"
        (member,) = shown.members
        given = [(each.topic, each.partition) for each in member.assignment.topic_partitions]
        assert sorted(given) == places(topic, 2)
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    left = {each.group_id for each in admin.list_consumer_groups().result().valid}
    assert group not in left


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_is_upgraded_member_by_member_and_downgraded_again(
    broker, admin, new_topic, group, strategy
):
    topic = new_topic()
    classic = {"group_protocol": "classic", "partition_assignment_strategy": strategy}

    def kind():
        listed = {each.group_id: each for each in admin.list_consumer_groups().result().valid}
        return listed[group].type

    with ConsumerFleet(broker.address, group, topic) as fleet:
        fleet.add("old-a", **classic, session_timeout_ms=6000)
        fleet.add("old-b", **classic, session_timeout_ms=6000)
        fleet.wait_until(lambda: fleet.sizes() == [2, 2])
        assert kind() is ConsumerGroupType.CLASSIC

        fleet.add("new-a")
        fleet.wait_until(lambda: fleet.sizes() == [1, 1, 2])
        assert kind() is ConsumerGroupType.CONSUMER
        assert fleet.held() == places(topic, 4)

        fleet.close("old-a")
        fleet.wait_until(lambda: fleet.sizes() == [2, 2])
        fleet.close("new-a")
        fleet.wait_until(lambda: fleet.sizes() == [4])
        assert kind() is ConsumerGroupType.CLASSIC
    assert "Traceback" not in broker.log_text


def test_a_broker_that_is_killed_after_a_downgrade_leaves_no_partition_unread(tmp_path):
    classic = {
        "group_protocol": "classic",
        "partition_assignment_strategy": "cooperative-sticky",
        "session_timeout_ms": 6000,
    }
    with BrokerProcess(tmp_path / "logs", *QUICK[2:]).start() as broker:
        admin = new_admin(broker)  # has to outlive the answer
        admin.create_topics([NewTopic("t", 6, 1)])["t"].result(TIMEOUT_S)
        with ConsumerFleet(broker.address, "g", "t") as fleet:
            fleet.add("old-a", **classic)
            fleet.add("old-b", **classic)
            fleet.wait_until(lambda: fleet.sizes() == [3, 3])
            fleet.add("new")
            fleet.wait_until(lambda: fleet.sizes() == [2, 2, 2])
            fleet.close("new")
            broker.kill()
            broker.start()
            fleet.wait_until(lambda: fleet.sizes() == [3, 3])
            assert described(new_admin(broker), "g").type is ConsumerGroupType.CLASSIC
        assert "Traceback" not in broker.log_text


def test_many_members_share_many_partitions_while_some_go_and_the_broker_is_killed(tmp_path):
    chance, names = random.Random(848), itertools.count()
    with BrokerProcess(tmp_path / "logs", *QUICK[2:]).start() as broker:
        admin = new_admin(broker)
        admin.create_topics([NewTopic("t", 100, 1)])["t"].result(TIMEOUT_S)
        with ConsumerFleet(broker.address, "g", "t", turn_s=0.002) as fleet:
            for _ in range(25):
                fleet.add(f"member-{next(names)}")
            fleet.wait_until(lambda: fleet.sizes() == [4] * 25)
            for ending in ("none", "kill"):
                for gone in chance.sample(sorted(fleet.members), 5):
                    fleet.close(gone)
                    fleet.add(f"member-{next(names)}")
                if ending == "kill":
                    broker.kill()
                    broker.start()
                fleet.wait_until(lambda: fleet.sizes() == [4] * 25)
                assert fleet.held() == places("t", 100)
        assert "Traceback" not in broker.log_text
