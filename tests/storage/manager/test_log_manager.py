"""All logs of a broker: creation, lookup, truncation, deletion and checkpoints."""

import errno
import os
import shutil

import pytest

from odradek.protocol.errors import InconsistentTopicId, KafkaStorageError, UnknownTopicOrPartition
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.offset_checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from odradek.storage.settings import TopicSettings
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
    names_in,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, append

TOPIC_ID = Uuid(bytes(range(16)))
ANOTHER_ID = Uuid(bytes(range(1, 17)))


@pytest.fixture
def manager(tmp_path):
    return managing(tmp_path)


def test_log_is_found_only_after_its_creation(manager):
    assert manager.find(EVENTS) is None
    hosted_log = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    assert manager.find(EVENTS) is hosted_log
    assert hosted_log.log.log_end_offset == 0


def test_log_directory_has_the_name_of_the_partition_and_the_topic_id(manager, tmp_path):
    hosted_log = manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert hosted_log.log.directory == tmp_path / "events-0"
    assert partition_metadata.read(tmp_path / "events-0") == TOPIC_ID
    assert hosted_log.topic_id == TOPIC_ID


def test_get_or_create_returns_the_existing_log(manager):
    hosted_log = written(manager, EVENTS, b"a")
    assert manager.get_or_create_log(EVENTS, now_ms=NOW_MS) is hosted_log
    assert values_in(hosted_log) == [b"a"]


def test_topic_id_of_a_log_is_set_once(manager, tmp_path):
    manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert partition_metadata.read(tmp_path / "events-0") == TOPIC_ID
    with pytest.raises(InconsistentTopicId):
        manager.get_or_create_log(EVENTS, topic_id=ANOTHER_ID, now_ms=NOW_MS)
    assert manager.get_or_create_log(EVENTS, now_ms=NOW_MS).topic_id == TOPIC_ID


