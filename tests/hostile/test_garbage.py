"""Y3: bytes that are no request, and requests with something wrong in them."""

import struct
from random import Random

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode_prefix
from odradek.protocol.errors import DecodeError
from odradek.protocol.header import KEY_AND_VERSION, decode_request_header
from odradek.protocol.registry import api
from odradek.protocol.varint import unsigned_varint
from odradek.protocol.wire import ARRAY_COUNT_MAX, TAG_COUNT_MAX
from tests.support.minimal_requests import VALUES
from tests.support.wire_client import HungUp, WireClient, frame

REQUEST_BYTES_MAX = 100 * 1024 * 1024
HEADER_BYTES = 8
#: What they are told would be obeyed: how many partitions there shall be, who the controller is.
BELIEVED = {
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.ALTER_PARTITION,
    ApiKey.CONTROLLED_SHUTDOWN,
}
HARMLESS = sorted(set(VALUES) - BELIEVED)


def outcome(address, raw):
    """The first bytes of an answer, or none if the broker hung up."""
    with WireClient(address) as client:
        try:
            client.send_bytes(raw)
            return client.answer_bytes()
        except (HungUp, ConnectionError):
            return b""


def is_request(body):
    """Some are even without their end, if that was only a section for tags."""
    header, position = decode_request_header(body)
    request = api(ApiKey(header.request_api_key)).request
    try:
        decode_prefix(request, header.request_api_version, body, position)
    except DecodeError:
        return False
    return True


def framed(body):
    return struct.pack(">i", len(body)) + body


def versions_of(key):
    return {api(key).stable.low, api(key).stable.high}


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_BYTES_MAX + 1, 2**31 - 1, 0, 1, 3])
def test_y3_an_impossible_size_closes_the_connection(broker, size):
    with WireClient(broker.address) as client:
        client.send_bytes(struct.pack(">i", size) + bytes(max(0, min(size, 100))))
        assert client.is_hung_up()


def test_y3_what_was_announced_and_did_not_come_takes_no_memory(broker):
    clients = [WireClient(broker.address) for _ in range(100)]
    for client in clients:
        client.send_bytes(struct.pack(">i", REQUEST_BYTES_MAX) + b"only this")
    for client in clients:
        client.close()


@pytest.mark.parametrize("count", [ARRAY_COUNT_MAX + 1, 2**31 - 1, -2])
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "without its elements"])
def test_y3_too_large_an_array_closes_the_connection(broker, count, is_whole):
    head = frame(ApiKey.METADATA, 1, topics=[])[4:-4]
    elements = bytes(2 * (ARRAY_COUNT_MAX + 1)) if is_whole else b""
    body = head + struct.pack(">i", count) + elements
    assert outcome(broker.address, framed(body)) == b""
    small = head + struct.pack(">i", 3) + bytes(2 * 3)
    assert outcome(broker.address, framed(small)) != b""


@pytest.mark.parametrize("count", [TAG_COUNT_MAX + 1, 2**32 - 1])
def test_y3_too_many_tags_close_the_connection(broker, count):
    whole = frame(ApiKey.DESCRIBE_CLUSTER, 0)[4:]
    assert whole[-1:] == b"\0"
    tags = b"".join(unsigned_varint(tag) + b"\0" for tag in range(1_000, 1_000 + TAG_COUNT_MAX + 1))
    assert outcome(broker.address, framed(whole[:-1] + unsigned_varint(count) + tags)) == b""
    some = unsigned_varint(1) + unsigned_varint(1_000) + b"\0"
    assert outcome(broker.address, framed(whole[:-1] + some)) != b""


@pytest.mark.parametrize("seed", range(3))
def test_y3_random_bytes_close_the_connection(broker, seed):
    random = Random(seed)
    for _ in range(300):
        body = random.randbytes(random.randrange(4, 300))
        assert outcome(broker.address, framed(body)) == b""


@pytest.mark.parametrize(
    "text", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\x00" * 50]
)
def test_y3_another_protocol_closes_the_connection(broker, text):
    with WireClient(broker.address) as client:
        client.send_bytes(text)
        client.socket.shutdown(1)
        assert client.is_hung_up()


@pytest.mark.parametrize("key", list(VALUES), ids=lambda key: key.name)
def test_y3_a_request_that_ends_too_early_closes_the_connection(broker, scene, key):
    for version in versions_of(key):
        whole = frame(key, version, **VALUES[key](scene, version))[4:]
        for length in {*range(HEADER_BYTES, len(whole), 7), len(whole) - 1}:
            answer = outcome(broker.address, framed(whole[:length]))
            assert answer == b"" or is_request(whole[:length])


@pytest.mark.parametrize("key", HARMLESS, ids=lambda key: key.name)
@pytest.mark.parametrize(
    "wrong", [b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"]
)
def test_y3_impossible_counts_and_lengths_harm_nobody(broker, scene, key, wrong):
    for version in versions_of(key):
        whole = bytearray(frame(key, version, **VALUES[key](scene, version))[4:])
        for position in range(HEADER_BYTES, len(whole) - len(wrong), 3):
            sent = whole[:position] + wrong + whole[position + len(wrong) :]
            outcome(broker.address, framed(bytes(sent)))


@pytest.mark.parametrize("seed", range(4))
def test_y3_requests_with_random_changes_harm_nobody(broker, scene, seed):
    random = Random(seed)
    for _ in range(150):
        key = random.choice(HARMLESS)
        version = random.choice(sorted(versions_of(key)))
        sent = bytearray(frame(key, version, **VALUES[key](scene, version))[4:])
        for _ in range(random.randrange(1, 4)):
            sent[random.randrange(KEY_AND_VERSION.size, len(sent))] = random.randrange(256)
        outcome(broker.address, framed(bytes(sent)))
