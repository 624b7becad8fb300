"""T6, T7 and T8: ends of transactions that are interrupted, repeated, or not heard of."""

import signal
import threading
from contextlib import suppress

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.support.client_driver import Refused
from tests.support.committed_records import committed_values, settled_values, stable_end
from tests.support.fault_points import Fault
from tests.support.faulty_broker import FaultyBroker
from tests.support.group_members import wait_until
from tests.support.group_wire import find_coordinator
from tests.support.lossy_wire import LossyWire, Way
from tests.support.partition_client import LATEST, PartitionClient, create_topic
from tests.support.transaction_wire import WireProducer, settled, stable_offset, state_of
from tests.support.transactional_clients import CLIENTS
from tests.support.wire_client import HungUp

SETTINGS = ("offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
PARTITIONS = 3
GROUP, ID = "g", "interrupted"
#: A transaction of PARTITIONS and a group's offsets ends with so many writes to logs: that it is
#: prepared, a marker each, that it is complete.
WRITES = 1 + PARTITIONS + 1 + 1
NOT_PREPARED = [("before", 1), ("torn", 1)]
MOMENTS = [*NOT_PREPARED, *(("after", nth) for nth in range(1, WRITES)), ("torn", WRITES)]
COMPLETE = {True: "CompleteCommit", False: "CompleteAbort"}
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
#: All that a transactional producer asks for.
ASKED = {
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
}


def open_transaction(address, topic, number):
    """One that has written everywhere; its producer has gone away."""
    with WireProducer(address, ID) as producer:
        producer.init()
        for partition in range(PARTITIONS):
            producer.write(topic, b"%d" % number, partition=partition)
        producer.commit_offset(GROUP, topic, number)
        return producer.id, producer.epoch


def end_as_if_never_interrupted(address, known, *, is_committed):
    with WireProducer(address, ID) as producer:
        producer.id, producer.epoch = known
        assert settled(lambda: producer.ask_end(committed=is_committed)) == "NONE"


def everywhere(address, topic):
    """What is committed in each partition, and whether nothing is left open."""
    values, is_over = [], True
    for number in range(PARTITIONS):
        with PartitionClient(address, topic, number) as partition:
            is_over &= stable_end(partition) == partition.offset_at(LATEST)
            values.append(committed_values(partition))
    return values, is_over


def test_t6_what_is_prepared_when_the_coordinator_dies_is_completed_everywhere(tmp_path):
    topic, expected, offset = "t", [], -1
    with FaultyBroker(tmp_path / "logs", *SETTINGS).start() as broker:
        create_topic(broker.address, topic, partitions=PARTITIONS)
        find_coordinator(broker.address)
        for number, moment in enumerate(MOMENTS):
            is_committed = number % 2 == 0
            known = open_transaction(broker.address, topic, number)
            broker.kill()
            broker.fault = Fault("pwritev .log", *moment)
            broker.start()
            end_and_die(broker, known, is_committed=is_committed)
            broker.fault = None
            broker.start()
            if moment in NOT_PREPARED:
                assert state_of(broker.address, ID) == "Ongoing"
                end_as_if_never_interrupted(broker.address, known, is_committed=is_committed)
            wait_until(lambda: state_of(broker.address, ID) == COMPLETE[is_committed])  # noqa: B023
            if is_committed:
                expected.append(b"%d" % number)
                offset = number
            assert everywhere(broker.address, topic) == ([expected] * PARTITIONS, True)
            assert stable_offset(broker.address, GROUP, topic) == offset


def end_and_die(broker, known, *, is_committed):
    """The broker may have answered by then."""
    with WireProducer(broker.address, ID) as producer, suppress(HungUp):
        producer.id, producer.epoch = known
        settled(lambda: producer.ask_end(committed=is_committed))
    assert broker.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def wire():
    with LossyWire() as made:
        yield made


@pytest.fixture(scope="module")
def broker(wire, tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with wire.broker(data_dir, *SETTINGS).start() as running:
        find_coordinator(running.address)
        yield running


@pytest.fixture
def name(request):
    return request.node.name


@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
def test_t7_an_end_that_is_repeated_is_answered_as_at_first(broker, new_topic, name, is_committed):
    topic = new_topic()
    with (
        WireProducer(broker.address, name) as producer,
        PartitionClient(broker.address, topic) as partition,
    ):
        producer.init()
        producer.write(topic, b"once")
        answers = [settled(lambda: producer.ask_end(committed=is_committed)) for _ in range(5)]
        assert answers == ["NONE"] * 5
        end = partition.offset_at(LATEST)
        assert end == stable_end(partition) == 2
        for version in range(5):
            answer = producer.ask_end(committed=is_committed, version=version)
            assert answer == "NONE"
            answer = producer.ask_end(committed=not is_committed, version=version)
            assert answer == "INVALID_TXN_STATE"
        assert partition.offset_at(LATEST) == end
        assert committed_values(partition) == ([b"once"] if is_committed else [])


class AnswersLostOnce:
    """The first answer to each of these."""

    def __init__(self, keys):
        self.left = set(keys)
        self._lock = threading.Lock()

    def __call__(self, way, key):
        with self._lock:
            if way is Way.REQUEST or key not in self.left:
                return False
            self.left.remove(key)
            return True


@EVERY_CLIENT
@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
def test_t7_a_transaction_of_which_every_answer_is_lost_once_is_done_once(
    broker, wire, new_topic, client, name, is_committed
):
    topic = new_topic()
    with wire.losing(AnswersLostOnce(ASKED)) as lost:
        with client.producer(wire.address, name) as producer:
            producer.begin()
            producer.send(topic, [b"a"])
            producer.send_offset(name, topic, 7)
            (producer.commit if is_committed else producer.abort)()
            producer.begin()
            producer.send(topic, [b"b"])
            producer.commit()
        assert lost.left == set()
    with PartitionClient(broker.address, topic) as partition:
        assert settled_values(partition) == ([b"a", b"b"] if is_committed else [b"b"])
        assert [each.value for each in partition.records()] == [b"a", b"b"]
        assert partition.offset_at(LATEST) == 4
    assert stable_offset(broker.address, name, topic) == (7 if is_committed else -1)


def test_t8_an_offset_whose_commit_was_not_heard_of_is_the_new_one_or_unstable(
    broker, new_topic, name
):
    topic, old = new_topic(), -1
    for new in range(20):
        with WireProducer(broker.address, name) as producer:
            producer.init()
            assert stable_offset(broker.address, name, topic) == old
            producer.write(topic, b"copied")
            producer.commit_offset(name, topic, new)
            assert stable_offset(broker.address, name, topic) == "UNSTABLE_OFFSET_COMMIT"
            producer.send_end(committed=True)
        # The answer is to nobody.
        while (seen := stable_offset(broker.address, name, topic)) != new:
            assert seen == "UNSTABLE_OFFSET_COMMIT"
        old = new


@pytest.mark.parametrize("client", CLIENTS[:1], ids=lambda client: client.name)
def test_t8_so_it_is_when_the_client_gives_up_and_the_broker_is_killed(
    broker, wire, new_topic, client, name
):
    topic = new_topic()
    is_lost = threading.Event()

    def the_end_is_lost(way, key):
        if way is Way.ANSWER and key is ApiKey.END_TXN:
            wire.is_down = True
            is_lost.set()
        return wire.is_down

    with client.producer(wire.address, name) as producer, wire.losing(the_end_is_lost):
        producer.begin()
        producer.send(topic, [b"copied"])
        producer.send_offset(name, topic, 5)
        with pytest.raises(Refused):
            producer.commit(timeout_s=2)
        assert is_lost.is_set()
        assert stable_offset(broker.address, name, topic) in (5, "UNSTABLE_OFFSET_COMMIT")
        broker.kill()
        broker.start()
        wire.is_down = False
    while (seen := stable_offset(broker.address, name, topic)) != 5:
        assert seen == "UNSTABLE_OFFSET_COMMIT"
