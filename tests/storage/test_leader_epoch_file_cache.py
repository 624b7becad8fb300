"""The leader epoch cache: assignment, end offset lookup, truncation, and its file."""

import pytest

from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.leader_epoch_file_cache import (
    UNDEFINED_EPOCH_END,
    EpochEnd,
    EpochEntry,
    LeaderEpochFileCache,
)
from tests.support.faulty_disk import FaultyDisk

FILE = "leader-epoch-checkpoint"


def epochs_in(directory, *entries):
    return LeaderEpochFileCache(directory, [EpochEntry(*entry) for entry in entries])


@pytest.fixture
def epochs(tmp_path):
    return epochs_in(tmp_path, (2, 6), (3, 8), (7, 11))


def test_new_log_has_no_epochs(tmp_path):
    epochs = LeaderEpochFileCache.load(tmp_path)
    assert epochs.entries == ()
    assert epochs.earliest_entry is None
    assert epochs.latest_entry is None
    assert epochs.latest_epoch == -1
    assert epochs.is_flushed


def test_epochs_are_assigned_in_order(tmp_path):
    epochs = LeaderEpochFileCache(tmp_path)
    assert epochs.assign(2, start_offset=6)
    assert epochs.assign(5, start_offset=10)
    assert epochs.entries == ((2, 6), (5, 10))
    assert epochs.earliest_entry == (2, 6)
    assert epochs.latest_entry == (5, 10)
    assert epochs.latest_epoch == 5


def test_later_batches_of_an_epoch_change_nothing(epochs):
    assert not epochs.assign(7, start_offset=11)
    assert not epochs.assign(7, start_offset=500)
    assert epochs.entries == ((2, 6), (3, 8), (7, 11))


@pytest.mark.parametrize(
    ("epoch", "start_offset", "expected"),
    [
        (8, 20, [(2, 6), (3, 8), (7, 11), (8, 20)]),
        (8, 11, [(2, 6), (3, 8), (8, 11)]),
        (8, 9, [(2, 6), (3, 8), (8, 9)]),
        (8, 0, [(8, 0)]),
        (7, 9, [(2, 6), (3, 8), (7, 9)]),
        (7, 8, [(2, 6), (7, 8)]),
        (5, 20, [(2, 6), (3, 8), (5, 20)]),
        (5, 7, [(2, 6), (5, 7)]),
        (3, 8, [(2, 6), (3, 8)]),
        (3, 50, [(2, 6), (3, 50)]),
        (0, 50, [(0, 50)]),
    ],
)
def test_entries_that_contradict_the_newest_are_removed(epochs, epoch, start_offset, expected):
    assert epochs.assign(epoch, start_offset=start_offset)
    assert list(epochs.entries) == expected
    assert epochs.latest_epoch == epoch


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_assigning_a_negative_epoch_or_offset_is_a_programming_error(epochs, epoch, start_offset):
    with pytest.raises(AssertionError):
        epochs.assign(epoch, start_offset=start_offset)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, UNDEFINED_EPOCH_END),
        (0, EpochEnd(0, 6)),
        (2, EpochEnd(2, 8)),
        (3, EpochEnd(3, 11)),
        (4, EpochEnd(3, 11)),
        (6, EpochEnd(3, 11)),
        (7, EpochEnd(7, 100)),
        (8, UNDEFINED_EPOCH_END),
    ],
)
def test_epoch_ends_where_the_next_one_starts(epochs, epoch, expected):
    assert epochs.end_offset_for(epoch, log_end_offset=100) == expected


@pytest.mark.parametrize("epoch", [-1, 0, 5])
def test_log_without_epochs_returns_undefined_end(tmp_path, epoch):
    assert LeaderEpochFileCache(tmp_path).end_offset_for(epoch, log_end_offset=9) == (-1, -1)


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, None), (5, None), (6, 2), (7, 2), (8, 3), (10, 3), (11, 7), (99, 7)]
)
def test_every_offset_from_the_first_entry_on_has_an_epoch(epochs, offset, epoch):
    assert epochs.epoch_for_offset(offset) == epoch


