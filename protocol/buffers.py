"""Checks that a value is accepted as bytes, and formats rejected values for error messages.

A memoryview may consist of multi-byte items, have a stride or several dimensions.  Its length then
differs from its size in bytes, and the size prefix written before it would be wrong.

Owner: none; any thread.
"""

from odradek.protocol.errors import EncodeError

#: A longer repr would drown the rest of the error message.
REPR_CHARACTERS_MAX = 80


def is_contiguous_bytes(value: object) -> bool:
    """Return whether the value is contiguous bytes whose number equals its length."""
    if isinstance(value, memoryview):
        return value.ndim == 1 and value.itemsize == 1 and value.contiguous
    return isinstance(value, (bytes, bytearray))


def check_bytes(field: str, value: object) -> None:
    if not is_contiguous_bytes(value):
        raise EncodeError(f"{field}: {short_repr(value)} is not bytes")


def short_repr(value: object) -> str:
    if isinstance(value, memoryview):
        return f"a view of format {value.format}, shape {value.shape}, strides {value.strides}"
    text = repr(value)
    return text if len(text) <= REPR_CHARACTERS_MAX else text[:REPR_CHARACTERS_MAX] + "..."
