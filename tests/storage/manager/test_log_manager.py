"""All logs of a broker: making, finding, cutting, deleting, and writing down where they are."""

import errno
import os
import shutil

import pytest

from odradek.protocol.errors import InconsistentTopicId, KafkaStorageError, UnknownTopicOrPartition
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
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


def test_there_is_no_log_before_it_is_made(manager):
    assert manager.find(EVENTS) is None
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    assert manager.find(EVENTS) is hosted
    assert hosted.log.end_offset == 0


def test_a_log_is_in_a_directory_of_its_name_that_tells_the_topics_id(manager, tmp_path):
    hosted = manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert hosted.log.directory == tmp_path / "events-0"
    assert partition_metadata.read(tmp_path / "events-0") == TOPIC_ID
    assert hosted.topic_id == TOPIC_ID


def test_making_a_log_again_finds_it(manager):
    hosted = written(manager, EVENTS, b"a")
    assert manager.create(EVENTS, now_ms=NOW_MS) is hosted
    assert values_in(hosted) == [b"a"]


def test_a_log_learns_its_topics_id_once(manager, tmp_path):
    manager.create(EVENTS, now_ms=NOW_MS)
    manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert partition_metadata.read(tmp_path / "events-0") == TOPIC_ID
    with pytest.raises(InconsistentTopicId):
        manager.create(EVENTS, topic_id=ANOTHER_ID, now_ms=NOW_MS)
    assert manager.create(EVENTS, now_ms=NOW_MS).topic_id == TOPIC_ID


