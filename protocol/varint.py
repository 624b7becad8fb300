"""Variable-length integers: seven bits per byte, lowest first; a set top bit means more bytes.

    unsigned varint   0 .. 2^32-1   up to 5 bytes
    varint            int32         up to 5 bytes    zig-zag: 0, -1, 1, -2 become 0, 1, 2, 3
    varlong           int64         up to 10 bytes   zig-zag

A reader takes a buffer and a position, and returns the value and the position after it.  As in
Kafka, an encoding may be longer than necessary, and excess bits in the last allowed byte are
dropped; an encoding with more bytes than allowed is rejected.

The record formats use these functions; the generated message code reads its own lengths.
"""

from odradek.protocol.errors import DecodeError

Buffer = bytes | bytearray | memoryview

# The shift of each byte after the first.
_VARINT_SHIFTS = (7, 14, 21, 28)
_VARLONG_SHIFTS = (7, 14, 21, 28, 35, 42, 49, 56, 63)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    value, position = _read(buffer, position, _VARINT_SHIFTS)
    return value & 0xFFFF_FFFF, position


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    value, position = _read(buffer, position, _VARINT_SHIFTS)
    return (value & 0xFFFF_FFFF) >> 1 ^ -(value & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    value, position = _read(buffer, position, _VARLONG_SHIFTS)
    return (value & 0xFFFF_FFFF_FFFF_FFFF) >> 1 ^ -(value & 1), position


def unsigned_varint(value: int) -> bytes:
    """``value`` must not be negative."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varlong(value: int) -> bytes:
    """Encode zig-zag; an int32 has the same bytes as a varint and as a varlong."""
    return unsigned_varint(value << 1 ^ value >> 63)


varint = varlong


def size_of_varlong(value: int) -> int:
    """Return the number of bytes of ``varlong(value)``."""
    return ((value << 1 ^ value >> 63).bit_length() + 6) // 7 or 1


size_of_varint = size_of_varlong


def _read(buffer: Buffer, position: int, shifts: tuple[int, ...]) -> tuple[int, int]:
    try:
        value = buffer[position]
        if value < 0x80:
            return value, position + 1
        value &= 0x7F
        for shift in shifts:
            position += 1
            byte = buffer[position]
            if byte < 0x80:
                return value | byte << shift, position + 1
            value |= (byte & 0x7F) << shift
    except IndexError:
        raise DecodeError(f"truncated varint: no byte at position {position}") from None
    raise DecodeError(f"a varint has more than {len(shifts) + 1} bytes at position {position}")
