"""Cutting a log's end, or all of it."""

import pytest

from odradek.protocol.errors import OutOfOrderSequenceNumber
from odradek.protocol.records.batch import CONTROL_FLAG
from odradek.storage.log_lookup import first_at_or_after, of_largest_timestamp
from odradek.storage.log_truncation import plan_new_beginning, truncate, truncate_fully
from odradek.storage.paths import Content
from tests.support.damage import flip_in_batch
from tests.support.faulty_disk import SYNCS, FaultyDisk
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import (
    NOW_MS,
    PRODUCER_SETTINGS,
    append,
    bytes_of,
    end_transaction,
    opened,
    records_batch,
    records_from,
    recovered,
)

#: Its low byte, in a batch of magic 2.
ATTRIBUTES_POSITION = 22
SMALL = {"segment_bytes": 1100, "index_interval_bytes": 100}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    """Ten batches of three records each, in segments of three batches."""
    log = opened(directory, **SMALL)
    for number in range(10):
        append(log, *[b"%03d" % number + bytes(80)] * 3, timestamp=NOW_MS + number)
    assert base_offsets(log) == [0, 9, 18, 27]
    return log


def base_offsets(log):
    return [segment.base_offset for segment in log.segments]


def offsets(log, start=None):
    return [record.offset for record in records_from(log, start)]


def cut(log, offset):
    return truncate(log, offset, now_ms=NOW_MS)


def names(directory, ending):
    return sorted(path.name.split(".")[0].lstrip("0") or "0" for path in directory.glob(ending))


class TestWhatIsLeft:
    @pytest.mark.parametrize("offset", range(31))
    def test_everything_before_the_offset_but_for_a_batch_that_reaches_beyond(self, log, offset):
        cut(log, offset)
        end = offset - offset % 3
        assert (log.end_offset, offsets(log)) == (end, list(range(end)))

    @pytest.mark.parametrize("offset", range(0, 31, 4))
    def test_it_is_found_from_every_offset_and_timestamp(self, log, offset):
        cut(log, offset)
        for start in range(log.end_offset):
            assert offsets(log, start) == list(range(start, log.end_offset))
        for number in range(10):
            found = first_at_or_after(log, NOW_MS + number)
            is_left = 3 * number < log.end_offset
            assert (found.offset if found else None) == (3 * number if is_left else None)

    @pytest.mark.parametrize("offset", range(0, 31, 4))
    @pytest.mark.parametrize("is_clean", [True, False])
    def test_it_is_there_after_reopening(self, log, directory, offset, is_clean):
        cut(log, offset)
        append(log, b"new")
        end = log.end_offset
        if is_clean:
            log.close(now_ms=NOW_MS)
            again = opened(directory, **SMALL)
        else:
            log.abandon()
            again = recovered(directory, **SMALL, recovery_point=log.recovery_point)
        assert offsets(again) == list(range(end))
        assert records_from(again)[-1].value == b"new"

    def test_the_next_append_takes_the_offset_that_was_cut(self, log):
        cut(log, 14)
        assert append(log, b"new").first_offset == 12
        assert offsets(log) == list(range(13))

    def test_nothing_changes_at_or_beyond_the_end(self, log):
        assert cut(log, 30) == cut(log, 31) == []
        assert log.end_offset == 30
        assert log.cuts == []

    def test_a_segment_that_begins_at_the_offset_stays_and_is_empty(self, log):
        dropped = cut(log, 18)
        assert [segment.base_offset for segment in dropped] == [27]
        assert base_offsets(log) == [0, 9, 18]
        assert log.segments.active.size_bytes == 0

    def test_a_gap_that_compaction_left_is_cut_at_the_offset(self, directory):
        log = opened(directory)
        for base_offset in (0, 10, 20):
            log.append_as_follower(records_batch(b"a", base_offset=base_offset), now_ms=NOW_MS)
        cut(log, 15)
        assert (log.end_offset, offsets(log)) == (15, [0, 10])

    def test_an_old_wrapper_that_reaches_beyond_goes_whole(self, directory):
        log = opened(directory)
        inner = message(1, b"b", offset=0) + message(1, b"c", offset=1)
        content = message(1, b"a", offset=0) + wrapper(1, inner, offset=2)
        log.append_as_follower(bytearray(content), now_ms=NOW_MS)
        cut(log, 2)
        assert offsets(log) == [0]

    def test_a_preallocated_file_ends_with_its_batches(self, directory):
        log = opened(directory, preallocate=True, segment_bytes=4096)
        append(log, b"a")
        append(log, b"b")
        cut(log, 1)
        append(log, b"c")
        log.close(now_ms=NOW_MS)
        again = opened(directory, preallocate=True, segment_bytes=4096)
        assert [record.value for record in records_from(again)] == [b"a", b"c"]
        assert again.segments.active.path(Content.BATCHES).stat().st_size == again.size_bytes


