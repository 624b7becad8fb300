"""Codecs: round trips, rejected input and memory limits."""

import gzip
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from struct import pack

import lz4.frame
import pytest
import zstandard
from snappy import compress as snappy_block

from odradek.protocol.errors import CorruptMessage, EncodeError
from odradek.protocol.records import compression, zstd
from odradek.protocol.records.compression import LEVELS, Codec, codec_of, compress, decompress
from tests.support.memory import peak_bytes

REAL_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 1_000_000
SOURCE = bytes(range(256)) * 700 + bytes(
    100_000
)  # Compressible, larger than one block of any codec.


def zstd_frame(source: bytes, **options) -> bytes:
    """Compress to a frame without a content size, as Java's streaming writer does."""
    writer = zstandard.ZstdCompressor(write_content_size=False, **options).compressobj()
    return writer.compress(source) + writer.flush()


def zstd_of_repeated_blocks(count: int, size: int) -> bytes:
    """Return a frame without content size whose blocks each repeat one byte ``size`` times."""
    header = bytes.fromhex("28b52ffd 00 58")
    block, last = size << 3 | 2, size << 3 | 3
    blocks = [(block.to_bytes(3, "little") + b"x")] * (count - 1)
    return header + b"".join(blocks) + last.to_bytes(3, "little") + b"x"


def zstd_of_tiny_blocks(block: bytes, count: int) -> bytes:
    """Return a frame without content size: ``count`` times ``block``, then an empty last block."""
    return bytes.fromhex("28b52ffd 00 58") + block * count + bytes.fromhex("010000")


def lz4_frame_of(block: bytes, count: int) -> bytes:
    header = bytes.fromhex("04224d18 60 40 82")
    return header + (pack("<I", len(block)) + block) * count + bytes(4)


def lz4_block_of_zeros() -> bytes:
    frame = compress(Codec.LZ4, bytes(64 * 1024))
    return frame[11:-4]


def repeat_to_a_megabyte(part: bytes) -> bytes:
    return part * (1_000_000 // len(part))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("source", [b"", b"x", SOURCE], ids=["empty", "short", "long"])
def test_compressed_bytes_survive_a_round_trip(codec, buffer_type, source):
    packed = buffer_type(compress(codec, buffer_type(source)))
    unpacked = decompress(codec, packed, max_bytes=len(source))
    assert type(unpacked) is bytes
    assert unpacked == source


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_more_than_allowed_is_rejected(codec):
    packed = compress(codec, SOURCE)
    with pytest.raises(CorruptMessage):
        decompress(codec, packed, max_bytes=len(SOURCE) - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_empty_source_fits_a_limit_of_zero(codec):
    assert decompress(codec, compress(codec, b""), max_bytes=0) == b""
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, b"x"), max_bytes=0)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_every_truncation_is_rejected(codec):
    packed = compress(codec, b"to be cut short " * 20)
    whole_without_blocks = compress(Codec.SNAPPY, b"")
    for end in range(len(packed)):
        if packed[:end] != whole_without_blocks:
            with pytest.raises(CorruptMessage):
                decompress(codec, packed[:end], max_bytes=LIMIT)


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("extra", [b"\0", b"\0" * 30, b"garbage after the end"])
def test_bytes_after_the_end_are_rejected(codec, extra):
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, SOURCE) + extra, max_bytes=LIMIT)


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("other", Codec)
def test_bytes_of_another_codec_are_rejected(codec, other):
    if codec is not other:
        with pytest.raises(CorruptMessage):
            decompress(codec, compress(other, SOURCE), max_bytes=LIMIT)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_every_flipped_bit_is_rejected_or_harmless(codec):
    packed = compress(codec, b"to be damaged " * 10)
    for position in range(len(packed)):
        for bit in range(8):
            damaged = bytearray(packed)
            damaged[position] ^= 1 << bit
            try:
                assert len(decompress(codec, damaged, max_bytes=LIMIT)) <= LIMIT
            except CorruptMessage:
                continue


