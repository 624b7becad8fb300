"""``odradek transactions``: list, describe, describe-producers, find-hanging, abort."""

import itertools
import json
import time
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient

from odradek.broker.cli.partitions import TopicAndPartition
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import new_store
from tests.support.committed_records import committed_values, stable_end
from tests.support.partition_client import LATEST, PartitionClient, create_topic
from tests.support.transaction_wire import WireProducer

__all__ = ["new_store"]

#: Allows a transaction that its coordinator does not know, as before Kafka 3.6.
SETTINGS = ("transaction.partition.verification.enable=false",)
MINUTE_MS = 60_000
NO_LEADER = -1
numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory, new_store):
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with BrokerProcess(data_dir, *new_store(), *SETTINGS).start() as running:
        yield running


@pytest.fixture
def topic(broker):
    name = f"events-{next(numbers)}"
    create_topic(broker.address, name, partitions=3)
    return name


@pytest.fixture
def new_producer(broker):
    with ExitStack() as stack:

        def make(name, **options):
            producer = WireProducer(broker.address, name, **options)
            stack.enter_context(producer)
            producer.init()
            return producer

        yield make


@pytest.fixture
def name():
    return f"id-{next(numbers)}"


@pytest.fixture
def partition(broker, topic):
    with PartitionClient(broker.address, topic) as client:
        yield client


def minutes_ago(minutes):
    return int(time.time() * 1000) - minutes * MINUTE_MS


def hang(producer, topic, *values, minutes=20, partition=0):
    """Begin a transaction that its coordinator does not know."""
    error = producer.ask_produce(
        topic, *values, partition=partition, timestamp_ms=minutes_ago(minutes)
    )
    assert error == "NONE"


def test_list_shows_coordinator_producer_and_state(command, new_producer, topic, name):
    first, second = new_producer(f"{name}-a"), new_producer(f"{name}-b")
    second.write(topic, b"1")
    rows = command("transactions", "list").rows
    (coordinator,) = {row[1] for row in rows}
    assert [row for row in rows if row[0].startswith(f"{name}-")] == [
        [f"{name}-a", coordinator, f"{first.id}", "Empty"],
        [f"{name}-b", coordinator, f"{second.id}", "Ongoing"],
    ]


def test_list_filters_by_state_producer_duration_and_pattern(command, new_producer, topic, name):
    producers = [new_producer(f"{name}-{number}") for number in range(3)]
    for producer in producers[1:]:
        producer.write(topic, b"1")
    producers[2].commit()

    def listed(*options):
        rows = command("transactions", "list", *options).rows
        return [row[0] for row in rows if row[0].startswith(f"{name}-")]

    assert listed("--state", "ONGOING") == [f"{name}-1"]
    both = ("--state", "ongoing", "--state", "completecommit")
    assert listed(*both) == [f"{name}-1", f"{name}-2"]
    one = ("--producer-id", producers[0].id, "--producer-id", producers[2].id)
    assert listed(*one) == [f"{name}-0", f"{name}-2"]
    assert listed("--longer-than", 60_000, "--state", "ongoing") == []
    assert listed("--duration-filter", 0, "--state", "ongoing") == [f"{name}-1"]
    assert listed("--matching", f"{name}-[12]") == [f"{name}-1", f"{name}-2"]


def test_unknown_state_exits_with_2(offline):
    assert offline("transactions", "list", "--state", "sleepy").status == 2


def test_ongoing_transaction_is_described(command, new_producer, topic, name):
    producer = new_producer(name, timeout_ms=40_000)
    before_ms = int(time.time() * 1000)
    for partition in (2, 0):
        producer.write(topic, b"1", partition=partition)
    (described,) = command("transactions", "describe", name, "--json").objects
    assert before_ms - 1000 < described.pop("begun_ms") < before_ms + MINUTE_MS
    assert 0 <= described.pop("duration_ms") < MINUTE_MS
    assert described.pop("coordinator") >= 0
    assert described == {
        "transactional_id": name,
        "producer": producer.id,
        "epoch": producer.epoch,
        "state": "Ongoing",
        "timeout_ms": 40_000,
        "partitions": [f"{topic}:0", f"{topic}:2"],
    }


