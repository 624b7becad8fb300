"""Moves of logs between log directories."""

import errno
import shutil
from contextlib import nullcontext

import pytest

from odradek.protocol.errors import InvalidTopic, KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import partition_metadata
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.manager.log_dir_move import MOVE_MARKER_FILE_NAME
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from odradek.storage.open_segments import TooManyOpenFiles
from tests.support.compaction import CLEANER
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import (
    EVENTS,
    Notebook,
    carry_all,
    contents,
    copied,
    delete,
    flush,
    managing,
    move,
    names_in,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, append, bytes_of

TOPIC_ID = Uuid(bytes(range(16)))


@pytest.fixture
def two(tmp_path):
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def manager(two):
    manager = managing(*two)
    manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    written(manager, EVENTS, b"1", b"2", b"3")
    return manager


def test_moved_log_is_in_the_target_directory_with_all_its_records(manager, two):
    a, b = two
    move(manager, EVENTS, manager.directories.all[1])
    hosted_log = manager.find(EVENTS)
    assert hosted_log.log.directory == b / "events-0"
    assert values_in(hosted_log) == [b"1", b"2", b"3"]
    assert not hosted_log.is_future
    assert manager.find_future(EVENTS) is None
    assert len(names_in(a, "-delete")) == 1
    assert names_in(b, "-future") == []
    assert partition_metadata.read(b / "events-0") == TOPIC_ID


def test_moved_log_accepts_appends(manager, two):
    move(manager, EVENTS, manager.directories.all[1])
    hosted_log = written(manager, EVENTS, b"4")
    flush(hosted_log)
    manager.close(now_ms=NOW_MS)
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3", b"4"]}


def test_log_can_be_moved_back(manager, two):
    a, b = manager.directories.all
    move(manager, EVENTS, b)
    move(manager, EVENTS, a)
    manager.close_handlers()
    restarted = managing(*two)
    assert contents(restarted) == {EVENTS: [b"1", b"2", b"3"]}
    assert restarted.find(EVENTS).directory.path == two[0]


def test_high_watermark_and_checkpoints_move_with_the_log(manager, two):
    with manager.find(EVENTS) as log:
        append(log, b"4")
        log.update_high_watermark(3)
    manager.cleaner_manager.update_checkpoint(manager.find(EVENTS).log, 2)
    flush(manager.find(EVENTS))
    move(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.checkpoint_tasks())
    hosted_log = manager.find(EVENTS)
    assert hosted_log.log.high_watermark == 3
    assert manager.cleaner_manager.last_clean_offset(hosted_log.log) == 2
    assert HIGH_WATERMARKS.read(two[0]) == RECOVERY_POINTS.read(two[0]) == {}
    assert HIGH_WATERMARKS.read(two[1]) == {EVENTS: 3}
    assert RECOVERY_POINTS.read(two[1]) == {EVENTS: 4}


def test_file_region_read_before_the_move_stays_readable(manager):
    with manager.find(EVENTS) as log:
        region = log.read(0, max_bytes=1000, max_offset=3)
    before = bytes_of(region)
    move(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 60_000))
    assert bytes_of(region) == before


def test_future_log_that_has_fallen_behind_does_not_replace_the_log(manager):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    written(manager, EVENTS, b"4")
    assert manager.finish_move(EVENTS) is None
    copied(manager, EVENTS, manager.directories.all[1])
    assert manager.finish_move(EVENTS) is not None


def test_unflushed_future_log_does_not_replace_a_flushed_log(manager):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    flush(written(manager, EVENTS, b"4"))
    copied(manager, EVENTS, manager.directories.all[1])
    assert manager.finish_move(EVENTS) is None
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    assert manager.finish_move(EVENTS) is not None


def test_future_log_does_not_replace_the_log_without_preparation(manager):
    copied(manager, EVENTS, manager.directories.all[1])
    assert manager.finish_move(EVENTS) is None


