"""Times on the command line of a job."""

import time

import pytest

from odradek.spark_jobs.job_runner.flags import parse_timestamp_ms


@pytest.fixture
def far_from_utc(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1500", "1500"),
        ("1970-01-01T00:00:01.500", "1500"),
        ("1970-01-01T09:00:01.500+09:00", "1500"),
        ("2026-11-17", "1794873600000"),
        ("2026-11-17T00:00:00.009", "1794873600009"),
    ],
)
def test_time_without_a_zone_is_utc(text, expected):
    assert parse_timestamp_ms(text) == expected
