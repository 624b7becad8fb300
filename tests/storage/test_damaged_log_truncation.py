"""Truncating a log with damaged batches, and which batches truncation reads."""

import pytest

from odradek.storage.log_truncation import plan_truncation, truncate_to
from tests.support.damage import LENGTH_POSITION, flip_in_batch
from tests.support.logs import NOW_MS, append, opened, records_from, recovered

SMALL = {"segment_bytes": 900, "index_interval_bytes": 10_000}
DAMAGES = {
    "a length beyond the segment": (LENGTH_POSITION, 0x7F),
    "a length that is somewhat longer": (LENGTH_POSITION + 3, 0x08),
    "an unknown magic": (16, 0x40),
}


@pytest.fixture
def log(tmp_path):
    """Segments of five batches, of one record each."""
    log = opened(tmp_path / "events-0", **SMALL)
    for number in range(20):
        append(log, b"%d" % number + bytes(100))
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15]
    return log


def damage(log, kind, *, number=1):
    position, mask = DAMAGES[kind]
    flip_in_batch(log.segments.get(5), number, position, mask=mask)


@pytest.mark.parametrize("kind", DAMAGES)
def test_log_is_truncated_at_a_damaged_batch_before_the_offset(log, kind):
    damage(log, kind)
    warnings = []
    dropped = truncate_to(log, 8, now_ms=NOW_MS, warn=warnings.append)
    assert (log.log_end_offset, log.high_watermark) == (6, 6)
    assert [segment.base_offset for segment in dropped] == [10, 15]
    (warning,) = warnings
    assert "truncating to offset 6 instead of 8" in warning


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("is_clean", [True, False])
def test_records_appended_afterwards_are_read_before_and_after_a_restart(log, kind, is_clean):
    damage(log, kind)
    truncate_to(log, 8, now_ms=NOW_MS)
    append(log, b"new")
    assert [record.offset for record in records_from(log)] == list(range(7))
    if is_clean:
        log.close(now_ms=NOW_MS)
        reopened = opened(log.directory, **SMALL)
    else:
        log.close_handlers()
        reopened = recovered(log.directory, **SMALL)
    assert [record.offset for record in records_from(reopened)] == list(range(7))
    assert records_from(reopened)[-1].value == b"new"


def test_segment_whose_first_batch_is_damaged_is_emptied(log):
    damage(log, "an unknown magic", number=0)
    truncate_to(log, 8, now_ms=NOW_MS)
    assert (log.log_end_offset, log.segments.active.size_bytes) == (5, 0)
    assert append(log, b"new").first_offset == 5


def test_log_end_is_found_from_earlier_batches_if_an_index_entry_is_invalid(tmp_path):
    log = opened(tmp_path / "events-0", index_interval_bytes=100)
    for number in range(8):
        append(log, b"%d" % number + bytes(100))
    active = log.segments.active
    assert active.offset_index.lookup(5).offset == 5
    flip_in_batch(active, 5, 16)
    truncate_to(log, 5, now_ms=NOW_MS)
    assert log.log_end_offset == 5
    append(log, b"new")
    assert [record.offset for record in records_from(log)] == list(range(6))


def test_damage_after_the_offset_is_ignored(log):
    damage(log, "an unknown magic", number=4)
    warnings = []
    truncate_to(log, 8, now_ms=NOW_MS, warn=warnings.append)
    assert (log.log_end_offset, warnings) == (8, [])


def test_batches_are_not_read_if_there_are_no_producers(log):
    flip_in_batch(log.segments.get(15), 0, 65)
    warnings = []
    truncate_to(log, 18, now_ms=NOW_MS, warn=warnings.append)
    assert warnings == []
    assert log.producer_state_manager.map_end_offset == 18


def test_producer_with_remaining_batches_is_still_known(log):
    for sequence in range(3):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)
    truncate_to(log, 21, now_ms=NOW_MS)
    assert log.producer_state_manager.active_producers[7].last_sequence == 0
    truncate_to(log, 20, now_ms=NOW_MS)
    assert len(log.producer_state_manager) == 0


def test_log_is_truncated_in_memory_before_its_files(log):
    truncation = plan_truncation(log, 7, now_ms=NOW_MS)
    names = {path.name for path in log.directory.glob("*.log")}
    assert len(names) == 4
    assert [record.offset for record in records_from(log)] == list(range(7))
    truncation.run()
    assert len(list(log.directory.glob("*.log"))) == 2
    assert [record.offset for record in records_from(log)] == list(range(7))
