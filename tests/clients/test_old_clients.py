"""Clients of years ago, as they are still in use: they write, read, and are read."""

import time

import pytest

from tests.support.broker_process import broker
from tests.support.client_driver import BEGINNING, CODECS, Sent
from tests.support.confluent_driver import ConfluentDriver
from tests.support.old_clients import OLD_CLIENTS, OldClientUnavailable

__all__ = ["broker"]

COUNT = 100
NOW_MS = int(time.time() * 1000)


@pytest.fixture(params=OLD_CLIENTS, ids=lambda client: f"{client.name}-{client.version}")
def client(request):
    return request.param


def records():
    return [
        [f"value {number}" * 10, key, headers, NOW_MS + number]
        for number in range(COUNT)
        for key in [None if number % 3 == 0 else f"key {number}"]
        for headers in [[["name", "text"]] if number % 2 else []]
    ]


def run(client, broker, topic, *, codec="none", acks="all", is_idempotent=False):
    asked = {"address": broker.address, "topic": topic, "records": records()}
    asked |= {"codec": codec, "acks": acks, "is_idempotent": is_idempotent}
    try:
        told = client.run(asked)
    except OldClientUnavailable as reason:
        pytest.skip(str(reason))
    assert told["version"] == client.version
    return told


@pytest.mark.parametrize("codec", CODECS)
def test_an_old_client_reads_what_it_wrote_in_every_codec(client, broker, new_topic, codec):
    told = run(client, broker, new_topic(), codec=codec)
    assert told["offsets"] == list(range(COUNT))
    assert told["records"] == [[number, *each] for number, each in enumerate(records())]
    assert told["last"] == COUNT - 1


@pytest.mark.parametrize("acks", ["0", "1"])
def test_an_old_client_is_acknowledged_as_it_asks(client, broker, new_topic, acks):
    told = run(client, broker, new_topic(), acks=acks)
    assert [each[1] for each in told["records"]] == [each[0] for each in records()]


def test_an_old_client_is_idempotent(client, broker, new_topic):
    if client.name == "kafka-python":
        pytest.skip("it could not be")
    told = run(client, broker, new_topic(), is_idempotent=True)
    assert told["offsets"] == list(range(COUNT))


def test_old_and_new_clients_read_each_other(client, broker, new_topic):
    topic = new_topic()
    told = run(client, broker, topic, codec="gzip")
    with ConfluentDriver().consumer(broker.address) as consumer:
        received = consumer.read(topic, {0: BEGINNING}, count=COUNT)
    assert [[each.offset, each.value.decode()] for each in received] == [
        each[:2] for each in told["records"]
    ]
    other = new_topic()
    with ConfluentDriver().producer(broker.address) as producer:
        producer.send(other, [Sent(b"new", key=b"new", timestamp_ms=NOW_MS)])
    read_by_old = run(client, broker, other)["records"]
    assert read_by_old[0] == [0, "new", "new", [], NOW_MS]
