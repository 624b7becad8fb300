"""Kafka's tools for groups, of two releases, and its console consumer, on a broker of ours."""

import pytest

from tests.interop.test_java_tools_live import run, tools
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import Member, places_of, send, share, wait_until
from tests.support.group_wire import committed, find_coordinator
from tests.support.java_conversation import jars
from tests.support.new_topics import new_topic

__all__ = ["jars", "new_topic", "run", "tools"]

PARTITIONS = 3
RECORDS = 90


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with BrokerProcess(data_dir, "group.initial.rebalance.delay.ms=0").start() as running:
        find_coordinator(running.address)
        yield running


@pytest.fixture
def read(broker, new_topic):
    """A topic of which a group has read everything; nobody is in it any more."""
    topic = new_topic(partitions=PARTITIONS)
    send(broker.address, topic, RECORDS, partitions=PARTITIONS)
    group = f"group-of-{topic}"
    with Member("confluent", broker.address, group=group, topics=[topic]) as member:
        wait_until(lambda: sum(committed(broker.address, group).values()) == RECORDS)
        member.close()
    return topic, group


def rows(ended):
    """The table that a tool has printed, below its heading."""
    lines = [line.split() for line in ended.lines if line.strip()]
    heading = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    names = lines[heading]
    return [dict(zip(names, line, strict=False)) for line in lines[heading + 1 :]]


def test_a_group_is_listed_and_described_while_it_reads(run, broker, new_topic):
    topic = new_topic(partitions=PARTITIONS)
    send(broker.address, topic, RECORDS, partitions=PARTITIONS)
    group = f"reading-{topic}"
    with Member("confluent", broker.address, group=group, topics=[topic]) as member:
        wait_until(lambda: sum(committed(broker.address, group).values()) == RECORDS)
        assert share([member], places_of(topic, PARTITIONS))
        listed = rows(run("ConsumerGroupCommand", "--list", "--state"))
        assert {"GROUP": group, "STATE": "Stable"} in listed
        shown = rows(run("ConsumerGroupCommand", "--describe", "--group", group))
        assert sorted(each["PARTITION"] for each in shown) == ["0", "1", "2"]
        assert {(each["CURRENT-OFFSET"], each["LAG"]) for each in shown} == {("30", "0")}
        members = run("ConsumerGroupCommand", "--describe", "--group", group, "--members")
        assert [each["#PARTITIONS"] for each in rows(members)] == ["3"]


def test_offsets_are_reset_and_the_console_consumer_goes_on_from_there(run, broker, read):
    topic, group = read
    about = ["--group", group, "--topic", topic]
    run("ConsumerGroupCommand", "--reset-offsets", *about, "--to-offset", "20", "--execute")
    assert set(committed(broker.address, group).values()) == {20}
    limit = ["--max-messages", "30", "--timeout-ms", "20000"]
    consumed = run("ConsoleConsumer", *about, *limit)
    assert len([line for line in consumed.lines if line.startswith(topic)]) == 30
    wait_until(lambda: sum(committed(broker.address, group).values()) == RECORDS)


def test_offsets_and_groups_are_deleted(run, broker, read):
    topic, group = read
    about = ["--group", group]
    run("ConsumerGroupCommand", "--delete-offsets", *about, "--topic", f"{topic}:0")
    assert set(committed(broker.address, group)) == {(topic, 1), (topic, 2)}
    run("ConsumerGroupCommand", "--delete", *about)
    assert committed(broker.address, group) == {}
    assert group not in run("ConsumerGroupCommand", "--list").out
