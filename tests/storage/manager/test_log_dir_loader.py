"""Starting on log directories as they are found: clean or not, whole or not, ours or not."""

import errno
from contextlib import suppress

import pytest

from odradek.protocol.errors import CorruptMessage, KafkaStorageError
from odradek.protocol.types import Uuid
from odradek.storage import clean_shutdown, log_loader, partition_metadata
from odradek.storage.manager import loading
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory_checkpoints import CHECKPOINTS
from odradek.storage.manager.loading import DuplicateLog
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from odradek.storage.open_segments import OutOfDescriptors
from odradek.storage.settings import TopicSettings
from odradek.storage.topic_table import TopicTable
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    PRODUCERS,
    Notebook,
    carry_all,
    contents,
    copied,
    flush,
    managing,
    names_in,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, append

TOPIC_ID = Uuid(bytes(range(16)))
UNIQUE = "0123456789abcdef" * 2


def filled(*paths, **settings):
    """Two logs that are not synced."""
    manager = managing(*paths, **settings)
    written(manager, EVENTS, b"a", b"b", b"c")
    written(manager, ORDERS, b"x")
    return manager


def test_everything_is_there_again_after_a_clean_stop(tmp_path):
    filled(tmp_path / "a", tmp_path / "b").close(now_ms=NOW_MS)
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(manager) == {EVENTS: [b"a", b"b", b"c"], ORDERS: [b"x"]}
    assert manager.find(EVENTS).directory.path == tmp_path / "a"
    assert observer == Notebook()


def test_everything_is_there_again_after_being_killed(tmp_path):
    filled(tmp_path / "a", tmp_path / "b").abandon()
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(manager) == {EVENTS: [b"a", b"b", b"c"], ORDERS: [b"x"]}
    assert observer.notes == []


def test_a_clean_stop_is_marked_and_the_mark_is_removed_by_the_next_start(tmp_path):
    filled(tmp_path).close(now_ms=NOW_MS, broker_epoch=7)
    assert clean_shutdown.read(tmp_path).broker_epoch == 7
    managing(tmp_path)
    assert clean_shutdown.read(tmp_path) is None


def test_a_manager_that_is_abandoned_leaves_no_mark(tmp_path):
    filled(tmp_path).abandon()
    assert clean_shutdown.read(tmp_path) is None


