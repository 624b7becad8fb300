"""The LZ4 frames of magic 0, whose header carries a checksum over the wrong bytes.

    frame magic     04 22 4d 18
    flags           bit 3: the content size is given
    block size
    content size    8 bytes, if flagged
    checksum        the second byte of the XXH32 of what goes before it

The checksum should begin at the flags; Kafka's first implementation began at the frame magic, and
that is how magic 0 has been written ever since.  Readers of magic 0 do not look at it, as some
clients had it right.
"""

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.varint import Buffer

_FLAGS_POSITION = 4
_CONTENT_SIZE_FLAG = 0b1000
_CHECKSUM_POSITION = 6


def with_broken_checksum(frame: bytes) -> bytes:
    """The frame as a reader of magic 0 expects it."""
    position = _checksum_position(frame)
    return frame[:position] + _checksum_byte(frame[:position]) + frame[position + 1 :]


def with_correct_checksum(frame: Buffer) -> bytes:
    """The frame as everybody else reads it, whichever checksum it has."""
    position = _checksum_position(frame)
    header = bytes(frame[:position])
    return b"".join((header, _checksum_byte(header[_FLAGS_POSITION:]), frame[position + 1 :]))


def _checksum_position(frame: Buffer) -> int:
    if len(frame) <= _CHECKSUM_POSITION:
        raise CorruptMessage("LZ4: cut short in its header")
    position = _CHECKSUM_POSITION + (8 if frame[_FLAGS_POSITION] & _CONTENT_SIZE_FLAG else 0)
    if len(frame) <= position:
        raise CorruptMessage("LZ4: cut short in its header")
    return position


def _checksum_byte(header: bytes) -> bytes:
    return bytes((xxh32(header) >> 8 & 0xFF,))


_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_SHORT_BYTES_MAX = 15


def xxh32(source: bytes) -> int:
    """XXH32 with seed 0, of fewer than 16 bytes: more need another loop, and no header has them."""
    assert len(source) <= _SHORT_BYTES_MAX, len(source)
    lanes_end = len(source) & ~3
    value = _PRIMES[4] + len(source)
    for start in range(0, lanes_end, 4):
        lane = int.from_bytes(source[start : start + 4], "little")
        value = _rotate_left(value + lane * _PRIMES[2], 17) * _PRIMES[3]
    for byte in source[lanes_end:]:
        value = _rotate_left(value + byte * _PRIMES[4], 11) * _PRIMES[0]
    return _avalanche(value & 0xFFFFFFFF)


def _rotate_left(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return value << bits | value >> 32 - bits


def _avalanche(value: int) -> int:
    value = (value ^ value >> 15) * _PRIMES[1] & 0xFFFFFFFF
    value = (value ^ value >> 13) * _PRIMES[2] & 0xFFFFFFFF
    return value ^ value >> 16
