"""Axes: ticks that are round, in order, and around what is shown."""

import argparse
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark_jobs.running.durations import BUCKETS_MAX, bucket_ms, duration_ms
from odradek.spark_jobs.running.scales import Scale, ticks_up_to, time_label, time_ticks

DAY_MS = 86_400_000
NOON_MS = 1_700_049_600_000  # of 2023-11-15


@given(st.floats(min_value=1e-6, max_value=1e18))
def test_ticks_reach_from_nought_to_the_highest_value_and_are_few(high):
    ticks = ticks_up_to(high)
    assert ticks[0] == 0
    assert ticks[-2] < high <= ticks[-1] * 1.00001
    assert 2 <= len(ticks) <= 7


def test_ticks_are_round():
    assert ticks_up_to(97) == [0, 20, 40, 60, 80, 100]
    assert ticks_up_to(0) == [0, 1]


@given(st.integers(0, 4 * 10**12), st.integers(1000, 10**12))
def test_ticks_of_time_lie_within_and_are_evenly_spaced(low, span):
    ticks = time_ticks(low, low + span)
    assert all(low <= tick <= low + span for tick in ticks)
    assert len({after - before for before, after in pairwise(ticks)}) <= 1
    assert len(ticks) <= 9


def test_a_label_says_as_much_of_a_time_as_is_needed():
    assert time_label(NOON_MS, span_ms=60_000) == "12:00:00"
    assert time_label(NOON_MS, span_ms=DAY_MS) == "11-15 12:00"
    assert time_label(NOON_MS, span_ms=100 * DAY_MS) == "2023-11-15"
    assert time_label(2**62, span_ms=1) == str(2**62)


def test_one_moment_is_a_scale_too():
    assert Scale(5, 5, 10, 20)(5) == 10


@given(st.integers(0, 10**13))
def test_a_span_is_cut_into_parts_that_a_chart_has_room_for(span_ms):
    assert span_ms / bucket_ms(span_ms) <= BUCKETS_MAX


@pytest.mark.parametrize(
    ("written", "expected"), [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1d", DAY_MS)]
)
def test_durations_have_units(written, expected):
    assert duration_ms(written) == expected


@pytest.mark.parametrize("written", ["", "5", "0s", "-1s", "1 m", "1w"])
def test_what_is_no_duration_is_refused(written):
    with pytest.raises(argparse.ArgumentTypeError, match="not a duration"):
        duration_ms(written)
