"""Periodic log maintenance: flushes, retention, compaction and producer expiration."""

import errno

import pytest

from odradek.storage.cleaner.log_cleaning_state import IDLE, PAUSED, RUNNING
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.settings import TopicSettings
from tests.support.compaction import CLEANER
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    Notebook,
    carry_all,
    copied,
    delete,
    flush,
    managing,
    move,
    names_in,
    retain,
    written,
)
from tests.support.logs import NOW_MS, append

# Flushes


def test_log_is_due_for_a_flush_after_flush_messages(tmp_path):
    manager = managing(tmp_path, flush_messages=2)
    hosted_log = written(manager, EVENTS, b"a")
    assert not hosted_log.has_flush_due_by_count
    assert manager.maintenance.due_flush_tasks(NOW_MS) == []
    with hosted_log as log:
        append(log, b"b")
    assert hosted_log.has_flush_due_by_count
    carry_all(manager.maintenance.due_flush_tasks(NOW_MS))
    assert hosted_log.log.recovery_point == 2
    assert not hosted_log.has_flush_due_by_count


def test_log_is_due_for_a_flush_after_flush_ms(tmp_path):
    manager = managing(tmp_path, flush_ms=1000)
    hosted_log = written(manager, EVENTS, b"a")
    assert manager.maintenance.due_flush_tasks(NOW_MS) == []
    assert manager.maintenance.due_flush_tasks(NOW_MS + 999) == []
    carry_all(manager.maintenance.due_flush_tasks(NOW_MS + 1000))
    assert hosted_log.log.recovery_point == 1
    with hosted_log as log:
        append(log, b"b")
    assert manager.maintenance.due_flush_tasks(NOW_MS + 1999) == []
    assert len(manager.maintenance.due_flush_tasks(NOW_MS + 2000)) == 1


def test_log_without_new_records_is_never_due_for_a_flush(tmp_path):
    manager = managing(tmp_path, flush_ms=0, flush_messages=1)
    flush(written(manager, EVENTS, b"a"))
    written(manager, ORDERS)
    assert manager.maintenance.due_flush_tasks(NOW_MS) == []


def test_sealed_segments_are_always_flushed(tmp_path):
    manager = managing(tmp_path, segment_bytes=400)
    hosted_log = written(manager, EVENTS, *(bytes(100) for _ in range(5)))
    active = hosted_log.log.segments.active.base_offset
    assert 0 < active < 5
    carry_all(manager.maintenance.due_flush_tasks(NOW_MS))
    assert hosted_log.log.recovery_point == active
    assert manager.maintenance.due_flush_tasks(NOW_MS) == []


def test_log_has_one_flush_at_a_time_that_covers_earlier_appends(tmp_path):
    manager = managing(tmp_path, flush_messages=1)
    hosted_log = written(manager, EVENTS, b"a")
    (task,) = manager.maintenance.due_flush_tasks(NOW_MS)
    assert manager.maintenance.due_flush_tasks(NOW_MS) == []
    assert hosted_log.flush_task(now_ms=NOW_MS) is None
    with hosted_log as log:
        append(log, b"b")
    with task:
        with hosted_log as log:
            append(log, b"c")
        task.run()
    assert hosted_log.log.recovery_point == 2
    assert len(manager.maintenance.due_flush_tasks(NOW_MS)) == 1


def test_failed_flush_takes_its_directory_offline(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer, flush_messages=1)
    events, orders = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    first, second = manager.maintenance.due_flush_tasks(NOW_MS)
    with FaultyDisk(fail_at=1, counting={"fsync"}), pytest.raises(LogDirectoryOffline):
        execute(first)
    execute(second)
    assert observer.failed == [(tmp_path / "a", False)]
    assert events.log.recovery_point == 0
    assert orders.log.recovery_point == 1


def test_log_deleted_during_a_flush_does_not_take_its_directory_offline(tmp_path):
    manager = managing(tmp_path, flush_messages=1)
    written(manager, EVENTS, b"a")
    (task,) = manager.maintenance.due_flush_tasks(NOW_MS)
    with task:
        delete(manager, EVENTS)
        carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 60_000))
        task.run()
    assert manager.directories.online


def test_segments_deleted_during_a_flush_stay_deleted(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, flush_ms=0, file_delete_delay_ms=0)
    hosted_log = written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    (task,) = manager.maintenance.due_flush_tasks(NOW_MS)
    with task:
        manager.configure("events", TopicSettings(retention_bytes=0, file_delete_delay_ms=0))
        assert len(retain(manager)) == 4
        carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
        task.run()
    assert names_in(tmp_path / "events-0", ".log") == ["00000000000000000004.log"]
    assert hosted_log.log.recovery_point == 4


