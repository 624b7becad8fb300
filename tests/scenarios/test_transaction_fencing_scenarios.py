"""T5, T9, T10 and T11: producers whose time is over, and what they can no longer do."""

import time
from contextlib import ExitStack
from functools import partial

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import Refused
from tests.support.committed_records import committed_values, settled_values, stable_end
from tests.support.group_members import wait_until
from tests.support.group_wire import WireMember, committed_line, group_of_two
from tests.support.group_wire import find_coordinator as find_group_coordinator
from tests.support.partition_client import LATEST, PartitionClient
from tests.support.transaction_wire import WireProducer, described, settled, state_of
from tests.support.transactional_clients import CLIENTS

SETTINGS = (
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
)
HIJACKS = 10
#: The first version of Produce in which clients do not add partitions themselves.
ADDED_BY_BROKERS = 12
TIMEOUT_MS = 1_000
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("fencing") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        find_group_coordinator(running.address)
        yield running


@pytest.fixture
def name(request):
    return request.node.name


@pytest.fixture
def producer(broker, name):
    with WireProducer(broker.address, name) as made:
        made.init()
        yield made


def assert_fenced(producer, topic):
    """In every way it can ask; versions from before KIP-588 know one word for it only."""
    assert producer.ask_produce(topic, b"fenced") == "INVALID_PRODUCER_EPOCH"
    for version, word in ((1, "INVALID_PRODUCER_EPOCH"), (3, "PRODUCER_FENCED")):
        assert producer.ask_add(topic, 0, version=version) == word
        assert producer.ask_add_offsets("g", version=version) == word
        assert producer.ask_end(committed=True, version=version) == word
        assert producer.ask_end(committed=False, version=version) == word


@EVERY_CLIENT
def test_t5_whoever_takes_an_id_over_fences_the_one_who_had_it(broker, new_topic, client, name):
    topic = new_topic()
    with client.producer(broker.address, name) as old:
        old.begin()
        old.send(topic, [b"old"])
        with client.producer(broker.address, name) as new:
            new.begin()
            new.send(topic, [b"new"])
            with pytest.raises(Refused):
                old.commit()
            new.commit()
    with PartitionClient(broker.address, topic) as partition:
        assert settled_values(partition) == [b"new"]
        assert [each.value for each in partition.records()] == [b"old", b"new"]


def test_t5_an_id_that_is_taken_over_again_and_again_belongs_to_the_last(broker, new_topic, name):
    topic, producers = new_topic(), []
    with ExitStack() as stack:
        for number in range(HIJACKS):
            producers.append(stack.enter_context(WireProducer(broker.address, name)))
            producers[-1].init()
            producers[-1].write(topic, b"%d" % number)
        *old, last = producers
        partition = stack.enter_context(PartitionClient(broker.address, topic))
        end = partition.offset_at(LATEST)
        for producer in old:
            assert_fenced(producer, topic)
        assert (partition.offset_at(LATEST), stable_end(partition)) == (end, end - 1)
        last.commit()
        # While the last has something open, whoever says that it was this producer aborts that.
        for producer in old:
            known = {"producer_id": producer.id, "producer_epoch": producer.epoch}
            assert producer.ask_init(**known) == "PRODUCER_FENCED"
        assert committed_values(partition) == [b"%d" % (HIJACKS - 1)]
        assert len(partition.records()) == HIJACKS


def test_t5_but_who_says_that_it_was_this_producer_aborts_what_is_open_now(
    broker, new_topic, producer
):
    topic, old_epoch = new_topic(), producer.epoch
    with (
        WireProducer(broker.address, producer.transactional_id) as new,
        PartitionClient(broker.address, topic) as partition,
    ):
        new.init()
        new.write(topic, b"new")
        known = {"producer_id": producer.id, "producer_epoch": old_epoch}
        assert producer.ask_init(**known) == "CONCURRENT_TRANSACTIONS"
        assert settled(lambda: producer.ask_init(**known)) == "PRODUCER_FENCED"
        assert producer.epoch == old_epoch
        assert_fenced(new, topic)
        assert settled_values(partition) == []


