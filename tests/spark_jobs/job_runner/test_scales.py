"""Axis ticks are round, ordered and cover the values."""

import argparse
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark_jobs.job_runner.durations import BUCKETS_MAX, choose_bucket_ms, parse_duration_ms
from odradek.spark_jobs.job_runner.scales import Scale, time_label, time_ticks, value_ticks

DAY_MS = 86_400_000
NOON_MS = 1_700_049_600_000  # 2023-11-15


@given(st.floats(min_value=1e-6, max_value=1e18))
def test_value_ticks_start_at_zero_cover_the_maximum_and_are_few(high):
    ticks = value_ticks(high)
    assert ticks[0] == 0
    assert ticks[-2] < high <= ticks[-1] * 1.00001
    assert 2 <= len(ticks) <= 7


def test_value_ticks_are_round():
    assert value_ticks(97) == [0, 20, 40, 60, 80, 100]
    assert value_ticks(0) == [0, 1]


@given(st.integers(0, 4 * 10**12), st.integers(1000, 10**12))
def test_time_ticks_are_within_the_range_and_evenly_spaced(low, span):
    ticks = time_ticks(low, low + span)
    assert all(low <= tick <= low + span for tick in ticks)
    assert len({after - before for before, after in pairwise(ticks)}) <= 1
    assert len(ticks) <= 9


def test_time_label_has_as_much_detail_as_the_span_needs():
    assert time_label(NOON_MS, span_ms=60_000) == "12:00:00"
    assert time_label(NOON_MS, span_ms=DAY_MS) == "11-15 12:00"
    assert time_label(NOON_MS, span_ms=100 * DAY_MS) == "2023-11-15"
    assert time_label(2**62, span_ms=1) == str(2**62)


def test_scale_accepts_an_empty_range():
    assert Scale(5, 5, 10, 20)(5) == 10


@given(st.integers(0, 10**13))
def test_bucket_size_keeps_the_number_of_buckets_limited(span_ms):
    assert span_ms / choose_bucket_ms(span_ms) <= BUCKETS_MAX


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("1d", DAY_MS)]
)
def test_duration_needs_a_unit(text, expected):
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "5", "0s", "-1s", "1 m", "1w"])
def test_invalid_duration_is_rejected(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must be a duration such as"):
        parse_duration_ms(text)
