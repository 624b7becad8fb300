"""Xerial's frame format of snappy blocks, and raw snappy blocks."""

from struct import pack

import pytest
import snappy as library
from hypothesis import given
from hypothesis.strategies import binary

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.snappy import BLOCK_BYTES, MAGIC, compress, decompress

HEADER = bytes.fromhex("82534e415050590000000001 00000001")
LIMIT = 1_000_000


def xerial_frame(*blocks: bytes) -> bytes:
    return HEADER + b"".join(pack(">i", len(block)) + block for block in blocks)


def test_frame_begins_with_xerials_header():
    assert compress(b"abc") == xerial_frame(library.compress(b"abc"))


def test_block_holds_32_kilobytes_of_source():
    source = bytes(range(256)) * 300
    first, rest = source[:BLOCK_BYTES], source[BLOCK_BYTES:]
    second, third = rest[:BLOCK_BYTES], rest[BLOCK_BYTES:]
    assert compress(source) == xerial_frame(*map(library.compress, (first, second, third)))


def test_empty_source_is_a_frame_without_blocks():
    assert compress(b"") == HEADER
    assert decompress(HEADER, max_bytes=LIMIT) == b""


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("size", [1, BLOCK_BYTES, BLOCK_BYTES + 1, 100_000])
def test_compressed_bytes_survive_a_round_trip(buffer_type, size):
    source = bytes(size)
    assert decompress(buffer_type(compress(buffer_type(source))), max_bytes=size) == source


def test_raw_block_without_a_frame_is_read():
    assert decompress(library.compress(b"raw" * 50_000), max_bytes=LIMIT) == b"raw" * 50_000


def test_consecutive_frames_are_decompressed():
    assert decompress(compress(b"one") + compress(b"two"), max_bytes=LIMIT) == b"onetwo"


def test_frame_versions_are_ignored_as_in_java():
    other_versions = MAGIC + pack(">ii", 2, 0) + compress(b"abc")[16:]
    assert decompress(other_versions, max_bytes=LIMIT) == b"abc"


@pytest.mark.parametrize("source", [compress(b"abc" * 9), library.compress(b"abc" * 9)])
def test_truncation_inside_a_block_is_rejected(source):
    for end in range(len(source)):
        if source[:end] != HEADER:
            with pytest.raises(CorruptMessage):
                decompress(source[:end], max_bytes=LIMIT)


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 6, 2**31 - 1])
def test_invalid_block_size_is_rejected(size):
    with pytest.raises(CorruptMessage, match=f"invalid block size {size}"):
        decompress(HEADER + pack(">i", size) + library.compress(b"ab"), max_bytes=LIMIT)


def test_bytes_after_the_last_block_are_rejected():
    with pytest.raises(CorruptMessage, match="truncated before a block"):
        decompress(compress(b"abc") + b"x", max_bytes=LIMIT)
    with pytest.raises(CorruptMessage):
        decompress(library.compress(b"abc") + b"x", max_bytes=LIMIT)


def test_damaged_block_is_rejected():
    with pytest.raises(CorruptMessage, match="damaged"):
        decompress(xerial_frame(b"\x05\xff\xff\xff"), max_bytes=LIMIT)


def test_unterminated_length_is_rejected():
    with pytest.raises(CorruptMessage, match="no length"):
        decompress(xerial_frame(b"\xff" * 10), max_bytes=LIMIT)


def test_length_that_the_block_cannot_hold_is_rejected():
    claim_129_bytes, claim_128_bytes = b"\x81\x01", b"\x80\x01"
    with pytest.raises(CorruptMessage, match="4 bytes cannot hold 129"):
        decompress(claim_129_bytes + b"ab", max_bytes=LIMIT)
    with pytest.raises(CorruptMessage, match="a damaged block"):
        decompress(claim_128_bytes + b"ab", max_bytes=LIMIT)


def test_block_with_the_highest_compression_ratio_is_read():
    source = bytes(1_000_000)
    assert decompress(library.compress(source), max_bytes=LIMIT) == source


def test_limit_applies_to_all_blocks_together():
    blocks = xerial_frame(*[library.compress(bytes(1000))] * 3)
    assert decompress(blocks, max_bytes=3000) == bytes(3000)
    with pytest.raises(CorruptMessage, match="more than 2999 bytes"):
        decompress(blocks, max_bytes=2999)


@given(binary(max_size=200))
def test_any_bytes_are_decompressed_or_rejected(source):
    for candidate in (source, HEADER + source):
        try:
            assert len(decompress(candidate, max_bytes=LIMIT)) <= LIMIT
        except CorruptMessage:
            continue
