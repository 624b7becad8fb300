"""Segment files are deleted in two steps: renamed at once, removed after the last reader."""

import pytest

from odradek.storage import files
from odradek.storage.paths import LogFileType
from odradek.storage.segment_deletion import (
    delete_segment_files,
    mark_segments_deleted,
    mark_segments_deleted_in_reverse,
)
from tests.support.logs import (
    NOW_MS,
    append,
    bytes_of,
    end_transaction,
    opened,
    records_from,
    recovered,
)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    """Three segments, each with all the files that a segment may have."""
    log = opened(directory, index_interval_bytes=0)
    for number in range(3):
        fields = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        append(log, b"a", is_transactional=True, **fields)
        end_transaction(log, producer_id=number, commit=False)
        append(log, b"b")
        log.roll(now_ms=NOW_MS)
    return log


def names(directory):
    return {path.name for path in directory.iterdir()}


def files_of(base_offset, ending=""):
    return {
        f"{base_offset:020}{content.value}{ending}"
        for content in LogFileType
        if base_offset or content is not LogFileType.PRODUCER_SNAPSHOT
    }


def test_all_files_of_a_segment_and_its_snapshot_are_renamed(log, directory):
    segment = log.segments.get(3)
    assert files_of(3) <= names(directory)
    mark_segments_deleted([segment], log.producer_state_manager.snapshots)
    assert files_of(3, ".deleted") <= names(directory)
    assert not files_of(3) & names(directory)
    assert 3 not in log.producer_state_manager.snapshots.offsets


def test_files_of_other_segments_are_unchanged(log, directory):
    before = names(directory) - files_of(3)
    mark_segments_deleted([log.segments.get(3)], log.producer_state_manager.snapshots)
    assert names(directory) == before | files_of(3, ".deleted")


def test_all_files_of_deleted_segments_are_removed(log, directory):
    before = names(directory) - files_of(3) - files_of(6)
    deleted = [log.segments.get(3), log.segments.get(6)]
    mark_segments_deleted(deleted, log.producer_state_manager.snapshots)
    delete_segment_files(deleted)
    assert names(directory) == before


def test_deleting_files_that_are_already_gone_succeeds(log, directory):
    segment = log.segments.get(3)
    mark_segments_deleted([segment], log.producer_state_manager.snapshots)
    for path in directory.glob("*.deleted"):
        path.unlink()
    delete_segment_files([segment])


def test_deleting_no_segments_changes_nothing(log, directory):
    before = names(directory)
    mark_segments_deleted([], log.producer_state_manager.snapshots)
    delete_segment_files([])
    assert names(directory) == before


def test_region_stays_readable_after_its_segment_is_deleted(log):
    region = log.read(3, max_bytes=10_000, max_offset=9)
    before = bytes_of(region)
    segment = log.segments.get(3)
    mark_segments_deleted([segment], log.producer_state_manager.snapshots)
    delete_segment_files([segment])
    assert bytes_of(region) == before


def test_segment_marked_deleted_is_readable_and_creates_no_files(log, directory):
    segment = log.segments.get(3)
    mark_segments_deleted([segment], log.producer_state_manager.snapshots)
    segment.close_handlers()
    before = names(directory)
    assert segment.translate_offset(4).last_offset == 4
    assert segment.max_timestamp_and_offset.timestamp == NOW_MS
    segment.seal()
    assert names(directory) == before


def test_restart_removes_files_marked_deleted(log, directory):
    mark_segments_deleted([log.segments.first], log.producer_state_manager.snapshots)
    log.close_handlers()
    reopened = recovered(directory, index_interval_bytes=0)
    assert reopened.log_start_offset == 3
    assert [record.value for record in records_from(reopened)] == [b"a", b"b"] * 2
    assert not any(name.endswith(".deleted") for name in names(directory))


class RenameLog:
    """Records renames and directory syncs, in order."""

    def __init__(self, monkeypatch):
        self.entries = []
        rename, sync = files.system.rename, files.system.sync_directory

        def record_rename(source, target):
            self.entries.append(source.name)
            rename(source, target)

        def record_sync(path):
            self.entries.append("sync")
            sync(path)

        monkeypatch.setattr(files.system, "rename", record_rename)
        monkeypatch.setattr(files.system, "sync_directory", record_sync)


def test_log_files_are_renamed_durably_before_their_indexes(log, monkeypatch):
    rename_log = RenameLog(monkeypatch)
    mark_segments_deleted(
        [log.segments.get(3), log.segments.get(6)], log.producer_state_manager.snapshots
    )
    assert rename_log.entries[:3] == [
        "00000000000000000003.log",
        "00000000000000000006.log",
        "sync",
    ]
    assert not any(name.endswith(".log") for name in rename_log.entries[3:])


def test_reverse_deletion_renames_each_segment_durably_before_the_previous_one(log, monkeypatch):
    rename_log = RenameLog(monkeypatch)
    mark_segments_deleted_in_reverse(
        [log.segments.get(3), log.segments.get(6)], log.producer_state_manager.snapshots
    )
    in_order = [name for name in rename_log.entries if name == "sync" or name.endswith(".log")]
    assert in_order == ["00000000000000000006.log", "sync", "00000000000000000003.log", "sync"]