def test_log_moved_during_a_flush_is_flushed_again(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", flush_messages=1)
    written(manager, EVENTS, b"a")
    future = copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    task = future.flush_task(now_ms=NOW_MS)
    with task:
        rename_task = manager.finish_move(EVENTS)
        task.run()
    execute(rename_task)
    assert manager.directories.offline == []
    with manager.find(EVENTS) as log:
        append(log, b"b")
    assert len(manager.maintenance.due_flush_tasks(NOW_MS)) == 1


def test_records_appended_after_a_truncation_are_not_treated_as_flushed(tmp_path):
    manager = managing(tmp_path)
    hosted_log = written(manager, EVENTS, b"a", b"b", b"c")
    task = hosted_log.flush_task(now_ms=NOW_MS)
    with task:
        task.run()
        execute(manager.truncate(hosted_log, 1, now_ms=NOW_MS))
        with hosted_log as log:
            append(log, b"B")
            append(log, b"C")
    assert hosted_log.log.recovery_point == 1


def test_flush_planned_before_a_truncation_covers_no_more_than_the_log(tmp_path):
    manager = managing(tmp_path, segment_bytes=200)
    hosted_log = written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    (task,) = manager.maintenance.due_flush_tasks(NOW_MS)
    execute(manager.truncate(hosted_log, 1, now_ms=NOW_MS))
    execute(task)
    assert hosted_log.log.recovery_point == hosted_log.log.log_end_offset == 1


# Retention


def test_expired_segments_are_renamed_and_removed_after_the_delay(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=300, file_delete_delay_ms=10)
    hosted_log = written(manager, EVENTS, *(b"%d" % number + bytes(100) for number in range(6)))
    assert len(retain(manager)) == 4
    assert hosted_log.log.log_start_offset == 4
    assert len(names_in(tmp_path / "events-0", ".log.deleted")) == 4
    assert manager.maintenance.due_removal_tasks(NOW_MS + 9) == []
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 10))
    assert names_in(tmp_path / "events-0", ".deleted") == []


def test_retention_returns_the_deleted_segments_with_their_reason(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=300)
    for partition in (EVENTS, ORDERS):
        written(manager, partition, *(bytes(100) for _ in range(4)))
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(1)
    deleted = retain(manager)
    assert [
        (segment.partition, segment.reason.name, segment.max_timestamp) for segment in deleted
    ] == [
        (EVENTS, "START_OFFSET_BREACH", NOW_MS),
        (EVENTS, "RETENTION_SIZE_BREACH", NOW_MS),
        (ORDERS, "RETENTION_SIZE_BREACH", NOW_MS),
        (ORDERS, "RETENTION_SIZE_BREACH", NOW_MS),
    ]


def test_failed_retention_of_one_log_does_not_stop_the_others(tmp_path):
    observer = Notebook()
    manager = managing(
        tmp_path / "a", tmp_path / "b", observer=observer, segment_bytes=200, retention_bytes=0
    )
    for partition in (EVENTS, ORDERS):
        written(manager, partition, *(bytes(100) for _ in range(3)))
    first, second = manager.maintenance.apply_retention(NOW_MS).tasks
    with FaultyDisk(fail_at=1, counting={"rename"}), pytest.raises(LogDirectoryOffline):
        execute(first)
    execute(second)
    assert observer.failed == [(tmp_path / "a", False)]
    assert manager.find(ORDERS).log.log_start_offset == 3


def test_retention_flushes_nothing_before_its_tasks_run(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=0)
    for partition in (EVENTS, ORDERS):
        written(manager, partition, *(bytes(100) for _ in range(3)))
    with FaultyDisk(fail_at=1, counting={"fsync", "sync_directory"}) as disk:
        expired, tasks = manager.maintenance.apply_retention(NOW_MS)
    assert disk.failed_calls == []
    assert (len(expired), len(tasks)) == (6, 2)
    assert manager.find(EVENTS).log.log_start_offset == 3
    assert manager.cleaner_manager.states[EVENTS] is RUNNING
    assert manager.maintenance.apply_retention(NOW_MS) == ([], [])
    carry_all(tasks)
    assert manager.cleaner_manager.states[EVENTS] is IDLE
    assert len(names_in(tmp_path / "events-0", ".log.deleted")) == 3


def test_segments_removed_but_not_renamed_stay_deleted_after_a_restart(tmp_path):
    settings = {"segment_bytes": 200, "retention_bytes": 300}
    manager = managing(tmp_path, **settings)
    written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(1)
    carry_all(manager.checkpoint_tasks())
    assert manager.maintenance.apply_retention(NOW_MS).tasks
    carry_all(manager.checkpoint_tasks())
    manager.close_handlers()
    restarted = managing(tmp_path, **settings)
    assert restarted.find(EVENTS).log.log_start_offset == 2
    assert len(retain(restarted)) == 2
    assert restarted.find(EVENTS).log.segments.first.base_offset == 2


def test_directory_failure_ends_the_retention_of_its_logs(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=0)
    written(manager, EVENTS, *(bytes(100) for _ in range(3)))
    (task,) = manager.maintenance.apply_retention(NOW_MS).tasks
    assert not manager.cleaner_manager.pause(EVENTS)
    with FaultyDisk(fail_at=1, counting={"sync_directory"}), pytest.raises(LogDirectoryOffline):
        execute(task)
    assert manager.cleaner_manager.states[EVENTS] is PAUSED


