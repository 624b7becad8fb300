"""UnifiedLog: append, read, roll, flush and close of one partition's log."""

import pytest

from odradek.protocol.errors import OffsetOutOfRange
from odradek.storage import files
from odradek.storage.paths import LogFileType
from odradek.storage.validation.errors import UnexpectedAppendOffset
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


def test_offsets_are_assigned_in_append_order(log):
    assert append(log, b"a", b"b").first_offset == 0
    assert append(log, b"c").first_offset == 2
    assert [record.value for record in records_from(log)] == [b"a", b"b", b"c"]


def test_rejected_batch_leaves_the_log_unchanged(log):
    append(log, b"a")
    corrupt = records_batch(b"b")
    corrupt[-1] ^= 1
    with pytest.raises(Exception, match="checksum"):
        log.append_as_leader(corrupt, leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 1
    assert log.size_bytes == log.segments.active.path(LogFileType.LOG).stat().st_size
    assert append(log, b"b").first_offset == 1


def test_read_below_the_start_or_beyond_the_end_is_out_of_range(log):
    append(log, b"a", b"b")
    log.maybe_increment_log_start_offset(1)
    for offset in (0, 3):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, max_bytes=100, max_offset=2)
    assert len(log.read(2, max_bytes=100, max_offset=2)) == 0


def test_read_returns_nothing_at_or_beyond_max_offset(log):
    for value in (b"a", b"b", b"c"):
        append(log, value)
    assert [batch.base_offset for batch in batches_from(log, 0, up_to=2)] == [0, 1]
    assert batches_from(log, 2, up_to=2) == []


def test_log_rolls_when_the_segment_would_grow_too_large(tmp_path):
    log = opened(tmp_path / "events-0", segment_bytes=1000)
    for _ in range(10):
        append(log, bytes(300))
    assert base_offsets(log) == [0, 2, 4, 6, 8]
    assert [record.offset for record in records_from(log)] == list(range(10))


def test_log_rolls_when_the_segment_is_too_old(tmp_path):
    log = opened(tmp_path / "events-0", segment_ms=1000)
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert base_offsets(log) == [0, 2]


def test_log_rolls_when_the_index_is_full(tmp_path):
    log = opened(tmp_path / "events-0", segment_index_bytes=16, index_interval_bytes=0)
    for _ in range(5):
        append(log, b"a")
    assert len(log.segments) > 1


def test_log_rolls_at_an_offset_too_far_from_the_base_offset(log):
    append(log, b"a")
    far = 2**31 + 5
    log.append_as_follower(records_batch(b"b", base_offset=far), now_ms=NOW_MS)
    assert base_offsets(log) == [0, far]
    assert log.log_end_offset == far + 1


def test_roll_writes_a_producer_snapshot(tmp_path):
    log = opened(tmp_path / "events-0")
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    log.roll(now_ms=NOW_MS)
    assert (tmp_path / "events-0" / "00000000000000000001.snapshot").exists()


def test_rolling_an_empty_segment_changes_nothing(log):
    log.roll(now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    assert base_offsets(log) == [0]


def test_follower_append_keeps_the_leaders_offsets(log):
    log.append_as_follower(records_batch(b"a", b"b", base_offset=10), now_ms=NOW_MS)
    assert log.log_end_offset == 12
    with pytest.raises(UnexpectedAppendOffset) as raised:
        log.append_as_follower(records_batch(b"b", b"c", base_offset=11), now_ms=NOW_MS)
    assert (raised.value.first_offset, raised.value.last_offset) == (11, 12)


def test_empty_follower_starts_at_the_batch_that_holds_the_leaders_start(tmp_path):
    log = opened(tmp_path / "events-0", log_start_offset=11)
    log.append_as_follower(records_batch(b"a", b"b", b"c", base_offset=10), now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (10, 13)
    assert base_offsets(log) == [10]


def test_leader_epochs_are_cached_with_their_start_offsets(log):
    append(log, b"a", leader_epoch=0)
    append(log, b"b", leader_epoch=3)
    append(log, b"c", leader_epoch=3)
    assert log.leader_epoch_cache.entries == ((0, 0), (3, 1))


def test_open_transaction_holds_the_last_stable_offset(log):
    producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    append(log, b"a")
    append(log, b"b", base_sequence=0, **producer)
    append(log, b"c")
    assert log.last_stable_offset == 1
    end_transaction(log, producer_id=7, commit=False)
    assert log.last_stable_offset == log.log_end_offset == 4
    assert log.collect_aborted_transactions(start=0, end=4) == [(7, 1, 3, 4)]
    assert log.collect_aborted_transactions(start=0, end=1) == []


def test_aborted_transactions_of_all_segments_are_returned_in_order(tmp_path):
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
    aborted_txns = log.collect_aborted_transactions(start=0, end=2)
    assert [(aborted.producer_id, aborted.first_offset) for aborted in aborted_txns] == [
        (2, 0),
        (1, 1),
    ]


def test_failed_transaction_index_append_holds_the_last_stable_offset(log, monkeypatch):
    producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    append(log, b"b", base_sequence=0, **producer)

    def fail(aborted):
        raise OSError("no space")

    monkeypatch.setattr(log.segments.active.transaction_index, "append", fail)
    with pytest.raises(OSError, match="no space"):
        end_transaction(log, producer_id=7, commit=False)
    assert log.log_end_offset == 2
    log.update_high_watermark(2)
    assert log.last_stable_offset == 0


def test_retry_returns_the_original_offsets_and_appends_nothing(log):
    producer = {"producer_id": 7, "producer_epoch": 0}
    first = append(log, b"a", b"b", base_sequence=0, **producer)
    append(log, b"c", base_sequence=2, **producer)
    retry = append(log, b"a", b"b", base_sequence=0, **producer)
    assert retry.is_duplicate
    assert (retry.first_offset, retry.last_offset) == (first.first_offset, first.last_offset)
    assert log.log_end_offset == 3


def test_log_start_offset_does_not_pass_the_high_watermark(log):
    append(log, b"a", b"b")
    log.append_as_leader(records_batch(b"c"), leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(OffsetOutOfRange):
        log.maybe_increment_log_start_offset(3)
    assert log.maybe_increment_log_start_offset(2)
    assert not log.maybe_increment_log_start_offset(1)
    assert log.log_start_offset == 2


def test_flush_plan_covers_only_earlier_appends(log):
    append(log, b"a")
    plan = log.plan_flush()
    append(log, b"b")
    plan.run()
    log.mark_flushed(plan, now_ms=NOW_MS)
    assert log.recovery_point == 1
    assert log.log_end_offset - log.recovery_point == 1


def test_flush_plan_from_before_a_truncation_covers_only_the_remaining_records(log):
    append(log, b"a")
    append(log, b"b")
    plan = log.plan_flush()
    from odradek.storage.log_truncation import truncate_to

    truncate_to(log, 1, now_ms=NOW_MS)
    plan.run()
    log.mark_flushed(plan, now_ms=NOW_MS)
    assert log.recovery_point == 1


def test_clean_close_flushes_everything(log, monkeypatch):
    append(log, b"a")
    synced = []
    monkeypatch.setattr(files.system, "fsync", lambda descriptor: synced.append(descriptor))
    log.close(now_ms=NOW_MS)
    assert synced
    assert log.recovery_point == log.log_end_offset


def test_first_batch_is_returned_whole_with_any_max_bytes(log):
    append(log, bytes(5000))
    region = log.read(0, max_bytes=10, max_offset=1)
    assert len(bytes_of(region)) > 5000
