"""Logs that want of descriptors has left half changed, and their way back into use."""

import errno
import os
from contextlib import suppress

import pytest

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaStorageError, code_of
from odradek.protocol.types import Uuid
from odradek.storage import clean_shutdown, files
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.offset_checkpoints import RECOVERY_POINTS
from odradek.storage.open_segments import OutOfDescriptors
from odradek.storage.paths import Content
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


def roll_without_descriptors(hosted, **how):
    with none_left(**how), pytest.raises(OutOfDescriptors) as refusal, hosted as log:
        log.roll(now_ms=NOW_MS)
    assert code_of(refusal.value) == ErrorCode.KAFKA_STORAGE_ERROR.code


def take(log, value, *, base_offset):
    log.append_as_follower(records_batch(value, base_offset=base_offset), now_ms=NOW_MS)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_change_that_was_broken_off_puts_one_log_out_of_use(manager, hosted, error):
    roll_without_descriptors(hosted, error=error)
    with pytest.raises(OutOfDescriptors, match="opened again"):
        values_in(hosted)
    assert manager.directories.online
    assert values_in(manager.find(ORDERS)) == [b"x"]
    assert manager.upkeep.flushes_due(NOW_MS) == []


def test_a_mended_log_has_all_that_was_acknowledged_and_goes_on(manager, hosted):
    flush(hosted)
    written(manager, EVENTS, b"c")
    roll_without_descriptors(hosted)
    carry_all(manager.mendings(now_ms=NOW_MS))
    assert manager.mendings(now_ms=NOW_MS) == []
    assert values_in(written(manager, EVENTS, b"d")) == [b"a", b"b", b"c", b"d"]
    assert hosted.log.recovery_point == 2
    flush(hosted)
    assert hosted.log.recovery_point == 4


def test_it_keeps_its_high_watermark_its_settings_and_its_leaders_epoch(manager, hosted):
    with hosted as log:
        log.advance_high_watermark(1)
        log.epochs.assign(7, start_offset=2)
    roll_without_descriptors(hosted)
    (work,) = manager.mendings(now_ms=NOW_MS)
    settings = manager.topics.defaults
    changed = type(settings)(retention_ms=5)
    with work:
        work.run()
        manager.configure("events", changed)
    assert hosted.log.high_watermark == 1
    assert hosted.log.settings is changed
    assert hosted.log.epochs.entries == ((0, 0), (7, 2))


def test_it_waits_for_descriptors_and_is_tried_again(manager, hosted):
    roll_without_descriptors(hosted)
    for fail_at in range(1, 60):
        (work,) = manager.mendings(now_ms=NOW_MS)
        with FewDescriptors(fail_at=fail_at) as system:
            try:
                carry_out(work)
            except OutOfDescriptors:
                assert system.failed_calls
        if not system.failed_calls:
            break
        assert manager.directories.online
    assert fail_at > 5
    assert values_in(hosted) == [b"a", b"b"]


def test_it_waits_for_a_flush_that_is_under_way(manager, hosted):
    flushing = hosted.plan_flush(now_ms=NOW_MS)
    with flushing:
        roll_without_descriptors(hosted)
        assert manager.mendings(now_ms=NOW_MS) == []
        flushing.run()
    assert hosted.log.recovery_point == 0
    carry_all(manager.mendings(now_ms=NOW_MS))
    assert values_in(hosted) == [b"a", b"b"]


def test_it_is_handed_out_once_at_a_time(manager, hosted):
    roll_without_descriptors(hosted)
    assert len(manager.mendings(now_ms=NOW_MS)) == 1
    assert manager.mendings(now_ms=NOW_MS) == []


def test_a_flush_that_was_planned_before_is_planned_again_afterwards(manager, hosted):
    flushing = hosted.plan_flush(now_ms=NOW_MS)
    roll_without_descriptors(hosted)
    with pytest.raises(OutOfDescriptors):
        carry_out(flushing)
    carry_all(manager.mendings(now_ms=NOW_MS))
    flush(hosted)
    assert hosted.log.recovery_point == 2


def test_a_truncation_that_was_broken_off_has_to_be_asked_for_again(manager, hosted):
    flush(hosted)
    carry_all(manager.checkpoints())
    work = manager.truncate(hosted, 1, now_ms=NOW_MS)
    with none_left(), pytest.raises(OutOfDescriptors):
        carry_out(work)
    carry_all(manager.mendings(now_ms=NOW_MS))
    with hosted as log:
        end_offset = log.end_offset
    assert end_offset in (1, 2)
    carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
    assert values_in(hosted) == [b"a"]


def test_what_is_appended_next_is_not_taken_for_synced_after_a_power_cut(manager, hosted, tmp_path):
    flush(hosted)
    carry_all(manager.checkpoints())
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 2
    with none_left(), pytest.raises(OutOfDescriptors):
        carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
    carry_all(manager.mendings(now_ms=NOW_MS))
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 0
    carry_all(manager.checkpoints())
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == hosted.log.recovery_point


def test_a_write_that_failed_unnoticed_takes_the_directory_offline(manager, hosted, monkeypatch):
    roll_without_descriptors(hosted)
    (work,) = manager.mendings(now_ms=NOW_MS)
    written_with = hosted.log.segments.active.file
    sync = files.system.fsync

    def told_once(descriptor):
        if descriptor == written_with.fileno():
            raise OSError(errno.EIO, "an earlier write has failed")
        sync(descriptor)

    monkeypatch.setattr(files.system, "fsync", told_once)
    with pytest.raises(LogDirectoryOffline, match="an earlier write"):
        carry_out(work)


