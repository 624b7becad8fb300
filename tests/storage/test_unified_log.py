"""The log of one partition."""

import pytest

from odradek.protocol.errors import OffsetOutOfRange
from odradek.storage import files
from odradek.storage.admission.errors import UnexpectedAppendOffset
from odradek.storage.paths import Content
from tests.support.logs import (
    NOW_MS,
    append,
    batches_from,
    bytes_of,
    end_transaction,
    opened,
    records_batch,
    records_from,
)


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path / "events-0")


def base_offsets(log):
    return [segment.base_offset for segment in log.segments]


def test_offsets_are_given_in_the_order_of_appends(log):
    assert append(log, b"a", b"b").first_offset == 0
    assert append(log, b"c").first_offset == 2
    assert [record.value for record in records_from(log)] == [b"a", b"b", b"c"]


def test_a_rejected_set_leaves_no_trace(log):
    append(log, b"a")
    corrupt = records_batch(b"b")
    corrupt[-1] ^= 1
    with pytest.raises(Exception, match="checksum"):
        log.append_as_leader(corrupt, leader_epoch=0, now_ms=NOW_MS)
    assert log.end_offset == 1
    assert log.size_bytes == log.segments.active.path(Content.BATCHES).stat().st_size
    assert append(log, b"b").first_offset == 1


def test_a_read_below_the_start_or_beyond_the_end_is_out_of_range(log):
    append(log, b"a", b"b")
    log.advance_start(1)
    for offset in (0, 3):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, max_bytes=100, up_to=2)
    assert len(log.read(2, max_bytes=100, up_to=2)) == 0


def test_a_read_returns_nothing_at_or_beyond_its_bound(log):
    for value in (b"a", b"b", b"c"):
        append(log, value)
    assert [batch.base_offset for batch in batches_from(log, 0, up_to=2)] == [0, 1]
    assert batches_from(log, 2, up_to=2) == []


def test_a_segment_that_would_grow_too_large_is_sealed(tmp_path):
    log = opened(tmp_path / "events-0", segment_bytes=1000)
    for _ in range(10):
        append(log, bytes(300))
    assert base_offsets(log) == [0, 2, 4, 6, 8]
    assert [record.offset for record in records_from(log)] == list(range(10))


def test_a_segment_that_has_grown_too_old_is_sealed(tmp_path):
    log = opened(tmp_path / "events-0", segment_ms=1000)
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert base_offsets(log) == [0, 2]


def test_a_full_index_seals_the_segment(tmp_path):
    log = opened(tmp_path / "events-0", segment_index_bytes=16, index_interval_bytes=0)
    for _ in range(5):
        append(log, b"a")
    assert len(log.segments) > 1


def test_an_offset_too_far_from_the_base_seals_the_segment(log):
    append(log, b"a")
    far = 2**31 + 5
    log.append_as_follower(records_batch(b"b", base_offset=far), now_ms=NOW_MS)
    assert base_offsets(log) == [0, far]
    assert log.end_offset == far + 1


def test_a_roll_takes_a_snapshot_of_the_producers(tmp_path):
    log = opened(tmp_path / "events-0")
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    log.roll(now_ms=NOW_MS)
    assert (tmp_path / "events-0" / "00000000000000000001.snapshot").exists()