@pytest.mark.parametrize(("version", "end_version"), [(9, 3), (12, 5)], ids=["v1", "v2"])
def test_t5_a_zombie_that_is_refused_holds_up_nobody(
    broker, new_topic, producer, version, end_version
):
    topic, name = new_topic(), producer.transactional_id
    with (
        WireProducer(broker.address, name) as new,
        PartitionClient(broker.address, topic) as partition,
    ):
        new.init()
        if version < ADDED_BY_BROKERS:
            new.add(topic)
        for value in (b"0", b"1", b"2"):
            ask = partial(new.ask_produce, topic, value, version=version)
            assert settled(ask) == "NONE"
            answer = producer.ask_produce(topic, b"zombie", version=version)
            assert answer == "INVALID_PRODUCER_EPOCH"
        answer = settled(lambda: new.ask_end(committed=True, version=end_version))
        assert answer == "NONE"
        assert settled_values(partition) == [b"0", b"1", b"2"]


@EVERY_CLIENT
def test_t5_nor_any_client(broker, new_topic, producer, client):
    topic = new_topic()
    with client.producer(broker.address, producer.transactional_id) as new:
        new.begin()
        for value in (b"0", b"1", b"2"):
            new.send(topic, [value])
            assert producer.ask_produce(topic, b"zombie") == "INVALID_PRODUCER_EPOCH"
        new.commit()
    with PartitionClient(broker.address, topic) as partition:
        assert settled_values(partition) == [b"0", b"1", b"2"]


def test_t5_a_zombie_of_version_2_does_not_end_what_a_client_of_version_1_began(
    broker, new_topic, producer
):
    topic = new_topic()
    with WireProducer(broker.address, producer.transactional_id) as new:
        new.init()
        new.write(topic, b"aborted")
        new.abort()
        answer = settled(lambda: producer.ask_end(committed=False, version=5))
        assert answer == "PRODUCER_FENCED"
        assert producer.epoch < new.epoch
        new.write(topic, b"new")
        new.commit()
    with PartitionClient(broker.address, topic) as partition:
        assert committed_values(partition) == [b"new"]


def test_t9_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
    broker, new_topic, name
):
    topic = new_topic()
    with (
        WireProducer(broker.address, name, timeout_ms=TIMEOUT_MS) as producer,
        PartitionClient(broker.address, topic) as partition,
    ):
        producer.init()
        begun = time.monotonic()
        producer.write(topic, b"late")
        wait_until(lambda: stable_end(partition) == 2)
        assert time.monotonic() - begun > TIMEOUT_MS / 1000
        wait_until(lambda: state_of(broker.address, name) == "CompleteAbort")
        end = partition.offset_at(LATEST)
        assert_fenced(producer, topic)
        assert (partition.offset_at(LATEST), committed_values(partition)) == (end, [])


@EVERY_CLIENT
def test_t9_so_it_is_with_every_client(broker, new_topic, client, name):
    topic = new_topic()
    with (
        client.producer(broker.address, name, timeout_ms=TIMEOUT_MS) as producer,
        PartitionClient(broker.address, topic) as partition,
    ):
        producer.begin()
        producer.send(topic, [b"late"])
        wait_until(lambda: stable_end(partition) == 2)
        with pytest.raises(Refused):
            producer.commit()
        with client.producer(broker.address, name) as another:
            another.begin()
            another.send(topic, [b"in time"])
            another.commit()
        assert settled_values(partition) == [b"in time"]


def test_t9_a_time_out_is_not_forgotten_by_a_broker_that_was_killed(broker, new_topic, name):
    topic = new_topic()
    with WireProducer(broker.address, name, timeout_ms=TIMEOUT_MS) as producer:
        producer.init()
        producer.write(topic, b"late")
    broker.kill()
    broker.start()
    with PartitionClient(broker.address, topic) as partition:
        wait_until(lambda: stable_end(partition) == 2)
        assert committed_values(partition) == []
    assert described(broker.address, name).producer_epoch > producer.epoch


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("wrote", [True, False], ids=["wrote", "wrote-nothing"])
def test_t10_what_is_produced_late_joins_no_transaction(
    broker, new_topic, producer, is_committed, wrote
):
    topic, other = new_topic(), new_topic()
    with PartitionClient(broker.address, topic) as partition:
        producer.add(topic)
        if wrote:
            producer.write(topic, b"in time")
        (producer.commit if is_committed else producer.abort)()
        end = partition.offset_at(LATEST)
        assert producer.ask_produce(topic, b"late") == "INVALID_TXN_STATE"
        producer.write(other, b"next")
        assert producer.ask_produce(topic, b"later") == "INVALID_TXN_STATE"
        producer.commit()
        assert producer.ask_produce(topic, b"latest") == "INVALID_TXN_STATE"
        assert (partition.offset_at(LATEST), stable_end(partition)) == (end, end)
        producer.write(topic, b"in its turn")
        producer.commit()
        assert committed_values(partition)[-1] == b"in its turn"


