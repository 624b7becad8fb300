"""Loading of log directories: after clean and unclean shutdowns, with damage and foreign files."""

import errno
from contextlib import suppress

import pytest

from odradek.protocol.errors import CorruptMessage, KafkaStorageError
from odradek.protocol.types import Uuid
from odradek.storage import clean_shutdown, log_loader, partition_metadata
from odradek.storage.manager import log_dir_loader
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory_checkpoints import CHECKPOINTS
from odradek.storage.manager.log_dir_loader import DuplicateLog
from odradek.storage.manager.log_manager import LogManager
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from odradek.storage.open_segments import TooManyOpenFiles
from odradek.storage.settings import TopicSettings
from odradek.storage.topic_settings_registry import TopicSettingsRegistry
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


def create_filled_logs(*paths, **settings):
    """Return a manager with two unflushed logs."""
    manager = managing(*paths, **settings)
    written(manager, EVENTS, b"a", b"b", b"c")
    written(manager, ORDERS, b"x")
    return manager


def test_all_logs_are_loaded_after_a_clean_shutdown(tmp_path):
    create_filled_logs(tmp_path / "a", tmp_path / "b").close(now_ms=NOW_MS)
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(manager) == {EVENTS: [b"a", b"b", b"c"], ORDERS: [b"x"]}
    assert manager.find(EVENTS).directory.path == tmp_path / "a"
    assert observer == Notebook()


def test_all_logs_are_recovered_after_a_kill(tmp_path):
    create_filled_logs(tmp_path / "a", tmp_path / "b").close_handlers()
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(manager) == {EVENTS: [b"a", b"b", b"c"], ORDERS: [b"x"]}
    assert observer.notes == []


def test_clean_shutdown_marker_is_written_and_removed_by_the_next_start(tmp_path):
    create_filled_logs(tmp_path).close(now_ms=NOW_MS, broker_epoch=7)
    assert clean_shutdown.read(tmp_path).broker_epoch == 7
    managing(tmp_path)
    assert clean_shutdown.read(tmp_path) is None


def test_unclean_shutdown_leaves_no_marker(tmp_path):
    create_filled_logs(tmp_path).close_handlers()
    assert clean_shutdown.read(tmp_path) is None