def test_rolling_an_empty_segment_changes_nothing(log):
    log.roll(now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    assert base_offsets(log) == [0]


def test_a_follower_takes_offsets_as_they_are_given(log):
    log.append_as_follower(records_batch(b"a", b"b", base_offset=10), now_ms=NOW_MS)
    assert log.end_offset == 12
    with pytest.raises(UnexpectedAppendOffset) as refusal:
        log.append_as_follower(records_batch(b"b", b"c", base_offset=11), now_ms=NOW_MS)
    assert (refusal.value.first_offset, refusal.value.last_offset) == (11, 12)


def test_an_empty_follower_begins_at_the_batch_its_leader_starts_in(tmp_path):
    log = opened(tmp_path / "events-0", start_offset=11)
    log.append_as_follower(records_batch(b"a", b"b", b"c", base_offset=10), now_ms=NOW_MS)
    assert (log.start_offset, log.end_offset) == (10, 13)
    assert base_offsets(log) == [10]


def test_leader_epochs_are_noted_where_they_begin(log):
    append(log, b"a", leader_epoch=0)
    append(log, b"b", leader_epoch=3)
    append(log, b"c", leader_epoch=3)
    assert log.epochs.entries == ((0, 0), (3, 1))


def test_an_open_transaction_holds_the_last_stable_offset(log):
    producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    append(log, b"a")
    append(log, b"b", base_sequence=0, **producer)
    append(log, b"c")
    assert log.last_stable_offset == 1
    end_transaction(log, producer_id=7, commit=False)
    assert log.last_stable_offset == log.end_offset == 4
    assert log.aborted_transactions(start=0, end=4) == [(7, 1, 3, 4)]
    assert log.aborted_transactions(start=0, end=1) == []


def test_aborted_transactions_are_found_across_segments_in_order(tmp_path):
    log = opened(tmp_path / "events-0")
    for producer_id in (2, 1):
        append(
            log,
            b"x",
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    log.roll(now_ms=NOW_MS)
    end_transaction(log, producer_id=1, commit=False)
    log.roll(now_ms=NOW_MS)
    end_transaction(log, producer_id=2, commit=False)
    found = log.aborted_transactions(start=0, end=2)
    assert [(aborted.producer_id, aborted.first_offset) for aborted in found] == [(2, 0), (1, 1)]


def test_a_failing_transaction_index_holds_the_last_stable_offset(log, monkeypatch):
    producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    append(log, b"b", base_sequence=0, **producer)

    def fail(aborted):
        raise OSError("no space")

    monkeypatch.setattr(log.segments.active.transaction_index, "append", fail)
    with pytest.raises(OSError, match="no space"):
        end_transaction(log, producer_id=7, commit=False)
    assert log.end_offset == 2
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 0


def test_a_retry_is_answered_with_the_first_answer_and_not_written(log):
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = append(log, b"a", b"b", base_sequence=0, **producer)
    append(log, b"c", base_sequence=2, **producer)
    again = append(log, b"a", b"b", base_sequence=0, **producer)
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    assert log.end_offset == 3


def test_the_start_moves_no_further_than_the_high_watermark(log):
    append(log, b"a", b"b")
    log.append_as_leader(records_batch(b"c"), leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(3)
    assert log.advance_start(2)
    assert not log.advance_start(1)
    assert log.start_offset == 2


def test_a_flush_plan_covers_what_was_appended_before_it(log):
    append(log, b"a")
    plan = log.plan_flush()
    append(log, b"b")
    plan.run()
    log.flushed(plan, now_ms=NOW_MS)
    assert log.recovery_point == 1
    assert log.end_offset - log.recovery_point == 1


def test_a_flush_that_comes_after_a_truncation_does_not_cover_it(log):
    append(log, b"a")
    append(log, b"b")
    plan = log.plan_flush()
    from odradek.storage.log_truncation import truncate

    truncate(log, 1, now_ms=NOW_MS)
    plan.run()
    log.flushed(plan, now_ms=NOW_MS)
    assert log.recovery_point == 1


def test_everything_is_synced_before_a_clean_close_returns(log, monkeypatch):
    append(log, b"a")
    synced = []
    monkeypatch.setattr(files.system, "fsync", lambda descriptor: synced.append(descriptor))
    log.close(now_ms=NOW_MS)
    assert synced
    assert log.recovery_point == log.end_offset


def test_the_first_batch_is_whole_however_small_the_fetch(log):
    append(log, bytes(5000))
    region = log.read(0, max_bytes=10, up_to=1)
    assert len(bytes_of(region)) > 5000
