"""Encoding and decoding: the two entry points of the package.

``decode`` is where hostile bytes arrive: whatever they are, they decode or raise ``DecodeError``.
``encode`` is where our own mistakes surface: they raise ``EncodeError``, which names the field.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from odradek.protocol.compiler import decoder, encoder, prefix_decoder
from odradek.protocol.encode_faults import find_fault
from odradek.protocol.errors import EncodeError
from odradek.protocol.file_region import FileRegion
from odradek.protocol.schema import Message

Buffer = bytes | bytearray | memoryview
#: What an encoded message consists of, in order.
Part = Buffer | FileRegion

M = TypeVar("M", bound=Message)


def decode(message: type[M], version: int, frame: Buffer, position: int = 0) -> M:
    """The message that takes up the whole of ``frame`` from ``position`` on.

    Record data in it is a view of ``frame``; everything else is a copy.  A version that was never
    declared is our mistake, not the peer's, and a ValueError.
    """
    body: M = decoder(message, version)(frame, position)
    return body


def decode_prefix(
    message: type[M], version: int, frame: Buffer, position: int = 0
) -> tuple[M, int]:
    """The message at ``position``, and the position after it."""
    body, end = prefix_decoder(message, version)(frame, position)
    return body, end


def encode(message: Message, version: int) -> list[Any]:
    """The message as a list of parts: bytes, and record data or file regions as they were given."""
    try:
        return encoder(type(message), version)(message)
    except _ENCODE_FAILURES as error:
        fault = find_fault(message, version)
        if fault is None:
            raise
        raise EncodeError(f"{type(message).__name__} v{version}: {fault}") from error


#: What the written functions raise, themselves or through what they call, for a wrong value.
_ENCODE_FAILURES = (
    EncodeError, struct.error, TypeError, AttributeError, ValueError, KeyError, OverflowError,
)  # fmt: skip


def encode_bytes(message: Message, version: int) -> bytes:
    """The message in one piece; it must hold no file region."""
    return b"".join(encode(message, version))
