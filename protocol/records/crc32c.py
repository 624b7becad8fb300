"""CRC-32C, the checksum of magic 2: by the crc32c wheel, by crcmod where there is none.

The two agree on every input; the wheel, which uses the processor's own instruction for it, is some
fifty times as fast.
"""

from collections.abc import Callable

from odradek.protocol.varint import Buffer

Checksum = Callable[[Buffer, int], int]


def crc32c(buffer: Buffer, value: int = 0) -> int:
    """``value`` is the checksum of what came before, so that parts may be fed in turn."""
    return checksum_function()(buffer, value)


def checksum_function() -> Checksum:
    """The function itself, for whoever calls it very often."""
    return _checksum_function or _select_checksum_function()


_checksum_function: Checksum | None = None


def _select_checksum_function() -> Checksum:
    # At first use, not at import: the wheel reads its own package metadata, which takes 50 ms.
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
