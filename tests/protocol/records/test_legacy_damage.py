"""Messages of magic 0 and 1 that are truncated, damaged or malicious."""

from struct import pack, pack_into

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.legacy_lz4 import with_broken_checksum, with_correct_checksum
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.legacy_messages import (
    FORMAT_NAMES,
    FORMATS,
    message,
    message_around,
    nullable,
    wrapper,
)
from tests.support.memory import peak_bytes

RECORDS = [
    Record(10, 1000, b"key", b"value"),
    Record(11, 1001, None, b""),
    Record(14, 1002, b"", None),
]


def read_all(buffer, *, max_bytes=100_000):
    return [
        record
        for batch in batches_of_any_magic(buffer)
        for record in batch.records(max_bytes=max_bytes)
    ]


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_NAMES)
def test_truncated_record_set_keeps_its_whole_messages(magic, codec):
    whole = bytes(build_legacy_set(RECORDS, LegacyFormat(magic=magic, codec=codec)))
    records = read_all(whole)
    ends = [batch.position + batch.size_bytes for batch in batches_of_any_magic(whole)]
    for length in range(len(whole)):
        batches = batches_of_any_magic(whole[:length])
        read = [record for batch in batches for record in batch]
        assert read == records[: sum(end <= length for end in ends)]
        assert batches.partial_bytes == length - max((e for e in ends if e <= length), default=0)


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_NAMES)
def test_truncated_message_is_rejected(magic, codec):
    whole = bytes(build_legacy_set(RECORDS[:1], LegacyFormat(magic=magic, codec=codec)))
    for length in range(len(whole)):
        with pytest.raises(CorruptMessage):
            LegacyBatch(whole[:length])


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_NAMES)
def test_single_damaged_byte_is_detected_or_harmless(magic, codec):
    whole = bytes(build_legacy_set(RECORDS, LegacyFormat(magic=magic, codec=codec)))
    for position in range(len(whole)):
        for changed in {0, 1, 0x7F, 0x80, 0xFF, whole[position] ^ 1} - {whole[position]}:
            damaged = bytearray(whole)
            damaged[position] = changed
            if not is_rejected(damaged):
                assert is_outside_the_checksum(whole, position)


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_NAMES)
def test_damaged_byte_without_checksum_check_never_reads_out_of_bounds(magic, codec):
    whole = bytes(build_legacy_set(RECORDS, LegacyFormat(magic=magic, codec=codec)))
    for position in range(len(whole)):
        for changed in [0, 0xFF, *(whole[position] ^ 1 << bit for bit in range(8))]:
            damaged = bytearray(whole)
            damaged[position] = changed
            try:
                read = read_all(damaged)
            except CorruptMessage:
                continue
            assert sum(len(r.key or b"") + len(r.value or b"") for r in read) <= 100_000


def is_rejected(buffer):
    try:
        batches = batches_of_any_magic(buffer)
        for batch in batches:
            batch.check_crc()
            list(batch)
    except CorruptMessage:
        return True
    return batches.partial_bytes > 0


def is_outside_the_checksum(buffer, position):
    """The checksum does not cover the offset, because the broker assigns it."""
    starts = [batch.position for batch in batches_of_any_magic(buffer)]
    return any(start <= position < start + 8 for start in starts)


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 13])
def test_length_below_the_smallest_message_is_rejected(length):
    damaged = bytearray(message(0, b"v") * 2)
    pack_into(">i", damaged, 8, length)
    with pytest.raises(CorruptMessage):
        list(batches_of_any_magic(damaged))
    with pytest.raises(CorruptMessage):
        LegacyBatch(damaged)


@pytest.mark.parametrize("length", range(14, 22))
def test_length_too_small_for_magic_1_is_rejected(length):
    damaged = bytearray(message(1, b"v" * 20))
    pack_into(">i", damaged, 8, length)
    with pytest.raises(CorruptMessage):
        LegacyBatch(damaged)


