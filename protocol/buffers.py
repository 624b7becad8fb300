"""Which values pass for bytes, and how is one shown that does not?

A view may look at numbers, at every second byte or at a table: its length then counts something
else than its bytes, and what is written before it as its size would be wrong.

Owner: none; any thread.
"""

from odradek.protocol.errors import EncodeError

#: More of a wrong value than this would drown the message of the error.
REPR_CHARACTERS_MAX = 80


def is_contiguous_bytes(value: object) -> bool:
    """Whether it is bytes side by side, as many as its length says."""
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