def test_previous_and_next_epoch(epochs):
    assert [epochs.previous_epoch(epoch) for epoch in (0, 2, 3, 7, 9)] == [None, None, 2, 3, 7]
    assert [epochs.next_epoch(epoch) for epoch in (0, 2, 4, 7, 9)] == [2, 3, 7, None, None]


@pytest.mark.parametrize(
    ("end_offset", "expected"),
    [
        (12, [(2, 6), (3, 8), (7, 11)]),
        (11, [(2, 6), (3, 8)]),
        (9, [(2, 6), (3, 8)]),
        (8, [(2, 6)]),
        (6, []),
        (0, []),
    ],
)
def test_truncate_from_end_removes_epochs_that_start_there_or_later(epochs, end_offset, expected):
    epochs.truncate_from_end(end_offset)
    assert list(epochs.entries) == expected


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (0, [(2, 6), (3, 8), (7, 11)]),
        (6, [(2, 6), (3, 8), (7, 11)]),
        (7, [(2, 7), (3, 8), (7, 11)]),
        (8, [(3, 8), (7, 11)]),
        (9, [(3, 9), (7, 11)]),
        (11, [(7, 11)]),
        (50, [(7, 50)]),
    ],
)
def test_truncate_from_start_keeps_the_epoch_that_covers_the_offset(epochs, start_offset, expected):
    epochs.truncate_from_start(start_offset)
    assert list(epochs.entries) == expected


def test_clear_removes_all_entries(epochs):
    epochs.clear()
    assert epochs.entries == ()
    assert epochs.latest_epoch == -1


def test_file_has_the_bytes_that_kafka_writes(epochs, tmp_path):
    epochs.flush()
    assert (tmp_path / FILE).read_bytes() == b"0\n3\n2 6\n3 8\n7 11\n"
    assert LeaderEpochFileCache.load(tmp_path).entries == epochs.entries


def test_flush_of_a_cleared_cache_empties_the_file(epochs, tmp_path):
    epochs.flush()
    epochs.clear()
    epochs.flush()
    assert (tmp_path / FILE).read_bytes() == b"0\n0\n"


def test_flush_without_changes_writes_nothing(epochs):
    assert not epochs.is_flushed
    epochs.flush()
    epochs.assign(7, start_offset=50)
    epochs.truncate_from_start(6)
    epochs.truncate_from_end(50)
    with FaultyDisk() as disk:
        epochs.flush()
    assert epochs.is_flushed
    assert disk.changes == 0


def test_failed_flush_is_retried_by_the_next_one(epochs, tmp_path):
    with FaultyDisk(fail_at=1), pytest.raises(OSError, match="error"):
        epochs.flush()
    assert not epochs.is_flushed
    epochs.flush()
    assert LeaderEpochFileCache.load(tmp_path).entries == epochs.entries


def test_file_is_written_to_the_renamed_log_directory(epochs, tmp_path):
    (tmp_path / "renamed").mkdir()
    epochs.update_parent_dir(tmp_path / "renamed")
    epochs.flush()
    assert (tmp_path / "renamed" / FILE).exists()


@pytest.mark.parametrize(
    ("lines", "line"),
    [("1 0\n1 5\n", 4), ("1 5\n2 5\n", 4), ("1 0\n3 9\n2 20\n", 5), ("1\n", 3), ("1 0 0\n", 3)],
)
def test_file_with_contradicting_entries_is_rejected(tmp_path, lines, line):
    (tmp_path / FILE).write_text(f"0\n{lines.count(chr(10))}\n{lines}")
    with pytest.raises(CorruptCheckpoint) as caught:
        LeaderEpochFileCache.load(tmp_path)
    assert caught.value.line == line


def test_flush_replaces_a_corrupt_file(tmp_path):
    (tmp_path / FILE).write_bytes(b"damaged")
    epochs = LeaderEpochFileCache(tmp_path)
    epochs.assign(4, start_offset=0)
    epochs.flush()
    assert LeaderEpochFileCache.load(tmp_path).entries == ((4, 0),)


def test_flush_of_an_empty_cache_replaces_a_corrupt_file(tmp_path):
    (tmp_path / FILE).write_bytes(b"damaged")
    LeaderEpochFileCache(tmp_path).flush()
    assert LeaderEpochFileCache.load(tmp_path).entries == ()
