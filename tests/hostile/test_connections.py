"""Y2: connections that do not read; and those that are cut, that dawdle, and that do nothing."""

import resource
import socket
import struct
import time
from contextlib import ExitStack

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.support.batches import batch_of
from tests.support.minimal_requests import VALUES, create
from tests.support.resident_memory import MB, resident_bytes
from tests.support.wire_client import WireClient, call, frame

IDLE = 2_000
ABRUPTLY = struct.pack("ii", 1, 0)
BULK = "bulk"
BULK_RECORDS = 20
BULK_RECORD_BYTES = 1_000_000
UNREADING = 20
#: Of each who does not read: next to nothing is sent from a file; what is converted is an answer of
#: 1 MB, and in the making what it is made from.
UNREAD_BYTES_MAX = {11: UNREADING * MB, 3: UNREADING * 5 * MB}
CUTS = 20


@pytest.fixture(scope="module")
def bulk(broker):
    """A topic that is large enough for an answer to be cut in the middle."""
    create(broker.address, BULK)
    partition = {"index": 0, "records": bytes(batch_of(bytes(BULK_RECORD_BYTES)))}
    topic = {"name": BULK, "partition_data": [partition]}
    for _ in range(BULK_RECORDS):
        call(broker.address, ApiKey.PRODUCE, 9, acks=1, timeout_ms=1_000, topic_data=[topic])
    return BULK


def fetch(topic, *, version=11, offset=0, max_wait_ms=100, **values):
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 20 * MB}
    topics = [{"topic": topic, "partitions": [partition]}]
    values = {"max_wait_ms": max_wait_ms, "min_bytes": 1, "topics": topics, **values}
    return frame(ApiKey.FETCH, version, **values)


def cut(client, *, is_abrupt):
    if is_abrupt:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY)
    client.close()


ABRUPT = pytest.mark.parametrize("is_abrupt", [False, True], ids=["closed", "reset"])


@ABRUPT
def test_connections_may_end_before_anything_was_sent(broker, is_abrupt):
    for _ in range(CUTS * 10):
        cut(WireClient(broker.address), is_abrupt=is_abrupt)


@ABRUPT
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.METADATA], ids=lambda key: key.name)
def test_connections_may_end_anywhere_in_a_request(broker, scene, key, is_abrupt):
    whole = frame(key, 9, **VALUES[key](scene, 9))
    for length in range(1, len(whole)):
        client = WireClient(broker.address)
        client.send_bytes(whole[:length])
        cut(client, is_abrupt=is_abrupt)


@ABRUPT
@pytest.mark.parametrize("key", list(VALUES), ids=lambda key: key.name)
def test_connections_may_end_before_the_answer(broker, scene, key, is_abrupt):
    whole = frame(key, 1 if key is ApiKey.FETCH else 0, **VALUES[key](scene, 0))
    for _ in range(CUTS):
        client = WireClient(broker.address)
        client.send_bytes(whole)
        cut(client, is_abrupt=is_abrupt)


@ABRUPT
def test_connections_may_end_while_a_fetch_waits(broker, scene, bulk, is_abrupt):
    clients = [WireClient(broker.address) for _ in range(CUTS)]
    for client in clients:
        client.send_bytes(fetch(bulk, offset=BULK_RECORDS, max_wait_ms=60_000))
    time.sleep(0.1)
    for client in clients:
        cut(client, is_abrupt=is_abrupt)


@ABRUPT
def test_connections_may_end_in_the_middle_of_an_answer(broker, bulk, is_abrupt):
    for number in range(CUTS):
        client = WireClient(broker.address)
        client.send_bytes(fetch(bulk))
        client.socket.recv(1 + number * 5_000)
        cut(client, is_abrupt=is_abrupt)


def test_one_side_of_a_connection_may_end(broker, scene):
    with WireClient(broker.address) as client:
        client.send(ApiKey.METADATA, 9, **VALUES[ApiKey.METADATA](scene, 9))
        client.socket.shutdown(socket.SHUT_WR)
        while client.socket.recv(1 << 16):
            continue


def test_a_request_may_come_byte_by_byte(broker, scene):
    with WireClient(broker.address) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(ApiKey.METADATA, 9, **VALUES[ApiKey.METADATA](scene, 9)):
            client.send_bytes(bytes([byte]))
            time.sleep(0.001)
        assert client.answer_bytes()


def test_many_requests_may_come_at_once(broker):
    # Its answer is always the same, whatever of the other tests' requests is still being done.
    one = frame(ApiKey.API_VERSIONS, 0)
    with WireClient(broker.address) as client:
        client.send_bytes(one * 500)
        answers = {client.answer_bytes() for _ in range(500)}
    assert len(answers) == 1


@pytest.mark.parametrize("version", list(UNREAD_BYTES_MAX))
def test_y2_whoever_does_not_read_is_not_sent_without_end(broker, bulk, version):
    before = resident_bytes(broker.pid)
    with ExitStack() as stack:
        for _ in range(UNREADING):
            client = stack.enter_context(WireClient(broker.address))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.send_bytes(fetch(bulk, version=version) * 50)
        for _ in range(20):
            time.sleep(0.1)
            assert resident_bytes(broker.pid) - before < UNREAD_BYTES_MAX[version]


def test_thousands_of_idle_connections_slow_nobody_down(broker, scene):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, IDLE + 500)
    if wanted > hard:
        pytest.skip(f"only {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        with ExitStack() as stack:
            idle = [stack.enter_context(WireClient(broker.address)) for _ in range(IDLE)]
            for client in idle[::2]:
                client.send(ApiKey.API_VERSIONS, 0)
            for client in idle[::2]:
                client.answer(ApiKey.API_VERSIONS, 0)
            begun = time.monotonic()
            for _ in range(100):
                idle[-1].call(ApiKey.METADATA, 9, **VALUES[ApiKey.METADATA](scene, 9))
            assert time.monotonic() - begun < 5
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