def test_recovery_is_reported_directory_by_directory(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    filled(a, b).abandon()
    observer = Notebook()
    managing(a, b, observer=observer)
    assert sorted(observer.progress) == [(a, 0, 1), (a, 1, 1), (b, 0, 1), (b, 1, 1)]


def test_the_recovery_of_each_log_is_reported_segment_by_segment(tmp_path):
    manager = managing(tmp_path, segment_bytes=200)
    written(manager, EVENTS, *[bytes(100)] * 3)
    written(manager, ORDERS, b"x")
    manager.abandon()
    again = LogManager(manager.directories, manager.topics)
    manager.directories.open()
    told = []
    again.load(
        now_ms=NOW_MS,
        progress=lambda path, done, total: told.append((path.name, done, total)),
    )
    assert sorted(told) == [*(("events-0", done, 3) for done in range(3)), ("orders-0", 0, 1)]


def test_logs_for_which_no_descriptor_is_left_are_refused_and_there_at_the_next_start(tmp_path):
    filled(tmp_path).abandon()
    outcomes = set()
    for fail_at in range(1, 200):
        directories = LogDirectories([tmp_path], Notebook())
        directories.open()
        manager = LogManager(directories, TopicTable(TopicSettings(), PRODUCERS))
        with FewDescriptors(fail_at=fail_at) as system, suppress(OutOfDescriptors):
            manager.load(now_ms=NOW_MS)
            outcomes.add(frozenset(manager.logs.current))
        assert directories.online
        if not system.failed_calls:
            break
        manager.abandon()
        again = managing(tmp_path)
        assert contents(again) == {EVENTS: [b"a", b"b", b"c"], ORDERS: [b"x"]}
        again.abandon()
    assert outcomes == {frozenset(each) for each in ([EVENTS], [ORDERS], [EVENTS, ORDERS])}


def test_only_the_directory_that_was_not_closed_is_recovered(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    filled(a, b).close(now_ms=NOW_MS)
    clean_shutdown.remove(a)
    observer = Notebook()
    managing(a, b, observer=observer)
    assert {path for path, _, _ in observer.progress} == {a}


def test_a_disk_that_fails_during_recovery_goes_offline_alone(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    filled(a, b).abandon()
    observer = Notebook()

    def failing_first(tasks):
        with FaultyDisk(fail_at=1, error=errno.EIO, counting={"pread"}):
            yield tasks[0]()
        yield from (task() for task in tasks[1:])

    manager = managing(a, b, observer=observer, run_all=failing_first)
    assert observer.failed == [(a, False)]
    assert contents(manager) == {ORDERS: [b"x"]}


def test_at_whichever_call_a_disk_fails_during_a_start_the_other_goes_on(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    filled(a, b).close(now_ms=NOW_MS)
    calls = {"listdir", "open", "pread", "unlink", "sync_directory"}
    failed = set()
    for n in range(1, 60):
        for path in (a, b):
            clean_shutdown.write(path)
        observer = Notebook()
        with FaultyDisk(fail_at=n, error=errno.EIO, counting=calls) as disk:
            manager = managing(a, b, observer=observer)
        manager.abandon()
        if not disk.failed_calls:
            break
        assert len(observer.failed) == 1, disk
        ((path, is_last),) = observer.failed
        assert not is_last
        failed.add(path)
        assert contents(manager) in ({EVENTS: [b"a", b"b", b"c"]}, {ORDERS: [b"x"]})
    assert failed == {a, b}


# What the checkpoints say


def test_a_log_starts_where_records_were_deleted_up_to(tmp_path):
    manager = filled(tmp_path)
    with manager.find(EVENTS) as log:
        log.advance_start(2)
    manager.close(now_ms=NOW_MS)
    assert values_in(managing(tmp_path).find(EVENTS)) == [b"c"]


def test_the_high_watermark_is_as_it_was(tmp_path):
    manager = managing(tmp_path)
    with written(manager, EVENTS, b"a", b"b") as log:
        append(log, b"not replicated")
        log.advance_high_watermark(2)
    manager.close(now_ms=NOW_MS)
    assert managing(tmp_path).find(EVENTS).log.high_watermark == 2


@pytest.mark.parametrize(("checkpointed", "expected"), [(0, 1), (2, 2), (99, 3)])
def test_the_high_watermark_is_between_the_start_and_the_end(tmp_path, checkpointed, expected):
    manager = filled(tmp_path)
    with manager.find(EVENTS) as log:
        log.advance_start(1)
    manager.close(now_ms=NOW_MS)
    HIGH_WATERMARKS.write(tmp_path, {EVENTS: checkpointed})
    assert managing(tmp_path).find(EVENTS).log.high_watermark == expected


def test_recovery_begins_at_the_recovery_point(tmp_path):
    manager = managing(tmp_path, segment_bytes=200)
    flush(written(manager, EVENTS, *(bytes(100) for _ in range(5))))
    carry_all(manager.checkpoints())
    manager.abandon()
    first = tmp_path / "events-0" / "00000000000000000000.log"
    damaged = bytearray(first.read_bytes())
    damaged[80] ^= 1
    first.write_bytes(damaged)
    again = managing(tmp_path, segment_bytes=200)
    assert again.find(EVENTS).log.recovery_point == again.find(EVENTS).log.end_offset == 5
    again.abandon()
    RECOVERY_POINTS.write(tmp_path, {})
    assert managing(tmp_path, segment_bytes=200).find(EVENTS).log.end_offset == 0


@pytest.mark.parametrize("checkpoint", [*CHECKPOINTS, CLEANER_OFFSETS], ids=lambda each: each.name)
def test_a_damaged_checkpoint_is_reported_counts_as_empty_and_is_made_anew(tmp_path, checkpoint):
    manager = filled(tmp_path)
    with manager.find(EVENTS) as log:
        log.advance_start(1)
    flush(manager.find(EVENTS))
    carry_all(manager.checkpoints())
    manager.abandon()
    (tmp_path / checkpoint.name).write_bytes(b"0\n7\nevents 0")
    observer = Notebook()
    log = managing(tmp_path, observer=observer).find(EVENTS).log
    (note,) = observer.notes
    assert checkpoint.name in note
    assert log.end_offset == 3
    assert log.recovery_point == (0 if checkpoint is RECOVERY_POINTS else 3)
    assert log.start_offset == (0 if checkpoint is LOG_START_OFFSETS else 1)
    assert log.high_watermark == (log.start_offset if checkpoint is HIGH_WATERMARKS else 3)
    checkpoint.read(tmp_path)


def test_lines_of_logs_that_are_gone_do_not_reach_new_logs_of_that_name(tmp_path):
    for checkpoint in (*CHECKPOINTS, CLEANER_OFFSETS):
        checkpoint.write(tmp_path, {EVENTS: 1000})
    manager = managing(tmp_path)
    hosted = written(manager, EVENTS, b"a")
    assert manager.cleaner.checkpoint(hosted.log) is None
    manager.abandon()
    assert contents(managing(tmp_path)) == {EVENTS: [b"a"]}


# What else is in a directory


def test_what_is_no_log_is_reported_and_left_alone(tmp_path):
    for name in ("lost+found", "not a log", "__cluster_metadata-0", f"old-1.{UNIQUE}-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "events-0").write_bytes(b"a file, not a directory")
    observer = Notebook()
    manager = managing(tmp_path, observer=observer)
    assert contents(manager) == {}
    assert len(observer.notes) == 4
    assert all("left alone" in note for note in observer.notes)
    manager.close(now_ms=NOW_MS)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 4


def test_logs_that_were_being_deleted_are_removed_after_the_delay(tmp_path):
    doomed = tmp_path / f"events-0.{UNIQUE}-delete"
    doomed.mkdir()
    (doomed / "00000000000000000000.log").write_bytes(b"anything")
    manager = managing(tmp_path, file_delete_delay_ms=1000)
    assert contents(manager) == {}
    assert manager.upkeep.removals.next_due_ms == NOW_MS + 1000
    carry_all(manager.upkeep.removals_due(NOW_MS + 1000))
    assert not doomed.exists()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_on_its_way_is_still_one(tmp_path, is_clean):
    manager = filled(tmp_path / "a", tmp_path / "b")
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close(now_ms=NOW_MS) if is_clean else manager.abandon()
    again = managing(tmp_path / "a", tmp_path / "b")
    assert values_in(again.find_future(EVENTS)) == values_in(again.find(EVENTS))
    assert again.find_future(EVENTS).is_future


def test_a_log_remembers_its_topics_id(tmp_path):
    manager = managing(tmp_path)
    manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    assert managing(tmp_path).find(EVENTS).topic_id == TOPIC_ID


def test_a_topics_id_that_cannot_be_read_is_learnt_again(tmp_path):
    filled(tmp_path).close(now_ms=NOW_MS)
    (tmp_path / "events-0" / partition_metadata.FILE_NAME).write_bytes(b"version: 0\ntop")
    observer = Notebook()
    manager = managing(tmp_path, observer=observer)
    assert manager.find(EVENTS).topic_id is None
    assert "removed" in observer.notes[0]
    manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert partition_metadata.read(tmp_path / "events-0") == TOPIC_ID


# Two logs of one partition


def test_a_partition_with_two_logs_is_a_clear_error_and_nothing_is_changed(tmp_path):
    for name in ("a", "b"):
        manager = managing(tmp_path / name)
        written(manager, EVENTS, name.encode())
        manager.close(now_ms=NOW_MS)
    with pytest.raises(DuplicateLog) as duplicate:
        managing(tmp_path / "a", tmp_path / "b")
    for name in ("a", "b"):
        assert str(tmp_path / name / "events-0") in str(duplicate.value)
        assert clean_shutdown.read(tmp_path / name) is not None


def test_a_log_that_was_never_written_to_makes_room_for_one_that_was(tmp_path):
    for name, values in {"a": [], "b": [b"something"]}.items():
        manager = managing(tmp_path / name)
        written(manager, EVENTS, *values)
        manager.abandon()
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(manager) == {EVENTS: [b"something"]}
    assert names_in(tmp_path / "a", "-delete")
    assert "is removed" in observer.notes[0]


def test_an_empty_log_of_another_topic_of_the_same_name_does_not(tmp_path):
    for name in ("a", "b"):
        manager = managing(tmp_path / name)
        manager.create(EVENTS, topic_id=Uuid(name.encode() * 16), now_ms=NOW_MS)
        manager.abandon()
    with pytest.raises(DuplicateLog):
        managing(tmp_path / "a", tmp_path / "b")


# Logs that cannot be opened


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A clean directory in which one log makes no sense, so that nobody can open it."""

    def open_log(place, findings, **how):
        if place.partition == EVENTS:
            raise CorruptMessage("no batch")
        return log_loader.open_log(place, findings, **how)

    manager = filled(tmp_path)
    with manager.find(EVENTS) as log:
        log.advance_start(1)
    manager.close(now_ms=NOW_MS)
    monkeypatch.setattr(loading, "open_log", open_log)
    return tmp_path


def test_a_log_that_makes_no_sense_is_refused_alone_and_left_as_it_is(damaged):
    before = names_in(damaged / "events-0")
    observer = Notebook()
    manager = managing(damaged, observer=observer)
    assert contents(manager) == {ORDERS: [b"x"]}
    assert observer.failed == []
    assert any("cannot be opened" in note for note in observer.notes)
    with pytest.raises(KafkaStorageError, match="cannot be opened"):
        manager.find(EVENTS)
    with pytest.raises(KafkaStorageError, match="cannot be opened"):
        manager.create(EVENTS, now_ms=NOW_MS)
    assert names_in(damaged / "events-0") == before


def test_what_is_known_of_a_refused_log_is_kept_and_its_directory_is_not_called_clean(damaged):
    known = [checkpoint.read(damaged) for checkpoint in CHECKPOINTS]
    manager = managing(damaged)
    carry_all(manager.checkpoints())
    manager.close(now_ms=NOW_MS)
    assert [checkpoint.read(damaged) for checkpoint in CHECKPOINTS] == known
    assert clean_shutdown.read(damaged) is None