@pytest.mark.parametrize("magic", [-1, 2, 3])
def test_another_magic_is_rejected(magic):
    damaged = bytearray(message(0, b"v"))
    pack_into(">b", damaged, 16, magic)
    with pytest.raises(CorruptMessage, match="magic"):
        LegacyBatch(damaged)


@pytest.mark.parametrize(
    "rest",
    [
        pack(">i", -2) + nullable(b"v"),
        nullable(b"k") + pack(">i", -2) + b"v",
        pack(">i", 2**31 - 1) + nullable(b"v"),
        pack(">i", 6) + nullable(b"v"),
        pack(">i", 5) + nullable(b"v"),
        nullable(None) + pack(">i", 2) + b"v",
        nullable(None) + nullable(b"v") + b"more",
    ],
    ids=[
        "negative key length",
        "negative value length",
        "key far past the end",
        "key past the end",
        "no value",
        "value past the end",
        "bytes after the value",
    ],
)
@pytest.mark.parametrize("magic", [0, 1])
def test_inconsistent_lengths_are_rejected(magic, rest):
    with pytest.raises(CorruptMessage):
        LegacyBatch(message_around(magic, rest)).records()
    inside = message_around(magic, rest)
    with pytest.raises(CorruptMessage):
        list(LegacyBatch(wrapper(magic, inside)))


def with_wrong_checksum(sent):
    return sent[:-1] + bytes((sent[-1] ^ 1,))


@pytest.mark.parametrize(
    "inner",
    [
        b"",
        message(1, b"v")[:-1],
        message(1, b"v") + b"\0",
        message(1, b"v") + message(1, b"w")[:20],
        message(0, b"v"),
        message(1, b"v") + message(0, b"v"),
        wrapper(1, message(1, b"v")),
        message(1, b"v", attributes=Codec.ZSTD),
        message(1, b"v", attributes=7),
        with_wrong_checksum(message(1, b"v")),
    ],
    ids=[
        "nothing",
        "a message cut short",
        "a byte after the message",
        "a second message cut short",
        "another magic",
        "two magics",
        "another wrapper",
        "zstd",
        "an unknown codec",
        "a wrong checksum",
    ],
)
def test_wrapper_must_contain_whole_uncompressed_messages_of_its_magic(inner):
    with pytest.raises(CorruptMessage):
        list(LegacyBatch(wrapper(1, inner)))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, 5, 7])
@pytest.mark.parametrize("value", [None, b"", b"not compressed"])
def test_wrapper_without_a_compressed_set_is_rejected(magic, codec, value):
    with pytest.raises(CorruptMessage):
        LegacyBatch(message(magic, value, attributes=codec)).records()


def test_zstd_is_rejected_in_legacy_formats():
    with pytest.raises(CorruptMessage, match="zstd"):
        LegacyBatch(wrapper(1, message(1, b"v"), codec=Codec.ZSTD)).records()


def test_wrapper_offset_below_its_last_record_is_rejected():
    inner = message(1, b"a", offset=0) + message(1, b"b", offset=8)
    with pytest.raises(CorruptMessage, match="offset 7"):
        LegacyBatch(wrapper(1, inner, offset=7)).records()


@pytest.mark.parametrize(
    "checksum", [with_broken_checksum, with_correct_checksum], ids=["old", "right"]
)
@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18\x60\x40", b"\x04\x22\x4d\x18\x68" * 2])
def test_truncated_lz4_header_is_rejected(checksum, frame):
    with pytest.raises(CorruptMessage):
        checksum(frame)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_decompression_bomb_is_rejected_before_decompression(magic, codec):
    bomb = LegacyBatch(wrapper(magic, message(magic, bytes(20_000_000)), codec=codec))

    def read_bomb():
        with pytest.raises(CorruptMessage):
            bomb.records(max_bytes=1_000_000)

    assert bomb.size_bytes < 1_000_000
    assert peak_bytes(read_bomb) < 5_000_000


def test_many_small_messages_allocate_no_memory_until_read():
    bomb = LegacyBatch(wrapper(0, message(0, None) * 200_000))
    unpacked = 200_000 * len(message(0, None))
    assert peak_bytes(lambda: next(bomb.records())) < unpacked * 3