def test_id_without_a_transaction_has_no_start_time(command, new_producer, name):
    new_producer(name)
    (row,) = command("transactions", "describe", name).rows
    assert row[4:] == ["Empty", "60000", "-", "-", ""]


def test_unknown_id_is_reported_and_the_others_are_shown(command, new_producer, name):
    missing = f"odradek: {name}: there is no such transactional id"
    assert command("transactions", "describe", name).complaint == missing
    new_producer(f"{name}-b")
    result = command("transactions", "describe", name, f"{name}-b")
    assert (result.status, result.err) == (1, f"{missing}\n")
    assert f"\n{name}-b\t" in result.out


def test_describe_producers_shows_open_transactions(command, new_producer, topic, name):
    finished, ongoing = new_producer(f"{name}-a"), new_producer(f"{name}-b")
    finished.write(topic, b"1", partition=1)
    finished.commit()
    ongoing.write(topic, b"2", b"3", partition=1)
    rows = command("transactions", "describe-producers", f"{topic}:1,2", "--json").objects
    assert all(row.pop("last_ms") > 0 for row in rows)
    assert sorted(rows, key=lambda row: row["producer"]) == [
        {
            "topic": topic,
            "partition": 1,
            "producer": producer.id,
            "epoch": producer.epoch,
            "coordinator_epoch": coordinator_epoch,
            "last_sequence": last,
            "start_offset": start,
        }
        for producer, coordinator_epoch, last, start in (
            (finished, 0, 0, None),
            (ongoing, -1, 1, 2),
        )
    ]


def test_describe_producers_asks_the_given_broker(command, new_producer, topic, name):
    producer = new_producer(name)
    producer.write(topic, b"1")
    leader = command("topics", "describe", topic, "--json").objects[0]["leader"]
    rows = command("transactions", "describe-producers", topic, "--broker", leader).rows
    assert [row[2] for row in rows] == [f"{producer.id}"]
    rejected = command("transactions", "describe-producers", topic, "--broker", 77)
    assert rejected.complaint == "odradek: broker 77: there is no such broker"


def coordinator_of(command, name):
    """Return the coordinator of this id: the only broker."""
    ((_, coordinator, *_),) = [
        row for row in command("transactions", "list").rows if row[0] == name
    ]
    return coordinator


def hanging(command, topic, *options):
    rows = command("transactions", "find-hanging", "--json", *options).objects
    return [row for row in rows if row["topic"] == topic]


def test_hanging_transaction_is_found(command, new_producer, topic, name):
    producer = new_producer(name)
    hang(producer, topic, b"1", partition=2)
    (transaction,) = hanging(command, topic)
    assert transaction.pop("last_ms") <= minutes_ago(20)
    assert transaction == {
        "topic": topic,
        "partition": 2,
        "producer": producer.id,
        "epoch": producer.epoch,
        "coordinator_epoch": -1,
        "start_offset": 0,
        "minutes": 20,
    }
    assert hanging(command, topic, "--topic", f"{topic}:2") != []
    assert hanging(command, topic, "--topic", f"{topic}:0,1") == []
    assert hanging(command, topic, "--max-transaction-timeout", 30) == []


def test_transaction_of_an_unknown_producer_is_hanging(command, new_producer, topic, name):
    producer = new_producer(name)
    producer.id += 1_000_000
    hang(producer, topic, b"1")
    assert [row["producer"] for row in hanging(command, topic)] == [producer.id]


def test_transaction_known_to_its_coordinator_is_not_hanging(command, new_producer, topic, name):
    producer = new_producer(name)
    producer.write(topic, b"1", timestamp_ms=minutes_ago(20))
    assert hanging(command, topic) == []


def test_recent_transaction_is_not_hanging(command, new_producer, topic, name):
    hang(new_producer(name), topic, b"1", minutes=14)
    assert hanging(command, topic) == []


def test_broker_option_limits_the_search_to_its_partitions(command, new_producer, topic, name):
    hang(new_producer(name), topic, b"1")
    assert hanging(command, topic, "--broker", coordinator_of(command, name)) != []
    rejected = command("transactions", "find-hanging", "--broker", 77)
    assert rejected.complaint == "odradek: broker 77: there is no such broker"


