"""How fast compaction may go on, and whether it shall."""

import pytest

from odradek.storage.cleaner.pace import CleaningStopped, Pace, Throttle
from tests.support.compaction import PassingTime, until_stopped


class TestThrottle:
    def test_who_was_too_fast_waits_for_the_rest_of_the_time(self):
        assert Throttle(1000).pause_s(500, elapsed_s=0.2) == pytest.approx(0.3)

    def test_who_was_slow_enough_does_not_wait(self):
        assert Throttle(1000).pause_s(500, elapsed_s=0.6) == 0

    def test_time_lost_is_not_made_up_for(self):
        throttle = Throttle(1000)
        throttle.pause_s(500, elapsed_s=60)
        assert throttle.pause_s(500, elapsed_s=0) == 0.5

    def test_pauses_too_short_to_sleep_add_up(self):
        throttle = Throttle(1000)
        pauses = [throttle.pause_s(1, elapsed_s=0.0006) for _ in range(3)]
        assert pauses == [0, 0, pytest.approx(0.0012)]

    def test_a_rate_below_zero_is_none_and_zero_lets_nothing_through(self):
        assert Throttle(-1).pause_s(10**9, elapsed_s=0) == 0
        assert Throttle(0).pause_s(1, elapsed_s=0) == float("inf")


class TestPace:
    @pytest.mark.parametrize("size_bytes", [1, 700, 5000])
    @pytest.mark.parametrize("taken_s", [0.0, 0.0001, 0.3])
    def test_no_more_is_moved_than_the_rate_allows(self, size_bytes, taken_s):
        time = PassingTime()
        pace = Pace(clock=time.clock, sleep=time.sleep, step_bytes=1000)
        pace.keep_to(10_000)
        moved_bytes = 0
        while moved_bytes < 50_000:
            time.now_s += taken_s
            pace.moved(size_bytes)
            moved_bytes += size_bytes
            # What is below a step has not been counted yet, and a millisecond is not slept.
            assert moved_bytes <= 10_000 * (time.now_s + 0.001) + 1000
        if not taken_s:
            assert time.now_s == pytest.approx(5, rel=0.03)

    def test_without_a_rate_nobody_sleeps(self):
        pace = Pace(step_bytes=1)
        for _ in range(100):
            pace.moved(10**9)

    def test_a_long_pause_ends_when_compaction_is_to_stop(self):
        time = PassingTime()
        pace = Pace(should_stop=until_stopped(3), clock=time.clock, sleep=time.sleep, step_bytes=1)
        pace.keep_to(1)
        with pytest.raises(CleaningStopped):
            pace.moved(10**6)
        assert time.now_s < 1
