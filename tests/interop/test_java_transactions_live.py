"""Kafka's transactional producers, of two releases, on brokers of ours.

On the embedded store transactions are of the second version (KIP-890), which the producer of 4.1
speaks; on ZooKeeper, where no feature is finalised by itself, both speak the first.
"""

import itertools

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import EMBEDDED, new_store
from tests.support.committed_records import committed_values, stable_end
from tests.support.dumps import dumped_batches
from tests.support.group_members import committed, wait_until
from tests.support.group_wire import find_coordinator
from tests.support.java_conversation import JavaConversation, JavaRefused, jars
from tests.support.kafka_jars import KAFKA_4_1
from tests.support.new_topics import new_topic
from tests.support.partition_client import LATEST, PartitionClient

__all__ = ["jars", "new_store", "new_topic"]

PARTITIONS = 2
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
)
SHORT_MS = 500
#: What a producer is told when its id has gone to another, or its transaction was ended for it.
FENCED = {"ProducerFencedException", "InvalidProducerEpochException"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory, new_store):
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with BrokerProcess(data_dir, *new_store(), *SETTINGS).start() as running:
        find_coordinator(running.address)
        yield running
        assert "Traceback" not in running.log_text


@pytest.fixture(scope="module")
def program(jars, broker):
    with JavaConversation(jars, "LiveTransactions.java", broker.address) as running:
        yield running


@pytest.fixture
def topic(new_topic):
    return new_topic(partitions=PARTITIONS)


class JavaClient:
    numbers = itertools.count()

    def __init__(self, program, kind, **said):
        self._program = program
        self.name = f"{kind}-{next(self.numbers)}"
        self.ask(kind, **said)

    def ask(self, command, **fields):
        return self._program.ask(command, name=self.name, **fields)

    def send(self, topic, *values, partition=0):
        """Offsets, or the classes of errors."""
        asked = {"topic": topic, "partition": partition, "values": values}
        return self.ask("send", **asked)["sent"]

    def transact(self, topic, *values, end="commit"):
        self.ask("begin")
        offsets = self.send(topic, *values)
        self.ask(end)
        return offsets

    def refused(self, command, **fields):
        """By which exception."""
        with pytest.raises(JavaRefused) as refusal:
            self.ask(command, **fields)
        return refusal.value.kind


@pytest.fixture
def producer(program, topic):
    """Opens one; of the same transactional id in a test, unless it is told another."""
    opened = []

    def open_one(transactional_id=f"id-of-{topic}", **configs):
        texts = {key.replace("_", "."): str(each) for key, each in configs.items()}
        told = {"transactional.id": transactional_id, **texts}
        opened.append(JavaClient(program, "producer", configs=told))
        opened[-1].ask("init")
        return opened[-1]

    yield open_one
    for each in opened:
        each.ask("close")


@pytest.fixture
def consumer(program):
    opened = []

    def open_one(topic, group):
        told = {"group.id": group, "session.timeout.ms": "6000", "heartbeat.interval.ms": "200"}
        opened.append(JavaClient(program, "consumer", topic=topic, configs=told))
        return opened[-1]

    yield open_one
    for each in opened:
        each.ask("close")


def seen(broker, topic, *, partition=0):
    """Of what is committed."""
    with PartitionClient(broker.address, topic, partition) as client:
        return [value.decode() for value in committed_values(client)]


def wait_until_seen(broker, topic, *values, partition=0):
    """A producer may go on before its markers are written."""
    with PartitionClient(broker.address, topic, partition) as client:
        wait_until(lambda: stable_end(client) == client.offset_at(LATEST))
    assert seen(broker, topic, partition=partition) == list(values)


def written(broker, topic):
    with PartitionClient(broker.address, topic) as client:
        return [each.value.decode() for each in client.records()]


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(producer, broker, topic):
    only = producer()
    only.ask("begin")
    assert only.send(topic, "a", "b") == [0, 1]
    assert only.send(topic, "c", partition=1) == [0]
    assert seen(broker, topic) == []
    assert seen(broker, topic, partition=1) == []
    only.ask("commit")
    wait_until_seen(broker, topic, "a", "b")
    wait_until_seen(broker, topic, "c", partition=1)
    assert only.transact(topic, "d", end="abort") == [3]
    assert only.transact(topic, "e") == [5]
    wait_until_seen(broker, topic, "a", "b", "e")
    assert written(broker, topic) == ["a", "b", "d", "e"]