def test_new_log_goes_to_the_directory_with_the_fewest_logs_and_future_logs(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    a, b = manager.directories.all
    first, second, third = (
        manager.get_or_create_log(TopicPartition("t", number), now_ms=NOW_MS) for number in range(3)
    )
    assert [first.directory, second.directory, third.directory] == [a, b, a]
    manager.create_future(first.partition, b, now_ms=NOW_MS)
    manager.create_future(third.partition, b, now_ms=NOW_MS)
    assert manager.get_or_create_log(TopicPartition("t", 3), now_ms=NOW_MS).directory is a


def test_new_log_goes_to_the_given_directory(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    b = manager.directories.all[1]
    assert manager.get_or_create_log(EVENTS, directory=b, now_ms=NOW_MS).directory is b


def test_log_is_created_in_the_next_directory_after_a_failure(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    with FaultyDisk(fail_at=1, error=errno.ENOSPC):
        hosted_log = manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert hosted_log.directory.path == tmp_path / "b"
    assert observer.failed == [(tmp_path / "a", False)]


def test_log_that_cannot_be_created_anywhere_is_a_storage_error(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    with (
        FaultyDisk(fail_at=1, error=errno.ENOSPC, persists=True),
        pytest.raises(KafkaStorageError, match="No space left"),
    ):
        manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    assert observer.failed == [(tmp_path / "a", False), (tmp_path / "b", True)]


def test_existing_log_is_not_created_while_a_directory_is_offline(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    manager = managing(tmp_path / "a", tmp_path / "b")
    with pytest.raises(KafkaStorageError, match="offline"):
        manager.get_or_create_log(EVENTS, is_new=False, now_ms=NOW_MS)
    manager.get_or_create_log(EVENTS, is_new=True, now_ms=NOW_MS)


def test_unknown_files_in_the_directory_of_a_new_log_are_kept(manager, tmp_path):
    (tmp_path / "events-0").mkdir()
    (tmp_path / "events-0" / "notes.txt").write_bytes(b"mine")
    with pytest.raises(KafkaStorageError, match=r"/\S+ already exists"):
        manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    assert names_in(tmp_path / "events-0") == ["notes.txt"]
    assert manager.directories.online


def test_changed_settings_apply_to_all_current_and_later_logs_of_the_topic(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    first, other = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    future = copied(manager, EVENTS, manager.directories.all[1])
    manager.configure("events", TopicSettings(max_message_bytes=77))
    later = manager.get_or_create_log(TopicPartition("events", 1), now_ms=NOW_MS)
    for hosted_log in (first, future, later):
        assert hosted_log.log.append_rules.max_message_bytes == 77
    assert other.log.append_rules.max_message_bytes == TopicSettings().max_message_bytes


def test_changed_defaults_apply_to_topics_without_settings(tmp_path):
    orders_settings = TopicSettings(max_message_bytes=77)
    manager = managing(tmp_path, topics={"orders": orders_settings})
    events, orders = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    manager.configure_defaults(TopicSettings(max_message_bytes=88))
    assert events.log.append_rules.max_message_bytes == 88
    assert orders.log.append_rules.max_message_bytes == 77
    manager.configure("orders", None)
    assert orders.log.append_rules.max_message_bytes == 88


def test_topic_settings_override_the_defaults(tmp_path):
    manager = managing(tmp_path, topics={"orders": TopicSettings(segment_bytes=1000)})
    assert manager.get_or_create_log(ORDERS, now_ms=NOW_MS).log.settings.segment_bytes == 1000
    assert manager.get_or_create_log(EVENTS, now_ms=NOW_MS).log.settings == TopicSettings()


def test_log_is_not_created_beside_its_future_log(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    manager = managing(*paths)
    written(manager, EVENTS, b"a")
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close_handlers()
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"")
    restarted = managing(*paths)
    _, b, c = restarted.directories.all
    with pytest.raises(KafkaStorageError, match=r"a future log of .* already exists"):
        restarted.get_or_create_log(EVENTS, directory=b, now_ms=NOW_MS)
    assert restarted.get_or_create_log(EVENTS, now_ms=NOW_MS).directory is c


# Deletion


def test_deleted_log_is_renamed_immediately_and_removed_after_the_delay(tmp_path):
    manager = managing(tmp_path, file_delete_delay_ms=1000)
    written(manager, EVENTS, b"a")
    delete(manager, EVENTS)
    assert manager.find(EVENTS) is None
    (renamed,) = names_in(tmp_path, "-delete")
    assert renamed.startswith("events-0.")
    assert manager.maintenance.due_removal_tasks(NOW_MS + 999) == []
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 1000))
    assert names_in(tmp_path, "-delete") == []


def test_deletion_includes_the_future_log(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    written(manager, EVENTS, b"a")
    copied(manager, EVENTS, manager.directories.all[1])
    delete(manager, EVENTS)
    assert manager.find_future(EVENTS) is None
    assert len(names_in(tmp_path / "a", "-delete")) == 1
    assert len(names_in(tmp_path / "b", "-delete")) == 1


def test_several_deletions_write_the_checkpoints_once(manager, tmp_path):
    for number in range(3):
        flush(written(manager, TopicPartition("t", number), b"a"))
    carry_all(manager.checkpoint_tasks())
    for number in range(3):
        manager.delete(TopicPartition("t", number))
    (task,) = manager.deletion_tasks(now_ms=NOW_MS)
    execute(task)
    assert len(names_in(tmp_path, "-delete")) == 3
    assert RECOVERY_POINTS.read(tmp_path) == HIGH_WATERMARKS.read(tmp_path) == {}


def test_deleted_log_cannot_be_used(manager):
    hosted_log = written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    with pytest.raises(UnknownTopicOrPartition), hosted_log:
        raise AssertionError("let in")


def test_log_cannot_be_created_again_before_its_deletion(manager):
    hosted_log = written(manager, EVENTS, b"a", b"b")
    with hosted_log as log:
        log.maybe_increment_log_start_offset(2)
    carry_all(manager.checkpoint_tasks())
    manager.delete(EVENTS)
    with pytest.raises(KafkaStorageError, match="not deleted yet"):
        manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    carry_all(manager.deletion_tasks(now_ms=NOW_MS))
    assert values_in(written(manager, EVENTS, b"new")) == [b"new"]


def test_deletion_of_a_missing_log_fails_only_if_a_directory_is_offline(tmp_path):
    assert managing(tmp_path / "b").delete(EVENTS) is False
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(KafkaStorageError, match="offline"):
        managing(tmp_path / "a", tmp_path / "c").delete(EVENTS)


def test_topic_with_the_longest_name_can_be_deleted(manager, tmp_path):
    longest = TopicPartition("t" * 249, 0)
    written(manager, longest, b"a")
    delete(manager, longest)
    (renamed,) = names_in(tmp_path, "-delete")
    assert len(renamed) == 255


# Truncation


def test_truncation_writes_the_checkpoints(manager, tmp_path):
    hosted_log = written(manager, EVENTS, b"a", b"b", b"c")
    flush(hosted_log)
    carry_all(manager.checkpoint_tasks())
    assert RECOVERY_POINTS.read(tmp_path) == {EVENTS: 3}
    execute(manager.truncate(hosted_log, 1, now_ms=NOW_MS))
    assert RECOVERY_POINTS.read(tmp_path) == HIGH_WATERMARKS.read(tmp_path) == {EVENTS: 1}


def test_full_truncation_removes_the_log_start_offset_entry(manager, tmp_path):
    hosted_log = written(manager, EVENTS, b"a", b"b", b"c")
    with hosted_log as log:
        log.maybe_increment_log_start_offset(2)
    carry_all(manager.checkpoint_tasks())
    assert LOG_START_OFFSETS.read(tmp_path) == {EVENTS: 2}
    execute(manager.truncate_fully_and_start_at(hosted_log, 1, now_ms=NOW_MS))
    assert LOG_START_OFFSETS.read(tmp_path) == {}
    assert (hosted_log.log.log_start_offset, hosted_log.log.log_end_offset) == (1, 1)


def test_truncated_segments_are_removed_after_the_delay(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, file_delete_delay_ms=1000)
    hosted_log = written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    execute(manager.truncate(hosted_log, 1, now_ms=NOW_MS))
    assert names_in(tmp_path / "events-0", ".deleted")
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 1000))
    assert not names_in(tmp_path / "events-0", ".deleted")


# Checkpoints


def test_checkpoints_have_the_offsets_of_the_logs_of_their_directory(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    events = written(manager, EVENTS, b"a", b"b")
    written(manager, ORDERS, b"c")
    flush(events)
    with events as log:
        log.maybe_increment_log_start_offset(1)
        append(log, b"not synced")
    carry_all(manager.checkpoint_tasks())
    assert RECOVERY_POINTS.read(tmp_path / "a") == {EVENTS: 2}
    assert HIGH_WATERMARKS.read(tmp_path / "a") == {EVENTS: 3}
    assert LOG_START_OFFSETS.read(tmp_path / "a") == {EVENTS: 1}
    assert RECOVERY_POINTS.read(tmp_path / "b") == {ORDERS: 0}
    assert HIGH_WATERMARKS.read(tmp_path / "b") == {ORDERS: 1}
    assert LOG_START_OFFSETS.read(tmp_path / "b") == {}


def test_log_start_offset_at_the_first_segment_needs_no_entry(manager, tmp_path):
    hosted_log = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    execute(manager.truncate_fully_and_start_at(hosted_log, 100, now_ms=NOW_MS))
    assert LOG_START_OFFSETS.read(tmp_path) == {}


def test_unchanged_checkpoints_are_not_written(manager):
    hosted_log = written(manager, EVENTS, b"a")
    carry_all(manager.checkpoint_tasks())
    with FaultyDisk() as disk:
        carry_all(manager.checkpoint_tasks())
    assert disk.changes == 0
    with hosted_log as log:
        append(log, b"b")
    with FaultyDisk(counting={"rename"}) as disk:
        carry_all(manager.checkpoint_tasks())
    assert disk.changes == 1


def test_checkpoint_has_the_offsets_of_the_begin_of_its_task(manager, tmp_path):
    hosted_log = written(manager, EVENTS, b"a")
    (task,) = manager.checkpoint_tasks()
    with hosted_log as log:
        append(log, b"b")
    execute(task)
    assert HIGH_WATERMARKS.read(tmp_path) == {EVENTS: 2}


def test_failed_checkpoint_takes_its_directory_offline(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    events, orders = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    first, second = manager.checkpoint_tasks()
    with FaultyDisk(fail_at=1, error=errno.ENOSPC), pytest.raises(LogDirectoryOffline):
        execute(first)
    execute(second)
    assert observer.failed == [(tmp_path / "a", False)]
    assert not events.is_usable
    assert values_in(orders) == [b"b"]


def test_cleaner_offsets_are_checkpointed(manager, tmp_path):
    hosted_log = written(manager, EVENTS, b"a")
    manager.cleaner_manager.update_checkpoint(hosted_log.log, 1)
    carry_all(manager.checkpoint_tasks())
    assert CLEANER_OFFSETS.read(tmp_path) == {EVENTS: 1}
    delete(manager, EVENTS)
    assert CLEANER_OFFSETS.read(tmp_path) == {}


# Flushes


class RecordedFlushes(files.SystemCalls):
    """Records which files are flushed."""

    def __init__(self):
        self.flushed = []

    def fsync(self, descriptor):
        self.flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def sync_directory(self, path):
        self.flushed.append(str(path))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_first_flush_of_a_log_flushes_its_directory_entry(manager, tmp_path, monkeypatch):
    hosted_log = manager.get_or_create_log(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    with hosted_log as log:
        append(log, b"a")
    for is_first in (True, False):
        system = RecordedFlushes()
        with monkeypatch.context() as patched:
            patched.setattr(files, "system", system)
            flush(hosted_log)
        segment = str(tmp_path / "events-0" / "00000000000000000000.log")
        names = {str(tmp_path), str(tmp_path / "events-0" / partition_metadata.FILE_NAME)}
        assert segment in system.flushed
        assert bool(names & set(system.flushed)) is is_first