BOMBS = {
    "gzip members": (Codec.GZIP, repeat_to_a_megabyte(gzip.compress(bytes(16_000_000)))),
    "gzip, one member": (Codec.GZIP, gzip.compress(bytes(50_000_000))),
    "snappy frame": (
        Codec.SNAPPY,
        compress(Codec.SNAPPY, b"")
        + repeat_to_a_megabyte(compress(Codec.SNAPPY, bytes(32 * 1024))[16:]),
    ),
    "snappy block": (Codec.SNAPPY, snappy_block(bytes(20_000_000))),
    "lz4": (Codec.LZ4, lz4_frame_of(lz4_block_of_zeros(), 3600)),
    "zstd frames": (Codec.ZSTD, repeat_to_a_megabyte(zstandard.compress(bytes(16_000_000)))),
    "zstd without sizes": (Codec.ZSTD, repeat_to_a_megabyte(zstd_frame(b"ab" * 8_000_000))),
    "zstd, repeated bytes": (Codec.ZSTD, zstd_of_repeated_blocks(250_000, 128 * 1024)),
    "zstd that lies": (Codec.ZSTD, bytes.fromhex("28b52ffd e0 ffffffffffffff7f 010000")),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb_is_rejected_before_it_takes_memory(bomb):
    codec, packed = BOMBS[bomb]
    compress(codec, b"import the library first")

    def decompress_bomb():
        with pytest.raises(CorruptMessage):
            decompress(codec, packed, max_bytes=LIMIT)

    assert peak_bytes(decompress_bomb) < 4 * LIMIT


#: A block that could hold 128 KB according to the frame, but holds one byte.
ZSTD_BLOCK_OF_ONE_BYTE = bytes.fromhex("1c0000 097800")


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        *((codec, compress(codec, b"small" * 100)) for codec in REAL_CODECS),
        (Codec.ZSTD, zstd_of_tiny_blocks(ZSTD_BLOCK_OF_ONE_BYTE, 1000)),
    ],
    ids=[*(codec.name for codec in REAL_CODECS), "ZSTD of tiny blocks"],
)
def test_large_limit_allocates_nothing_in_advance(codec, packed):
    peak = peak_bytes(lambda: decompress(codec, packed, max_bytes=2**30))
    assert peak < 2 * LIMIT


SNAPPY_EMPTY_BLOCK = bytes.fromhex("00000001 00")


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Codec.ZSTD, zstd_of_tiny_blocks(bytes.fromhex("000000"), 100_000)),
        (Codec.ZSTD, zstd_of_tiny_blocks(bytes.fromhex("080000 78"), 100_000)),
        (Codec.ZSTD, zstd_of_tiny_blocks(bytes.fromhex("020000 78"), 100_000)),
        (Codec.ZSTD, zstd_of_tiny_blocks(bytes.fromhex("000000"), 300) * 900),
        (Codec.SNAPPY, compress(Codec.SNAPPY, b"") + SNAPPY_EMPTY_BLOCK * 100_000),
    ],
    ids=["zstd, empty", "zstd, of a byte", "zstd, repeated never", "zstd, frames", "snappy"],
)
def test_too_many_tiny_blocks_are_rejected(codec, packed):
    with pytest.raises(CorruptMessage, match="too many blocks"):
        decompress(codec, packed)


def test_thousand_blocks_are_always_accepted():
    packed = zstd_of_tiny_blocks(bytes.fromhex("000000"), 999)
    assert decompress(Codec.ZSTD, packed) == b""
    packed = compress(Codec.SNAPPY, b"") + SNAPPY_EMPTY_BLOCK * 1000
    assert decompress(Codec.SNAPPY, packed) == b""


def test_zstd_flushed_after_each_of_many_records_is_read():
    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    records = [bytes([38]) + random.Random(seed).randbytes(19) for seed in range(5000)]
    blocks = [
        writer.compress(record) + writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for record in records
    ]
    packed = b"".join(blocks) + writer.flush()
    assert decompress(Codec.ZSTD, packed) == b"".join(records)


