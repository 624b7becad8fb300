"""Consumers of groups, by every library, each member in a process of its own."""

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.group_members import (
    PARTITIONS,
    SETTINGS,
    check_commits,
    check_none_skipped,
    is_all_committed,
    members,
    places_of,
    send,
    share,
    wait_until,
)
from tests.support.group_wire import described
from tests.support.member_consumer import LIBRARIES
from tests.support.partition_client import create_topic

__all__ = ["members"]

ASSIGNORS = [
    *((library, assignor) for library in LIBRARIES for assignor in ("range", "roundrobin")),
    *((library, "sticky") for library in ("kafka-python", "aiokafka")),
    *((library, "cooperative") for library in ("confluent", "kafka-python")),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("groups") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        yield running
        assert "Traceback" not in running.log_text


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


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_change_of_subscription_is_followed(broker, new_topic, members, library):
    topics, group = [new_topic(partitions=2) for _ in range(3)], f"changing-{library}"
    values = [value for topic in topics for value in send(broker.address, topic, 10, partitions=2)]
    member = members(library, group=group, topics=topics[:1])
    for topic in topics:
        if topic != topics[0]:
            member.order("topics", topic)
        member.wait_until(lambda topic=topic: share([member], places_of(topic, 2)))
        wait_until(is_all_committed(broker, group, 10 * (topics.index(topic) + 1)))
    check_none_skipped([member], values)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_regular_expression_finds_topics_that_come_later(broker, members, library):
    one, two = f"matching-{library}-one", f"matching-{library}-two"
    create_topic(broker.address, one, partitions=2)
    create_topic(broker.address, f"not-{one}", partitions=2)
    member = members(library, group=f"by-{library}", topics=[f"^matching-{library}-.*"])
    member.wait_until(lambda: share([member], places_of(one, 2)))
    create_topic(broker.address, two, partitions=1)
    member.wait_until(lambda: share([member], [*places_of(one, 2), *places_of(two, 1)]))
