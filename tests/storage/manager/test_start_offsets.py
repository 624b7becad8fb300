"""The log start offset across restarts and moves: deleted records stay deleted."""

import pytest

from odradek.storage.manager.disk_task import execute
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from tests.support.log_managers import EVENTS, Notebook, carry_all, copied, managing, written
from tests.support.logs import NOW_MS

VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture
def killed(tmp_path):
    """A directory as after a kill of Kafka, which writes log start offsets less often."""
    manager = managing(tmp_path)
    written(manager, EVENTS, *VALUES)
    manager.close_handlers()
    HIGH_WATERMARKS.write(tmp_path, {EVENTS: 5})
    RECOVERY_POINTS.write(tmp_path, {EVENTS: 0})
    return tmp_path


@pytest.mark.parametrize("start", [6, 10, 20])
def test_log_start_offset_between_high_watermark_and_log_end_offset_is_used(killed, start):
    LOG_START_OFFSETS.write(killed, {EVENTS: start})
    observer = Notebook()
    log = managing(killed, observer=observer).find(EVENTS).log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, start, 20)
    assert observer.notes == []


def test_log_start_offset_beyond_the_log_end_offset_is_reported_and_ignored(killed):
    LOG_START_OFFSETS.write(killed, {EVENTS: 21})
    observer = Notebook()
    log = managing(killed, observer=observer).find(EVENTS).log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 5, 20)
    (note,) = observer.notes
    assert (
        "log start offset 21: it is beyond the high watermark 5 and the log end offset 20" in note
    )


def test_log_start_offset_raised_during_a_move_moves_with_the_log(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    hosted_log = written(manager, EVENTS, *VALUES)
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    with hosted_log as log:
        log.maybe_increment_log_start_offset(5)
    execute(manager.finish_move(EVENTS))
    assert manager.find(EVENTS).log.log_start_offset == 5
    assert LOG_START_OFFSETS.read(tmp_path / "b") == {EVENTS: 5}
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    manager.close_handlers()
    assert managing(tmp_path / "a", tmp_path / "b").find(EVENTS).log.log_start_offset == 5
