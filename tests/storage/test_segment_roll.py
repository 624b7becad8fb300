"""When the active segment is sealed and another begun."""

from itertools import pairwise

import pytest

from odradek.protocol.records.compression import Codec
from odradek.storage.log_truncation import truncate
from odradek.storage.open_segments import OutOfDescriptors
from tests.support.damage import flip_in_batch
from tests.support.few_descriptors import none_left
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, append, opened, records_batch, records_from

WEEK_MS = 7 * 24 * 3_600_000


def base_offsets(log):
    return [segment.base_offset for segment in log.segments]


def take(log, records, *, now_ms=NOW_MS):
    return log.append_as_follower(bytearray(records), now_ms=now_ms)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


class TestSize:
    def test_a_segment_may_be_filled_to_the_last_byte(self, directory):
        size = len(records_batch(b"a"))
        log = opened(directory, segment_bytes=2 * size)
        for _ in range(4):
            append(log, b"a")
        assert base_offsets(log) == [0, 2]

    def test_what_a_leader_sent_may_be_larger_than_a_segment(self, directory):
        log = opened(directory, segment_bytes=100)
        take(log, records_batch(bytes(500)) + records_batch(bytes(500), base_offset=1))
        take(log, records_batch(bytes(500), base_offset=2))
        assert base_offsets(log) == [0, 2]
        assert [record.offset for record in records_from(log)] == [0, 1, 2]


class TestIndexes:
    def test_a_full_index_ends_a_segment(self, directory):
        log = opened(directory, index_interval_bytes=0, segment_index_bytes=6 * 8)
        for _ in range(9):
            append(log, b"a", timestamp=NOW_MS)
        assert base_offsets(log) == [0, 7]

    def test_a_full_time_index_does_and_has_room_for_one_more_entry(self, directory):
        log = opened(directory, index_interval_bytes=0, segment_index_bytes=4 * 12)
        for number in range(5):
            append(log, b"a", timestamp=NOW_MS + number)
        assert base_offsets(log) == [0, 4]
        assert log.segments.first.time_index.last == (NOW_MS + 3, 3)

    def test_an_index_without_room_for_any_entry_makes_every_append_a_segment(self, directory):
        log = opened(directory, index_interval_bytes=0, segment_index_bytes=4)
        for _ in range(3):
            append(log, b"a")
        assert base_offsets(log) == [0, 1, 2]
        assert [record.offset for record in records_from(log)] == [0, 1, 2]


class TestDistance:
    FARTHEST = 2**31 - 1

    def test_the_farthest_offset_that_fits_stays_in_the_segment(self, directory):
        log = opened(directory)
        append(log, b"a")
        take(log, records_batch(b"b", base_offset=self.FARTHEST))
        assert base_offsets(log) == [0]

    def test_one_beyond_begins_a_segment_of_its_own(self, directory):
        log = opened(directory)
        append(log, b"a")
        take(log, records_batch(b"b", base_offset=self.FARTHEST + 1))
        assert base_offsets(log) == [0, self.FARTHEST + 1]

    def test_a_set_that_begins_near_and_ends_far_begins_a_segment(self, directory):
        log = opened(directory)
        append(log, b"a")
        far = self.FARTHEST + 10
        take(log, records_batch(b"b", base_offset=20) + records_batch(b"c", base_offset=far))
        assert base_offsets(log) == [0, 20]
        assert [record.offset for record in records_from(log)] == [0, 20, far]

    def test_the_first_segment_stays_even_if_nothing_was_written_to_it(self, directory):
        log = opened(directory)
        take(log, records_batch(b"a", base_offset=2**40))
        assert base_offsets(log) == [0, 2**40]
        log.close(now_ms=NOW_MS)
        assert opened(directory).end_offset == 2**40 + 1

    def test_a_far_wrapper_whose_first_offset_is_not_told_begins_early_enough(self, directory):
        log = opened(directory)
        append(log, b"a")
        last = 2**32
        inner = message(1, b"b", offset=0) + message(1, b"c", offset=9)
        take(log, wrapper(1, inner, codec=Codec.GZIP, offset=last))
        assert base_offsets(log) == [0, last - self.FARTHEST]
        assert [record.offset for record in records_from(log)] == [0, last - 9, last]


