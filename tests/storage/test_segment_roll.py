"""When the log rolls to a new active segment."""

from itertools import pairwise

import pytest

from odradek.protocol.records.compression import Codec
from odradek.storage.log_truncation import truncate_to
from odradek.storage.open_segments import TooManyOpenFiles
from tests.support.damage import flip_in_batch
from tests.support.few_descriptors import none_left
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, append, opened, records_batch, records_from

WEEK_MS = 7 * 24 * 3_600_000


def base_offsets(log):
    return [segment.base_offset for segment in log.segments]


def append_as_follower(log, records, *, now_ms=NOW_MS):
    return log.append_as_follower(bytearray(records), now_ms=now_ms)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


class TestSize:
    def test_segment_may_be_filled_to_the_last_byte(self, directory):
        size = len(records_batch(b"a"))
        log = opened(directory, segment_bytes=2 * size)
        for _ in range(4):
            append(log, b"a")
        assert base_offsets(log) == [0, 2]

    def test_follower_append_may_exceed_segment_bytes(self, directory):
        log = opened(directory, segment_bytes=100)
        append_as_follower(
            log, records_batch(bytes(500)) + records_batch(bytes(500), base_offset=1)
        )
        append_as_follower(log, records_batch(bytes(500), base_offset=2))
        assert base_offsets(log) == [0, 2]
        assert [record.offset for record in records_from(log)] == [0, 1, 2]


class TestIndexes:
    def test_full_offset_index_rolls_the_log(self, directory):
        log = opened(directory, index_interval_bytes=0, segment_index_bytes=6 * 8)
        for _ in range(9):
            append(log, b"a", timestamp=NOW_MS)
        assert base_offsets(log) == [0, 7]

    def test_full_time_index_rolls_the_log_and_has_room_for_one_more_entry(self, directory):
        log = opened(directory, index_interval_bytes=0, segment_index_bytes=4 * 12)
        for number in range(5):
            append(log, b"a", timestamp=NOW_MS + number)
        assert base_offsets(log) == [0, 4]
        assert log.segments.first.time_index.last_entry == (NOW_MS + 3, 3)

    def test_index_without_room_for_any_entry_rolls_at_every_append(self, directory):
        log = opened(directory, index_interval_bytes=0, segment_index_bytes=4)
        for _ in range(3):
            append(log, b"a")
        assert base_offsets(log) == [0, 1, 2]
        assert [record.offset for record in records_from(log)] == [0, 1, 2]


class TestOffsetDistance:
    FARTHEST = 2**31 - 1

    def test_farthest_relative_offset_that_fits_does_not_roll(self, directory):
        log = opened(directory)
        append(log, b"a")
        append_as_follower(log, records_batch(b"b", base_offset=self.FARTHEST))
        assert base_offsets(log) == [0]

    def test_offset_beyond_the_farthest_rolls_the_log(self, directory):
        log = opened(directory)
        append(log, b"a")
        append_as_follower(log, records_batch(b"b", base_offset=self.FARTHEST + 1))
        assert base_offsets(log) == [0, self.FARTHEST + 1]

    def test_record_set_that_ends_too_far_away_rolls_the_log(self, directory):
        log = opened(directory)
        append(log, b"a")
        far = self.FARTHEST + 10
        append_as_follower(
            log, records_batch(b"b", base_offset=20) + records_batch(b"c", base_offset=far)
        )
        assert base_offsets(log) == [0, 20]
        assert [record.offset for record in records_from(log)] == [0, 20, far]

    def test_empty_first_segment_is_kept(self, directory):
        log = opened(directory)
        append_as_follower(log, records_batch(b"a", base_offset=2**40))
        assert base_offsets(log) == [0, 2**40]
        log.close(now_ms=NOW_MS)
        assert opened(directory).log_end_offset == 2**40 + 1

    def test_far_legacy_wrapper_gets_a_base_offset_before_its_first_message(self, directory):
        log = opened(directory)
        append(log, b"a")
        last = 2**32
        inner = message(1, b"b", offset=0) + message(1, b"c", offset=9)
        append_as_follower(log, wrapper(1, inner, codec=Codec.GZIP, offset=last))
        assert base_offsets(log) == [0, last - self.FARTHEST]
        assert [record.offset for record in records_from(log)] == [0, last - 9, last]