def test_recovery_progress_is_reported_per_directory(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    create_filled_logs(a, b).close_handlers()
    observer = Notebook()
    managing(a, b, observer=observer)
    assert sorted(observer.progress) == [(a, 0, 1), (a, 1, 1), (b, 0, 1), (b, 1, 1)]


def test_recovery_progress_of_a_log_is_reported_per_segment(tmp_path):
    manager = managing(tmp_path, segment_bytes=200)
    written(manager, EVENTS, *[bytes(100)] * 3)
    written(manager, ORDERS, b"x")
    manager.close_handlers()
    restarted = LogManager(manager.directories, manager.topic_settings)
    manager.directories.open()
    progress_events = []
    restarted.load(
        now_ms=NOW_MS,
        progress=lambda path, done, total: progress_events.append((path.name, done, total)),
    )
    assert sorted(progress_events) == [
        *(("events-0", done, 3) for done in range(3)),
        ("orders-0", 0, 1),
    ]


def test_logs_without_descriptors_are_skipped_and_loaded_by_the_next_start(tmp_path):
    create_filled_logs(tmp_path).close_handlers()
    outcomes = set()
    for fail_at in range(1, 200):
        directories = LogDirectories([tmp_path], Notebook())
        directories.open()
        manager = LogManager(directories, TopicSettingsRegistry(TopicSettings(), PRODUCERS))
        with FewDescriptors(fail_at=fail_at) as system, suppress(TooManyOpenFiles):
            manager.load(now_ms=NOW_MS)
            outcomes.add(frozenset(manager.logs.current))
        assert directories.online
        if not system.failed_calls:
            break
        manager.close_handlers()
        restarted = managing(tmp_path)
        assert contents(restarted) == {EVENTS: [b"a", b"b", b"c"], ORDERS: [b"x"]}
        restarted.close_handlers()
    assert outcomes == {
        frozenset(partitions) for partitions in ([EVENTS], [ORDERS], [EVENTS, ORDERS])
    }


def test_only_directories_without_a_marker_are_recovered(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    create_filled_logs(a, b).close(now_ms=NOW_MS)
    clean_shutdown.remove(a)
    observer = Notebook()
    managing(a, b, observer=observer)
    assert {path for path, _, _ in observer.progress} == {a}


def test_disk_failure_during_recovery_takes_one_directory_offline(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    create_filled_logs(a, b).close_handlers()
    observer = Notebook()

    def failing_first(tasks):
        with FaultyDisk(fail_at=1, error=errno.EIO, counting={"pread"}):
            yield tasks[0]()
        yield from (task() for task in tasks[1:])

    manager = managing(a, b, observer=observer, run_all=failing_first)
    assert observer.failed == [(a, False)]
    assert contents(manager) == {ORDERS: [b"x"]}


def test_disk_failure_at_any_call_of_the_start_affects_one_directory(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    create_filled_logs(a, b).close(now_ms=NOW_MS)
    calls = {"listdir", "open", "pread", "unlink", "sync_directory"}
    failed = set()
    for n in range(1, 60):
        for path in (a, b):
            clean_shutdown.write(path)
        observer = Notebook()
        with FaultyDisk(fail_at=n, error=errno.EIO, counting=calls) as disk:
            manager = managing(a, b, observer=observer)
        manager.close_handlers()
        if not disk.failed_calls:
            break
        assert len(observer.failed) == 1, disk
        ((path, is_last),) = observer.failed
        assert not is_last
        failed.add(path)
        assert contents(manager) in ({EVENTS: [b"a", b"b", b"c"]}, {ORDERS: [b"x"]})
    assert failed == {a, b}


# Checkpoints


def test_log_start_offset_is_restored(tmp_path):
    manager = create_filled_logs(tmp_path)
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(2)
    manager.close(now_ms=NOW_MS)
    assert values_in(managing(tmp_path).find(EVENTS)) == [b"c"]


def test_high_watermark_is_restored(tmp_path):
    manager = managing(tmp_path)
    with written(manager, EVENTS, b"a", b"b") as log:
        append(log, b"not replicated")
        log.update_high_watermark(2)
    manager.close(now_ms=NOW_MS)
    assert managing(tmp_path).find(EVENTS).log.high_watermark == 2


@pytest.mark.parametrize(("checkpointed", "expected"), [(0, 1), (2, 2), (99, 3)])
def test_restored_high_watermark_is_within_the_log(tmp_path, checkpointed, expected):
    manager = create_filled_logs(tmp_path)
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(1)
    manager.close(now_ms=NOW_MS)
    HIGH_WATERMARKS.write(tmp_path, {EVENTS: checkpointed})
    assert managing(tmp_path).find(EVENTS).log.high_watermark == expected


def test_recovery_begins_at_the_recovery_point(tmp_path):
    manager = managing(tmp_path, segment_bytes=200)
    flush(written(manager, EVENTS, *(bytes(100) for _ in range(5))))
    carry_all(manager.checkpoint_tasks())
    manager.close_handlers()
    first = tmp_path / "events-0" / "00000000000000000000.log"
    damaged = bytearray(first.read_bytes())
    damaged[80] ^= 1
    first.write_bytes(damaged)
    restarted = managing(tmp_path, segment_bytes=200)
    assert (
        restarted.find(EVENTS).log.recovery_point == restarted.find(EVENTS).log.log_end_offset == 5
    )
    restarted.close_handlers()
    RECOVERY_POINTS.write(tmp_path, {})
    assert managing(tmp_path, segment_bytes=200).find(EVENTS).log.log_end_offset == 0


@pytest.mark.parametrize("checkpoint", [*CHECKPOINTS, CLEANER_OFFSETS], ids=lambda each: each.name)
def test_damaged_checkpoint_is_reported_ignored_and_rewritten(tmp_path, checkpoint):
    manager = create_filled_logs(tmp_path)
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(1)
    flush(manager.find(EVENTS))
    carry_all(manager.checkpoint_tasks())
    manager.close_handlers()
    (tmp_path / checkpoint.name).write_bytes(b"0\n7\nevents 0")
    observer = Notebook()
    log = managing(tmp_path, observer=observer).find(EVENTS).log
    (note,) = observer.notes
    assert checkpoint.name in note
    assert log.log_end_offset == 3
    assert log.recovery_point == (0 if checkpoint is RECOVERY_POINTS else 3)
    assert log.log_start_offset == (0 if checkpoint is LOG_START_OFFSETS else 1)
    assert log.high_watermark == (log.log_start_offset if checkpoint is HIGH_WATERMARKS else 3)
    checkpoint.read(tmp_path)


def test_checkpoint_entries_of_deleted_logs_do_not_apply_to_new_logs(tmp_path):
    for checkpoint in (*CHECKPOINTS, CLEANER_OFFSETS):
        checkpoint.write(tmp_path, {EVENTS: 1000})
    manager = managing(tmp_path)
    hosted_log = written(manager, EVENTS, b"a")
    assert manager.cleaner_manager.last_clean_offset(hosted_log.log) is None
    manager.close_handlers()
    assert contents(managing(tmp_path)) == {EVENTS: [b"a"]}


# Other files in a log directory


def test_unknown_directories_are_reported_and_skipped(tmp_path):
    for name in ("lost+found", "not a log", "__cluster_metadata-0", f"old-1.{UNIQUE}-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / "events-0").write_bytes(b"a file, not a directory")
    observer = Notebook()
    manager = managing(tmp_path, observer=observer)
    assert contents(manager) == {}
    assert len(observer.notes) == 4
    assert all(note.startswith("Skipping ") for note in observer.notes)
    manager.close(now_ms=NOW_MS)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 4


def test_delete_directories_are_removed_after_the_delay(tmp_path):
    deleted_log = tmp_path / f"events-0.{UNIQUE}-delete"
    deleted_log.mkdir()
    (deleted_log / "00000000000000000000.log").write_bytes(b"anything")
    manager = managing(tmp_path, file_delete_delay_ms=1000)
    assert contents(manager) == {}
    assert manager.maintenance.removals.next_due_ms == NOW_MS + 1000
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 1000))
    assert not deleted_log.exists()


@pytest.mark.parametrize("is_clean", [True, False])
def test_future_log_is_loaded_as_a_future_log(tmp_path, is_clean):
    manager = create_filled_logs(tmp_path / "a", tmp_path / "b")
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close(now_ms=NOW_MS) if is_clean else manager.close_handlers()
    restarted = managing(tmp_path / "a", tmp_path / "b")
    assert values_in(restarted.find_future(EVENTS)) == values_in(restarted.find(EVENTS))
    assert restarted.find_future(EVENTS).is_future


def test_topic_id_is_loaded(tmp_path):
    manager = managing(tmp_path)
    manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    assert managing(tmp_path).find(EVENTS).topic_id == TOPIC_ID


def test_unreadable_topic_id_is_removed_and_written_again(tmp_path):
    create_filled_logs(tmp_path).close(now_ms=NOW_MS)
    (tmp_path / "events-0" / partition_metadata.FILE_NAME).write_bytes(b"version: 0\ntop")
    observer = Notebook()
    manager = managing(tmp_path, observer=observer)
    assert manager.find(EVENTS).topic_id is None
    assert observer.notes[0].endswith("; removing the file")
    manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert partition_metadata.read(tmp_path / "events-0") == TOPIC_ID


# Two logs of one partition


def test_two_logs_of_one_partition_are_an_error_and_nothing_changes(tmp_path):
    for name in ("a", "b"):
        manager = managing(tmp_path / name)
        written(manager, EVENTS, name.encode())
        manager.close(now_ms=NOW_MS)
    with pytest.raises(DuplicateLog) as duplicate:
        managing(tmp_path / "a", tmp_path / "b")
    for name in ("a", "b"):
        assert str(tmp_path / name / "events-0") in str(duplicate.value)
        assert clean_shutdown.read(tmp_path / name) is not None


def test_empty_log_is_removed_in_favour_of_a_log_with_records(tmp_path):
    for name, values in {"a": [], "b": [b"something"]}.items():
        manager = managing(tmp_path / name)
        written(manager, EVENTS, *values)
        manager.close_handlers()
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(manager) == {EVENTS: [b"something"]}
    assert names_in(tmp_path / "a", "-delete")
    assert observer.notes[0].startswith("Removing ")


def test_empty_log_with_another_topic_id_is_an_error(tmp_path):
    for name in ("a", "b"):
        manager = managing(tmp_path / name)
        manager.get_or_create_log(EVENTS, topic_id=Uuid(name.encode() * 16), now_ms=NOW_MS)
        manager.close_handlers()
    with pytest.raises(DuplicateLog):
        managing(tmp_path / "a", tmp_path / "b")


# Logs that cannot be opened


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A cleanly closed directory in which one log is damaged and cannot be opened."""

    def open_log(log_location, load_findings, **options):
        if log_location.partition == EVENTS:
            raise CorruptMessage("no batch")
        return log_loader.open_log(log_location, load_findings, **options)

    manager = create_filled_logs(tmp_path)
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(1)
    manager.close(now_ms=NOW_MS)
    monkeypatch.setattr(log_dir_loader, "open_log", open_log)
    return tmp_path


def test_damaged_log_is_rejected_alone_and_not_changed(damaged):
    before = names_in(damaged / "events-0")
    observer = Notebook()
    manager = managing(damaged, observer=observer)
    assert contents(manager) == {ORDERS: [b"x"]}
    assert observer.failed == []
    assert any("cannot be opened" in note for note in observer.notes)
    with pytest.raises(KafkaStorageError, match="cannot be opened"):
        manager.find(EVENTS)
    with pytest.raises(KafkaStorageError, match="cannot be opened"):
        manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    assert names_in(damaged / "events-0") == before


def test_checkpoints_of_a_rejected_log_are_kept_without_a_shutdown_marker(damaged):
    checkpoints = [checkpoint.read(damaged) for checkpoint in CHECKPOINTS]
    manager = managing(damaged)
    carry_all(manager.checkpoint_tasks())
    manager.close(now_ms=NOW_MS)
    assert [checkpoint.read(damaged) for checkpoint in CHECKPOINTS] == checkpoints
    assert clean_shutdown.read(damaged) is None
