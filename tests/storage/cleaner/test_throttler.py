"""The IO rate of the cleaner, and aborts during a pause."""

import pytest

from odradek.storage.cleaner.throttler import ByteRateThrottle, CleanerThrottler, LogCleaningAborted
from tests.support.compaction import PassingTime, until_stopped


class TestThrottle:
    def test_pause_is_the_time_missing_to_the_rate(self):
        assert ByteRateThrottle(1000).pause_s(500, elapsed_s=0.2) == pytest.approx(0.3)

    def test_no_pause_below_the_rate(self):
        assert ByteRateThrottle(1000).pause_s(500, elapsed_s=0.6) == 0

    def test_slow_periods_are_not_compensated(self):
        throttle = ByteRateThrottle(1000)
        throttle.pause_s(500, elapsed_s=60)
        assert throttle.pause_s(500, elapsed_s=0) == 0.5

    def test_pauses_too_short_to_sleep_add_up(self):
        throttle = ByteRateThrottle(1000)
        pauses = [throttle.pause_s(1, elapsed_s=0.0006) for _ in range(3)]
        assert pauses == [0, 0, pytest.approx(0.0012)]

    def test_negative_rate_is_unlimited_and_zero_blocks(self):
        assert ByteRateThrottle(-1).pause_s(10**9, elapsed_s=0) == 0
        assert ByteRateThrottle(0).pause_s(1, elapsed_s=0) == float("inf")


class TestPace:
    @pytest.mark.parametrize("size_bytes", [1, 700, 5000])
    @pytest.mark.parametrize("step_s", [0.0, 0.0001, 0.3])
    def test_io_stays_within_the_rate(self, size_bytes, step_s):
        time = PassingTime()
        throttler = CleanerThrottler(clock=time.clock, sleep=time.sleep, step_bytes=1000)
        throttler.set_rate(10_000)
        moved_bytes = 0
        while moved_bytes < 50_000:
            time.now_s += step_s
            throttler.maybe_throttle(size_bytes)
            moved_bytes += size_bytes
            # Bytes below a step are not counted yet, and pauses below a millisecond are not slept.
            assert moved_bytes <= 10_000 * (time.now_s + 0.001) + 1000
        if not step_s:
            assert time.now_s == pytest.approx(5, rel=0.03)

    def test_no_sleep_without_a_rate(self):
        throttler = CleanerThrottler(step_bytes=1)
        for _ in range(100):
            throttler.maybe_throttle(10**9)

    def test_abort_ends_a_long_pause(self):
        time = PassingTime()
        throttler = CleanerThrottler(
            should_abort=until_stopped(3), clock=time.clock, sleep=time.sleep, step_bytes=1
        )
        throttler.set_rate(1)
        with pytest.raises(LogCleaningAborted):
            throttler.maybe_throttle(10**6)
        assert time.now_s < 1
