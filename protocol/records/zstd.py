"""Zstandard frames: one or several, unpacked into no more room than is allowed.

Kafka's Java clients write one frame that does not say how much it holds.  The library would set
aside all that is allowed for it, and is silent when a stream ends inside a frame; so its blocks are
counted first.  A frame (RFC 8878) is a header, its blocks, and four bytes if it has a checksum; a
block begins with three bytes, little-endian: bit 0 the last one, bits 1-2 its kind, then its size.

    0  raw          ``size`` bytes follow, and are the content
    1  repeated     one byte follows, and stands for ``size`` of them
    2  compressed   ``size`` bytes follow, for at most 128 KB of content

Skippable frames, which may hold anything, are passed over, as the Java reader does.
"""

from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.varint import Buffer

# Clients write one; each takes 30 us to open, and an empty one has nine bytes.
FRAMES_MAX = 1000

_DEFAULT_LEVEL = 3
_SKIPPABLE_MAGIC = 0x184D2A50  # its last four bits may have any value
_BLOCK_HEADER_BYTES = 3
_BLOCK_BYTES_MAX = 128 * 1024
_CHECKSUM_BYTES = 4
_RAW, _REPEATED, _COMPRESSED = range(3)


class _Frame(NamedTuple):
    end: int
    content_bytes_max: int | None  # None for a skippable one, which has no content


def compress(source: Buffer, *, level: int | None = None) -> bytes:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=_DEFAULT_LEVEL if level is None else level).compress(source)


def decompress(source: Buffer, *, max_bytes: int) -> bytes:
    view = memoryview(source)
    unpacked: list[bytes] = []
    room = max_bytes
    position = 0
    for _ in range(FRAMES_MAX):
        frame = _frame_at(view, position, room)
        if frame.content_bytes_max is not None:
            content = _unpacked(view[position : frame.end], frame.content_bytes_max, room)
            room -= len(content)
            unpacked.append(content)
        position = frame.end
        if position == len(view):
            return unpacked[0] if len(unpacked) == 1 else b"".join(unpacked)
    raise CorruptMessage(f"ZSTD: more than {FRAMES_MAX} frames")


def _unpacked(frame: memoryview, content_bytes_max: int, room: int) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError, frame_content_size

    claimed = frame_content_size(frame)  # -1 if it does not say
    if claimed > min(content_bytes_max, room):
        raise CorruptMessage(f"ZSTD: a frame of {claimed} bytes, with room for {room}")
    capacity = max(1, min(content_bytes_max, room))  # the library takes 0 for "no limit"
    try:
        content = ZstdDecompressor().decompress(frame, max_output_size=capacity)
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: damaged, or more than {room} bytes: {error}") from error
    if len(content) > room:
        raise CorruptMessage(f"ZSTD: more than {room} bytes")
    return content


def _frame_at(view: memoryview, position: int, room: int) -> _Frame:
    magic = int.from_bytes(view[position : position + 4], "little")
    if magic & ~0xF == _SKIPPABLE_MAGIC:
        size = int.from_bytes(view[position + 4 : position + 8], "little")
        frame = _Frame(end=position + 8 + size, content_bytes_max=None)
    else:
        frame = _frame_of_blocks(view, position, room)
    if frame.end > len(view):
        raise CorruptMessage("ZSTD: cut short")
    return frame


def _frame_of_blocks(view: memoryview, position: int, room: int) -> _Frame:
    from zstandard import ZstdError, frame_header_size, get_frame_parameters

    try:
        has_checksum = get_frame_parameters(view[position:]).has_checksum
        position += frame_header_size(view[position:])
    except ZstdError as error:
        raise CorruptMessage(f"ZSTD: {error}") from error
    certain_bytes = compressed_blocks = 0
    is_last = False
    while not is_last:
        header = int.from_bytes(view[position : position + _BLOCK_HEADER_BYTES], "little")
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        position += _BLOCK_HEADER_BYTES + (1 if kind == _REPEATED else size)
        if position > len(view):  # also where the header itself was cut short, and read as shorter
            raise CorruptMessage("ZSTD: cut short")
        if kind == _COMPRESSED:
            compressed_blocks += 1
        else:
            certain_bytes += size
        if certain_bytes > room:
            raise CorruptMessage(f"ZSTD: more than {room} bytes")
    return _Frame(
        end=position + (_CHECKSUM_BYTES if has_checksum else 0),
        content_bytes_max=certain_bytes + compressed_blocks * _BLOCK_BYTES_MAX,
    )
