"""Records that were deleted stay deleted: a log's start across restarts and moves."""

import pytest

from odradek.storage.manager.disk_work import carry_out
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from tests.support.log_managers import EVENTS, Notebook, carry_all, copied, managing, written
from tests.support.logs import NOW_MS

VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture
def killed(tmp_path):
    """As a killed Kafka leaves it: starts are written more seldom than high watermarks."""
    manager = managing(tmp_path)
    written(manager, EVENTS, *VALUES)
    manager.abandon()
    HIGH_WATERMARKS.write(tmp_path, {EVENTS: 5})
    RECOVERY_POINTS.write(tmp_path, {EVENTS: 0})
    return tmp_path


@pytest.mark.parametrize("start", [6, 10, 20])
def test_a_start_beyond_the_high_watermark_and_within_the_log_is_believed(killed, start):
    LOG_START_OFFSETS.write(killed, {EVENTS: start})
    observer = Notebook()
    log = managing(killed, observer=observer).find(EVENTS).log
    assert (log.start_offset, log.high_watermark, log.end_offset) == (start, start, 20)
    assert observer.notes == []


def test_a_start_beyond_the_end_of_the_log_is_reported_and_forgotten(killed):
    LOG_START_OFFSETS.write(killed, {EVENTS: 21})
    observer = Notebook()
    log = managing(killed, observer=observer).find(EVENTS).log
    assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 5, 20)
    (note,) = observer.notes
    assert "a start at 21 is beyond the high watermark 5 and the end 20" in note


def test_a_start_that_moves_while_a_copy_waits_goes_with_it(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    hosted = written(manager, EVENTS, *VALUES)
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    with hosted as log:
        log.advance_start(5)
    carry_out(manager.finish_move(EVENTS))
    assert manager.find(EVENTS).log.start_offset == 5
    assert LOG_START_OFFSETS.read(tmp_path / "b") == {EVENTS: 5}
    carry_all(manager.deletions(now_ms=NOW_MS))
    manager.abandon()
    assert managing(tmp_path / "a", tmp_path / "b").find(EVENTS).log.start_offset == 5
