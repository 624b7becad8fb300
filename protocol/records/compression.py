"""The codecs of record batches in one table. Kafka: CompressionType, Compression.

Compressed bytes are written as Kafka's Java clients write them, and read strictly: truncated or
damaged bytes, trailing bytes and bytes of another codec raise CorruptMessage.  Kafka's own readers
ignore bytes after a gzip member (unless they are another member), after an LZ4 frame, and up to
three bytes after snappy; no client is known to send any.

    gzip     RFC 1952, one member or several
    snappy   blocks in xerial's frame, or one block without a frame
    lz4      one frame of independent blocks, as Kafka's own reader requires
    zstd     one frame or several, with or without their content size

Invariant: at most ``max_bytes`` are decompressed, whatever size the source declares.
Invariant: a source of many tiny members, frames or blocks is rejected: each costs time, not bytes.
Owner: none; any thread.
"""

import zlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage, EncodeError
from odradek.protocol.records import snappy, zstd
from odradek.protocol.varint import Buffer

# The default of socket.request.max.bytes, the limit of a whole request.
DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024

# Clients write one member. Each takes 7 us to open, and an empty one has 20 bytes.
GZIP_MEMBERS_MAX = 1000


class Codec(IntEnum):
    """The compression type: bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_BY_ID = tuple(Codec)


def codec_of(attributes: int) -> Codec:
    """Return the codec of a batch's attributes."""
    try:
        return _BY_ID[attributes & 7]
    except IndexError:
        raise CorruptMessage(f"unknown codec {attributes & 7}") from None


def compress(codec: Codec, source: Buffer, *, level: int | None = None) -> bytes:
    """Compress; ``level`` is one of the codec's ``LEVELS``, None is its default."""
    check_level(codec, level)
    return _CODEC_FUNCTIONS[codec].compress(source, level)


def check_level(codec: Codec, level: int | None) -> None:
    if level is not None and level not in LEVELS[codec]:
        raise EncodeError(f"level: {codec.name} has no level {level}")


def decompress(codec: Codec, source: Buffer, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompress all of ``source``; raises CorruptMessage if that is more than ``max_bytes``."""
    return _CODEC_FUNCTIONS[codec].decompress(source, max_bytes)


#: The levels of KIP-390.
LEVELS: dict[Codec, Sequence[int]] = {
    Codec.NONE: (),
    Codec.GZIP: (-1, *range(1, 10)),
    Codec.SNAPPY: (),
    Codec.LZ4: range(1, 18),
    Codec.ZSTD: range(-131072, 23),
}


class _CodecFunctions(NamedTuple):
    compress: Callable[[Buffer, int | None], bytes]
    decompress: Callable[[Buffer, int], bytes]


def _too_large_error(codec: Codec, max_bytes: int) -> CorruptMessage:
    return CorruptMessage(f"{codec.name}: decompresses to more than {max_bytes} bytes")


def _truncated_error(codec: Codec) -> CorruptMessage:
    return CorruptMessage(f"{codec.name}: truncated")


def _copy(source: Buffer, level: int | None) -> bytes:
    return bytes(source)


def _bounded_copy(source: Buffer, max_bytes: int) -> bytes:
    if len(source) > max_bytes:
        raise _too_large_error(Codec.NONE, max_bytes)
    return bytes(source)


_GZIP_WINDOW = 31  # zlib's code for the largest window, in gzip format
_GZIP_CHUNK_BYTES = 64 * 1024  # fed in chunks, because zlib copies all bytes after a member


def _gzip(source: Buffer, level: int | None) -> bytes:
    return zlib.compress(source, -1 if level is None else level, _GZIP_WINDOW)


def _gunzip(source: Buffer, max_bytes: int) -> bytes:
    view = memoryview(source)
    unpacked: list[bytes] = []
    room = max_bytes
    position = 0
    for _ in range(GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof:
            chunk = view[position : position + _GZIP_CHUNK_BYTES]
            if not chunk:
                raise _truncated_error(Codec.GZIP)
            try:
                unpacked.append(member.decompress(chunk, room + 1))
            except zlib.error as error:
                raise CorruptMessage(f"GZIP: {error}") from error
            room -= len(unpacked[-1])
            if room < 0:
                raise _too_large_error(Codec.GZIP, max_bytes)
            position += len(chunk) - len(member.unused_data)
        if position == len(view):
            return unpacked[0] if len(unpacked) == 1 else b"".join(unpacked)
    raise CorruptMessage(f"GZIP: more than {GZIP_MEMBERS_MAX} members")


def _snappy(source: Buffer, level: int | None) -> bytes:
    return snappy.compress(source)


def _unsnappy(source: Buffer, max_bytes: int) -> bytes:
    return snappy.decompress(source, max_bytes=max_bytes)


_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CHUNK_BYTES = 1024 * 1024
_LZ4_FAST_LEVEL = 9  # at this level Kafka uses the fast compressor instead of LZ4 HC
_LZ4_HC_LEVELS = (3, 12)  # the library's lowest and highest LZ4 HC level


def _lz4(source: Buffer, level: int | None) -> bytes:
    import lz4.frame

    lowest, highest = _LZ4_HC_LEVELS
    packed: bytes = lz4.frame.compress(
        source,
        compression_level=0
        if level in (None, _LZ4_FAST_LEVEL)
        else min(max(level, lowest), highest),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _unlz4(source: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    _check_lz4_header(source)
    frame = lz4.frame.LZ4FrameDecompressor()
    unpacked: list[bytes] = []
    room = max_bytes
    while not frame.eof:
        # The library allocates max_length at once.
        try:
            chunk = frame.decompress(
                b"" if unpacked else source, max_length=min(room + 1, _LZ4_CHUNK_BYTES)
            )
        except RuntimeError as error:
            raise CorruptMessage(f"LZ4: {error}") from error
        if not chunk and not frame.eof:
            raise _truncated_error(Codec.LZ4)
        room -= len(chunk)
        if room < 0:
            raise _too_large_error(Codec.LZ4, max_bytes)
        unpacked.append(chunk)
    if frame.unused_data:
        raise CorruptMessage(f"LZ4: {len(frame.unused_data)} bytes after the frame")
    return unpacked[0] if len(unpacked) == 1 else b"".join(unpacked)


def _check_lz4_header(source: Buffer) -> None:
    if len(source) < 7:
        raise _truncated_error(Codec.LZ4)
    if source[:4] != _LZ4_MAGIC:
        raise CorruptMessage("LZ4: not a frame")
    # Kafka's reader, also in Java clients, requires version 1, independent blocks, no dictionary.
    if source[4] & 0b1110_0011 != 0b0110_0000:
        raise CorruptMessage(f"LZ4: frame flags {source[4]:#04x} are not supported by Kafka")


def _zstd(source: Buffer, level: int | None) -> bytes:
    return zstd.compress(source, level=level)


def _unzstd(source: Buffer, max_bytes: int) -> bytes:
    return zstd.decompress(source, max_bytes=max_bytes)


_CODEC_FUNCTIONS: dict[Codec, _CodecFunctions] = {
    Codec.NONE: _CodecFunctions(_copy, _bounded_copy),
    Codec.GZIP: _CodecFunctions(_gzip, _gunzip),
    Codec.SNAPPY: _CodecFunctions(_snappy, _unsnappy),
    Codec.LZ4: _CodecFunctions(_lz4, _unlz4),
    Codec.ZSTD: _CodecFunctions(_zstd, _unzstd),
}