class TestAge:
    def test_age_is_measured_from_the_first_batch_to_the_appended_one(self, directory):
        log = opened(directory, segment_ms=1000)
        for timestamp in (500, 400, 1500, 1501, 2501, 2502):
            append(log, b"a", timestamp=timestamp)
        assert base_offsets(log) == [0, 3, 5]

    def test_broker_clock_is_ignored_if_records_have_timestamps(self, directory):
        log = opened(directory, segment_ms=1000)
        append_as_follower(log, records_batch(b"a", timestamp=500), now_ms=NOW_MS)
        append_as_follower(
            log, records_batch(b"b", timestamp=501, base_offset=1), now_ms=NOW_MS + WEEK_MS
        )
        assert base_offsets(log) == [0]

    def test_records_from_the_past_do_not_age_a_segment(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=NOW_MS)
        append(log, b"b", timestamp=0)
        assert base_offsets(log) == [0]

    def test_one_record_from_the_future_rolls_only_once(self, directory):
        log = opened(directory, segment_ms=1000)
        for timestamp in (10, NOW_MS * 2, 20, 30):
            append(log, b"a", timestamp=timestamp)
        assert base_offsets(log) == [0, 1]

    def test_age_is_known_after_reopening(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=500)
        append(log, b"b", timestamp=900)
        log.close(now_ms=NOW_MS)
        log = opened(directory, segment_ms=1000)
        append(log, b"c", timestamp=1500)
        append(log, b"d", timestamp=1501)
        assert base_offsets(log) == [0, 3]

    def test_broker_clock_is_used_for_records_without_timestamps(self, directory):
        log = opened(directory, segment_ms=1000)
        log.roll(now_ms=NOW_MS)
        for offset, now_ms in enumerate((0, 0, 1000, 1001, 2001)):
            append_as_follower(log, message(0, b"a", offset=offset), now_ms=NOW_MS + now_ms)
        assert base_offsets(log) == [0, 3]

    def test_clock_that_goes_back_does_not_age_a_segment(self, directory):
        log = opened(directory, segment_ms=1000)
        for offset, now_ms in enumerate((0, 0, -WEEK_MS, 500)):
            append_as_follower(log, message(0, b"a", offset=offset), now_ms=NOW_MS + now_ms)
        assert base_offsets(log) == [0]

    def test_age_of_an_emptied_segment_starts_with_the_next_append(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=500)
        truncate_to(log, 0, now_ms=NOW_MS)
        for timestamp in (2000, 2001):
            append(log, b"b", timestamp=timestamp)
        assert base_offsets(log) == [0]

    def test_compacted_topic_rolls_within_max_compaction_lag_ms(self, directory):
        log = opened(directory, cleanup_policy=("compact",), max_compaction_lag_ms=1000)
        for timestamp in (0, 1000, 1001):
            append(log, b"a", key=b"k", timestamp=timestamp)
        assert base_offsets(log) == [0, 2]

    def test_damaged_first_batch_does_not_prevent_appends(self, directory):
        log = opened(directory, segment_ms=1000, index_interval_bytes=0)
        for timestamp in (1, 2, 3):
            append(log, b"a", timestamp=timestamp)
        log.close(now_ms=NOW_MS)
        flip_in_batch(log.segments.active, 0, 8)
        log = opened(directory, segment_ms=1000, recovery_point=3)
        assert append(log, b"b", timestamp=4).first_offset == 3

    def test_failed_age_lookup_is_retried(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=NOW_MS)
        log.close(now_ms=NOW_MS)
        log = opened(directory, segment_ms=1000)
        with none_left(), pytest.raises(TooManyOpenFiles):
            append(log, b"b", timestamp=NOW_MS + 1)
        append(log, b"b", timestamp=NOW_MS + 5000)
        assert base_offsets(log) == [0, 1]


class TestJitter:
    def rolled_after_ms(self, directory, **settings):
        """The age at which the first segment is rolled."""
        log = opened(directory, **settings)
        append(log, b"a", key=b"k", timestamp=0)
        for age_ms in range(0, 2000, 10):
            append(log, b"a", key=b"k", timestamp=age_ms)
            if len(log.segments) > 1:
                return age_ms
        raise AssertionError("never rolled")

    def test_jitter_rolls_segments_earlier_by_at_most_its_value(self, tmp_path):
        age_ms = self.rolled_after_ms(tmp_path / "a-0", segment_ms=1000, segment_jitter_ms=600)
        assert 400 <= age_ms <= 1010
        second_age_ms = self.rolled_after_ms(
            tmp_path / "b-0", segment_ms=1000, segment_jitter_ms=600
        )
        assert second_age_ms == age_ms

    def test_jitter_differs_between_segments(self, directory):
        log = opened(directory, segment_ms=1000, segment_jitter_ms=600)
        for timestamp in range(0, 20_000, 10):
            append(log, b"a", timestamp=timestamp)
        bases = base_offsets(log)
        lengths = {after - before for before, after in pairwise(bases)}
        assert len(lengths) > 5

    def test_jitter_larger_than_the_age_does_not_roll_at_every_append(self, directory):
        log = opened(
            directory,
            cleanup_policy=("compact",),
            max_compaction_lag_ms=1000,
            segment_jitter_ms=WEEK_MS,
        )
        for _ in range(5):
            append(log, b"a", key=b"k", timestamp=NOW_MS)
        assert base_offsets(log) == [0]


def test_roll_of_an_empty_active_segment_changes_nothing(directory):
    log = opened(directory)
    append(log, b"a")
    assert log.roll(now_ms=NOW_MS) is log.roll(now_ms=NOW_MS)
    assert base_offsets(log) == [0, 1]
