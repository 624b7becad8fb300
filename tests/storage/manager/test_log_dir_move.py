"""Moving logs between log directories."""

import errno
import shutil
from contextlib import nullcontext

import pytest

from odradek.protocol.errors import InvalidTopic, KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import partition_metadata
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.manager.moving import MARK
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from odradek.storage.open_segments import OutOfDescriptors
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
    manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    written(manager, EVENTS, b"1", b"2", b"3")
    return manager


def test_a_moved_log_is_in_the_other_directory_with_all_its_records(manager, two):
    a, b = two
    move(manager, EVENTS, manager.directories.all[1])
    hosted = manager.find(EVENTS)
    assert hosted.log.directory == b / "events-0"
    assert values_in(hosted) == [b"1", b"2", b"3"]
    assert not hosted.is_future
    assert manager.find_future(EVENTS) is None
    assert len(names_in(a, "-delete")) == 1
    assert names_in(b, "-future") == []
    assert partition_metadata.read(b / "events-0") == TOPIC_ID


def test_a_moved_log_goes_on_where_it_is(manager, two):
    move(manager, EVENTS, manager.directories.all[1])
    hosted = written(manager, EVENTS, b"4")
    flush(hosted)
    manager.close(now_ms=NOW_MS)
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3", b"4"]}


def test_a_log_can_move_there_and_back(manager, two):
    a, b = manager.directories.all
    move(manager, EVENTS, b)
    move(manager, EVENTS, a)
    manager.abandon()
    again = managing(*two)
    assert contents(again) == {EVENTS: [b"1", b"2", b"3"]}
    assert again.find(EVENTS).directory.path == two[0]


def test_the_high_watermark_and_the_checkpoints_move_along(manager, two):
    with manager.find(EVENTS) as log:
        append(log, b"4")
        log.advance_high_watermark(3)
    manager.cleaner.cleaned_to(manager.find(EVENTS).log, 2)
    flush(manager.find(EVENTS))
    move(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.checkpoints())
    hosted = manager.find(EVENTS)
    assert hosted.log.high_watermark == 3
    assert manager.cleaner.checkpoint(hosted.log) == 2
    assert HIGH_WATERMARKS.read(two[0]) == RECOVERY_POINTS.read(two[0]) == {}
    assert HIGH_WATERMARKS.read(two[1]) == {EVENTS: 3}
    assert RECOVERY_POINTS.read(two[1]) == {EVENTS: 4}


def test_what_readers_were_lent_outlives_the_move(manager):
    with manager.find(EVENTS) as log:
        region = log.read(0, max_bytes=1000, up_to=3)
    before = bytes_of(region)
    move(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.upkeep.removals_due(NOW_MS + 60_000))
    assert bytes_of(region) == before


def test_a_copy_that_has_fallen_behind_does_not_take_the_logs_place(manager):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    written(manager, EVENTS, b"4")
    assert manager.finish_move(EVENTS) is None
    copied(manager, EVENTS, manager.directories.all[1])
    assert manager.finish_move(EVENTS) is not None


def test_a_copy_that_is_not_synced_does_not_take_the_place_of_a_log_that_is(manager):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    flush(written(manager, EVENTS, b"4"))
    copied(manager, EVENTS, manager.directories.all[1])
    assert manager.finish_move(EVENTS) is None
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    assert manager.finish_move(EVENTS) is not None


def test_a_copy_does_not_take_the_logs_place_unprepared(manager):
    copied(manager, EVENTS, manager.directories.all[1])
    assert manager.finish_move(EVENTS) is None


