"""What passes for bytes, and what is said of what does not."""

from array import array

import pytest

from odradek.protocol.buffers import SHOWN_CHARACTERS, check_bytes, is_flat, shown
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
def test_bytes_side_by_side_are_flat(value):
    assert is_flat(value)
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
def test_anything_else_is_refused(value):
    assert not is_flat(value)
    with pytest.raises(EncodeError, match=r"key: .* is not bytes"):
        check_bytes("key", value)


def test_a_view_is_shown_by_its_layout():
    assert shown(memoryview(NUMBERS)) == "a view of format i, shape (3,), strides (4,)"


def test_a_long_value_is_not_shown_whole():
    assert shown("x" * 10_000) == "'" + "x" * (SHOWN_CHARACTERS - 1) + "..."
