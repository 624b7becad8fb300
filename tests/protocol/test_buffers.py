"""Which values are accepted as bytes, and how error messages show the others."""

from array import array

import pytest

from odradek.protocol.buffers import (
    REPR_CHARACTERS_MAX,
    check_bytes,
    is_contiguous_bytes,
    short_repr,
)
from odradek.protocol.errors import EncodeError

NUMBERS = array("i", [1, 2, 3])


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abc"),
        memoryview(b"abc")[1:],
        memoryview(b"abc")[:0],
        memoryview(NUMBERS).cast("B"),
    ],
)
def test_contiguous_bytes_are_accepted(value):
    assert is_contiguous_bytes(value)
    check_bytes("key", value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        5,
        [1, 2],
        NUMBERS,
        memoryview(NUMBERS),
        memoryview(b"abc")[::2],
        memoryview(b"abc")[::-1],
        memoryview(b"abcd").cast("B", [2, 2]),
        memoryview(b"a").cast("B", []),
    ],
)
def test_other_values_are_rejected(value):
    assert not is_contiguous_bytes(value)
    with pytest.raises(EncodeError, match=r"key: .* is not bytes"):
        check_bytes("key", value)


def test_view_is_shown_by_its_layout():
    assert short_repr(memoryview(NUMBERS)) == "a view of format i, shape (3,), strides (4,)"


def test_long_value_is_abbreviated():
    assert short_repr("x" * 10_000) == "'" + "x" * (REPR_CHARACTERS_MAX - 1) + "..."
