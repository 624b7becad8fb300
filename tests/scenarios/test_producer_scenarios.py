"""P1 to P4, P6 and P7: idempotent producers that repeat, leave out, go back or are forgotten."""

import itertools
import time

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.batch import SEQUENCE_MAX
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import BEGINNING, Options, Sent
from tests.support.partition_client import LATEST, PartitionClient, create_topic
from tests.support.wire_client import call, error_codes

PRODUCER_ID = 4_000
COUNT = 3
WAIT_S = 20
OURS, STRANGER = 1, 9

_VALUES = itertools.count()
ENDINGS = pytest.mark.parametrize("ending", ["stop", "kill"])


def batch_by(producer_id=PRODUCER_ID, *, epoch=0, sequence=0, count=COUNT):
    """Its values are new ones."""
    now_ms = int(time.time() * 1000)
    records = [Record(n, now_ms, None, b"%d" % next(_VALUES), ()) for n in range(count)]
    return bytes(
        batch_of(*records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def sent(partition, batch):
    """Where it went."""
    line = partition.produce(batch)
    assert line.error_code == 0, ErrorCode.for_code(line.error_code)
    return line.base_offset


def sent_in_sequence(partition, *, count, first=0, **fields):
    """The batches; each has COUNT records."""
    batches = [
        batch_by(sequence=COUNT * number, **fields) for number in range(first, first + count)
    ]
    for batch in batches:
        sent(partition, batch)
    return batches


def values_in(partition):
    return [record.value for record in partition.records()]


def assert_refused(partition, batch, error):
    before = values_in(partition), partition.offset_at(LATEST)
    assert ErrorCode.for_code(partition.produce(batch).error_code) is error
    assert (values_in(partition), partition.offset_at(LATEST)) == before


def test_p2_any_of_the_last_five_batches_may_be_repeated(partition):
    batches = sent_in_sequence(partition, count=8)
    before = values_in(partition)
    for number in (7, 3, 5, 4, 6, 3):
        assert sent(partition, batches[number]) == COUNT * number
    assert values_in(partition) == before


def test_p2_a_batch_before_the_last_five_is_out_of_order(partition):
    batches = sent_in_sequence(partition, count=8)
    for number in range(3):
        assert_refused(partition, batches[number], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


@ENDINGS
def test_p1_p2_what_is_repeated_after_a_restart_is_where_it_was(broker, new_topic, ending):
    topic = new_topic(segment_bytes=300)
    with PartitionClient(broker.address, topic) as partition:
        batches = sent_in_sequence(partition, count=8)
        before = values_in(partition)
    getattr(broker, ending)()
    broker.start()
    with PartitionClient(broker.address, topic) as partition:
        for number in range(3, 8):
            assert sent(partition, batches[number]) == COUNT * number
        assert values_in(partition) == before
        assert_refused(partition, batches[2], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert sent(partition, batch_by(sequence=COUNT * 8)) == COUNT * 8


def led_by(broker, topic, leader, *, leader_epoch):
    """As its controller, the first of its cluster, would say."""
    state = {"partition_index": 0, "leader": leader, "leader_epoch": leader_epoch}
    state |= {"controller_epoch": 1, "isr": [leader], "replicas": [OURS, STRANGER]}
    topics = [{"topic_name": topic, "partition_states": [state]}]
    order = {"controller_id": OURS, "controller_epoch": 1, "topic_states": topics}
    assert error_codes(call(broker.address, ApiKey.LEADER_AND_ISR, 4, **order)) == {0}


def test_p1_p2_what_is_repeated_after_others_have_led_is_where_it_was(tmp_path):
    with BrokerProcess(tmp_path / "logs", f"broker.id={OURS}").start() as broker:
        create_topic(broker.address, "led")
        with PartitionClient(broker.address, "led") as partition:
            batches = sent_in_sequence(partition, count=4)
            before = values_in(partition)
            led_by(broker, "led", STRANGER, leader_epoch=5)
            refused = partition.produce(batches[3])
            assert ErrorCode.for_code(refused.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            led_by(broker, "led", OURS, leader_epoch=6)
            assert [sent(partition, batches[n]) for n in (3, 0, 2)] == [3 * COUNT, 0, 2 * COUNT]
            assert values_in(partition) == before
            sent_in_sequence(partition, count=1, first=4)
            assert_refused(
                partition,
                batch_by(sequence=9 * COUNT),
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            )
        broker.kill()  # its controller knows nothing of what was said in its name


@pytest.mark.parametrize("gap", [1, COUNT, 1_000, SEQUENCE_MAX - 3 * COUNT])
def test_p3_behind_a_gap_in_the_sequence_nothing_is_appended(partition, gap):
    sent_in_sequence(partition, count=3)
    error = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert_refused(partition, batch_by(sequence=3 * COUNT + gap), error)


def test_p3_when_the_gap_is_filled_the_batch_gets_in(partition):
    sent_in_sequence(partition, count=3)
    late = batch_by(sequence=4 * COUNT)
    assert_refused(partition, late, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sent(partition, batch_by(sequence=3 * COUNT)) == 3 * COUNT
    assert sent(partition, late) == 4 * COUNT


def test_p4_a_producer_that_is_not_known_may_begin_with_any_sequence(partition):
    assert sent(partition, batch_by(sequence=17)) == 0
    assert sent(partition, batch_by(sequence=17 + COUNT)) == COUNT


def test_p4_a_known_producer_begins_a_new_epoch_with_sequence_zero(partition):
    sent_in_sequence(partition, count=3)
    for sequence in (1, 3 * COUNT):
        batch = batch_by(epoch=1, sequence=sequence)
        assert_refused(partition, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert sent(partition, batch_by(epoch=1)) == 3 * COUNT


@pytest.mark.parametrize("sequence", [0, COUNT])
def test_p6_an_old_epoch_appends_nothing(partition, sequence):
    sent(partition, batch_by(epoch=0))
    sent(partition, batch_by(epoch=1))
    old = batch_by(epoch=0, sequence=sequence)
    assert_refused(partition, old, ErrorCode.INVALID_PRODUCER_EPOCH)


@ENDINGS
def test_p6_an_old_epoch_appends_nothing_after_a_restart(broker, new_topic, ending):
    topic = new_topic()
    with PartitionClient(broker.address, topic) as partition:
        sent(partition, batch_by(epoch=1))
    getattr(broker, ending)()
    broker.start()
    with PartitionClient(broker.address, topic) as partition:
        assert_refused(partition, batch_by(epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    settings = ("producer.id.expiration.ms=300", "producer.id.expiration.check.interval.ms=50")
    data_dir = tmp_path_factory.mktemp("forgetful") / "logs"
    with BrokerProcess(data_dir, *settings, "log.initial.task.delay.ms=0").start() as running:
        yield running


def test_p7_a_forgotten_producer_goes_on_where_it_was(forgetful, driver):
    topic = f"forgotten-by-{driver.name}"
    create_topic(forgetful.address, topic)
    values = [b"%d" % number for number in range(9)]
    with (
        PartitionClient(forgetful.address, topic) as partition,
        driver.producer(forgetful.address, Options(is_idempotent=True)) as producer,
    ):
        for begin in range(0, len(values), 3):
            three = [Sent(value) for value in values[begin : begin + 3]]
            assert producer.send(topic, three) == list(range(begin, begin + 3))
            wait_until_forgotten(partition)
    with driver.consumer(forgetful.address) as consumer:
        received = consumer.read(topic, {0: BEGINNING}, count=len(values))
    assert [each.value for each in received] == values


def test_p7_whoever_is_lost_in_its_sequence_recovers_with_a_new_id(broker, partition):
    wanted = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    first = call(broker.address, ApiKey.INIT_PRODUCER_ID, 4, **wanted)
    assert first.error_code == 0
    sent(partition, batch_by(first.producer_id, sequence=5))
    lost = batch_by(first.producer_id, sequence=2)
    assert_refused(partition, lost, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    known = {"producer_id": first.producer_id, "producer_epoch": first.producer_epoch}
    again = call(broker.address, ApiKey.INIT_PRODUCER_ID, 4, **wanted, **known)
    assert again.error_code == 0
    now = {"producer_id": again.producer_id, "producer_epoch": again.producer_epoch}
    assert now != known
    repeated = batch_by(again.producer_id, epoch=again.producer_epoch)
    assert [sent(partition, repeated) for _ in range(2)] == [COUNT, COUNT]
    assert len(values_in(partition)) == 2 * COUNT


def wait_until_forgotten(partition):
    deadline = time.monotonic() + WAIT_S
    while partition.producers():
        assert time.monotonic() < deadline
        time.sleep(0.02)
