"""Record data is a view of the frame when decoded, and is passed through when encoded."""

import struct

import pytest

from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.codec import decode, encode, encode_bytes
from odradek.protocol.file_region import FileRegion
from odradek.protocol.schema import Message, byte_string, record_batches, string

PLAIN, COMPACT = 0, 1


class Records(Message, versions="0-1", flexible="1+"):
    records: bytes | None = record_batches(nullable="0+")


class Described(Message, versions="0-1", flexible="1+"):
    text: str = string()
    blob: bytes = byte_string()
    records: bytes | None = record_batches(nullable="0+")


def int32(value):
    return struct.pack(">i", value)


@pytest.mark.parametrize("version", [PLAIN, COMPACT])
@pytest.mark.parametrize("frame_type", [bytes, bytearray, memoryview])
def test_records_are_a_view_of_the_frame(version, frame_type):
    frame = frame_type(encode_bytes(Records(records=b"abc"), version))
    records = decode(Records, version, frame).records
    assert type(records) is memoryview
    assert records == b"abc"
    assert records.obj is (frame.obj if frame_type is memoryview else frame)


def test_records_in_a_bytearray_can_be_patched_in_place():
    frame = bytearray(encode_bytes(Records(records=b"abc"), PLAIN))
    decode(Records, PLAIN, frame).records[0:1] = b"X"
    assert frame.endswith(b"Xbc")


@pytest.mark.parametrize("version", [PLAIN, COMPACT])
def test_only_records_are_views(version):
    tags = ((5, b"tag"),) * version
    message = Described(text="text", blob=b"blob", records=None, unknown_tags=tags)
    frame = bytearray(encode_bytes(message, version))
    decoded = decode(Described, version, frame)
    frame[:] = bytes(len(frame))
    assert decoded == message
    assert type(decoded.blob) is bytes


@pytest.mark.parametrize("version", [PLAIN, COMPACT])
@pytest.mark.parametrize(
    "records",
    [b"abc", bytearray(b"abc"), memoryview(b"abc"), FileRegion(7, position=10, length=99)],
)
def test_records_are_passed_through_uncopied(version, records):
    parts = encode(Records(records=records), version)
    assert [part for part in parts if part is records] == [records]
    assert sum(map(len, parts)) == len(records) + len(
        b"".join(part for part in parts if part is not records)
    )


@pytest.mark.parametrize("records", [b"", memoryview(b""), FileRegion(7, 0, 0)])
def test_empty_records_need_no_part(records):
    assert encode(Records(records=records), PLAIN) == [int32(0)]
    assert encode(Records(records=records), COMPACT) == [b"\1\0"]


def test_missing_records_are_encoded_as_null():
    assert encode_bytes(Records(records=None), PLAIN) == int32(-1)
    assert encode_bytes(Records(records=None), COMPACT) == b"\0\0"


def test_file_regions_are_parts_between_the_encoded_bytes():
    first, second = FileRegion(3, 0, 100), FileRegion(4, 50, 200)
    parts = encode(fetch_response(first, b"inline", second), 4)
    assert [type(part) for part in parts] == [
        bytes,
        FileRegion,
        bytes,
        bytes,
        bytes,
        FileRegion,
    ]
    assert (parts[1], parts[3], parts[5]) == (first, b"inline", second)
    assert [parts[index][-4:] for index in (0, 2, 4)] == [int32(100), int32(6), int32(200)]


def test_message_without_records_is_one_part():
    assert encode(HeartbeatResponse(error_code=5), 0) == [b"\0\5"]


def fetch_response(*records):
    partitions = [
        FetchResponse.Topic.Partition(
            partition_index=number, error_code=0, high_watermark=0, records=content
        )
        for number, content in enumerate(records)
    ]
    return FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=partitions)])
