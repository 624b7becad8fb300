"""What logs need from time to time: syncing, retention, compaction, forgetting."""

import errno

import pytest

from odradek.storage.cleaner.states import IDLE, PAUSED, RUNNING
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
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

# Syncing


def test_a_log_is_due_for_syncing_when_enough_records_wait(tmp_path):
    manager = managing(tmp_path, flush_messages=2)
    hosted = written(manager, EVENTS, b"a")
    assert not hosted.has_flush_due_by_count
    assert manager.upkeep.flushes_due(NOW_MS) == []
    with hosted as log:
        append(log, b"b")
    assert hosted.has_flush_due_by_count
    carry_all(manager.upkeep.flushes_due(NOW_MS))
    assert hosted.log.recovery_point == 2
    assert not hosted.has_flush_due_by_count


def test_a_log_is_due_for_syncing_when_its_records_have_waited_long_enough(tmp_path):
    manager = managing(tmp_path, flush_ms=1000)
    hosted = written(manager, EVENTS, b"a")
    assert manager.upkeep.flushes_due(NOW_MS) == []
    assert manager.upkeep.flushes_due(NOW_MS + 999) == []
    carry_all(manager.upkeep.flushes_due(NOW_MS + 1000))
    assert hosted.log.recovery_point == 1
    with hosted as log:
        append(log, b"b")
    assert manager.upkeep.flushes_due(NOW_MS + 1999) == []
    assert len(manager.upkeep.flushes_due(NOW_MS + 2000)) == 1


def test_a_log_in_which_nothing_is_new_is_never_due(tmp_path):
    manager = managing(tmp_path, flush_ms=0, flush_messages=1)
    flush(written(manager, EVENTS, b"a"))
    written(manager, ORDERS)
    assert manager.upkeep.flushes_due(NOW_MS) == []


def test_segments_that_are_full_are_synced_whatever_the_settings(tmp_path):
    manager = managing(tmp_path, segment_bytes=400)
    hosted = written(manager, EVENTS, *(bytes(100) for _ in range(5)))
    active = hosted.log.segments.active.base_offset
    assert 0 < active < 5
    carry_all(manager.upkeep.flushes_due(NOW_MS))
    assert hosted.log.recovery_point == active
    assert manager.upkeep.flushes_due(NOW_MS) == []


def test_a_log_is_synced_once_at_a_time_and_with_all_that_came_meanwhile(tmp_path):
    manager = managing(tmp_path, flush_messages=1)
    hosted = written(manager, EVENTS, b"a")
    (work,) = manager.upkeep.flushes_due(NOW_MS)
    assert manager.upkeep.flushes_due(NOW_MS) == []
    assert hosted.plan_flush(now_ms=NOW_MS) is None
    with hosted as log:
        append(log, b"b")
    with work:
        with hosted as log:
            append(log, b"c")
        work.run()
    assert hosted.log.recovery_point == 2
    assert len(manager.upkeep.flushes_due(NOW_MS)) == 1


def test_a_log_that_cannot_be_synced_takes_its_directory_offline(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer, flush_messages=1)
    events, orders = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    first, second = manager.upkeep.flushes_due(NOW_MS)
    with FaultyDisk(fail_at=1, counting={"fsync"}), pytest.raises(LogDirectoryOffline):
        carry_out(first)
    carry_out(second)
    assert observer.failed == [(tmp_path / "a", False)]
    assert events.log.recovery_point == 0
    assert orders.log.recovery_point == 1


def test_a_log_deleted_while_it_is_synced_does_not_take_its_directory_offline(tmp_path):
    manager = managing(tmp_path, flush_messages=1)
    written(manager, EVENTS, b"a")
    (work,) = manager.upkeep.flushes_due(NOW_MS)
    with work:
        delete(manager, EVENTS)
        carry_all(manager.upkeep.removals_due(NOW_MS + 60_000))
        work.run()
    assert manager.directories.online


def test_segments_removed_while_they_are_synced_stay_away(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, flush_ms=0, file_delete_delay_ms=0)
    hosted = written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    (work,) = manager.upkeep.flushes_due(NOW_MS)
    with work:
        manager.configure("events", TopicSettings(retention_bytes=0, file_delete_delay_ms=0))
        assert len(retain(manager)) == 4
        carry_all(manager.upkeep.removals_due(NOW_MS))
        work.run()
    assert names_in(tmp_path / "events-0", ".log") == ["00000000000000000004.log"]
    assert hosted.log.recovery_point == 4


