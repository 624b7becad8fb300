"""P1 and P5: connections that break between an idempotent producer and its broker."""

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.types import TopicPartition
from tests.support.client_driver import BEGINNING, TIMEOUT_S, Options, Sent
from tests.support.histories import History, check
from tests.support.lossy_wire import LossyWire, Way
from tests.support.partition_client import PartitionClient, create_topic
from tests.support.persistent_load import PersistentConsumer, PersistentProducer
from tests.support.persistent_load import check as check_clients

IDEMPOTENT = Options(is_idempotent=True, linger_ms=0)
PARTITIONS = 2
CUTS = 40
CUTS_OF_ONE = 8


@pytest.fixture(scope="module")
def wire():
    with LossyWire() as made:
        yield made


@pytest.fixture(scope="module")
def broker(wire, tmp_path_factory):
    with wire.broker(tmp_path_factory.mktemp("broker") / "logs").start() as running:
        yield running


class AnswerLostOnce:
    """The first answer to a Produce is lost; then ``at_loss`` is called, before anybody knows."""

    def __init__(self, at_loss=lambda: None):
        self.happened = threading.Event()
        self._at_loss = at_loss

    def __call__(self, way, key):
        if way is Way.REQUEST or key is not ApiKey.PRODUCE or self.happened.is_set():
            return False
        self._at_loss()
        self.happened.set()
        return True


def checked(driver, wire, topic, offsets, values):
    """Where they were acked, and what is there: each once."""
    partition, history = TopicPartition(topic, 0), History()
    for offset, value in zip(offsets, values, strict=True):
        history.sent("producer", partition, value)
        history.acked(partition, offset, value)
    with driver.consumer(wire.address) as consumer:
        for each in consumer.read(topic, {0: BEGINNING}, count=len(values)):
            history.polled("consumer", partition, each.offset, each.value)
    history.final("consumer", topic)
    check(history)


def test_p1_a_retry_after_a_lost_answer_gets_the_offset_of_the_original(
    broker, wire, new_topic, driver
):
    topic, values = new_topic(), [b"%d" % number for number in range(20)]
    with driver.producer(wire.address, IDEMPOTENT) as producer:
        offsets = list(producer.send(topic, [Sent(b"before")]))
        with wire.losing(AnswerLostOnce()) as lost:
            offsets += producer.send(topic, [Sent(value) for value in values])
        assert lost.happened.is_set()
    assert offsets == list(range(1 + len(values)))
    checked(driver, wire, topic, offsets, [b"before", *values])
    with PartitionClient(broker.address, topic) as partition:
        assert [each.value for each in partition.records()] == [b"before", *values]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_p1_a_retry_after_a_restart_gets_the_offset_of_the_original(
    broker, wire, new_topic, driver, ending
):
    topic, values = new_topic(), [b"%d" % number for number in range(5)]

    def take_down():
        wire.is_down = True

    def send():
        with driver.producer(wire.address, IDEMPOTENT) as producer:
            return producer.send(topic, [Sent(value) for value in values])

    with ThreadPoolExecutor(1) as pool, wire.losing(AnswerLostOnce(take_down)) as lost:
        sending = pool.submit(send)
        assert lost.happened.wait(TIMEOUT_S)
        getattr(broker, ending)()
        broker.start()
        wire.is_down = False
        offsets = sending.result(TIMEOUT_S)
    assert offsets == list(range(len(values)))
    checked(driver, wire, topic, offsets, values)
    with PartitionClient(broker.address, topic) as partition:
        assert [each.value for each in partition.records()] == values


class CutAtRandom:
    """Now a Produce is lost, now its answer, until it has happened so often."""

    def __init__(self, seed, *, count):
        self._random = Random(seed)
        self._lock = threading.Lock()
        self.left = count
        self.over = threading.Event()

    def __call__(self, way, key):
        with self._lock:
            if key is not ApiKey.PRODUCE or not self.left or self._random.random() > 0.1:
                return False
            self.left -= 1
        if not self.left:
            self.over.set()
        return True


@pytest.mark.parametrize("seed", range(2))
def test_p5_with_five_requests_in_flight_and_connections_cut_the_order_is_that_of_sending(
    broker, wire, seed
):
    topic = f"pipelined-{seed}"
    create_topic(broker.address, topic, partitions=PARTITIONS)
    pipelined = {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 5}
    producer = PersistentProducer(
        wire.address, topic, name="pipelining", partitions=PARTITIONS, **pipelined
    )
    consumer = PersistentConsumer(broker.address, topic, partitions=PARTITIONS)
    wire.delay_s = 0.003
    with wire.losing(CutAtRandom(seed, count=CUTS)) as cuts:
        producer.start()
        consumer.start()
        assert cuts.over.wait(TIMEOUT_S)
        producer.stop()
    consumer.wait_for(len(producer.acknowledged))
    consumer.stop()
    check_clients([producer], [consumer])
    assert len(producer.acknowledged) > CUTS
    assert wire.in_flight_max == 5


def test_p5_so_it_is_with_every_client(broker, wire, new_topic, driver):
    topic, values, offsets = new_topic(), [], []
    with (
        wire.losing(CutAtRandom(0, count=CUTS_OF_ONE)) as cuts,
        driver.producer(wire.address, IDEMPOTENT) as producer,
    ):
        while not cuts.over.is_set():
            sent = [b"%d" % number for number in range(len(values), len(values) + 10)]
            offsets += producer.send(topic, [Sent(value) for value in sent])
            values += sent
    assert offsets == list(range(len(values)))
    checked(driver, wire, topic, offsets, values)