class TestTheEnds:
    def test_the_high_watermark_and_the_recovery_point_do_not_pass_the_end(self, log):
        log.flush(now_ms=NOW_MS)
        cut(log, 12)
        assert (log.high_watermark, log.recovery_point, log.start_offset) == (12, 12, 0)

    def test_those_that_lie_before_the_cut_stay(self, log):
        log.flush(now_ms=NOW_MS)
        log.advance_high_watermark(3)
        log.recovery_point = 6
        cut(log, 12)
        assert (log.high_watermark, log.recovery_point) == (3, 6)

    def test_the_start_goes_back_with_the_end(self, log):
        log.advance_start(25)
        cut(log, 20)
        assert (log.start_offset, log.high_watermark, log.end_offset) == (18, 18, 18)

    def test_a_flush_in_progress_covers_nothing_that_was_written_again(self, log):
        plan = log.plan_flush()
        cut(log, 12)
        append(log, b"new")
        plan.run()
        log.flushed(plan, now_ms=NOW_MS)
        assert log.recovery_point == 12

    def test_before_the_first_segment_the_log_begins_anew(self, log, directory):
        log.close(now_ms=NOW_MS)
        for path in directory.glob("00000000000000000000.*"):
            path.unlink()
        log = opened(directory, **SMALL)
        assert log.start_offset == 9
        dropped = cut(log, 5)
        assert [segment.base_offset for segment in dropped] == [9, 18, 27]
        assert (log.start_offset, log.end_offset, base_offsets(log)) == (5, 5, [5])


def idempotent(log, sequence, *values):
    return append(log, *values, producer_id=7, producer_epoch=0, base_sequence=sequence)


class TestProducers:
    def test_a_retry_of_what_was_cut_is_new(self, directory):
        log = opened(directory)
        idempotent(log, 0, b"a")
        idempotent(log, 1, b"b")
        cut(log, 1)
        again = idempotent(log, 1, b"b")
        assert (again.is_duplicate, again.first_offset) == (False, 1)

    def test_a_retry_of_what_is_left_is_a_retry(self, directory):
        log = opened(directory)
        idempotent(log, 0, b"a")
        idempotent(log, 1, b"b")
        cut(log, 1)
        assert idempotent(log, 0, b"a").is_duplicate
        with pytest.raises(OutOfOrderSequenceNumber):
            idempotent(log, 2, b"c")

    def test_snapshots_beyond_the_cut_are_gone(self, directory):
        log = opened(directory)
        for number in range(6):
            idempotent(log, number, b"a")
            log.roll(now_ms=NOW_MS)
        cut(log, 3)
        assert max(log.producers.snapshots.offsets) <= 3
        assert names(directory, "*.snapshot") == ["1", "2", "3"]

    def test_they_are_known_again_from_what_can_be_read(self, directory):
        log = opened(directory)
        idempotent(log, 0, b"a")
        append(log, b"damaged")
        log.roll(now_ms=NOW_MS)
        append(log, b"b", producer_id=8, producer_epoch=0, base_sequence=0)
        append(log, b"c")
        for path in list(directory.glob("*.snapshot")):
            path.unlink()
        flip_in_batch(log.segments.first, 1, 65)
        cut(log, 3)
        assert log.end_offset == 3
        assert set(log.producers.states) == {7, 8}