def test_a_copy_can_be_given_up(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    manager.delete_future(EVENTS)
    carry_all(manager.deletions(now_ms=NOW_MS))
    assert manager.find_future(EVENTS) is None
    assert len(names_in(two[1], "-delete")) == 1
    manager.abandon()
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3"]}


def test_the_old_log_keeps_its_name_until_the_new_ones_is_synced(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    naming = manager.finish_move(EVENTS)
    assert manager.deletions(now_ms=NOW_MS) == []
    assert (two[0] / "events-0" / MARK).exists()
    carry_out(naming)
    carry_all(manager.deletions(now_ms=NOW_MS))
    assert not (two[0] / "events-0").exists()


def test_of_two_logs_after_a_crash_the_one_that_was_replaced_goes(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    manager.finish_move(EVENTS)
    written(manager, EVENTS, b"4")
    manager.abandon()
    observer = Notebook()
    again = managing(*two, observer=observer)
    assert contents(again) == {EVENTS: [b"1", b"2", b"3", b"4"]}
    assert again.find(EVENTS).directory.path == two[1]
    assert "replaced" in observer.notes[0]
    assert len(names_in(two[0], "-delete")) == 1


def test_a_log_whose_move_was_cut_short_stays_and_can_move_later(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    manager.abandon()
    again = managing(*two)
    assert again.find(EVENTS).directory.path == two[0]
    assert not (two[0] / "events-0" / MARK).exists()
    move(again, EVENTS, again.directories.all[1])
    assert contents(again) == {EVENTS: [b"1", b"2", b"3"]}


def test_the_old_disk_failing_after_the_swap_does_not_stop_the_new_log(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    carry_out(manager.finish_move(EVENTS))
    (work,) = manager.deletions(now_ms=NOW_MS)
    with FaultyDisk(fail_at=1, error=errno.EIO), pytest.raises(LogDirectoryOffline):
        carry_out(work)
    assert [each.path for each in manager.directories.offline] == [two[0]]
    flush(written(manager, EVENTS, b"4"))
    manager.close(now_ms=NOW_MS)
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3", b"4"]}


def test_the_new_disk_failing_at_the_swap_leaves_the_old_log_in_use(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    with FaultyDisk(fail_at=1, counting={"rename"}), pytest.raises(LogDirectoryOffline):
        manager.finish_move(EVENTS)
    assert [each.path for each in manager.directories.offline] == [two[1]]
    assert values_in(written(manager, EVENTS, b"4")) == [b"1", b"2", b"3", b"4"]


def test_a_log_moves_back_only_when_its_old_place_is_free(manager):
    a, b = manager.directories.all
    copied(manager, EVENTS, b)
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    naming = manager.finish_move(EVENTS)
    with pytest.raises(Exception, match="not deleted yet"):
        manager.create_future(EVENTS, a, now_ms=NOW_MS)
    carry_out(naming)
    carry_all(manager.deletions(now_ms=NOW_MS))
    manager.create_future(EVENTS, a, now_ms=NOW_MS)


def test_a_topic_whose_name_is_too_long_for_a_copy_cannot_move(manager):
    longest = TopicPartition("t" * 249, 0)
    written(manager, longest, b"a")
    target = manager.directories.all[0]
    if manager.find(longest).directory is target:
        target = manager.directories.all[1]
    with pytest.raises(InvalidTopic):
        manager.create_future(longest, target, now_ms=NOW_MS)
    assert manager.directories.offline == []


def test_a_partition_can_be_deleted_in_the_middle_of_a_move(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    works = manager.prepare_move(EVENTS, now_ms=NOW_MS)
    delete(manager, EVENTS)
    carry_all(works)
    assert manager.directories.offline == []
    assert len(names_in(two[0], "-delete")) == len(names_in(two[1], "-delete")) == 1


def test_a_new_name_that_could_not_be_synced_for_want_of_descriptors_is_synced_later(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    naming = manager.finish_move(EVENTS)
    with FewDescriptors(fail_at=1), pytest.raises(OutOfDescriptors):
        carry_out(naming)
    assert not manager.find(EVENTS).is_name_synced
    carry_all(manager.deletions(now_ms=NOW_MS))
    assert manager.find(EVENTS).is_name_synced
    carry_all(manager.deletions(now_ms=NOW_MS))
    assert len(names_in(two[0], "-delete")) == 1
    manager.close(now_ms=NOW_MS)
    assert contents(managing(*two)) == {EVENTS: [b"1", b"2", b"3"]}


def test_a_copy_of_which_old_segments_are_being_deleted_is_neither_cut_nor_put_in_place(two):
    manager = managing(*two, segment_bytes=200, retention_bytes=150)
    written(manager, EVENTS, *[bytes(100)] * 4)
    future = copied(manager, EVENTS, manager.directories.all[1])
    with future as copy:
        copy.advance_high_watermark(copy.end_offset)
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    _, works = manager.upkeep.apply_retention(NOW_MS)
    for forbidden in (
        lambda: manager.truncate(future, 1, now_ms=NOW_MS),
        lambda: manager.truncate_fully(future, 1, now_ms=NOW_MS),
        lambda: manager.delete_future(EVENTS),
        lambda: manager.finish_move(EVENTS),
    ):
        with pytest.raises(AssertionError):
            forbidden()
    carry_all(works)
    carry_out(manager.finish_move(EVENTS))


def test_a_copy_may_be_cut_while_its_log_is_compacted(two):
    compacted = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0}
    manager = managing(*two, segment_bytes=200, **compacted)
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    with hosted as log:
        for _ in range(4):
            append(log, bytes(100), key=b"k")
    flush(hosted)
    future = copied(manager, EVENTS, manager.directories.all[1])
    compaction = manager.upkeep.next_compaction(NOW_MS, CLEANER)
    with compaction:
        carry_out(manager.truncate(future, 1, now_ms=NOW_MS))
        with pytest.raises(AssertionError):
            manager.truncate(hosted, 1, now_ms=NOW_MS)
    assert future.log.end_offset == 1


def test_a_partition_has_one_copy_on_its_way_at_most(tmp_path):
    manager = managing(*(tmp_path / name for name in "abc"))
    written(manager, EVENTS, b"1")
    _, b, c = manager.directories.all
    copied(manager, EVENTS, b)
    with pytest.raises(AssertionError):
        manager.create_future(EVENTS, c, now_ms=NOW_MS)
    assert names_in(c.path, "-future") == []


@pytest.mark.parametrize("has_records", [False, True])
def test_a_copy_whose_log_is_nowhere_goes_only_if_it_has_no_records(manager, two, has_records):
    there = manager.directories.all[1]
    if has_records:
        copied(manager, EVENTS, there)
    else:
        manager.create_future(EVENTS, there, now_ms=NOW_MS)
    manager.abandon()
    alone = managing(two[0])
    delete(alone, EVENTS)
    alone.close(now_ms=NOW_MS)
    seen = Notebook()
    again = managing(*two, observer=seen)
    assert (again.find_future(EVENTS) is not None) == has_records
    assert len(names_in(two[1], "-delete")) == (not has_records)
    assert any("is a copy of a log that is gone" in note for note in seen.notes)
    with pytest.raises(KafkaStorageError, match="on its way") if has_records else nullcontext():
        again.create(EVENTS, directory=again.directories.all[1], now_ms=NOW_MS)


def test_a_copy_of_a_topic_that_was_deleted_is_not_in_the_way_of_the_next(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    manager.abandon()
    shutil.rmtree(two[0] / "events-0")
    again = managing(*two)
    assert again.find_future(EVENTS) is not None
    made = again.create(EVENTS, topic_id=Uuid(bytes([2] * 16)), now_ms=NOW_MS)
    assert made.directory is again.directories.all[0]


def test_a_copy_whose_log_may_be_in_a_directory_that_is_offline_stays(manager, two):
    copied(manager, EVENTS, manager.directories.all[1])
    manager.abandon()
    shutil.rmtree(two[0])
    two[0].write_bytes(b"")
    again = managing(*two)
    with pytest.raises(KafkaStorageError, match="may be in"):
        again.delete(EVENTS)
    assert values_in(again.find_future(EVENTS)) == [b"1", b"2", b"3"]
