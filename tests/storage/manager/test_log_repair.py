"""Repair of logs that a lack of file descriptors left partly changed."""

import errno
import os
from contextlib import suppress

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError, code_of
from odradek.protocol.types import Uuid
from odradek.storage import clean_shutdown, files
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.offset_checkpoints import RECOVERY_POINTS
from odradek.storage.open_segments import TooManyOpenFiles
from odradek.storage.paths import LogFileType
from tests.support.few_descriptors import FewDescriptors, none_left
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    carry_all,
    contents,
    delete,
    flush,
    managing,
    names_in,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, append, records_batch

TOPIC_ID = Uuid(bytes(range(16)))


@pytest.fixture
def manager(tmp_path):
    return managing(tmp_path)


@pytest.fixture
def hosted(manager):
    written(manager, ORDERS, b"x")
    return written(manager, EVENTS, b"a", b"b")


def roll_without_descriptors(hosted, **options):
    with none_left(**options), pytest.raises(TooManyOpenFiles) as error, hosted as log:
        log.roll(now_ms=NOW_MS)
    assert code_of(error.value) == ErrorCode.KAFKA_STORAGE_ERROR.code


def append_as_follower(log, value, *, base_offset):
    log.append_as_follower(records_batch(value, base_offset=base_offset), now_ms=NOW_MS)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_interrupted_change_makes_one_log_unusable(manager, hosted, error):
    roll_without_descriptors(hosted, error=error)
    with pytest.raises(TooManyOpenFiles, match="must be recovered first"):
        values_in(hosted)
    assert manager.directories.online
    assert values_in(manager.find(ORDERS)) == [b"x"]
    assert manager.maintenance.due_flush_tasks(NOW_MS) == []


def test_repaired_log_has_all_acknowledged_records_and_accepts_appends(manager, hosted):
    flush(hosted)
    written(manager, EVENTS, b"c")
    roll_without_descriptors(hosted)
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    assert manager.repair_tasks(now_ms=NOW_MS) == []
    assert values_in(written(manager, EVENTS, b"d")) == [b"a", b"b", b"c", b"d"]
    assert hosted.log.recovery_point == 2
    flush(hosted)
    assert hosted.log.recovery_point == 4


def test_repair_keeps_the_high_watermark_settings_and_leader_epochs(manager, hosted):
    with hosted as log:
        log.update_high_watermark(1)
        log.leader_epoch_cache.assign(7, start_offset=2)
    roll_without_descriptors(hosted)
    (task,) = manager.repair_tasks(now_ms=NOW_MS)
    settings = manager.topic_settings.defaults
    changed = type(settings)(retention_ms=5)
    with task:
        task.run()
        manager.configure("events", changed)
    assert hosted.log.high_watermark == 1
    assert hosted.log.settings is changed
    assert hosted.log.leader_epoch_cache.entries == ((0, 0), (7, 2))


def test_repair_is_retried_until_descriptors_are_available(manager, hosted):
    roll_without_descriptors(hosted)
    for fail_at in range(1, 60):
        (task,) = manager.repair_tasks(now_ms=NOW_MS)
        with FewDescriptors(fail_at=fail_at) as system:
            try:
                execute(task)
            except TooManyOpenFiles:
                assert system.failed_calls
        if not system.failed_calls:
            break
        assert manager.directories.online
    assert fail_at > 5
    assert values_in(hosted) == [b"a", b"b"]


def test_repair_waits_for_a_running_flush(manager, hosted):
    flush_task = hosted.flush_task(now_ms=NOW_MS)
    with flush_task:
        roll_without_descriptors(hosted)
        assert manager.repair_tasks(now_ms=NOW_MS) == []
        flush_task.run()
    assert hosted.log.recovery_point == 0
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    assert values_in(hosted) == [b"a", b"b"]


def test_log_has_one_repair_task_at_a_time(manager, hosted):
    roll_without_descriptors(hosted)
    assert len(manager.repair_tasks(now_ms=NOW_MS)) == 1
    assert manager.repair_tasks(now_ms=NOW_MS) == []


def test_flush_planned_before_the_repair_can_be_repeated_after_it(manager, hosted):
    flush_task = hosted.flush_task(now_ms=NOW_MS)
    roll_without_descriptors(hosted)
    with pytest.raises(TooManyOpenFiles):
        execute(flush_task)
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    flush(hosted)
    assert hosted.log.recovery_point == 2


def test_interrupted_truncation_can_be_repeated_after_the_repair(manager, hosted):
    flush(hosted)
    carry_all(manager.checkpoint_tasks())
    task = manager.truncate(hosted, 1, now_ms=NOW_MS)
    with none_left(), pytest.raises(TooManyOpenFiles):
        execute(task)
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    with hosted as log:
        end_offset = log.log_end_offset
    assert end_offset in (1, 2)
    execute(manager.truncate(hosted, 1, now_ms=NOW_MS))
    assert values_in(hosted) == [b"a"]


def test_repair_resets_the_recovery_point_checkpoint(manager, hosted, tmp_path):
    flush(hosted)
    carry_all(manager.checkpoint_tasks())
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 2
    with none_left(), pytest.raises(TooManyOpenFiles):
        execute(manager.truncate(hosted, 1, now_ms=NOW_MS))
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 0
    carry_all(manager.checkpoint_tasks())
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == hosted.log.recovery_point