def transactional(log, producer_id):
    return append(
        log,
        b"x",
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def forget_producers(log):
    log.producers.expire(NOW_MS + PRODUCER_SETTINGS.producer_id_expiration_ms)
    assert len(log.producers) == 0


class TestTransactions:
    def test_one_whose_marker_was_cut_is_open_again(self, directory):
        log = opened(directory)
        transactional(log, 1)
        end_transaction(log, producer_id=1, commit=False)
        append(log, b"y")
        assert log.last_stable_offset == 3
        cut(log, 1)
        assert (log.last_stable_offset, log.high_watermark) == (0, 1)
        assert log.aborted_transactions(start=0, end=9) == []
        end_transaction(log, producer_id=1, commit=True)
        assert log.last_stable_offset == 2

    @pytest.mark.parametrize("rolled", [(), ("before",), ("after",), ("before", "after")])
    def test_one_is_open_again_even_if_its_producer_was_forgotten(self, directory, rolled):
        """Else a reader would be shown what may still be aborted, and in the end was."""
        log = opened(directory)
        append(log, b"a")
        transactional(log, 1)
        if "before" in rolled:
            log.roll(now_ms=NOW_MS)
        end_transaction(log, producer_id=1, commit=False)
        forget_producers(log)
        if "after" in rolled:
            log.roll(now_ms=NOW_MS)
        append(log, b"b")
        cut(log, 2)
        assert log.last_stable_offset == log.producers.transactions.first_undecided_offset == 1
        end_transaction(log, producer_id=1, commit=False)
        aborted = log.aborted_transactions(start=0, end=9)
        assert [each[:3] for each in aborted] == [(1, 1, 2)]

    def test_one_is_open_again_even_if_its_producer_was_forgotten_and_its_marker_is_damaged(
        self, directory
    ):
        log = opened(directory)
        transactional(log, 1)
        end_transaction(log, producer_id=1, commit=False)
        forget_producers(log)
        flip_in_batch(log.segments.active, 1, ATTRIBUTES_POSITION, mask=CONTROL_FLAG)
        cut(log, 1)
        assert log.last_stable_offset == 0

    def test_without_producers_what_stays_is_not_read_for_them(self, log):
        """There may be a million small batches in it.  What is damaged would be noticed."""
        flip_in_batch(log.segments.active, 0, 65)
        append(log, b"b")
        noticed = []
        truncate(log, 30, now_ms=NOW_MS, notice=noticed.append)
        assert (log.end_offset, noticed) == (30, [])

    def test_one_that_was_cut_whole_is_forgotten(self, directory):
        log = opened(directory)
        append(log, b"a")
        transactional(log, 1)
        cut(log, 1)
        append(log, b"b")
        assert log.last_stable_offset == 2

    def test_aborted_ones_before_the_cut_are_found(self, directory):
        log = opened(directory)
        for producer_id in (1, 2):
            transactional(log, producer_id)
            end_transaction(log, producer_id=producer_id, commit=False)
        cut(log, 3)
        assert [each.producer_id for each in log.aborted_transactions(start=0, end=9)] == [1]

    def test_one_that_ended_and_is_not_replicated_stays_unstable(self, directory):
        log = opened(directory)
        transactional(log, 1)
        end_transaction(log, producer_id=1, commit=True)
        append(log, b"y")
        log.advance_high_watermark(1)
        cut(log, 2)
        assert log.last_stable_offset == 0
        log.advance_high_watermark(2)
        assert log.last_stable_offset == 2


class TestFiles:
    def test_dropped_segments_wait_under_another_name(self, log, directory):
        dropped = cut(log, 10)
        assert names(directory, "*.log") == ["0", "9"]
        assert names(directory, "*.log.deleted") == ["18", "27"]
        assert {segment.path(Content.BATCHES).suffix for segment in dropped} == {".deleted"}

    def test_a_region_that_was_lent_of_a_dropped_segment_stays_readable(self, log):
        region = log.read(20, max_bytes=10_000, up_to=30)
        before = bytes_of(region)
        for segment in cut(log, 3):
            segment.remove()
        assert bytes_of(region) == before


class TestAll:
    def test_the_log_begins_again_where_it_is_told(self, log, directory):
        dropped = truncate_fully(log, 100)
        assert len(dropped) == 4
        ends = (log.start_offset, log.high_watermark, log.end_offset)
        assert ends == (100, 100, 100)
        assert log.recovery_point <= 100
        assert append(log, b"new").first_offset == 100
        log.close(now_ms=NOW_MS)
        assert offsets(opened(directory, **SMALL)) == [100]

    def test_it_may_begin_at_an_offset_where_a_segment_was(self, log, directory):
        truncate_fully(log, 18)
        assert append(log, b"new").first_offset == 18
        log.abandon()
        again = recovered(directory, **SMALL)
        assert [record.value for record in records_from(again)] == [b"new"]

    def test_nothing_is_known_of_epochs_producers_and_timestamps(self, directory):
        log = opened(directory)
        transactional(log, 1)
        idempotent(log, 0, b"a")
        truncate_fully(log, 50)
        assert log.epochs.entries == ()
        assert dict(log.producers.states) == {}
        assert log.last_stable_offset == 50
        assert of_largest_timestamp(log) is None
        assert list(directory.glob("*.snapshot")) == []

    def test_its_start_may_lie_before_its_first_offset(self, log):
        truncate_fully(log, 100, start_offset=40)
        assert (log.start_offset, log.end_offset) == (40, 100)
        append(log, b"new")
        assert offsets(log, 40) == [100]

    @pytest.mark.parametrize("new_start", [0, 100])
    def test_what_was_cut_to_nothing_begins_elsewhere_without_a_sync(
        self, log, directory, new_start
    ):
        cut(log, 0)
        with FaultyDisk(counting=SYNCS) as disk:
            beginning = plan_new_beginning(log, new_start)
            assert disk.changes == 0
            beginning.run()
            assert disk.changes > 0
        assert names(directory, "*.log") == names(directory, "*.index") == [str(new_start)]
        assert append(log, b"new").first_offset == new_start
        log.close(now_ms=NOW_MS)
        assert offsets(opened(directory, **SMALL)) == [new_start]
