"""Truncation where the batches break off, and what it reads of the rest."""

import pytest

from odradek.storage.log_truncation import plan_truncation, truncate
from tests.support.damage import LENGTH_POSITION, flip_in_batch
from tests.support.logs import NOW_MS, append, opened, records_from, recovered

SMALL = {"segment_bytes": 900, "index_interval_bytes": 10_000}
WAYS = {
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


def damage(log, way, *, number=1):
    position, mask = WAYS[way]
    flip_in_batch(log.segments.at(5), number, position, mask=mask)


@pytest.mark.parametrize("way", WAYS)
def test_a_log_is_cut_where_its_batches_break_off_before_the_offset(log, way):
    damage(log, way)
    notes = []
    dropped = truncate(log, 8, now_ms=NOW_MS, notice=notes.append)
    assert (log.end_offset, log.high_watermark) == (6, 6)
    assert [segment.base_offset for segment in dropped] == [10, 15]
    (note,) = notes
    assert "cut at 6 already, instead of 8" in note


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_appended_then_is_read_now_and_after_a_restart(log, way, is_clean):
    damage(log, way)
    truncate(log, 8, now_ms=NOW_MS)
    append(log, b"new")
    assert [record.offset for record in records_from(log)] == list(range(7))
    if is_clean:
        log.close(now_ms=NOW_MS)
        again = opened(log.directory, **SMALL)
    else:
        log.abandon()
        again = recovered(log.directory, **SMALL)
    assert [record.offset for record in records_from(again)] == list(range(7))
    assert records_from(again)[-1].value == b"new"


def test_a_segment_of_which_nothing_can_be_read_is_emptied(log):
    damage(log, "an unknown magic", number=0)
    truncate(log, 8, now_ms=NOW_MS)
    assert (log.end_offset, log.segments.active.size_bytes) == (5, 0)
    assert append(log, b"new").first_offset == 5


def test_where_an_index_entry_leads_to_no_batch_those_before_it_tell_what_is_next(tmp_path):
    log = opened(tmp_path / "events-0", index_interval_bytes=100)
    for number in range(8):
        append(log, b"%d" % number + bytes(100))
    active = log.segments.active
    assert active.index.lookup(5).offset == 5
    flip_in_batch(active, 5, 16)
    truncate(log, 5, now_ms=NOW_MS)
    assert log.end_offset == 5
    append(log, b"new")
    assert [record.offset for record in records_from(log)] == list(range(6))


def test_damage_behind_the_cut_costs_nothing(log):
    damage(log, "an unknown magic", number=4)
    notes = []
    truncate(log, 8, now_ms=NOW_MS, notice=notes.append)
    assert (log.end_offset, notes) == (8, [])


def test_without_producers_no_batch_is_read_to_find_any(log):
    flip_in_batch(log.segments.at(15), 0, 65)
    notes = []
    truncate(log, 18, now_ms=NOW_MS, notice=notes.append)
    assert notes == []
    assert log.producers.end_offset == 18


def test_a_producer_whose_batches_stay_is_known_still(log):
    for sequence in range(3):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)
    truncate(log, 21, now_ms=NOW_MS)
    assert log.producers.states[7].last_sequence == 0
    truncate(log, 20, now_ms=NOW_MS)
    assert len(log.producers) == 0


def test_the_log_is_cut_for_its_users_before_its_files_are(log):
    truncation = plan_truncation(log, 7, now_ms=NOW_MS)
    names = {path.name for path in log.directory.glob("*.log")}
    assert len(names) == 4
    assert [record.offset for record in records_from(log)] == list(range(7))
    truncation.run()
    assert len(list(log.directory.glob("*.log"))) == 2
    assert [record.offset for record in records_from(log)] == list(range(7))
