"""Encoding and decoding: the two entry points of the package.

``decode`` receives untrusted bytes: any input either decodes or raises ``DecodeError``.
``encode`` receives values of our own code: a wrong value raises ``EncodeError``, which names the
field.
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
#: An encoded message is a sequence of such parts.
Part = Buffer | FileRegion

M = TypeVar("M", bound=Message)


def decode(message: type[M], version: int, frame: Buffer, position: int = 0) -> M:
    """Decode the message that fills ``frame`` from ``position`` to its end.

    Record data in it is a view of ``frame``; everything else is a copy.  An undeclared version is
    an error of the caller, not of the peer, and raises ValueError.
    """
    body: M = decoder(message, version)(frame, position)
    return body


def decode_prefix(
    message: type[M], version: int, frame: Buffer, position: int = 0
) -> tuple[M, int]:
    """Decode the message at ``position``; returns it and the position after it."""
    body, end = prefix_decoder(message, version)(frame, position)
    return body, end


def encode(message: Message, version: int) -> list[Any]:
    """Encode as a list of parts: bytes, and the given record data or file regions, uncopied."""
    try:
        return encoder(type(message), version)(message)
    except _ENCODE_FAILURES as error:
        fault = find_fault(message, version)
        if fault is None:
            raise
        raise EncodeError(f"{type(message).__name__} v{version}: {fault}") from error


#: The exceptions that the generated functions raise for a wrong value, directly or indirectly.
_ENCODE_FAILURES = (
    EncodeError, struct.error, TypeError, AttributeError, ValueError, KeyError, OverflowError,
)  # fmt: skip


def encode_bytes(message: Message, version: int) -> bytes:
    """Encode into one bytes object; the message must not contain a file region."""
    return b"".join(encode(message, version))
