"""Zstandard frames: one or several, decompressed within a size limit.

Kafka's Java clients write one frame without its content size, so it is decompressed in chunks.  The
library does not raise if its source ends inside a frame; therefore this module walks over the
blocks first.  A frame (RFC 8878) is a header, its blocks, and four bytes if it has a checksum; a
block begins with three bytes, little-endian: bit 0 the last block, bits 1-2 the block type, then
the size.

    0  raw          ``size`` bytes follow, which are the content
    1  repeated     one byte follows, which is repeated ``size`` times
    2  compressed   ``size`` bytes follow, for at most 128 KB of content

Skippable frames, which may hold anything, are ignored, as in the Java reader.

Output buffers grow with the content.  Only the library allocates at once: the window that a frame
declares, up to 128 MB; the operating system commits that memory only as it is written.

Creating a compressor or a decompressor takes ten times as long as processing a small batch, so they
are reused.  Two threads must not use one at the same time: a caller pops one from the list of idle
ones, which is atomic, and puts it back if no error occurred.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.block_limit import blocks_max
from odradek.protocol.varint import Buffer

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

# Clients write one frame. Each takes 30 us to open, and an empty one has nine bytes.
FRAMES_MAX = 1000

_DEFAULT_LEVEL = 3
_SKIPPABLE_MAGIC = 0x184D2A50  # its last four bits may be anything
_BLOCK_HEADER = struct.Struct("<HB")
_BLOCK_BYTES_MAX = 128 * 1024
_CHECKSUM_BYTES = 4
_CHUNK_BYTES = 1024 * 1024  # the library allocates the maximum size of a chunk at once
_RAW, _RLE, _COMPRESSED = range(3)

#: Decompressors with a larger window are not reused; the usual levels have 2 MB.
_REUSED_WINDOW_BYTES_MAX = 8 * 1024 * 1024
_idle_compressors: dict[int, list[ZstdCompressor]] = {}
_idle_decompressors: list[ZstdDecompressor] = []


class _Frame(NamedTuple):
    end: int
    content_bytes_max: int | None  # None for a skippable frame, which has no content
    block_count: int
    window_bytes: int


def compress(source: Buffer, *, level: int | None = None) -> bytes:
    level = _DEFAULT_LEVEL if level is None else level
    idle = _idle_compressors.setdefault(level, [])
    compressor = _take_compressor(idle, level)
    compressed = compressor.compress(source)
    idle.append(compressor)
    return compressed


def _take_compressor(idle: list[ZstdCompressor], level: int) -> ZstdCompressor:
    try:
        return idle.pop()
    except IndexError:
        from zstandard import ZstdCompressor

        return ZstdCompressor(level=level)


def _take_decompressor() -> ZstdDecompressor:
    try:
        return _idle_decompressors.pop()
    except IndexError:
        from zstandard import ZstdDecompressor

        return ZstdDecompressor()


def decompress(source: Buffer, *, max_bytes: int) -> bytes:
    view = memoryview(source)
    unpacked: list[bytes] = []
    room = max_bytes
    # A block that repeats a byte has only four bytes, but may hold a full block of content.
    blocks_left = blocks_max(len(view)) + max_bytes // _BLOCK_BYTES_MAX
    position = 0
    for _ in range(FRAMES_MAX):
        frame = _parse_frame(view, position, blocks_left)
        if frame.content_bytes_max is not None:
            content = _decompress_frame(
                view[position : frame.end], frame, min(frame.content_bytes_max, room)
            )
            room -= len(content)
            unpacked.append(content)
        blocks_left -= frame.block_count
        position = frame.end
        if position == len(view):
            return unpacked[0] if len(unpacked) == 1 else b"".join(unpacked)
    raise CorruptMessage(f"ZSTD: more than {FRAMES_MAX} frames")


def _decompress_frame(source: memoryview, frame: _Frame, limit: int) -> bytes:
    from zstandard import ZstdError, frame_content_size

    content_bytes = frame_content_size(source)  # -1 if the frame does not declare it
    if content_bytes > limit:
        raise CorruptMessage(f"ZSTD: a frame of {content_bytes} bytes exceeds the limit of {limit}")
    chunks: list[bytes] = []
    room = limit
    decompressor = _take_decompressor()
    try:
        with decompressor.stream_reader(source) as reader:
            while chunk := reader.read(min(room + 1, _CHUNK_BYTES)):
                room -= len(chunk)
                if room < 0:
                    raise CorruptMessage(f"ZSTD: decompresses to more than {limit} bytes")
                chunks.append(chunk)
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: {error}") from error
    if frame.window_bytes <= _REUSED_WINDOW_BYTES_MAX:
        _idle_decompressors.append(decompressor)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _parse_frame(view: memoryview, position: int, blocks_left: int) -> _Frame:
    magic = int.from_bytes(view[position : position + 4], "little")
    if magic & ~0xF == _SKIPPABLE_MAGIC:
        size = int.from_bytes(view[position + 4 : position + 8], "little")
        frame = _Frame(position + 8 + size, content_bytes_max=None, block_count=0, window_bytes=0)
    else:
        frame = _parse_block_frame(view, position, blocks_left)
    if frame.end > len(view):
        raise CorruptMessage("ZSTD: truncated")
    return frame


def _parse_block_frame(view: memoryview, position: int, blocks_left: int) -> _Frame:
    position, has_checksum, window_bytes = _read_frame_header(view, position)
    content_bytes_max = 0
    for block_count in range(1, blocks_left + 1):
        try:
            low, high = _BLOCK_HEADER.unpack_from(view, position)
        except struct.error as error:
            raise CorruptMessage("ZSTD: truncated") from error
        block_type, size = low >> 1 & 3, high << 13 | low >> 3
        position += _BLOCK_HEADER.size + (1 if block_type == _RLE else size)
        content_bytes_max += _BLOCK_BYTES_MAX if block_type == _COMPRESSED else size
        if low & 1:
            end = position + (_CHECKSUM_BYTES if has_checksum else 0)
            return _Frame(end, content_bytes_max, block_count, window_bytes)
    raise CorruptMessage(f"ZSTD: too many blocks in {len(view)} bytes")


def _read_frame_header(view: memoryview, position: int) -> tuple[int, bool, int]:
    """Return the position of the first block, whether a checksum follows, and the window size."""
    from zstandard import ZstdError, frame_header_size, get_frame_parameters

    try:
        parameters = get_frame_parameters(view[position:])
        blocks = position + frame_header_size(view[position:])
        return blocks, parameters.has_checksum, parameters.window_size
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: {error}") from error
