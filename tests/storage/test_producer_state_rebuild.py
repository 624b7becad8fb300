"""Producers' states made anew from batches that are damaged: what cannot be learned is told."""

from struct import pack_into

import pytest

from odradek.storage.log_loader import Findings
from odradek.storage.paths import Content, file_path
from tests.support.damage import flip_in_batch
from tests.support.log_managers import EVENTS, Notebook, managing
from tests.support.logs import NOW_MS, append, opened

DAMAGED = 2  # where the segment begins whose first batch is damaged
FIELDS = {
    "no length": (8, ">i", 0),
    "length beyond the segment": (8, ">i", 10_000),
    "a shorter length": (8, ">i", 60),
    "an unknown magic": (16, ">b", 9),
    "an older magic": (16, ">b", 0),
    "an offset that is past": (0, ">q", 0),
    "an offset to come": (0, ">q", 99),
    "an offset that is far away": (0, ">q", 2**40),
    "an end before its beginning": (23, ">i", -3),
    "another producer": (43, ">q", 3),
}


@pytest.fixture
def directory(tmp_path):
    """Three segments of two batches each, by one producer, and no snapshot."""
    directory = tmp_path / "events-0"
    log = opened(directory)
    fill(log)
    log.close(now_ms=NOW_MS)
    for path in directory.glob("*.snapshot"):
        path.unlink()
    return directory


def fill(log):
    for number in range(6):
        if number and number % 2 == 0:
            log.roll(now_ms=NOW_MS)
        append(log, b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)


def batches_path(directory):
    return file_path(directory, DAMAGED, Content.BATCHES)


def damage(directory, field):
    position, layout, value = FIELDS[field]
    content = bytearray(batches_path(directory).read_bytes())
    pack_into(layout, content, position, value)
    batches_path(directory).write_bytes(content)


@pytest.mark.parametrize("field", FIELDS)
def test_a_segment_whose_first_header_is_damaged_is_not_passed_over_in_silence(directory, field):
    damage(directory, field)
    findings = Findings()
    log = opened(directory, findings, recovery_point=6)
    (note,) = findings.notes
    assert note.startswith(str(batches_path(directory)))
    assert log.producers.states[7].last_sequence == 5


@pytest.mark.parametrize("field", ["an offset that is past", "an offset to come"])
def test_batches_behind_one_with_a_wrong_offset_are_learned_from(directory, field):
    file_path(directory, DAMAGED + 2, Content.BATCHES).unlink()
    damage(directory, field)
    log = opened(directory, recovery_point=4)
    assert log.producers.states[7].last_sequence == 3


def test_what_is_read_only_to_make_an_index_anew_is_told_too(directory):
    opened(directory, recovery_point=6).close(now_ms=NOW_MS)
    damage(directory, "another producer")
    file_path(directory, 4, Content.OFFSET_INDEX).unlink()
    findings = Findings()
    opened(directory, findings, recovery_point=6)
    assert [note for note in findings.notes if note.startswith(str(batches_path(directory)))]


def test_damage_that_a_truncation_meets_is_told(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path, observer=observer)
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    fill(hosted.log)
    hosted.log.producers.snapshots.remove_all()
    flip_in_batch(hosted.log.segments.first, 0, 65)
    manager.truncate(hosted, 5, now_ms=NOW_MS)
    (note,) = observer.notes
    assert "checksum" in note
    assert hosted.log.producers.states[7].last_sequence == 4