def test_earlier_write_error_takes_the_directory_offline(manager, hosted, monkeypatch):
    roll_without_descriptors(hosted)
    (task,) = manager.repair_tasks(now_ms=NOW_MS)
    active_file = hosted.log.segments.active.file
    fsync = files.system.fsync

    def fail_fsync_once(descriptor):
        if descriptor == active_file.fileno():
            raise OSError(errno.EIO, "an earlier write has failed")
        fsync(descriptor)

    monkeypatch.setattr(files.system, "fsync", fail_fsync_once)
    with pytest.raises(LogDirectoryOffline, match="an earlier write"):
        execute(task)


def test_repair_keeps_the_last_flush_time(manager, hosted):
    flush(hosted)
    roll_without_descriptors(hosted)
    carry_all(manager.repair_tasks(now_ms=NOW_MS + 5))
    assert hosted.log.last_flush_ms == NOW_MS


def test_close_flushes_a_repaired_log(tmp_path, monkeypatch):
    first = managing(tmp_path)
    written(first, EVENTS, b"a")
    first.close(now_ms=NOW_MS)
    manager = managing(tmp_path)
    hosted = manager.find(EVENTS)
    assert not hosted.is_repaired
    hosted.needs_recovery = True
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    flushed = []
    fsync = files.system.fsync
    monkeypatch.setattr(
        files.system,
        "fsync",
        lambda descriptor: (flushed.append(name_of(descriptor)), fsync(descriptor)),
    )
    manager.close(now_ms=NOW_MS)
    assert "00000000000000000000.log" in flushed


def name_of(descriptor):
    return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))


def test_repair_lowers_the_cleaner_checkpoint_to_the_log_end_offset(manager, hosted):
    flush(hosted)
    manager.cleaner_manager.update_checkpoint(hosted.log, 2)
    with none_left(), pytest.raises(TooManyOpenFiles):
        execute(manager.truncate(hosted, 0, now_ms=NOW_MS))
    hosted.log.segments.active.close_handlers()
    os.truncate(hosted.log.segments.active.path(LogFileType.LOG), 0)
    hosted.log.recovery_point = 0
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    assert hosted.log.log_end_offset == 0
    assert manager.cleaner_manager.last_clean_offset(hosted.log) == 0


def test_log_that_needs_recovery_can_be_deleted(manager, hosted, tmp_path):
    roll_without_descriptors(hosted)
    (task,) = manager.repair_tasks(now_ms=NOW_MS)
    delete(manager, EVENTS)
    execute(task)
    assert manager.find(EVENTS) is None
    assert manager.repair_tasks(now_ms=NOW_MS) == []
    manager.close(now_ms=NOW_MS)
    assert contents(managing(tmp_path)) == {ORDERS: [b"x"]}


def test_directory_of_a_log_that_needs_recovery_gets_no_marker(manager, hosted, tmp_path):
    roll_without_descriptors(hosted)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None
    assert contents(managing(tmp_path)) == {EVENTS: [b"a", b"b"], ORDERS: [b"x"]}


def test_append_that_cannot_open_the_log_needs_no_recovery(manager, hosted, tmp_path):
    manager.close(now_ms=NOW_MS)
    restarted = managing(tmp_path)
    hosted = restarted.find(EVENTS)
    with none_left(), pytest.raises(TooManyOpenFiles), hosted as log:
        append(log, b"c")
    assert not hosted.needs_recovery
    assert values_in(written(restarted, EVENTS, b"d")) == [b"a", b"b", b"d"]


def test_log_with_an_unwritten_segment_after_a_gap_is_repaired(tmp_path):
    for fail_at in range(1, 30):
        manager = managing(tmp_path / str(fail_at), segment_bytes=300)
        hosted = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
        with hosted as log:
            append_as_follower(log, bytes(200), base_offset=0)
            log.update_high_watermark(1)
        with FewDescriptors(fail_at=fail_at) as system, suppress(TooManyOpenFiles), hosted as log:
            append_as_follower(log, bytes(200), base_offset=10)
        if not system.failed_calls:
            break
        carry_all(manager.repair_tasks(now_ms=NOW_MS))
        execute(manager.truncate(hosted, 1, now_ms=NOW_MS))
        with hosted as log:
            append_as_follower(log, b"of another leader", base_offset=1)
            assert log.log_end_offset == 2
        assert values_in(hosted) == [bytes(200), b"of another leader"]
    assert fail_at > 5


def test_failed_append_to_a_new_segment_needs_no_recovery(tmp_path):
    manager = managing(tmp_path, segment_bytes=300)
    hosted = written(manager, EVENTS, bytes(200))
    with hosted as log:
        log.roll(now_ms=NOW_MS)
    with FewDescriptors(fail_at=1), pytest.raises(TooManyOpenFiles), hosted as log:
        append(log, bytes(200))
    assert not hosted.needs_recovery
    assert values_in(written(manager, EVENTS, b"b")) == [bytes(200), b"b"]


def test_failed_creation_of_a_log_leaves_no_files(tmp_path):
    manager = managing(tmp_path)
    for fail_at in range(1, 60):
        with FewDescriptors(fail_at=fail_at) as system:
            try:
                manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
            except KafkaStorageError:
                assert system.failed_calls
        if not system.failed_calls:
            break
        assert manager.directories.online
        assert manager.find(EVENTS) is None
        assert names_in(tmp_path, "events-0") == []
    assert fail_at > 3
    assert manager.find(EVENTS).topic_id == TOPIC_ID


def test_interrupted_checkpoint_is_written_again(manager, hosted, tmp_path):
    carry_all(manager.checkpoint_tasks())
    flush(hosted)
    (task,) = manager.checkpoint_tasks()
    with FewDescriptors(fail_at=2), pytest.raises(TooManyOpenFiles):
        execute(task)
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 2
    execute(manager.truncate(hosted, 0, now_ms=NOW_MS))
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 0