class TestAge:
    def test_it_counts_from_the_first_batch_to_the_one_to_be_appended(self, directory):
        log = opened(directory, segment_ms=1000)
        for timestamp in (500, 400, 1500, 1501, 2501, 2502):
            append(log, b"a", timestamp=timestamp)
        assert base_offsets(log) == [0, 3, 5]

    def test_the_brokers_clock_does_not_count_where_records_have_theirs(self, directory):
        log = opened(directory, segment_ms=1000)
        take(log, records_batch(b"a", timestamp=500), now_ms=NOW_MS)
        take(log, records_batch(b"b", timestamp=501, base_offset=1), now_ms=NOW_MS + WEEK_MS)
        assert base_offsets(log) == [0]

    def test_records_from_the_past_do_not_age_a_segment(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=NOW_MS)
        append(log, b"b", timestamp=0)
        assert base_offsets(log) == [0]

    def test_one_record_from_the_future_ends_one_segment_only(self, directory):
        log = opened(directory, segment_ms=1000)
        for timestamp in (10, NOW_MS * 2, 20, 30):
            append(log, b"a", timestamp=timestamp)
        assert base_offsets(log) == [0, 1]

    def test_it_is_known_again_after_reopening(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=500)
        append(log, b"b", timestamp=900)
        log.close(now_ms=NOW_MS)
        log = opened(directory, segment_ms=1000)
        append(log, b"c", timestamp=1500)
        append(log, b"d", timestamp=1501)
        assert base_offsets(log) == [0, 3]

    def test_without_timestamps_the_brokers_clock_counts(self, directory):
        log = opened(directory, segment_ms=1000)
        log.roll(now_ms=NOW_MS)
        for offset, now_ms in enumerate((0, 0, 1000, 1001, 2001)):
            take(log, message(0, b"a", offset=offset), now_ms=NOW_MS + now_ms)
        assert base_offsets(log) == [0, 3]

    def test_a_clock_that_goes_back_ages_nothing(self, directory):
        log = opened(directory, segment_ms=1000)
        for offset, now_ms in enumerate((0, 0, -WEEK_MS, 500)):
            take(log, message(0, b"a", offset=offset), now_ms=NOW_MS + now_ms)
        assert base_offsets(log) == [0]

    def test_a_truncated_segment_is_as_young_as_what_is_appended_next(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=500)
        truncate(log, 0, now_ms=NOW_MS)
        for timestamp in (2000, 2001):
            append(log, b"b", timestamp=timestamp)
        assert base_offsets(log) == [0]

    def test_a_compacted_topic_rolls_in_time_for_its_compaction(self, directory):
        log = opened(directory, cleanup_policy=("compact",), max_compaction_lag_ms=1000)
        for timestamp in (0, 1000, 1001):
            append(log, b"a", key=b"k", timestamp=timestamp)
        assert base_offsets(log) == [0, 2]

    def test_a_first_batch_that_is_damaged_does_not_keep_others_out(self, directory):
        log = opened(directory, segment_ms=1000, index_interval_bytes=0)
        for timestamp in (1, 2, 3):
            append(log, b"a", timestamp=timestamp)
        log.close(now_ms=NOW_MS)
        flip_in_batch(log.segments.active, 0, 8)
        log = opened(directory, segment_ms=1000, recovery_point=3)
        assert append(log, b"b", timestamp=4).first_offset == 3

    def test_an_age_that_could_not_be_looked_up_is_looked_up_again(self, directory):
        log = opened(directory, segment_ms=1000)
        append(log, b"a", timestamp=NOW_MS)
        log.close(now_ms=NOW_MS)
        log = opened(directory, segment_ms=1000)
        with none_left(), pytest.raises(OutOfDescriptors):
            append(log, b"b", timestamp=NOW_MS + 1)
        append(log, b"b", timestamp=NOW_MS + 5000)
        assert base_offsets(log) == [0, 1]


class TestJitter:
    def rolled_after_ms(self, directory, **settings):
        """How old a segment gets before it is rolled."""
        log = opened(directory, **settings)
        append(log, b"a", key=b"k", timestamp=0)
        for age_ms in range(0, 2000, 10):
            append(log, b"a", key=b"k", timestamp=age_ms)
            if len(log.segments) > 1:
                return age_ms
        raise AssertionError("never rolled")

    def test_it_makes_segments_roll_earlier_by_up_to_as_much(self, tmp_path):
        age_ms = self.rolled_after_ms(tmp_path / "a-0", segment_ms=1000, segment_jitter_ms=600)
        assert 400 <= age_ms <= 1010
        again = self.rolled_after_ms(tmp_path / "b-0", segment_ms=1000, segment_jitter_ms=600)
        assert again == age_ms

    def test_it_differs_from_segment_to_segment(self, directory):
        log = opened(directory, segment_ms=1000, segment_jitter_ms=600)
        for timestamp in range(0, 20_000, 10):
            append(log, b"a", timestamp=timestamp)
        bases = base_offsets(log)
        lengths = {after - before for before, after in pairwise(bases)}
        assert len(lengths) > 5

    def test_more_jitter_than_age_does_not_make_every_append_a_segment(self, directory):
        log = opened(
            directory,
            cleanup_policy=("compact",),
            max_compaction_lag_ms=1000,
            segment_jitter_ms=WEEK_MS,
        )
        for _ in range(5):
            append(log, b"a", key=b"k", timestamp=NOW_MS)
        assert base_offsets(log) == [0]


def test_a_roll_that_nothing_was_written_since_changes_nothing(directory):
    log = opened(directory)
    append(log, b"a")
    assert log.roll(now_ms=NOW_MS) is log.roll(now_ms=NOW_MS)
    assert base_offsets(log) == [0, 1]