@pytest.mark.parametrize("policy", [("compact",), ("compact", "delete")])
def test_retention_waits_for_a_running_cleaning(tmp_path, policy):
    manager = managing(
        tmp_path, segment_bytes=200, retention_bytes=0, cleanup_policy=policy, segment_ms=1
    )
    hosted_log = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    with hosted_log as log:
        for _ in range(4):
            append(log, bytes(100), key=b"k")
        log.maybe_increment_log_start_offset(2)
    retained = manager.cleaner_manager.begin_retention([hosted_log.log])
    assert retain(manager) == []
    manager.cleaner_manager.end_retention(retained)
    assert len(retain(manager)) == (4 if "delete" in policy else 2)
    assert manager.cleaner_manager.states[EVENTS] is IDLE


def test_maintenance_of_idle_logs_leaves_no_file_open(tmp_path):
    settings = {"segment_bytes": 300, "cleanup_policy": ("compact",), "max_compaction_lag_ms": 1}
    for topics in ({}, settings):
        root = tmp_path / str(len(topics))
        manager = managing(root, **topics)
        with manager.get_or_create_log(EVENTS, now_ms=NOW_MS) as log:
            for _ in range(5):
                append(log, bytes(100), key=b"k")
        manager.close(now_ms=NOW_MS)
        restarted = managing(root, **topics)
        retain(restarted)
        restarted.maintenance.next_compaction(NOW_MS + 10, CLEANER)
        assert not any(segment.is_open for segment in restarted.find(EVENTS).log.segments)


def test_retention_applies_to_future_logs(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", segment_bytes=200, retention_bytes=300)
    written(manager, EVENTS, *(bytes(100) for _ in range(6)))
    with copied(manager, EVENTS, manager.directories.all[1]) as copy:
        copy.update_high_watermark(copy.log_end_offset)
    assert len(retain(manager)) == 8


def test_segments_pending_deletion_are_removed_from_a_moved_log(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", segment_bytes=200, retention_bytes=300)
    written(manager, EVENTS, *(bytes(100) for _ in range(6)))
    with copied(manager, EVENTS, manager.directories.all[1]) as copy:
        copy.update_high_watermark(copy.log_end_offset)
    retain(manager)
    move(manager, EVENTS, manager.directories.all[1])
    assert names_in(tmp_path / "b" / "events-0", ".deleted")
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 60_000))
    assert names_in(tmp_path / "b" / "events-0", ".deleted") == []


def test_nothing_is_removed_from_a_failed_directory(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    written(manager, EVENTS, b"a")
    written(manager, ORDERS, b"b")
    delete(manager, EVENTS, ORDERS)
    manager.directories.all[0].mark_offline(OSError(errno.EIO, "broken"), "something")
    (task,) = manager.maintenance.due_removal_tasks(NOW_MS + 60_000)
    execute(task)
    assert names_in(tmp_path / "a", "-delete")
    assert not names_in(tmp_path / "b", "-delete")


# Compaction and producers


def test_dirtiest_log_is_compacted_next_and_future_logs_are_not(tmp_path):
    manager = managing(
        tmp_path / "a", tmp_path / "b", segment_bytes=300, cleanup_policy=("compact",)
    )
    for partition, count in ((EVENTS, 1), (ORDERS, 8)):
        with manager.get_or_create_log(partition, now_ms=NOW_MS) as log:
            for _ in range(count):
                append(log, bytes(100), key=b"k")
            log.flush(now_ms=NOW_MS)
    copied(manager, ORDERS, manager.directories.all[0])
    assert manager.maintenance.next_compaction(NOW_MS, CLEANER).partition == ORDERS
    assert manager.maintenance.next_compaction(NOW_MS, CLEANER) is None


def test_disk_failure_while_a_compaction_is_planned_affects_one_directory(tmp_path):
    observer = Notebook()
    a, b = tmp_path / "a", tmp_path / "b"
    settings = {"segment_bytes": 300, "cleanup_policy": ("compact",), "min_compaction_lag_ms": 1}
    manager = managing(a, b, **settings)
    for partition in (EVENTS, ORDERS):
        with manager.get_or_create_log(partition, now_ms=NOW_MS) as log:
            for _ in range(8):
                append(log, bytes(100), key=b"k")
    manager.close(now_ms=NOW_MS)
    manager = managing(a, b, observer=observer, **settings)
    with FaultyDisk(fail_at=1, counting={"pread"}):
        assert manager.maintenance.next_compaction(NOW_MS + 10, CLEANER).partition == ORDERS
    assert observer.failed == [(a, False)]


def test_expired_producers_are_removed(tmp_path):
    manager = managing(tmp_path)
    with manager.get_or_create_log(EVENTS, now_ms=NOW_MS) as log:
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert manager.maintenance.remove_expired_producers(NOW_MS) == 0
    assert manager.maintenance.remove_expired_producers(NOW_MS + 86_400_001) == 1
