"""Consumers of groups, by every library, each member in a process of its own."""

from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import BrokerProcess
from tests.support.group_members import (
    LIBRARIES,
    Member,
    check_commits,
    check_none_skipped,
    committed,
    described,
    places_of,
    share,
    wait_until,
)
from tests.support.new_topics import new_topic
from tests.support.partition_client import create_topic

__all__ = ["new_topic"]

PARTITIONS = 6
SETTINGS = ("group.initial.rebalance.delay.ms=100", "offsets.topic.num.partitions=5")
ASSIGNORS = [
    (library, assignor) for library in LIBRARIES for assignor in ("range", "roundrobin", "sticky")
] + [("confluent", "cooperative")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("groups") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        yield running
        assert "Traceback" not in running.log_text


@pytest.fixture
def members(broker):
    """Starts members, and ends those that are left."""
    with ExitStack() as stack:

        def start(library, **options):
            return stack.enter_context(Member(library, broker.address, **options))

        yield start


def send(address, topic, count, *, partitions=PARTITIONS, first=0):
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    values = [f"{topic} {number}" for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(30) == 0
    return values


def is_all_committed(broker, group, total):
    return lambda: sum(committed(broker.address, group).values()) == total


@pytest.mark.parametrize(("library", "assignor"), ASSIGNORS)
def test_two_share_a_topic_and_one_takes_over_what_the_other_leaves(
    broker, new_topic, members, library, assignor
):
    topic, group = new_topic(partitions=PARTITIONS), f"shared-by-{library}-{assignor}"
    values = send(broker.address, topic, 60)
    options = {"group": group, "topics": [topic], "assignor": assignor}
    first = members(library, **options)
    first.wait_until(lambda: len(first.assignment) == PARTITIONS)
    second = members(library, **options)
    places = places_of(topic, PARTITIONS)
    wait_until(lambda: share([first, second], places) and second.assignment)
    values += send(broker.address, topic, 60, first=60)
    wait_until(is_all_committed(broker, group, 120))
    first.close()
    wait_until(lambda: share([second], places))
    values += send(broker.address, topic, 60, first=120)
    wait_until(is_all_committed(broker, group, 180))
    check_none_skipped([first, second], values)
    check_commits([first, second])
    second.close()
    assert described(broker.address, group).group_state == "Empty"


def test_all_libraries_together_in_one_group(broker, new_topic, members):
    topic, group = new_topic(partitions=PARTITIONS), "mixed"
    options = {"group": group, "topics": [topic], "assignor": "range"}
    everybody = [members(library, **options) for library in LIBRARIES]
    places = places_of(topic, PARTITIONS)
    wait_until(lambda: share(everybody, places) and all(each.assignment for each in everybody))
    values = send(broker.address, topic, 300)
    wait_until(is_all_committed(broker, group, 300))
    check_none_skipped(everybody, values)
    check_commits(everybody)
    shown = described(broker.address, group)
    assert (shown.group_state, shown.protocol_data, len(shown.members)) == ("Stable", "range", 3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_rolling_restarts_skip_nothing(broker, new_topic, members, library):
    topic, group = new_topic(partitions=PARTITIONS), f"rolling-{library}"
    options = {"group": group, "topics": [topic]}
    present = [members(library, **options) for _ in range(2)]
    everybody, values = [*present], []
    for number in range(2):
        values += send(broker.address, topic, 60, first=60 * number)
        present[number].close()
        present[number] = members(library, **options)
        everybody.append(present[number])
        wait_until(lambda: share(present, places_of(topic, PARTITIONS)))
    wait_until(is_all_committed(broker, group, len(values)))
    check_none_skipped(everybody, values)
    check_commits(everybody)


# Without kafka-python: 3.0.12 now and then sends nothing any more after such a change, not even
# heartbeats, although all it has asked was answered.
@pytest.mark.parametrize("library", ["confluent", "aiokafka"])
def test_a_change_of_subscription_is_followed(broker, new_topic, members, library):
    one, two = new_topic(partitions=2), new_topic(partitions=2)
    member = members(library, group=f"changing-{library}", topics=[one])
    member.wait_until(lambda: share([member], places_of(one, 2)))
    member.order("topics", two)
    member.wait_until(lambda: share([member], places_of(two, 2)))


def test_a_regular_expression_finds_topics_that_come_later(broker, new_topic, members):
    member = members("confluent", group="by-expression", topics=["^matching-.*"])
    create_topic(broker.address, "matching-one", partitions=2)
    member.wait_until(lambda: share([member], places_of("matching-one", 2)))
    create_topic(broker.address, "matching-two", partitions=1)
    places = [*places_of("matching-one", 2), *places_of("matching-two", 1)]
    member.wait_until(lambda: share([member], places))
