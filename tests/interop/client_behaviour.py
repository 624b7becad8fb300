"""What every client is asked to do, for those that are not Python: tests to take over.

They are those of tests/clients, and the fixtures that they need but three: a module that takes
BEHAVIOUR over says by ``driver``, ``admin`` and ``broker`` whom it is about.  One that is there
about all clients in Python at once is here in a form for one.
"""

import itertools

import pytest

from tests.clients import test_admin, test_produce_and_consume, test_restarts
from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import BEGINNING, CODECS, Options, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.new_topics import new_topic

RECORDS = 20
ENDINGS = ("stop", "kill", "stop")


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_producer_and_a_consumer_outlive_their_broker(driver, tmp_path, is_idempotent):
    topic, values = "kept", [b"%d" % number for number in range(len(ENDINGS) * RECORDS)]
    with (
        # Its own, since one with hundreds of partitions takes a while to come back.
        BrokerProcess(tmp_path / "logs").start() as broker,
        driver.producer(broker.address, Options(is_idempotent=is_idempotent)) as producer,
        driver.consumer(broker.address) as consumer,
    ):
        for begin, ending in zip(range(0, len(values), RECORDS), ENDINGS, strict=True):
            sent = [Sent(value) for value in values[begin : begin + RECORDS]]
            assert producer.send(topic, sent) == list(range(begin, begin + RECORDS))
            getattr(broker, ending)()
            broker.start()
            received = consumer.read(topic, {0: begin}, count=RECORDS)
            assert [each.value for each in received] == values[begin : begin + RECORDS]
        received = consumer.read(topic, {0: BEGINNING}, count=len(values))
        assert [each.value for each in received] == values
        assert "Traceback" not in broker.log_text


@pytest.mark.parametrize("codec", CODECS)
def test_clients_read_what_others_wrote(driver, broker, new_topic, codec):
    sent = test_produce_and_consume.of_all_kinds(100)
    for writer, reader in itertools.permutations([driver, ConfluentDriver()]):
        topic = new_topic()
        with writer.producer(broker.address, Options(codec=codec)) as producer:
            producer.send(topic, sent)
        with reader.consumer(broker.address) as consumer:
            received = consumer.read(topic, {0: BEGINNING}, count=len(sent))
        assert test_produce_and_consume.as_sent(received) == sent


OTHERS = (
    test_restarts.test_what_is_sent_while_there_is_no_broker_arrives_when_there_is,
    test_a_producer_and_a_consumer_outlive_their_broker,
    test_clients_read_what_others_wrote,
)
BEHAVIOUR = {
    name: value
    for module in (test_produce_and_consume, test_admin)
    for name, value in vars(module).items()
    if name.startswith("test_")
}
BEHAVIOUR |= {test.__name__: test for test in OTHERS}
BEHAVIOUR |= {"new_topic": new_topic, "topic": test_admin.topic}