def test_a_new_log_goes_where_the_fewest_are_counting_copies_on_their_way(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    a, b = manager.directories.all
    first, second, third = (
        manager.create(TopicPartition("t", number), now_ms=NOW_MS) for number in range(3)
    )
    assert [first.directory, second.directory, third.directory] == [a, b, a]
    manager.create_future(first.partition, b, now_ms=NOW_MS)
    manager.create_future(third.partition, b, now_ms=NOW_MS)
    assert manager.create(TopicPartition("t", 3), now_ms=NOW_MS).directory is a


def test_a_new_log_goes_where_it_is_wanted(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    b = manager.directories.all[1]
    assert manager.create(EVENTS, directory=b, now_ms=NOW_MS).directory is b


def test_a_log_that_cannot_be_made_in_one_directory_is_made_in_the_next(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    with FaultyDisk(fail_at=1, error=errno.ENOSPC):
        hosted = manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    assert hosted.directory.path == tmp_path / "b"
    assert observer.failed == [(tmp_path / "a", False)]


def test_a_log_that_cannot_be_made_anywhere_is_a_storage_error(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    with (
        FaultyDisk(fail_at=1, error=errno.ENOSPC, persists=True),
        pytest.raises(KafkaStorageError, match="No space left"),
    ):
        manager.create(EVENTS, now_ms=NOW_MS)
    assert observer.failed == [(tmp_path / "a", False), (tmp_path / "b", True)]


def test_a_log_that_should_be_there_is_not_made_while_a_directory_is_offline(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    manager = managing(tmp_path / "a", tmp_path / "b")
    with pytest.raises(KafkaStorageError, match="offline"):
        manager.create(EVENTS, is_new=False, now_ms=NOW_MS)
    manager.create(EVENTS, is_new=True, now_ms=NOW_MS)


def test_what_is_in_the_way_of_a_new_log_is_left_alone(manager, tmp_path):
    (tmp_path / "events-0").mkdir()
    (tmp_path / "events-0" / "notes.txt").write_bytes(b"mine")
    with pytest.raises(KafkaStorageError, match="in the way"):
        manager.create(EVENTS, now_ms=NOW_MS)
    assert names_in(tmp_path / "events-0") == ["notes.txt"]
    assert manager.directories.online


def test_changed_settings_reach_every_log_of_the_topic_and_later_ones(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    first, other = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    copy = copied(manager, EVENTS, manager.directories.all[1])
    manager.configure("events", TopicSettings(max_message_bytes=77))
    later = manager.create(TopicPartition("events", 1), now_ms=NOW_MS)
    for hosted in (first, copy, later):
        assert hosted.log.rules.max_message_bytes == 77
    assert other.log.rules.max_message_bytes == TopicSettings().max_message_bytes


def test_changed_defaults_reach_the_logs_of_topics_without_settings_of_their_own(tmp_path):
    own = TopicSettings(max_message_bytes=77)
    manager = managing(tmp_path, topics={"orders": own})
    events, orders = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    manager.configure_defaults(TopicSettings(max_message_bytes=88))
    assert events.log.rules.max_message_bytes == 88
    assert orders.log.rules.max_message_bytes == 77
    manager.configure("orders", None)
    assert orders.log.rules.max_message_bytes == 88


def test_topics_have_settings_of_their_own(tmp_path):
    manager = managing(tmp_path, topics={"orders": TopicSettings(segment_bytes=1000)})
    assert manager.create(ORDERS, now_ms=NOW_MS).log.settings.segment_bytes == 1000
    assert manager.create(EVENTS, now_ms=NOW_MS).log.settings == TopicSettings()


def test_a_log_is_not_made_beside_a_copy_that_was_on_its_way(tmp_path):
    places = [tmp_path / name for name in "abc"]
    manager = managing(*places)
    written(manager, EVENTS, b"a")
    copied(manager, EVENTS, manager.directories.all[1])
    manager.abandon()
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"")
    again = managing(*places)
    _, b, c = again.directories.all
    with pytest.raises(KafkaStorageError, match="on its way"):
        again.create(EVENTS, directory=b, now_ms=NOW_MS)
    assert again.create(EVENTS, now_ms=NOW_MS).directory is c


# Deleting


def test_a_deleted_log_is_renamed_at_once_and_removed_after_the_delay(tmp_path):
    manager = managing(tmp_path, file_delete_delay_ms=1000)
    written(manager, EVENTS, b"a")
    delete(manager, EVENTS)
    assert manager.find(EVENTS) is None
    (renamed,) = names_in(tmp_path, "-delete")
    assert renamed.startswith("events-0.")
    assert manager.upkeep.removals_due(NOW_MS + 999) == []
    carry_all(manager.upkeep.removals_due(NOW_MS + 1000))
    assert names_in(tmp_path, "-delete") == []


def test_deleting_takes_a_log_and_the_copy_on_its_way(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    written(manager, EVENTS, b"a")
    copied(manager, EVENTS, manager.directories.all[1])
    delete(manager, EVENTS)
    assert manager.find_future(EVENTS) is None
    assert len(names_in(tmp_path / "a", "-delete")) == 1
    assert len(names_in(tmp_path / "b", "-delete")) == 1


def test_several_logs_are_deleted_with_one_writing_of_the_checkpoints(manager, tmp_path):
    for number in range(3):
        flush(written(manager, TopicPartition("t", number), b"a"))
    carry_all(manager.checkpoints())
    for number in range(3):
        manager.delete(TopicPartition("t", number))
    (work,) = manager.deletions(now_ms=NOW_MS)
    carry_out(work)
    assert len(names_in(tmp_path, "-delete")) == 3
    assert RECOVERY_POINTS.read(tmp_path) == HIGH_WATERMARKS.read(tmp_path) == {}


def test_a_deleted_log_lets_nobody_in(manager):
    hosted = written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    with pytest.raises(UnknownTopicOrPartition), hosted:
        raise AssertionError("let in")


def test_a_log_cannot_be_made_again_before_the_old_one_is_out_of_the_way(manager):
    hosted = written(manager, EVENTS, b"a", b"b")
    with hosted as log:
        log.advance_start(2)
    carry_all(manager.checkpoints())
    manager.delete(EVENTS)
    with pytest.raises(KafkaStorageError, match="not deleted yet"):
        manager.create(EVENTS, now_ms=NOW_MS)
    carry_all(manager.deletions(now_ms=NOW_MS))
    assert values_in(written(manager, EVENTS, b"new")) == [b"new"]


def test_deleting_what_is_not_there_is_not_an_error_unless_it_may_be_offline(tmp_path):
    assert managing(tmp_path / "b").delete(EVENTS) is False
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(KafkaStorageError, match="offline"):
        managing(tmp_path / "a", tmp_path / "c").delete(EVENTS)


def test_a_topic_with_the_longest_name_can_be_deleted(manager, tmp_path):
    longest = TopicPartition("t" * 249, 0)
    written(manager, longest, b"a")
    delete(manager, longest)
    (renamed,) = names_in(tmp_path, "-delete")
    assert len(renamed) == 255


# Truncating


def test_a_truncated_log_is_checkpointed_before_it_goes_on(manager, tmp_path):
    hosted = written(manager, EVENTS, b"a", b"b", b"c")
    flush(hosted)
    carry_all(manager.checkpoints())
    assert RECOVERY_POINTS.read(tmp_path) == {EVENTS: 3}
    carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
    assert RECOVERY_POINTS.read(tmp_path) == HIGH_WATERMARKS.read(tmp_path) == {EVENTS: 1}


def test_a_log_that_begins_anew_further_ahead_forgets_its_old_start(manager, tmp_path):
    hosted = written(manager, EVENTS, b"a", b"b", b"c")
    with hosted as log:
        log.advance_start(2)
    carry_all(manager.checkpoints())
    assert LOG_START_OFFSETS.read(tmp_path) == {EVENTS: 2}
    carry_out(manager.truncate_fully(hosted, 1, now_ms=NOW_MS))
    assert LOG_START_OFFSETS.read(tmp_path) == {}
    assert (hosted.log.start_offset, hosted.log.end_offset) == (1, 1)


def test_what_truncation_drops_is_removed_after_the_delay(tmp_path):
    manager = managing(tmp_path, segment_bytes=200, file_delete_delay_ms=1000)
    hosted = written(manager, EVENTS, *(bytes(100) for _ in range(4)))
    carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
    assert names_in(tmp_path / "events-0", ".deleted")
    carry_all(manager.upkeep.removals_due(NOW_MS + 1000))
    assert not names_in(tmp_path / "events-0", ".deleted")


# Checkpoints


def test_checkpoints_hold_what_is_true_of_the_logs_of_their_directory(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    events = written(manager, EVENTS, b"a", b"b")
    written(manager, ORDERS, b"c")
    flush(events)
    with events as log:
        log.advance_start(1)
        append(log, b"not synced")
    carry_all(manager.checkpoints())
    assert RECOVERY_POINTS.read(tmp_path / "a") == {EVENTS: 2}
    assert HIGH_WATERMARKS.read(tmp_path / "a") == {EVENTS: 3}
    assert LOG_START_OFFSETS.read(tmp_path / "a") == {EVENTS: 1}
    assert RECOVERY_POINTS.read(tmp_path / "b") == {ORDERS: 0}
    assert HIGH_WATERMARKS.read(tmp_path / "b") == {ORDERS: 1}
    assert LOG_START_OFFSETS.read(tmp_path / "b") == {}


def test_a_start_at_the_first_segment_needs_no_line(manager, tmp_path):
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    carry_out(manager.truncate_fully(hosted, 100, now_ms=NOW_MS))
    assert LOG_START_OFFSETS.read(tmp_path) == {}


def test_checkpoints_that_have_not_changed_are_not_written(manager):
    hosted = written(manager, EVENTS, b"a")
    carry_all(manager.checkpoints())
    with FaultyDisk() as disk:
        carry_all(manager.checkpoints())
    assert disk.changes == 0
    with hosted as log:
        append(log, b"b")
    with FaultyDisk(counting={"rename"}) as disk:
        carry_all(manager.checkpoints())
    assert disk.changes == 1


def test_checkpoints_say_what_is_true_when_they_begin_to_be_written(manager, tmp_path):
    hosted = written(manager, EVENTS, b"a")
    (work,) = manager.checkpoints()
    with hosted as log:
        append(log, b"b")
    carry_out(work)
    assert HIGH_WATERMARKS.read(tmp_path) == {EVENTS: 2}


def test_a_checkpoint_that_cannot_be_written_takes_its_directory_offline(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    events, orders = written(manager, EVENTS, b"a"), written(manager, ORDERS, b"b")
    first, second = manager.checkpoints()
    with FaultyDisk(fail_at=1, error=errno.ENOSPC), pytest.raises(LogDirectoryOffline):
        carry_out(first)
    carry_out(second)
    assert observer.failed == [(tmp_path / "a", False)]
    assert not events.is_usable
    assert values_in(orders) == [b"b"]


def test_how_far_compaction_came_is_checkpointed_too(manager, tmp_path):
    hosted = written(manager, EVENTS, b"a")
    manager.cleaner.cleaned_to(hosted.log, 1)
    carry_all(manager.checkpoints())
    assert CLEANER_OFFSETS.read(tmp_path) == {EVENTS: 1}
    delete(manager, EVENTS)
    assert CLEANER_OFFSETS.read(tmp_path) == {}


# Syncing


class Syncs(files.System):
    """Notes which files are synced."""

    def __init__(self):
        self.synced = []

    def fsync(self, descriptor):
        self.synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    def sync_directory(self, path):
        self.synced.append(str(path))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_the_first_flush_of_a_log_syncs_its_name(manager, tmp_path, monkeypatch):
    hosted = manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
    with hosted as log:
        append(log, b"a")
    for is_first in (True, False):
        system = Syncs()
        with monkeypatch.context() as patched:
            patched.setattr(files, "system", system)
            flush(hosted)
        segment = str(tmp_path / "events-0" / "00000000000000000000.log")
        names = {str(tmp_path), str(tmp_path / "events-0" / partition_metadata.FILE_NAME)}
        assert segment in system.synced
        assert bool(names & set(system.synced)) is is_first
