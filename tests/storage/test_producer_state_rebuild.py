"""Rebuilding producer state from damaged batches reports the batches that cannot be read."""

from struct import pack_into

import pytest

from odradek.storage.log_loader import LogLoadReport
from odradek.storage.paths import LogFileType, file_path
from tests.support.damage import flip_in_batch
from tests.support.log_managers import EVENTS, Notebook, managing
from tests.support.logs import NOW_MS, append, opened

DAMAGED = 2  # base offset of the segment whose first batch is damaged
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
    return file_path(directory, DAMAGED, LogFileType.LOG)


def damage(directory, field):
    position, layout, value = FIELDS[field]
    content = bytearray(batches_path(directory).read_bytes())
    pack_into(layout, content, position, value)
    batches_path(directory).write_bytes(content)


@pytest.mark.parametrize("field", FIELDS)
def test_damaged_first_header_of_a_segment_is_reported(directory, field):
    damage(directory, field)
    load_report = LogLoadReport()
    log = opened(directory, load_report, recovery_point=6)
    (problem,) = load_report.problems
    assert problem.startswith(str(batches_path(directory)))
    assert log.producer_state_manager.active_producers[7].last_sequence == 5


@pytest.mark.parametrize("field", ["an offset that is past", "an offset to come"])
def test_batches_after_one_with_a_wrong_offset_are_replayed(directory, field):
    file_path(directory, DAMAGED + 2, LogFileType.LOG).unlink()
    damage(directory, field)
    log = opened(directory, recovery_point=4)
    assert log.producer_state_manager.active_producers[7].last_sequence == 3


def test_damage_met_while_rebuilding_an_index_is_reported(directory):
    opened(directory, recovery_point=6).close(now_ms=NOW_MS)
    damage(directory, "another producer")
    file_path(directory, 4, LogFileType.OFFSET_INDEX).unlink()
    load_report = LogLoadReport()
    opened(directory, load_report, recovery_point=6)
    assert [
        problem
        for problem in load_report.problems
        if problem.startswith(str(batches_path(directory)))
    ]


def test_damage_met_by_a_truncation_is_reported(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path, observer=observer)
    hosted = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    fill(hosted.log)
    hosted.log.producer_state_manager.snapshots.remove_all()
    flip_in_batch(hosted.log.segments.first, 0, 65)
    manager.truncate(hosted, 5, now_ms=NOW_MS)
    (problem,) = observer.notes
    assert "checksum" in problem
    assert hosted.log.producer_state_manager.active_producers[7].last_sequence == 4
