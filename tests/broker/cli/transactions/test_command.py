"""``odradek transactions``: list, describe, describe-producers, find-hanging, abort."""

import itertools
import json
import time
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient

from odradek.broker.cli.partitions import Place
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import new_store
from tests.support.committed_records import committed_values, stable_end
from tests.support.partition_client import LATEST, PartitionClient, create_topic
from tests.support.transaction_wire import WireProducer

__all__ = ["new_store"]

#: So that a transaction can be begun behind its coordinator's back, as before Kafka 3.6.
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
    """Begin a transaction that its coordinator does not know of."""
    answer = producer.ask_produce(
        topic, *values, partition=partition, timestamp_ms=minutes_ago(minutes)
    )
    assert answer == "NONE"


def test_ids_are_listed_with_coordinator_producer_and_state(command, new_producer, topic, name):
    first, second = new_producer(f"{name}-a"), new_producer(f"{name}-b")
    second.write(topic, b"1")
    rows = command("transactions", "list").rows
    (coordinator,) = {row[1] for row in rows}
    assert [row for row in rows if row[0].startswith(f"{name}-")] == [
        [f"{name}-a", coordinator, f"{first.id}", "Empty"],
        [f"{name}-b", coordinator, f"{second.id}", "Ongoing"],
    ]


def test_only_those_that_are_wanted_are_listed(command, new_producer, topic, name):
    producers = [new_producer(f"{name}-{number}") for number in range(3)]
    for producer in producers[1:]:
        producer.write(topic, b"1")
    producers[2].commit()

    def listed(*options):
        found = command("transactions", "list", *options).rows
        return [row[0] for row in found if row[0].startswith(f"{name}-")]

    assert listed("--state", "ONGOING") == [f"{name}-1"]
    both = ("--state", "ongoing", "--state", "completecommit")
    assert listed(*both) == [f"{name}-1", f"{name}-2"]
    one = ("--producer-id", producers[0].id, "--producer-id", producers[2].id)
    assert listed(*one) == [f"{name}-0", f"{name}-2"]
    assert listed("--longer-than", 60_000, "--state", "ongoing") == []
    assert listed("--duration-filter", 0, "--state", "ongoing") == [f"{name}-1"]
    assert listed("--matching", f"{name}-[12]") == [f"{name}-1", f"{name}-2"]


def test_a_state_that_there_is_not_has_status_2(offline):
    assert offline("transactions", "list", "--state", "sleepy").status == 2


def test_an_ongoing_transaction_is_described(command, new_producer, topic, name):
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


def test_of_an_id_without_a_transaction_there_is_no_time(command, new_producer, name):
    new_producer(name)
    (row,) = command("transactions", "describe", name).rows
    assert row[4:] == ["Empty", "60000", "-", "-", ""]


def test_an_id_that_is_not_there_is_told_and_the_others_are_shown(command, new_producer, name):
    missing = f"odradek: {name}: there is no such transactional id"
    assert command("transactions", "describe", name).complaint == missing
    new_producer(f"{name}-b")
    ran = command("transactions", "describe", name, f"{name}-b")
    assert (ran.status, ran.err) == (1, f"{missing}\n")
    assert f"\n{name}-b\t" in ran.out


def test_producers_are_described_with_what_they_have_open(command, new_producer, topic, name):
    done, at_work = new_producer(f"{name}-a"), new_producer(f"{name}-b")
    done.write(topic, b"1", partition=1)
    done.commit()
    at_work.write(topic, b"2", b"3", partition=1)
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
        for producer, coordinator_epoch, last, start in ((done, 0, 0, None), (at_work, -1, 1, 2))
    ]


def test_producers_are_described_by_the_broker_that_is_wanted(command, new_producer, topic, name):
    producer = new_producer(name)
    producer.write(topic, b"1")
    leader = command("topics", "describe", topic, "--json").objects[0]["leader"]
    rows = command("transactions", "describe-producers", topic, "--broker", leader).rows
    assert [row[2] for row in rows] == [f"{producer.id}"]
    refused = command("transactions", "describe-producers", topic, "--broker", 77)
    assert refused.complaint == "odradek: broker 77: there is no such broker"


def coordinator_of(command, name):
    """The only broker there is."""
    ((_, coordinator, *_),) = [
        row for row in command("transactions", "list").rows if row[0] == name
    ]
    return coordinator


def hanging(command, topic, *options):
    found = command("transactions", "find-hanging", "--json", *options).objects
    return [row for row in found if row["topic"] == topic]