def test_zstd_block_limit_depends_on_the_byte_limit():
    packed = zstd_of_repeated_blocks(9000, 1)
    assert decompress(Codec.ZSTD, packed, max_bytes=9000 * 128 * 1024) == b"x" * 9000
    with pytest.raises(CorruptMessage, match="blocks"):
        decompress(Codec.ZSTD, packed, max_bytes=900 * 128 * 1024)


def test_snappy_blocks_of_one_kilobyte_from_old_producers_are_read():
    block = snappy_block(bytes(1024))
    packed = compress(Codec.SNAPPY, b"") + (pack(">i", len(block)) + block) * 5000
    assert decompress(Codec.SNAPPY, packed) == bytes(1024 * 5000)


def test_zstd_larger_than_one_chunk_is_decompressed():
    source = SOURCE * 9
    for packed in (zstd_frame(source), zstandard.compress(source)):
        assert decompress(Codec.ZSTD, packed, max_bytes=len(source)) == source
        with pytest.raises(CorruptMessage):
            decompress(Codec.ZSTD, packed, max_bytes=len(source) - 1)


@pytest.mark.parametrize(
    ("codec", "level"),
    [(codec, level) for codec in Codec for level in (*LEVELS[codec][:2], *LEVELS[codec][-2:])],
)
def test_every_compression_level_of_kip_390_is_supported(codec, level):
    assert decompress(codec, compress(codec, SOURCE, level=level)) == SOURCE


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.NONE, 1),
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.GZIP, -2),
        (Codec.SNAPPY, 1),
        (Codec.LZ4, 0),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
        (Codec.ZSTD, -131_073),
    ],
)
def test_other_compression_levels_are_rejected(codec, level):
    with pytest.raises(EncodeError, match=f"level: {codec.name} has no level {level}"):
        compress(codec, b"", level=level)


def test_low_bits_of_the_attributes_are_the_codec():
    assert [codec_of(0xF8 | number) for number in range(5)] == list(Codec)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec_is_a_corrupt_message(number):
    with pytest.raises(CorruptMessage, match=f"unknown codec {number}"):
        codec_of(number)


def test_consecutive_gzip_members_are_decompressed():
    packed = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(SOURCE)
    assert decompress(Codec.GZIP, packed) == b"one " + SOURCE


def test_gzip_larger_than_one_chunk_is_decompressed():
    source = random.Random(0).randbytes(200_000)
    packed = compress(Codec.GZIP, source)
    assert len(packed) > compression._GZIP_CHUNK_BYTES
    assert decompress(Codec.GZIP, packed) == source


def test_too_many_gzip_members_are_rejected():
    with pytest.raises(CorruptMessage, match="members"):
        decompress(Codec.GZIP, gzip.compress(b"") * (compression.GZIP_MEMBERS_MAX + 1))


def test_wrong_gzip_checksum_is_rejected():
    packed = bytearray(compress(Codec.GZIP, b"abc"))
    packed[-8] ^= 1
    with pytest.raises(CorruptMessage):
        decompress(Codec.GZIP, packed)


def test_lz4_frame_header_is_that_of_kafka():
    packed = compress(Codec.LZ4, SOURCE)
    version_1_with_independent_blocks, blocks_of_64_kilobytes = 0x60, 0x40
    assert packed[:4].hex() == "04224d18"
    assert packed[4] == version_1_with_independent_blocks
    assert packed[5] == blocks_of_64_kilobytes


def test_lz4_with_linked_blocks_is_rejected_as_in_kafka():
    linked = lz4.frame.compress(SOURCE, block_linked=True)
    with pytest.raises(CorruptMessage, match="flags"):
        decompress(Codec.LZ4, linked)


def test_lz4_with_checksums_and_sizes_is_read():
    packed = lz4.frame.compress(
        SOURCE, block_linked=False, content_checksum=True, block_checksum=True, store_size=True
    )
    assert decompress(Codec.LZ4, packed) == SOURCE


def test_lz4_larger_than_one_chunk_is_decompressed():
    assert decompress(Codec.LZ4, compress(Codec.LZ4, SOURCE * 9)) == SOURCE * 9


