"""Clients of a broker with several listeners and threads are served as those of any other."""

import pytest

from tests.clients.test_produce_and_consume import (
    test_a_reader_that_waits_is_told_of_what_comes,
    test_a_topic_may_take_larger_values_than_others,
    test_an_idempotent_producer_is_served,
    test_every_partition_keeps_its_own_order,
    test_keys_headers_and_timestamps_come_back_in_every_codec,
    test_records_arrive_with_any_acknowledgement,
    test_values_of_any_size_come_back,
)
from tests.support.client_driver import BEGINNING, Sent
from tests.support.many_listeners import BROKERS, CONTROL, PLAINTEXT, broker

__all__ = [
    "broker",
    "test_a_reader_that_waits_is_told_of_what_comes",
    "test_a_topic_may_take_larger_values_than_others",
    "test_an_idempotent_producer_is_served",
    "test_every_partition_keeps_its_own_order",
    "test_keys_headers_and_timestamps_come_back_in_every_codec",
    "test_records_arrive_with_any_acknowledgement",
    "test_values_of_any_size_come_back",
]


@pytest.mark.parametrize("listener", [PLAINTEXT, BROKERS, CONTROL])
def test_clients_go_on_at_the_address_of_the_listener_they_began_at(
    driver, broker, new_topic, listener
):
    topic, address = new_topic(), broker.address_of(listener)
    with driver.producer(address) as producer:
        producer.send(topic, [Sent(b"value")])
    with driver.consumer(address) as consumer:
        (received,) = consumer.read(topic, {0: BEGINNING}, count=1)
    assert received.value == b"value"