def test_what_hangs_is_found(command, new_producer, topic, name):
    producer = new_producer(name)
    hang(producer, topic, b"1", partition=2)
    (found,) = hanging(command, topic)
    assert found.pop("last_ms") <= minutes_ago(20)
    assert found == {
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


def test_what_is_not_known_to_a_coordinator_hangs_too(command, new_producer, topic, name):
    producer = new_producer(name)
    producer.id += 1_000_000
    hang(producer, topic, b"1")
    assert [row["producer"] for row in hanging(command, topic)] == [producer.id]


def test_what_a_coordinator_will_end_does_not_hang(command, new_producer, topic, name):
    producer = new_producer(name)
    producer.write(topic, b"1", timestamp_ms=minutes_ago(20))
    assert hanging(command, topic) == []


def test_what_has_just_begun_does_not_hang_yet(command, new_producer, topic, name):
    hang(new_producer(name), topic, b"1", minutes=14)
    assert hanging(command, topic) == []


def test_only_a_brokers_own_partitions_are_searched_on_demand(command, new_producer, topic, name):
    hang(new_producer(name), topic, b"1")
    assert hanging(command, topic, "--broker", coordinator_of(command, name)) != []
    refused = command("transactions", "find-hanging", "--broker", 77)
    assert refused.complaint == "odradek: broker 77: there is no such broker"


@pytest.fixture
def leaderless(monkeypatch, topic):
    """One that is among all that the cluster tells of."""
    told = AdminClient.list_topics

    def list_topics(*arguments, **options):
        metadata = told(*arguments, **options)
        metadata.topics[topic].partitions[1].leader = NO_LEADER
        return metadata

    monkeypatch.setattr(AdminClient, "list_topics", list_topics)
    return Place(topic, 1)


def test_what_has_no_leader_is_told_of_and_all_else_is_searched(
    command, new_producer, topic, name, leaderless
):
    hang(new_producer(name), topic, b"1", partition=2)
    ran = command("transactions", "find-hanging", "--json")
    no_leader = f"odradek: not searched: {leaderless}: there is no such partition, or no leader"
    assert (ran.status, ran.err) == (1, f"{no_leader} of it\n")
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["partition"] for row in found if row["topic"] == topic] == [2]
    assert len(hanging(command, topic, "--broker", coordinator_of(command, name))) == 1


def test_what_hangs_is_aborted_by_the_offset_where_it_begins(
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


def test_or_by_its_producer(command, new_producer, topic, name, partition):
    producer = new_producer(name)
    hang(producer, topic, b"hanging")
    named = ("--producer-id", producer.id, "--producer-epoch", producer.epoch)
    ran = command("transactions", "abort", f"{topic}:0", *named, "--coordinator-epoch", -1)
    assert ran.lines == [f"{topic}:0: transaction of producer {producer.id} aborted"]
    assert (stable_end(partition), committed_values(partition)) == (2, [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{topic}", "--start-offset", "0"], "{topic}: name one partition, as {topic}:0"),
        (["{topic}:0,1", "--start-offset", "0"], "{topic}: name one partition, as {topic}:0"),
        (["{topic}:0", "--start-offset", "7"], "{topic}:0: no open transaction begins at 7"),
        (["{topic}:7", "--start-offset", "7"], "{topic}:7: there is no such partition"),
        (["nix:0", "--start-offset", "7"], "nix:0: there is no such partition"),
        (["{topic}:0"], "give --start-offset, or --producer-id"),
        (["{topic}:0", "--producer-id", "1"], "give --start-offset, or --producer-id"),
        (["{topic}:0", "--property", "security.protocol=ssl"], "cannot speak ssl"),
    ],
)
def test_what_cannot_be_aborted_is_told_in_one_line(command, topic, arguments, complaint):
    written = [word.format(topic=topic) for word in arguments]
    told = command("transactions", "abort", *written).complaint
    assert complaint.format(topic=topic) in told


def test_an_epoch_from_before_aborts_nothing(command, new_producer, topic, name, partition):
    hang(new_producer(name), topic, b"old")
    producer = new_producer(name)
    producer.write(topic, b"new")
    named = ("--producer-id", producer.id, "--producer-epoch", producer.epoch - 1)
    refused = command("transactions", "abort", f"{topic}:0", *named, "--coordinator-epoch", 0)
    assert f"{topic}:0: INVALID_PRODUCER_EPOCH: " in refused.complaint
    assert (partition.offset_at(LATEST), stable_end(partition)) == (2, 0)
    producer.commit()
    # Nobody has ended what was begun before, so that it is part of what the partition has open.
    assert committed_values(partition) == [b"old", b"new"]