def test_offsets_of_a_group_are_committed_with_what_was_made_of_them(
    producer, consumer, broker, topic, new_topic
):
    source, group = new_topic(), f"group-of-{topic}"
    copier, reader = producer(), consumer(source, group)
    wanted = [str(number) for number in range(60)]
    for first in range(0, 60, 20):
        producer(f"source-of-{topic}-{first}").transact(source, *wanted[first : first + 20])
    copied = []
    while len(copied) < len(wanted):
        records = reader.ask("poll")["records"]
        if not records:
            continue
        is_aborted = len(copied) == 0
        values = [value for _, _, value in records]
        copier.ask("begin")
        copier.send(topic, *values)
        copier.ask("offsets", consumer=reader.name)
        before = committed(broker.address, group)
        copier.ask("abort" if is_aborted else "commit")
        if is_aborted:
            assert committed(broker.address, group) == before == {}
            copier.ask("begin")
            copier.send(topic, *values)
            copier.ask("offsets", consumer=reader.name)
            copier.ask("commit")
        copied += values
    assert copied == wanted
    wait_until_seen(broker, topic, *wanted)
    # Three transactions in the source, with a marker after each.
    wait_until(lambda: committed(broker.address, group) == {(source, 0): 63})


def test_offsets_of_another_generation_are_refused(producer, consumer, broker, topic):
    group = f"group-of-{topic}"
    writer, reader = producer(), consumer(topic, group)
    told = {}
    wait_until(lambda: told.update(reader.ask("poll")) or told["generation"] > 0)
    writer.ask("begin")
    stale = {"generation": told["generation"] + 1, "member": told["member"]}
    asked = {"topic": topic, "offset": 7, "group": group}
    assert writer.refused("offsets", **asked, **stale) == "CommitFailedException"
    writer.ask("abort")
    assert committed(broker.address, group) == {}
    writer.ask("begin")
    now = {"generation": told["generation"], "member": told["member"]}
    writer.ask("offsets", **asked, **now)
    writer.ask("commit")
    wait_until(lambda: committed(broker.address, group) == {(topic, 0): 7})


def test_a_producer_whose_id_another_took_is_fenced(producer, broker, topic):
    first = producer()
    first.transact(topic, "before")
    first.ask("begin")
    first.send(topic, "of a zombie")
    second = producer()
    assert second.transact(topic, "after") == [4]  # what the zombie sent was aborted
    assert set(first.send(topic, "late")) & FENCED
    assert first.refused("commit") in FENCED | {"KafkaException"}
    assert first.refused("begin") in FENCED | {"KafkaException"}
    wait_until_seen(broker, topic, "before", "after")


def test_a_transaction_that_takes_too_long_is_aborted(producer, broker, topic):
    late = producer(transaction_timeout_ms=SHORT_MS)
    late.ask("begin")
    late.send(topic, "late")
    with PartitionClient(broker.address, topic) as client:
        wait_until(lambda: stable_end(client) == 2)
    with pytest.raises(JavaRefused):
        late.ask("commit")
    producer().transact(topic, "in time")
    wait_until_seen(broker, topic, "in time")


def test_a_timeout_beyond_the_limit_is_refused(producer):
    with pytest.raises(JavaRefused) as refusal:
        producer(transaction_timeout_ms=900_001)
    assert "timeout" in str(refusal.value)


def test_a_producer_goes_on_when_its_broker_was_killed(producer, broker, topic):
    only = producer()
    only.transact(topic, "before")
    only.ask("begin")
    only.send(topic, "across")
    broker.kill()
    broker.start()
    find_coordinator(broker.address)
    only.send(topic, "the kill")
    only.ask("commit")
    only.transact(topic, "after", end="abort")
    only.transact(topic, "at last")
    wait_until_seen(broker, topic, "before", "across", "the kill", "at last")


def test_every_transaction_has_an_epoch_of_its_own_where_both_know_how(
    producer, broker, topic, jars, request
):
    only = producer()
    for number in range(4):
        only.transact(topic, str(number), end="abort" if number == 2 else "commit")
    batches = dumped_batches(broker.data_dir / f"{topic}-0" / f"{0:020}.log")
    epochs = [each.producer_epoch for each in batches if not each.is_control]
    assert len({each.producer_id for each in batches}) == 1
    is_second = jars.name == KAFKA_4_1 and EMBEDDED in request.node.callspec.id
    assert [epoch - epochs[0] for epoch in epochs] == ([0, 1, 2, 3] if is_second else [0] * 4)
