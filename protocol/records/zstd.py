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
"""

import struct
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.blocks import blocks_max
from odradek.protocol.varint import Buffer

# Clients write one; each takes 30 us to open, and an empty one has nine bytes.
FRAMES_MAX = 1000

_DEFAULT_LEVEL = 3
_SKIPPABLE_MAGIC = 0x184D2A50  # its last four bits may have any value
_BLOCK_HEADER = struct.Struct("<HB")
_BLOCK_BYTES_MAX = 128 * 1024
_CHECKSUM_BYTES = 4
_CHUNK_BYTES = 1024 * 1024  # the library sets aside as much as it may return
_RAW, _REPEATED, _COMPRESSED = range(3)


class _Frame(NamedTuple):
    end: int
    content_bytes_max: int | None  # None for a skippable one, which has no content
    block_count: int


def compress(source: Buffer, *, level: int | None = None) -> bytes:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=_DEFAULT_LEVEL if level is None else level).compress(source)


def decompress(source: Buffer, *, max_bytes: int) -> bytes:
    view = memoryview(source)
    unpacked: list[bytes] = []
    room = max_bytes
    # A block that repeats a byte has four bytes, and may well be full.
    blocks_left = blocks_max(len(view)) + max_bytes // _BLOCK_BYTES_MAX
    position = 0
    for _ in range(FRAMES_MAX):
        frame = _frame_at(view, position, blocks_left)
        if frame.content_bytes_max is not None:
            content = _unpacked(view[position : frame.end], frame.content_bytes_max, room)
            room -= len(content)
            unpacked.append(content)
        blocks_left -= frame.block_count
        position = frame.end
        if position == len(view):
            return unpacked[0] if len(unpacked) == 1 else b"".join(unpacked)
    raise CorruptMessage(f"ZSTD: more than {FRAMES_MAX} frames")


def _unpacked(frame: memoryview, content_bytes_max: int, room: int) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError, frame_content_size

    claimed = frame_content_size(frame)  # -1 if it does not say
    limit = min(content_bytes_max, room)
    if claimed > limit:
        raise CorruptMessage(f"ZSTD: a frame of {claimed} bytes, with room for {room}")
    chunks: list[bytes] = []
    reader = ZstdDecompressor().stream_reader(frame)
    try:
        while chunk := reader.read(min(limit + 1, _CHUNK_BYTES)):
            limit -= len(chunk)
            if limit < 0:
                raise CorruptMessage(f"ZSTD: more than {room} bytes")
            chunks.append(chunk)
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: {error}") from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _frame_at(view: memoryview, position: int, blocks_left: int) -> _Frame:
    magic = int.from_bytes(view[position : position + 4], "little")
    if magic & ~0xF == _SKIPPABLE_MAGIC:
        size = int.from_bytes(view[position + 4 : position + 8], "little")
        frame = _Frame(end=position + 8 + size, content_bytes_max=None, block_count=0)
    else:
        frame = _frame_of_blocks(view, position, blocks_left)
    if frame.end > len(view):
        raise CorruptMessage("ZSTD: cut short")
    return frame


def _frame_of_blocks(view: memoryview, position: int, blocks_left: int) -> _Frame:
    position, has_checksum = _read_frame_header(view, position)
    content_bytes_max = 0
    for block_count in range(1, blocks_left + 1):
        try:
            low, high = _BLOCK_HEADER.unpack_from(view, position)
        except struct.error as error:
            raise CorruptMessage("ZSTD: cut short") from error
        kind, size = low >> 1 & 3, high << 13 | low >> 3
        position += _BLOCK_HEADER.size + (1 if kind == _REPEATED else size)
        content_bytes_max += _BLOCK_BYTES_MAX if kind == _COMPRESSED else size
        if low & 1:
            end = position + (_CHECKSUM_BYTES if has_checksum else 0)
            return _Frame(end, content_bytes_max, block_count)
    raise CorruptMessage(f"ZSTD: too many blocks in {len(view)} bytes")


def _read_frame_header(view: memoryview, position: int) -> tuple[int, bool]:
    """The position of the first block, and whether a checksum follows the last."""
    from zstandard import ZstdError, frame_header_size, get_frame_parameters

    try:
        has_checksum = get_frame_parameters(view[position:]).has_checksum
        return position + frame_header_size(view[position:]), has_checksum
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: {error}") from error