def test_future_log_can_be_deleted(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    manager.delete_future(EVENTS)
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    assert manager.find_future(EVENTS) is None
    assert len(names_in(two[1], "-delete")) == 1
    manager.close_handlers()
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3"]}


def test_old_log_keeps_its_name_until_the_rename_is_flushed(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    rename_task = manager.finish_move(EVENTS)
    assert manager.deletion_tasks(now_ms=NOW_MS) == []
    assert (two[0] / "events-0" / MOVE_MARKER_FILE_NAME).exists()
    execute(rename_task)
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    assert not (two[0] / "events-0").exists()


def test_replaced_log_is_removed_after_a_crash(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    manager.finish_move(EVENTS)
    written(manager, EVENTS, b"4")
    manager.close_handlers()
    observer = Notebook()
    restarted = managing(*two, observer=observer)
    assert contents(restarted) == {EVENTS: [b"1", b"2", b"3", b"4"]}
    assert restarted.find(EVENTS).directory.path == two[1]
    assert "replaced" in observer.notes[0]
    assert len(names_in(two[0], "-delete")) == 1


def test_log_with_an_interrupted_move_stays_and_can_move_later(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    manager.close_handlers()
    restarted = managing(*two)
    assert restarted.find(EVENTS).directory.path == two[0]
    assert not (two[0] / "events-0" / MOVE_MARKER_FILE_NAME).exists()
    move(restarted, EVENTS, restarted.directories.all[1])
    assert contents(restarted) == {EVENTS: [b"1", b"2", b"3"]}


def test_failure_of_the_old_disk_after_the_swap_does_not_stop_the_new_log(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    execute(manager.finish_move(EVENTS))
    (task,) = manager.deletion_tasks(now_ms=NOW_MS)
    with FaultyDisk(fail_at=1, error=errno.EIO), pytest.raises(LogDirectoryOffline):
        execute(task)
    assert [directory.path for directory in manager.directories.offline] == [two[0]]
    flush(written(manager, EVENTS, b"4"))
    manager.close(now_ms=NOW_MS)
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3", b"4"]}


def test_failure_of_the_new_disk_at_the_swap_keeps_the_old_log_in_use(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    with FaultyDisk(fail_at=1, counting={"rename"}), pytest.raises(LogDirectoryOffline):
        manager.finish_move(EVENTS)
    assert [directory.path for directory in manager.directories.offline] == [two[1]]
    assert values_in(written(manager, EVENTS, b"4")) == [b"1", b"2", b"3", b"4"]


def test_log_moves_back_only_after_the_old_log_is_deleted(manager):
    a, b = manager.directories.all
    copied(manager, EVENTS, b)
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    rename_task = manager.finish_move(EVENTS)
    with pytest.raises(Exception, match="not deleted yet"):
        manager.create_future(EVENTS, a, now_ms=NOW_MS)
    execute(rename_task)
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    manager.create_future(EVENTS, a, now_ms=NOW_MS)


def test_topic_whose_name_is_too_long_for_a_future_log_cannot_move(manager):
    longest = TopicPartition("t" * 249, 0)
    written(manager, longest, b"a")
    target = manager.directories.all[0]
    if manager.find(longest).directory is target:
        target = manager.directories.all[1]
    with pytest.raises(InvalidTopic):
        manager.create_future(longest, target, now_ms=NOW_MS)
    assert manager.directories.offline == []


def test_partition_can_be_deleted_during_a_move(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    tasks = manager.prepare_move(EVENTS, now_ms=NOW_MS)
    delete(manager, EVENTS)
    carry_all(tasks)
    assert manager.directories.offline == []
    assert len(names_in(two[0], "-delete")) == len(names_in(two[1], "-delete")) == 1


def test_rename_without_descriptors_is_flushed_later(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    rename_task = manager.finish_move(EVENTS)
    with FewDescriptors(fail_at=1), pytest.raises(TooManyOpenFiles):
        execute(rename_task)
    assert not manager.find(EVENTS).is_directory_synced
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    assert manager.find(EVENTS).is_directory_synced
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    assert len(names_in(two[0], "-delete")) == 1
    manager.close(now_ms=NOW_MS)
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3"]}


def test_future_log_under_retention_is_neither_truncated_nor_swapped(two):
    manager = managing(*two, segment_bytes=200, retention_bytes=150)
    written(manager, EVENTS, *[bytes(100)] * 4)
    future = copied(manager, EVENTS, manager.directories.all[1])
    with future as copy:
        copy.update_high_watermark(copy.log_end_offset)
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    _, tasks = manager.maintenance.apply_retention(NOW_MS)
    for forbidden in (
        lambda: manager.truncate(future, 1, now_ms=NOW_MS),
        lambda: manager.truncate_fully_and_start_at(future, 1, now_ms=NOW_MS),
        lambda: manager.delete_future(EVENTS),
        lambda: manager.finish_move(EVENTS),
    ):
        with pytest.raises(AssertionError):
            forbidden()
    carry_all(tasks)
    execute(manager.finish_move(EVENTS))


def test_future_log_can_be_truncated_while_its_log_is_compacted(two):
    compacted = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0}
    manager = managing(*two, segment_bytes=200, **compacted)
    hosted_log = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    with hosted_log as log:
        for _ in range(4):
            append(log, bytes(100), key=b"k")
    flush(hosted_log)
    future = copied(manager, EVENTS, manager.directories.all[1])
    compaction = manager.maintenance.next_compaction(NOW_MS, CLEANER)
    with compaction:
        execute(manager.truncate(future, 1, now_ms=NOW_MS))
        with pytest.raises(AssertionError):
            manager.truncate(hosted_log, 1, now_ms=NOW_MS)
    assert future.log.log_end_offset == 1


def test_partition_has_at_most_one_future_log(tmp_path):
    manager = managing(*(tmp_path / name for name in "abc"))
    written(manager, EVENTS, b"1")
    _, b, c = manager.directories.all
    copied(manager, EVENTS, b)
    with pytest.raises(AssertionError):
        manager.create_future(EVENTS, c, now_ms=NOW_MS)
    assert names_in(c.path, "-future") == []


@pytest.mark.parametrize("has_records", [False, True])
def test_future_log_without_a_current_log_is_removed_only_if_empty(manager, two, has_records):
    target = manager.directories.all[1]
    if has_records:
        copied(manager, EVENTS, target)
    else:
        manager.create_future(EVENTS, target, now_ms=NOW_MS)
    manager.close_handlers()
    single_directory = managing(two[0])
    delete(single_directory, EVENTS)
    single_directory.close(now_ms=NOW_MS)
    observer = Notebook()
    restarted = managing(*two, observer=observer)
    assert (restarted.find_future(EVENTS) is not None) == has_records
    assert len(names_in(two[1], "-delete")) == (not has_records)
    assert any("without a current log" in note for note in observer.notes)
    with (
        pytest.raises(KafkaStorageError, match=r"a future log of .* already exists")
        if has_records
        else nullcontext()
    ):
        restarted.get_or_create_log(EVENTS, directory=restarted.directories.all[1], now_ms=NOW_MS)


def test_future_log_of_a_deleted_topic_does_not_block_a_new_topic(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close_handlers()
    shutil.rmtree(two[0] / "events-0")
    restarted = managing(*two)
    assert restarted.find_future(EVENTS) is not None
    created = restarted.get_or_create_log(EVENTS, topic_id=Uuid(bytes([2] * 16)), now_ms=NOW_MS)
    assert created.directory is restarted.directories.all[0]


def test_future_log_is_kept_while_a_directory_is_offline(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close_handlers()
    shutil.rmtree(two[0])
    two[0].write_bytes(b"")
    restarted = managing(*two)
    with pytest.raises(KafkaStorageError, match="may be in"):
        restarted.delete(EVENTS)
    assert values_in(restarted.find_future(EVENTS)) == [b"1", b"2", b"3"]
