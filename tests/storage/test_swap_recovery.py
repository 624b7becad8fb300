"""Completing or undoing a compaction that a crash interrupted, by the files it left."""

import pytest

from odradek.storage.paths import FileStage, LogFileType, file_path, parse_file_name
from odradek.storage.swap_recovery import complete_swap_operations
from tests.support.logs import NOW_MS, append, opened, records_from

OLD = [0, 2, 4]  # base offsets of the segments that were compacted into one
LATER = [6, 8]
INDEXES = (LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX)


@pytest.fixture
def directory(tmp_path):
    """Five segments of two batches each."""
    directory = tmp_path / "events-0"
    log = opened(directory, index_interval_bytes=0)
    for number in range(10):
        if number and number % 2 == 0:
            log.roll(now_ms=NOW_MS)
        append(log, b"%d" % number, timestamp=NOW_MS + number)
    log.close(now_ms=NOW_MS)
    return directory


def write_compacted(
    directory, stage, *, merged_offsets=(0, 2, 4), contents=(*INDEXES, LogFileType.LOG)
):
    """Write the compacted segment of the old ones, with empty indexes."""
    batches = b"".join(
        file_path(directory, base, LogFileType.LOG).read_bytes() for base in merged_offsets
    )
    for content in contents:
        file_content = batches if content is LogFileType.LOG else b""
        file_path(directory, 0, content, stage).write_bytes(file_content)


def mark_deleted(directory, *base_offsets):
    for base_offset in base_offsets:
        for content in (*INDEXES, LogFileType.LOG):
            path = file_path(directory, base_offset, content)
            path.rename(file_path(directory, base_offset, content, FileStage.DELETED))


def segments_in(directory):
    names = [parse_file_name(path.name) for path in directory.iterdir()]
    in_use = [name for name in names if name is not None and name.stage is FileStage.IN_USE]
    return sorted(name.offset for name in in_use if name.file_type is LogFileType.LOG)


def values(directory):
    log = opened(directory)
    return [int(record.value) for record in records_from(log)]


def has_leftovers(directory):
    return any(path.suffix in (".cleaned", ".swap") for path in directory.iterdir())


def test_directory_without_a_compaction_is_unchanged(directory):
    before = {path: path.read_bytes() for path in directory.iterdir()}
    assert complete_swap_operations(directory) == []
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


def test_compaction_that_was_still_writing_is_undone(directory):
    write_compacted(directory, FileStage.CLEANED, merged_offsets=[0])
    reported = complete_swap_operations(directory)
    assert "00000000000000000000.log.cleaned" in reported
    assert segments_in(directory) == [*OLD, *LATER]
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_compaction_that_had_renamed_only_indexes_is_undone(directory):
    write_compacted(directory, FileStage.CLEANED, contents=[LogFileType.LOG])
    write_compacted(directory, FileStage.SWAP, contents=INDEXES)
    complete_swap_operations(directory)
    assert segments_in(directory) == [*OLD, *LATER]
    assert not has_leftovers(directory)


@pytest.mark.parametrize("deleted", [[], [0], [0, 2], OLD])
def test_complete_compaction_is_finished_with_any_number_of_old_segments_left(directory, deleted):
    write_compacted(directory, FileStage.SWAP)
    mark_deleted(directory, *deleted)
    complete_swap_operations(directory)
    assert segments_in(directory) == [0, *LATER]
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_swap_indexes_are_renamed_if_the_log_file_is_in_place(directory):
    write_compacted(directory, FileStage.SWAP)
    mark_deleted(directory, *OLD)
    swapped = file_path(directory, 0, LogFileType.LOG, FileStage.SWAP)
    swapped.rename(file_path(directory, 0, LogFileType.LOG))
    complete_swap_operations(directory)
    assert file_path(directory, 0, LogFileType.OFFSET_INDEX).read_bytes() == b""
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_swap_transaction_index_is_renamed(directory):
    write_compacted(directory, FileStage.SWAP)
    stored = bytes(34)
    file_path(directory, 0, LogFileType.TRANSACTION_INDEX, FileStage.SWAP).write_bytes(stored)
    complete_swap_operations(directory)
    assert file_path(directory, 0, LogFileType.TRANSACTION_INDEX).read_bytes() == stored


def test_old_transaction_indexes_are_removed_with_their_segments(directory):
    file_path(directory, 2, LogFileType.TRANSACTION_INDEX).write_bytes(bytes(34))
    file_path(directory, 0, LogFileType.TRANSACTION_INDEX).write_bytes(bytes(34))
    write_compacted(directory, FileStage.SWAP)
    complete_swap_operations(directory)
    assert list(directory.glob("*.txnindex")) == []


def test_swap_indexes_without_a_log_file_are_removed(directory):
    for content in INDEXES:
        file_path(directory, 50, content, FileStage.SWAP).write_bytes(b"")
    complete_swap_operations(directory)
    assert segments_in(directory) == [*OLD, *LATER]
    assert list(directory.glob("00000000000000000050.*")) == []


def test_empty_compacted_segment_replaces_only_the_one_of_its_base_offset(directory):
    write_compacted(directory, FileStage.SWAP, merged_offsets=[])
    complete_swap_operations(directory)
    assert segments_in(directory) == [*OLD, *LATER]
    assert values(directory) == list(range(2, 10))


def test_complete_compaction_before_an_incomplete_one_is_finished(directory):
    write_compacted(directory, FileStage.SWAP)
    file_path(directory, 6, LogFileType.LOG, FileStage.CLEANED).write_bytes(b"half a ba")
    file_path(directory, 8, LogFileType.LOG, FileStage.SWAP).write_bytes(b"of the same split")
    complete_swap_operations(directory)
    assert segments_in(directory) == [0, *LATER]
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_completing_twice_changes_nothing(directory):
    write_compacted(directory, FileStage.SWAP)
    complete_swap_operations(directory)
    before = {path: path.read_bytes() for path in directory.iterdir()}
    assert complete_swap_operations(directory) == []
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
