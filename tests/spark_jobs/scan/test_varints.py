"""Varints decoded at many positions at once equal those decoded one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.varint import varlong
from odradek.spark_jobs.scan.varints import (
    OUT_OF_BOUNDS,
    PADDING_BYTES,
    VARLONG_BYTES_MAX,
    VarintReader,
)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 9000), min_size=1))
def test_decoded_numbers_equal_the_encoded_ones(numbers):
    encoded = [varlong(number) for number in numbers]
    ends = np.cumsum([len(varint) for varint in encoded])
    buffer = np.frombuffer(b"".join(encoded) + b"\xff" * PADDING_BYTES, dtype=np.uint8)
    values, after = VarintReader(buffer).read(
        np.concatenate(([0], ends[:-1])).astype(np.int64), bytes_max=VARLONG_BYTES_MAX
    )
    assert values.tolist() == numbers
    assert after.tolist() == ends.tolist()


def test_varint_that_is_too_long_is_out_of_bounds():
    buffer = np.frombuffer(b"\x80" * 5 + b"\1" + bytes(PADDING_BYTES), dtype=np.uint8)
    _, after = VarintReader(buffer).read(np.array([0, 1]))
    assert after.tolist() == [OUT_OF_BOUNDS, 6]


def test_bits_beyond_an_int32_are_dropped():
    buffer = np.frombuffer(b"\x82\x80\x80\x80\x70" + bytes(PADDING_BYTES), dtype=np.uint8)
    values, _ = VarintReader(buffer).read(np.array([0]))
    assert values.tolist() == [1]
