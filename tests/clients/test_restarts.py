"""Clients go on where they were when the broker has been stopped, or killed, and started again."""

from contextlib import ExitStack

import pytest

from tests.support.client_driver import BEGINNING, Options, Sent
from tests.support.client_drivers import DRIVERS

ROUNDS = 3
RECORDS = 20

ENDINGS = pytest.mark.parametrize("ending", ["stop", "kill"])


@ENDINGS
def test_producers_and_consumers_outlive_their_broker(broker, new_topic, ending):
    kinds = [
        (driver, is_idempotent, new_topic())
        for driver in DRIVERS
        for is_idempotent in (True, False)
    ]
    values = [b"%d" % number for number in range(ROUNDS * RECORDS)]
    with ExitStack() as stack:
        clients = [
            (
                topic,
                stack.enter_context(
                    driver.producer(broker.address, Options(is_idempotent=is_idempotent))
                ),
                stack.enter_context(driver.consumer(broker.address)),
            )
            for driver, is_idempotent, topic in kinds
        ]
        for begin in range(0, len(values), RECORDS):
            sent = [Sent(value) for value in values[begin : begin + RECORDS]]
            for topic, producer, _ in clients:
                assert producer.send(topic, sent) == list(range(begin, begin + RECORDS))
            getattr(broker, ending)()
            broker.start()
            for topic, _, consumer in clients:
                received = consumer.read(topic, {0: begin}, count=RECORDS)
                assert [each.value for each in received] == values[begin : begin + RECORDS]
        for topic, _, consumer in clients:
            received = consumer.read(topic, {0: BEGINNING}, count=len(values))
            assert [each.value for each in received] == values
    assert "Traceback" not in broker.log_text


@ENDINGS
def test_what_is_sent_while_there_is_no_broker_arrives_when_there_is(
    driver, broker, new_topic, ending
):
    topic = new_topic()
    with driver.producer(broker.address, Options(linger_ms=0)) as producer:
        producer.send(topic, [Sent(b"before")])
        getattr(broker, ending)()
        broker.launch()
        assert producer.send(topic, [Sent(b"meanwhile")]) == [1]
    broker.wait_until_ready()
    with driver.consumer(broker.address) as consumer:
        received = consumer.read(topic, {0: BEGINNING}, count=2)
    assert [each.value for each in received] == [b"before", b"meanwhile"]