def test_t10_a_late_copy_of_what_was_written_does_not_hold_up_the_next_transaction(
    broker, new_topic, producer
):
    topic = new_topic()
    producer.write(topic, b"0")
    producer.commit()
    producer.sequences[topic, 0] = 0
    assert producer.ask_produce(topic, b"0") == "INVALID_TXN_STATE"
    producer.sequences[topic, 0] = 1
    producer.write(topic, b"1")
    producer.commit()
    with PartitionClient(broker.address, topic) as partition:
        assert committed_values(partition) == [b"0", b"1"]


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
def test_t10_in_version_2_an_epoch_is_for_one_transaction_only(
    broker, new_topic, producer, is_committed
):
    topic, other = new_topic(), new_topic()
    with PartitionClient(broker.address, topic) as partition:
        assert settled(lambda: producer.ask_produce(topic, b"in time", version=12)) == "NONE"
        epoch, sequence = producer.epoch, producer.sequences[topic, 0]
        assert settled(lambda: producer.ask_end(committed=is_committed, version=5)) == "NONE"
        assert producer.epoch == epoch + 1
        assert settled(lambda: producer.ask_produce(other, b"next", version=12)) == "NONE"
        wait_until(lambda: stable_end(partition) == 2)
        next_epoch = producer.epoch
        producer.epoch, producer.sequences[topic, 0] = epoch, sequence
        assert producer.ask_produce(topic, b"late", version=12) == "INVALID_PRODUCER_EPOCH"
        assert (partition.offset_at(LATEST), stable_end(partition)) == (2, 2)
        producer.epoch, producer.sequences[topic, 0] = next_epoch, 0
        assert settled(lambda: producer.ask_produce(topic, b"2", version=12)) == "NONE"
        assert settled(lambda: producer.ask_end(committed=True, version=5)) == "NONE"
        assert settled_values(partition) == [*([b"in time"] if is_committed else []), b"2"]


def test_t10_what_was_never_begun_is_not_begun_by_producing(broker, new_topic, producer):
    topic = new_topic()
    with PartitionClient(broker.address, topic) as partition:
        assert producer.ask_produce(topic, b"without adding") == "INVALID_TXN_STATE"
        assert (partition.offset_at(LATEST), stable_end(partition)) == (0, 0)


def test_t11_a_zombie_of_an_old_generation_commits_no_offset(broker, new_topic, producer, name):
    topic = new_topic()
    first, second, old_generation = group_of_two(broker.address, name)
    with first, second:
        producer.commit_offset(name, topic, 5)
        assert producer.ask_commit_offset(name, topic, 6, member=first) == "NONE"
        producer.commit()
        now, first.generation = first.generation, old_generation
        producer.write(topic, b"copied twice")
        assert settled(lambda: producer.ask_add_offsets(name)) == "NONE"
        answer = producer.ask_commit_offset(name, topic, 99, member=first)
        assert answer == "ILLEGAL_GENERATION"
        first.id, first.generation = "stranger", now
        answer = producer.ask_commit_offset(name, topic, 99, member=first)
        assert answer == "UNKNOWN_MEMBER_ID"
        producer.abort()
        assert committed_line(broker.address, name, topic)[0] == 6
    with PartitionClient(broker.address, topic) as partition:
        assert committed_values(partition) == []


def test_t11_nor_does_a_static_member_whose_place_was_taken(broker, new_topic, producer, name):
    topic = new_topic()
    with (
        WireMember(broker.address, name, instance="one") as old,
        WireMember(broker.address, name, instance="one") as new,
    ):
        for member in (old, new):
            member.join()
            member.sync()
        assert settled(lambda: producer.ask_add_offsets(name)) == "NONE"
        answer = producer.ask_commit_offset(name, topic, 99, member=old)
        assert answer == "FENCED_INSTANCE_ID"
        assert producer.ask_commit_offset(name, topic, 5, member=new) == "NONE"
        producer.commit()
        assert committed_line(broker.address, name, topic)[0] == 5