@pytest.fixture
def leaderless(monkeypatch, topic):
    """A partition of the topic, without a leader in the metadata response."""
    original = AdminClient.list_topics

    def list_topics(*arguments, **options):
        metadata = original(*arguments, **options)
        metadata.topics[topic].partitions[1].leader = NO_LEADER
        return metadata

    monkeypatch.setattr(AdminClient, "list_topics", list_topics)
    return TopicAndPartition(topic, 1)


def test_partition_without_leader_is_reported_and_the_others_are_searched(
    command, new_producer, topic, name, leaderless
):
    hang(new_producer(name), topic, b"1", partition=2)
    result = command("transactions", "find-hanging", "--json")
    no_leader = f"{leaderless}: there is no such partition, or it has no leader"
    assert (result.status, result.err) == (1, f"odradek: not searched: {no_leader}\n")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["partition"] for row in rows if row["topic"] == topic] == [2]
    assert len(hanging(command, topic, "--broker", coordinator_of(command, name))) == 1


def test_hanging_transaction_is_aborted_by_start_offset(
    command, new_producer, topic, name, partition
):
    producer, other = new_producer(name), new_producer(f"{name}-b")
    hang(producer, topic, b"hanging")
    other.write(topic, b"whole")
    other.commit()
    assert stable_end(partition) == 0
    aborted = command("transactions", "abort", f"{topic}:0", "--start-offset", 0)
    assert aborted.lines == [f"{topic}:0: transaction of producer {producer.id} aborted"]
    assert (stable_end(partition), committed_values(partition)) == (4, [b"whole"])
    assert hanging(command, topic) == []


def test_hanging_transaction_is_aborted_by_producer(command, new_producer, topic, name, partition):
    producer = new_producer(name)
    hang(producer, topic, b"hanging")
    producer_options = ("--producer-id", producer.id, "--producer-epoch", producer.epoch)
    result = command(
        "transactions", "abort", f"{topic}:0", *producer_options, "--coordinator-epoch", -1
    )
    assert result.lines == [f"{topic}:0: transaction of producer {producer.id} aborted"]
    assert (stable_end(partition), committed_values(partition)) == (2, [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["{topic}", "--start-offset", "0"],
            "{topic}: give exactly one partition, such as {topic}:0",
        ),
        (
            ["{topic}:0,1", "--start-offset", "0"],
            "{topic}: give exactly one partition, such as {topic}:0",
        ),
        (["{topic}:0", "--start-offset", "7"], "{topic}:0: no open transaction starts at offset 7"),
        (["{topic}:7", "--start-offset", "7"], "{topic}:7: there is no such partition"),
        (["nix:0", "--start-offset", "7"], "nix:0: there is no such partition"),
        (["{topic}:0"], "give --start-offset, or --producer-id"),
        (["{topic}:0", "--producer-id", "1"], "give --start-offset, or --producer-id"),
        (
            ["{topic}:0", "--property", "security.protocol=ssl"],
            "=ssl: this command supports plaintext only",
        ),
    ],
)
def test_failed_abort_is_reported_in_one_line(command, topic, arguments, complaint):
    formatted = [word.format(topic=topic) for word in arguments]
    message = command("transactions", "abort", *formatted).complaint
    assert complaint.format(topic=topic) in message


def test_abort_with_an_old_epoch_is_rejected(command, new_producer, topic, name, partition):
    hang(new_producer(name), topic, b"old")
    producer = new_producer(name)
    producer.write(topic, b"new")
    producer_options = ("--producer-id", producer.id, "--producer-epoch", producer.epoch - 1)
    rejected = command(
        "transactions", "abort", f"{topic}:0", *producer_options, "--coordinator-epoch", 0
    )
    assert f"{topic}:0: INVALID_PRODUCER_EPOCH: " in rejected.complaint
    assert (partition.offset_at(LATEST), stable_end(partition)) == (2, 0)
    producer.commit()
    # No marker ended the old transaction, so the partition still counts it as open.
    assert committed_values(partition) == [b"old", b"new"]
