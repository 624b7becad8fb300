"""Varints at many positions at once: the same as one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.varint import varlong
from odradek.spark_jobs.scan.varints import NOWHERE, PADDING, VARLONG_BYTES_MAX, Varints


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 9000), min_size=1))
def test_each_is_the_number_that_was_written(numbers):
    written = [varlong(number) for number in numbers]
    ends = np.cumsum([len(each) for each in written])
    buffer = np.frombuffer(b"".join(written) + b"\xff" * PADDING, dtype=np.uint8)
    values, after = Varints(buffer).read(
        np.concatenate(([0], ends[:-1])).astype(np.int64), bytes_max=VARLONG_BYTES_MAX
    )
    assert values.tolist() == numbers
    assert after.tolist() == ends.tolist()


def test_one_that_is_too_long_leads_nowhere():
    buffer = np.frombuffer(b"\x80" * 5 + b"\1" + bytes(PADDING), dtype=np.uint8)
    _, after = Varints(buffer).read(np.array([0, 1]))
    assert after.tolist() == [NOWHERE, 6]


def test_bits_that_an_int32_has_no_room_for_are_dropped():
    buffer = np.frombuffer(b"\x82\x80\x80\x80\x70" + bytes(PADDING), dtype=np.uint8)
    values, _ = Varints(buffer).read(np.array([0]))
    assert values.tolist() == [1]