def test_a_log_moved_while_it_is_synced_is_synced_again(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", flush_messages=1)
    written(manager, EVENTS, b"a")
    future = copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    work = future.plan_flush(now_ms=NOW_MS)
    with work:
        naming = manager.finish_move(EVENTS)
        work.run()
    carry_out(naming)
    assert manager.directories.offline == []
    with manager.find(EVENTS) as log:
        append(log, b"b")
    assert len(manager.upkeep.flushes_due(NOW_MS)) == 1


def test_records_written_anew_after_a_truncation_are_not_taken_for_synced(tmp_path):
    manager = managing(tmp_path)
    hosted = written(manager, EVENTS, b"a", b"b", b"c")
    work = hosted.plan_flush(now_ms=NOW_MS)
    with work:
        work.run()
        carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
        with hosted as log:
            append(log, b"B")
            append(log, b"C")
    assert hosted.log.recovery_point == 1


def test_a_flush_planned_before_a_truncation_covers_no_more_than_the_log(tmp_path):
    manager = managing(tmp_path, segment_bytes=200)
    hosted = written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    (work,) = manager.upkeep.flushes_due(NOW_MS)
    carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
    carry_out(work)
    assert hosted.log.recovery_point == hosted.log.end_offset == 1


# Retention


def test_old_segments_go_aside_and_are_removed_after_the_delay(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=300, file_delete_delay_ms=10)
    hosted = written(manager, EVENTS, *(b"%d" % number + bytes(100) for number in range(6)))
    assert len(retain(manager)) == 4
    assert hosted.log.start_offset == 4
    assert len(names_in(tmp_path / "events-0", ".log.deleted")) == 4
    assert manager.upkeep.removals_due(NOW_MS + 9) == []
    carry_all(manager.upkeep.removals_due(NOW_MS + 10))
    assert names_in(tmp_path / "events-0", ".deleted") == []


def test_what_is_deleted_from_all_logs_is_told_with_its_reason(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=300)
    for partition in (EVENTS, ORDERS):
        written(manager, partition, *(bytes(100) for _ in range(4)))
    with manager.find(EVENTS) as log:
        log.advance_start(1)
    gone = retain(manager)
    assert [(each.partition, each.reason.name, each.largest_timestamp) for each in gone] == [
        (EVENTS, "START", NOW_MS),
        (EVENTS, "SIZE", NOW_MS),
        (ORDERS, "SIZE", NOW_MS),
        (ORDERS, "SIZE", NOW_MS),
    ]


def test_retention_of_a_log_that_cannot_be_renamed_leaves_the_others_to_go_on(tmp_path):
    observer = Notebook()
    manager = managing(
        tmp_path / "a", tmp_path / "b", observer=observer, segment_bytes=200, retention_bytes=0
    )
    for partition in (EVENTS, ORDERS):
        written(manager, partition, *(bytes(100) for _ in range(3)))
    first, second = manager.upkeep.apply_retention(NOW_MS).works
    with FaultyDisk(fail_at=1, counting={"rename"}), pytest.raises(LogDirectoryOffline):
        carry_out(first)
    carry_out(second)
    assert observer.failed == [(tmp_path / "a", False)]
    assert manager.find(ORDERS).log.start_offset == 3


def test_retention_syncs_nothing_before_its_work_is_carried_out(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=0)
    for partition in (EVENTS, ORDERS):
        written(manager, partition, *(bytes(100) for _ in range(3)))
    with FaultyDisk(fail_at=1, counting={"fsync", "sync_directory"}) as disk:
        outlived, works = manager.upkeep.apply_retention(NOW_MS)
    assert disk.failed_calls == []
    assert (len(outlived), len(works)) == (6, 2)
    assert manager.find(EVENTS).log.start_offset == 3
    assert manager.cleaner.states[EVENTS] is RUNNING
    assert manager.upkeep.apply_retention(NOW_MS) == ([], [])
    carry_all(works)
    assert manager.cleaner.states[EVENTS] is IDLE
    assert len(names_in(tmp_path / "events-0", ".log.deleted")) == 3


def test_what_was_taken_out_and_not_set_aside_stays_deleted_after_a_restart(tmp_path):
    settings = {"segment_bytes": 200, "retention_bytes": 300}
    manager = managing(tmp_path, **settings)
    written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    with manager.find(EVENTS) as log:
        log.advance_start(1)
    carry_all(manager.checkpoints())
    assert manager.upkeep.apply_retention(NOW_MS).works
    carry_all(manager.checkpoints())
    manager.abandon()
    again = managing(tmp_path, **settings)
    assert again.find(EVENTS).log.start_offset == 2
    assert len(retain(again)) == 2
    assert again.find(EVENTS).log.segments.first.base_offset == 2


def test_nobody_waits_for_retention_in_a_directory_that_fails(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, retention_bytes=0)
    written(manager, EVENTS, *(bytes(100) for _ in range(3)))
    (work,) = manager.upkeep.apply_retention(NOW_MS).works
    assert not manager.cleaner.pause(EVENTS)
    with FaultyDisk(fail_at=1, counting={"sync_directory"}), pytest.raises(LogDirectoryOffline):
        carry_out(work)
    assert manager.cleaner.states[EVENTS] is PAUSED


@pytest.mark.parametrize("policy", [("compact",), ("compact", "delete")])
def test_a_log_that_is_being_compacted_waits_for_its_retention(tmp_path, policy):
    manager = managing(
        tmp_path, segment_bytes=200, retention_bytes=0, cleanup_policy=policy, segment_ms=1
    )
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    with hosted as log:
        for _ in range(4):
            append(log, bytes(100), key=b"k")
        log.advance_start(2)
    turn = manager.cleaner.begin_retention([hosted.log])
    assert retain(manager) == []
    manager.cleaner.end_retention(turn)
    assert len(retain(manager)) == (4 if "delete" in policy else 2)
    assert manager.cleaner.states[EVENTS] is IDLE


def test_a_look_at_idle_logs_leaves_no_file_open(tmp_path):
    settings = {"segment_bytes": 300, "cleanup_policy": ("compact",), "max_compaction_lag_ms": 1}
    for topics in ({}, settings):
        root = tmp_path / str(len(topics))
        manager = managing(root, **topics)
        with manager.create(EVENTS, now_ms=NOW_MS) as log:
            for _ in range(5):
                append(log, bytes(100), key=b"k")
        manager.close(now_ms=NOW_MS)
        again = managing(root, **topics)
        retain(again)
        again.upkeep.next_compaction(NOW_MS + 10, CLEANER)
        assert not any(segment.is_open for segment in again.find(EVENTS).log.segments)


def test_copies_on_their_way_lose_their_old_segments_too(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", segment_bytes=200, retention_bytes=300)
    written(manager, EVENTS, *(bytes(100) for _ in range(6)))
    with copied(manager, EVENTS, manager.directories.all[1]) as copy:
        copy.advance_high_watermark(copy.end_offset)
    assert len(retain(manager)) == 8


def test_segments_that_wait_in_a_log_that_moves_are_removed_where_it_is_then(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", segment_bytes=200, retention_bytes=300)
    written(manager, EVENTS, *(bytes(100) for _ in range(6)))
    with copied(manager, EVENTS, manager.directories.all[1]) as copy:
        copy.advance_high_watermark(copy.end_offset)
    retain(manager)
    move(manager, EVENTS, manager.directories.all[1])
    assert names_in(tmp_path / "b" / "events-0", ".deleted")
    carry_all(manager.upkeep.removals_due(NOW_MS + 60_000))
    assert names_in(tmp_path / "b" / "events-0", ".deleted") == []


def test_nothing_is_removed_from_a_directory_that_has_failed(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    written(manager, EVENTS, b"a")
    written(manager, ORDERS, b"b")
    delete(manager, EVENTS, ORDERS)
    manager.directories.all[0].fail(OSError(errno.EIO, "broken"), "something")
    (work,) = manager.upkeep.removals_due(NOW_MS + 60_000)
    carry_out(work)
    assert names_in(tmp_path / "a", "-delete")
    assert not names_in(tmp_path / "b", "-delete")


# Compaction and producers


def test_the_dirtiest_log_is_compacted_next_and_copies_on_their_way_are_not(tmp_path):
    manager = managing(
        tmp_path / "a", tmp_path / "b", segment_bytes=300, cleanup_policy=("compact",)
    )
    for partition, count in ((EVENTS, 1), (ORDERS, 8)):
        with manager.create(partition, now_ms=NOW_MS) as log:
            for _ in range(count):
                append(log, bytes(100), key=b"k")
            log.flush(now_ms=NOW_MS)
    copied(manager, ORDERS, manager.directories.all[0])
    assert manager.upkeep.next_compaction(NOW_MS, CLEANER).partition == ORDERS
    assert manager.upkeep.next_compaction(NOW_MS, CLEANER) is None


def test_a_disk_that_fails_while_compaction_is_planned_goes_offline_alone(tmp_path):
    observer = Notebook()
    a, b = tmp_path / "a", tmp_path / "b"
    settings = {"segment_bytes": 300, "cleanup_policy": ("compact",), "min_compaction_lag_ms": 1}
    manager = managing(a, b, **settings)
    for partition in (EVENTS, ORDERS):
        with manager.create(partition, now_ms=NOW_MS) as log:
            for _ in range(8):
                append(log, bytes(100), key=b"k")
    manager.close(now_ms=NOW_MS)
    manager = managing(a, b, observer=observer, **settings)
    with FaultyDisk(fail_at=1, counting={"pread"}):
        assert manager.upkeep.next_compaction(NOW_MS + 10, CLEANER).partition == ORDERS
    assert observer.failed == [(a, False)]


def test_producers_that_were_silent_for_long_are_forgotten(tmp_path):
    manager = managing(tmp_path)
    with manager.create(EVENTS, now_ms=NOW_MS) as log:
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert manager.upkeep.expire_producers(NOW_MS) == 0
    assert manager.upkeep.expire_producers(NOW_MS + 86_400_001) == 1
