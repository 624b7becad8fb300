"""Zstandard frames: one or several, unpacked into no more room than is allowed.

Kafka's Java clients write one frame that does not say how much it holds, so it is unpacked piece by
piece.  The library is silent when its source ends inside a frame; so the blocks are walked over
first.  A frame (RFC 8878) is a header, its blocks, and four bytes if it has a checksum; a block
begins with three bytes, little-endian: bit 0 the last one, bits 1-2 its kind, then its size.

    0  raw          ``size`` bytes follow, and are the content
    1  repeated     one byte follows, and stands for ``size`` of them
    2  compressed   ``size`` bytes follow, for at most 128 KB of content

Skippable frames, which may hold anything, are passed over, as the Java reader does.

What is set aside follows the content as it appears.  The library alone reserves, at once, the
window that a frame asks for, up to 128 MB; memory is taken only where something is written to it.

Making a compressor or a decompressor takes ten times as long as a small batch takes with it, so
they are used again.  None may be used by two threads at a time: whoever needs one takes it out of
the list of idle ones, which is one step, and puts it back if nothing went wrong.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.block_limit import blocks_max
from odradek.protocol.varint import Buffer

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

# Clients write one; each takes 30 us to open, and an empty one has nine bytes.
FRAMES_MAX = 1000

_DEFAULT_LEVEL = 3
_SKIPPABLE_MAGIC = 0x184D2A50  # its last four bits may have any value
_BLOCK_HEADER = struct.Struct("<HB")
_BLOCK_BYTES_MAX = 128 * 1024
_CHECKSUM_BYTES = 4
_CHUNK_BYTES = 1024 * 1024  # the library sets aside as much as it may return
_RAW, _RLE, _COMPRESSED = range(3)

#: The largest window whose memory is worth keeping; the usual levels have 2 MB.
_REUSED_WINDOW_BYTES_MAX = 8 * 1024 * 1024
_idle_compressors: dict[int, list[ZstdCompressor]] = {}
_idle_decompressors: list[ZstdDecompressor] = []


class _Frame(NamedTuple):
    end: int
    content_bytes_max: int | None  # None for a skippable one, which has no content
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
    # A block that repeats a byte has four bytes, and may well be full.
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

    content_bytes = frame_content_size(source)  # -1 if it does not say
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
        raise CorruptMessage("ZSTD: cut short")
    return frame


def _parse_block_frame(view: memoryview, position: int, blocks_left: int) -> _Frame:
    position, has_checksum, window_bytes = _read_frame_header(view, position)
    content_bytes_max = 0
    for block_count in range(1, blocks_left + 1):
        try:
            low, high = _BLOCK_HEADER.unpack_from(view, position)
        except struct.error as error:
            raise CorruptMessage("ZSTD: cut short") from error
        block_type, size = low >> 1 & 3, high << 13 | low >> 3
        position += _BLOCK_HEADER.size + (1 if block_type == _RLE else size)
        content_bytes_max += _BLOCK_BYTES_MAX if block_type == _COMPRESSED else size
        if low & 1:
            end = position + (_CHECKSUM_BYTES if has_checksum else 0)
            return _Frame(end, content_bytes_max, block_count, window_bytes)
    raise CorruptMessage(f"ZSTD: too many blocks in {len(view)} bytes")


def _read_frame_header(view: memoryview, position: int) -> tuple[int, bool, int]:
    """The position of the first block, whether a checksum follows the last, and the window."""
    from zstandard import ZstdError, frame_header_size, get_frame_parameters

    try:
        parameters = get_frame_parameters(view[position:])
        blocks = position + frame_header_size(view[position:])
        return blocks, parameters.has_checksum, parameters.window_size
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: {error}") from error
