"""CRC-32C, the checksum of magic 2: from the crc32c wheel, or from crcmod if it is not installed.

Both return the same result. The wheel uses the processor's instruction and is about fifty times as
fast.
"""

from collections.abc import Callable

from odradek.protocol.varint import Buffer

Checksum = Callable[[Buffer, int], int]


def crc32c(buffer: Buffer, value: int = 0) -> int:
    """Compute the checksum; ``value`` is the checksum of the preceding bytes, if any."""
    return checksum_function()(buffer, value)


def checksum_function() -> Checksum:
    """Return the function itself, for callers that use it very often."""
    return _checksum_function or _select_checksum_function()


_checksum_function: Checksum | None = None


def _select_checksum_function() -> Checksum:
    # On first use, not at import: the wheel reads its own package metadata, which takes 50 ms.
    global _checksum_function
    try:
        _checksum_function = _from_wheel()
    except ImportError:
        _checksum_function = _from_crcmod()
    return _checksum_function


def _from_wheel() -> Checksum:
    from crc32c import crc32c as checksum

    return checksum


def _from_crcmod() -> Checksum:
    from crcmod.predefined import mkPredefinedCrcFun

    checksum: Checksum = mkPredefinedCrcFun("crc-32c")
    return checksum
