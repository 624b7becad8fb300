"""The LZ4 frames of magic 0, whose header checksum covers the wrong bytes. Kafka: KafkaLZ4*Stream.

    frame magic     04 22 4d 18
    flags           bit 3: the content size is present
    block size
    content size    8 bytes, if flagged
    checksum        the second byte of the XXH32 of the preceding bytes

The checksum should cover the bytes from the flags on. Kafka's first implementation also covered the
frame magic, and magic 0 has been written this way ever since.  Readers of magic 0 ignore the
checksum, because some clients wrote the correct one.
"""

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.varint import Buffer

_FLAGS_POSITION = 4
_CONTENT_SIZE_FLAG = 0b1000
_CHECKSUM_POSITION = 6


def with_broken_checksum(frame: bytes) -> bytes:
    """Return the frame as magic 0 stores it."""
    position = _checksum_position(frame)
    return frame[:position] + _checksum_byte(frame[:position]) + frame[position + 1 :]


def with_correct_checksum(frame: Buffer) -> bytes:
    """Return the frame with the standard checksum, whichever checksum it has."""
    position = _checksum_position(frame)
    header = bytes(frame[:position])
    return b"".join((header, _checksum_byte(header[_FLAGS_POSITION:]), frame[position + 1 :]))


def _checksum_position(frame: Buffer) -> int:
    if len(frame) <= _CHECKSUM_POSITION:
        raise CorruptMessage("LZ4: truncated header")
    position = _CHECKSUM_POSITION + (8 if frame[_FLAGS_POSITION] & _CONTENT_SIZE_FLAG else 0)
    if len(frame) <= position:
        raise CorruptMessage("LZ4: truncated header")
    return position


def _checksum_byte(header: bytes) -> bytes:
    return bytes((xxh32(header) >> 8 & 0xFF,))


_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_SHORT_BYTES_MAX = 15


def xxh32(source: bytes) -> int:
    """XXH32 with seed 0, of fewer than 16 bytes: a header is never longer."""
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
