"""Short ways to write messages of magic 0 and 1, right and wrong."""

import zlib
from struct import pack

from odradek.protocol.records.compression import Codec, compress
from odradek.protocol.records.legacy_lz4 import with_broken_checksum

FORMATS = [
    (magic, codec)
    for magic in (0, 1)
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
]
FORMAT_NAMES = [f"magic {magic} {codec.name}" for magic, codec in FORMATS]


def message(
    magic: int,
    value: bytes | None,
    *,
    offset: int = 0,
    key: bytes | None = None,
    attributes: int = 0,
    timestamp: int = 0,
) -> bytes:
    """A message whose length and checksum are right, whatever else it says."""
    return message_around(
        magic, nullable(key) + nullable(value), attributes, offset=offset, timestamp=timestamp
    )


def message_around(
    magic: int, rest: bytes, attributes: int = 0, *, offset: int = 0, timestamp: int = 0
) -> bytes:
    """A message with ``rest`` in the place of key and value."""
    checked = pack(">bb", magic, attributes)
    if magic == 1:
        checked += pack(">q", timestamp)
    checked += rest
    return pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def wrapper(magic: int, inner: bytes, *, codec: Codec = Codec.GZIP, offset: int = 0) -> bytes:
    """A wrapper around ``inner``, whatever that is."""
    packed = compress(codec, inner)
    if magic == 0 and codec is Codec.LZ4:
        packed = with_broken_checksum(packed)
    return message(magic, packed, attributes=codec, offset=offset)


def nullable(content: bytes | None) -> bytes:
    return pack(">i", -1) if content is None else pack(">i", len(content)) + content