def test_second_lz4_frame_is_rejected():
    with pytest.raises(CorruptMessage, match="after the frame"):
        decompress(Codec.LZ4, compress(Codec.LZ4, b"one") + compress(Codec.LZ4, b"two"))


@pytest.mark.parametrize("level", [-5, 1, 3, 9])
def test_zstd_without_a_content_size_is_read(level):
    packed = zstd_frame(SOURCE, level=level)
    assert zstandard.frame_content_size(packed) == -1
    assert decompress(Codec.ZSTD, packed, max_bytes=len(SOURCE)) == SOURCE


def test_zstd_window_of_java_level_22_is_accepted():
    frame = zstd_frame(SOURCE)
    window_of_2_megabytes, window_of_128_megabytes = 0x58, 0x88
    assert frame[5] == window_of_2_megabytes
    widened = frame[:5] + bytes([window_of_128_megabytes]) + frame[6:]
    assert decompress(Codec.ZSTD, widened) == SOURCE


def test_consecutive_zstd_frames_are_decompressed():
    skippable = bytes.fromhex("5f2a4d18 03000000") + b"any"
    packed = zstd_frame(b"one ") + zstd_frame(b"") + skippable + zstandard.compress(SOURCE)
    assert decompress(Codec.ZSTD, packed) == b"one " + SOURCE


def test_zstd_frames_share_the_limit():
    packed = zstandard.compress(bytes(600)) + zstd_frame(bytes(600))
    assert decompress(Codec.ZSTD, packed, max_bytes=1200) == bytes(1200)
    with pytest.raises(CorruptMessage):
        decompress(Codec.ZSTD, packed, max_bytes=1199)
    with pytest.raises(CorruptMessage):
        decompress(Codec.ZSTD, packed, max_bytes=600)


def test_single_byte_in_a_compressed_block_counts_towards_the_limit():
    packed = bytes.fromhex("28b52ffd 00 58 1d0000 097800")
    assert decompress(Codec.ZSTD, packed, max_bytes=1) == b"x"
    with pytest.raises(CorruptMessage, match="more than 0 bytes"):
        decompress(Codec.ZSTD, packed, max_bytes=0)


def test_too_many_zstd_frames_are_rejected():
    with pytest.raises(CorruptMessage, match="frames"):
        decompress(Codec.ZSTD, zstandard.compress(b"") * (zstd.FRAMES_MAX + 1))


def test_zstd_checksum_is_verified():
    packed = zstd_frame(SOURCE, write_checksum=True)
    assert decompress(Codec.ZSTD, packed + packed) == SOURCE * 2
    with pytest.raises(CorruptMessage):
        decompress(Codec.ZSTD, packed[:-1] + bytes([packed[-1] ^ 1]))


@pytest.mark.parametrize("claimed_size", [11, 9, 2**20])
def test_zstd_frame_with_a_wrong_content_size_is_rejected(claimed_size):
    packed = bytearray(zstandard.ZstdCompressor(write_content_size=True).compress(b"0123456789"))
    assert packed[4] == 0x20  # The content size is in one byte.
    frame_with_wrong_size = packed[:4] + b"\xa0" + pack("<I", claimed_size) + packed[6:]
    with pytest.raises(CorruptMessage):
        decompress(Codec.ZSTD, frame_with_wrong_size)


def test_threads_compress_and_decompress_concurrently():
    sources = [
        bytes([number]) * 300_000 + random.Random(number).randbytes(300_000) for number in range(8)
    ]

    def round_trip(source):
        packed = compress(Codec.ZSTD, source)
        return bytes(decompress(Codec.ZSTD, packed, max_bytes=1_000_000))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(round_trip, sources * 5)) == sources * 5


def test_damaged_batch_does_not_affect_the_next():
    packed = compress(Codec.ZSTD, random.Random(0).randbytes(1000) * 50)
    for position in range(12, len(packed), 7):
        damaged = bytearray(packed)
        damaged[position] ^= 0x55
        with suppress(CorruptMessage):
            decompress(Codec.ZSTD, damaged, max_bytes=100_000)
        assert len(decompress(Codec.ZSTD, packed, max_bytes=100_000)) == 50_000