def test_when_it_was_flushed_is_known_afterwards(manager, hosted):
    flush(hosted)
    roll_without_descriptors(hosted)
    carry_all(manager.mendings(now_ms=NOW_MS + 5))
    assert hosted.log.last_flush_ms == NOW_MS


def test_what_mending_has_changed_is_synced_when_the_log_is_closed(tmp_path, monkeypatch):
    before = managing(tmp_path)
    written(before, EVENTS, b"a")
    before.close(now_ms=NOW_MS)
    manager = managing(tmp_path)
    hosted = manager.find(EVENTS)
    assert not hosted.is_mended
    hosted.is_in_doubt = True
    carry_all(manager.mendings(now_ms=NOW_MS))
    synced = []
    sync = files.system.fsync
    monkeypatch.setattr(files.system, "fsync", lambda it: (synced.append(name_of(it)), sync(it)))
    manager.close(now_ms=NOW_MS)
    assert "00000000000000000000.log" in synced


def name_of(descriptor):
    return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))


def test_what_follows_a_shorter_end_is_compacted_again(manager, hosted):
    flush(hosted)
    manager.cleaner.cleaned_to(hosted.log, 2)
    with none_left(), pytest.raises(OutOfDescriptors):
        carry_out(manager.truncate(hosted, 0, now_ms=NOW_MS))
    hosted.log.segments.active.abandon()
    os.truncate(hosted.log.segments.active.path(Content.BATCHES), 0)
    hosted.log.recovery_point = 0
    carry_all(manager.mendings(now_ms=NOW_MS))
    assert hosted.log.end_offset == 0
    assert manager.cleaner.checkpoint(hosted.log) == 0


def test_a_log_in_doubt_can_be_deleted(manager, hosted, tmp_path):
    roll_without_descriptors(hosted)
    (work,) = manager.mendings(now_ms=NOW_MS)
    delete(manager, EVENTS)
    carry_out(work)
    assert manager.find(EVENTS) is None
    assert manager.mendings(now_ms=NOW_MS) == []
    manager.close(now_ms=NOW_MS)
    assert contents(managing(tmp_path)) == {ORDERS: [b"x"]}


def test_a_directory_with_a_log_in_doubt_gets_no_marker(manager, hosted, tmp_path):
    roll_without_descriptors(hosted)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None
    assert contents(managing(tmp_path)) == {EVENTS: [b"a", b"b"], ORDERS: [b"x"]}


def test_an_append_that_could_not_open_the_log_leaves_no_doubt(manager, hosted, tmp_path):
    manager.close(now_ms=NOW_MS)
    again = managing(tmp_path)
    hosted = again.find(EVENTS)
    with none_left(), pytest.raises(OutOfDescriptors), hosted as log:
        append(log, b"c")
    assert not hosted.is_in_doubt
    assert values_in(written(again, EVENTS, b"d")) == [b"a", b"b", b"d"]


def test_a_segment_begun_in_a_gap_and_never_written_to_leaves_the_log_to_be_mended(tmp_path):
    for fail_at in range(1, 30):
        manager = managing(tmp_path / str(fail_at), segment_bytes=300)
        hosted = manager.create(EVENTS, now_ms=NOW_MS)
        with hosted as log:
            take(log, bytes(200), base_offset=0)
            log.advance_high_watermark(1)
        with FewDescriptors(fail_at=fail_at) as system, suppress(OutOfDescriptors), hosted as log:
            take(log, bytes(200), base_offset=10)
        if not system.failed_calls:
            break
        carry_all(manager.mendings(now_ms=NOW_MS))
        carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
        with hosted as log:
            take(log, b"of another leader", base_offset=1)
            assert log.end_offset == 2
        assert values_in(hosted) == [bytes(200), b"of another leader"]
    assert fail_at > 5


def test_a_segment_that_could_not_be_written_to_at_the_end_of_the_log_leaves_no_doubt(tmp_path):
    manager = managing(tmp_path, segment_bytes=300)
    hosted = written(manager, EVENTS, bytes(200))
    with hosted as log:
        log.roll(now_ms=NOW_MS)
    with FewDescriptors(fail_at=1), pytest.raises(OutOfDescriptors), hosted as log:
        append(log, bytes(200))
    assert not hosted.is_in_doubt
    assert values_in(written(manager, EVENTS, b"b")) == [bytes(200), b"b"]


def test_a_log_that_could_not_be_made_leaves_nothing_behind(tmp_path):
    manager = managing(tmp_path)
    for fail_at in range(1, 60):
        with FewDescriptors(fail_at=fail_at) as system:
            try:
                manager.create(EVENTS, topic_id=TOPIC_ID, now_ms=NOW_MS)
            except KafkaStorageError:
                assert system.failed_calls
        if not system.failed_calls:
            break
        assert manager.directories.online
        assert manager.find(EVENTS) is None
        assert names_in(tmp_path, "events-0") == []
    assert fail_at > 3
    assert manager.find(EVENTS).topic_id == TOPIC_ID


def test_a_checkpoint_that_was_broken_off_is_written_again(manager, hosted, tmp_path):
    carry_all(manager.checkpoints())
    flush(hosted)
    (work,) = manager.checkpoints()
    with FewDescriptors(fail_at=2), pytest.raises(OutOfDescriptors):
        carry_out(work)
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 2
    carry_out(manager.truncate(hosted, 0, now_ms=NOW_MS))
    assert RECOVERY_POINTS.read(tmp_path)[EVENTS] == 0
