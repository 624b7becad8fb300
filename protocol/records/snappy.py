"""The frame that Kafka's Java clients put around snappy blocks, known as xerial's format.

    magic            82 53 4e 41 50 50 59 00
    version          int32   1
    compatible with  int32   1
    blocks                   each: size int32, one raw snappy block of at most 32 KB of source

Other clients send one raw block without a frame; it is recognised by the missing magic.  A raw
block begins with its uncompressed length, an unsigned varint, so the length is known before
decompression.
"""

from collections.abc import Iterator
from struct import Struct

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.block_limit import blocks_max
from odradek.protocol.varint import Buffer, read_unsigned_varint

MAGIC = b"\x82SNAPPY\0"
BLOCK_BYTES = 32 * 1024

_HEADER = MAGIC + Struct(">ii").pack(1, 1)
_SIZE = Struct(">i")

# The densest element of a block is a copy: three bytes that expand to 64.
_EXPANSION_MAX = 64


def compress(source: Buffer) -> bytes:
    import snappy

    view = memoryview(source)
    parts = [_HEADER]
    for start in range(0, len(view), BLOCK_BYTES):
        block = snappy.compress(view[start : start + BLOCK_BYTES])
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def decompress(source: Buffer, *, max_bytes: int) -> bytes:
    import snappy

    blocks: list[bytes] = []
    room = max_bytes
    limit = blocks_max(len(source))
    for block in _iter_blocks(memoryview(source)):
        if len(blocks) == limit:
            raise CorruptMessage(f"snappy: too many blocks in {len(source)} bytes")
        room -= _uncompressed_length(block)
        if room < 0:
            raise CorruptMessage(f"snappy: decompresses to more than {max_bytes} bytes")
        try:
            blocks.append(snappy.uncompress(block))
        except snappy.UncompressError as error:
            raise CorruptMessage("snappy: a damaged block") from error
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _iter_blocks(view: memoryview) -> Iterator[memoryview]:
    if view[: len(MAGIC)] != MAGIC:
        yield view
        return
    position = _end_of_header(view, 0)
    while position < len(view):
        # Frames may follow each other. Read as a block size, the magic would be negative.
        if view[position : position + len(MAGIC)] == MAGIC:
            position = _end_of_header(view, position)
            continue
        start = position + _SIZE.size
        if start > len(view):
            raise CorruptMessage("snappy: truncated before a block")
        position = start + _SIZE.unpack_from(view, position)[0]
        if not start < position <= len(view):
            raise CorruptMessage(f"snappy: invalid block size {position - start}")
        yield view[start:position]


def _end_of_header(view: memoryview, position: int) -> int:
    """Return the position after a header; its versions are ignored, as in the Java reader."""
    end = position + len(_HEADER)
    if end > len(view):
        raise CorruptMessage("snappy: truncated header")
    return end


def _uncompressed_length(block: memoryview) -> int:
    """Return the uncompressed length that the block declares; it must be plausible for its size."""
    try:
        length, start = read_unsigned_varint(block, 0)
    except DecodeError as error:
        raise CorruptMessage("snappy: no length before a block") from error
    if length > _EXPANSION_MAX * (len(block) - start):
        raise CorruptMessage(f"snappy: {len(block)} bytes cannot hold {length}")
    return length
