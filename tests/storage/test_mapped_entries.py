"""MappedEntries: an array of fixed-size entries in a memory-mapped file."""

import errno
from bisect import bisect_right
from struct import Struct

import pytest

from odradek.storage.mapped_entries import PAGE_BYTES, MappedEntries
from tests.support.faulty_disk import FaultyDisk

EIGHT = Struct(">II")
TWELVE = Struct(">qI")
MANY = 3 * PAGE_BYTES // EIGHT.size + 5


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.index"


def entries_at(path, layout=EIGHT, *, bytes_max=10 * PAGE_BYTES):
    return MappedEntries(path, layout, bytes_max=bytes_max)


def all_entries(entries):
    return [entries[slot] for slot in range(entries.count)]


@pytest.mark.parametrize("layout", [EIGHT, TWELVE], ids=["8 bytes", "12 bytes"])
def test_appended_entries_are_read_at_once_and_after_reopening(path, layout):
    entries = entries_at(path, layout)
    expected = [(number, 7 * number) for number in range(MANY)]
    for entry in expected:
        entries.append(*entry)
    assert all_entries(entries) == expected
    entries.trim_to_valid_size()
    assert path.read_bytes() == b"".join(layout.pack(*entry) for entry in expected)
    assert all_entries(entries_at(path, layout)) == expected


def test_file_is_created_by_the_first_append(path):
    entries = entries_at(path)
    assert (entries.count, entries.existed, path.exists()) == (0, False, False)
    entries.append(1, 2)
    assert path.exists()


def test_open_file_has_the_maximum_length(path):
    entries = entries_at(path, bytes_max=10 * PAGE_BYTES + 7)
    entries.append(1, 2)
    assert path.stat().st_size == 10 * PAGE_BYTES
    entries.trim_to_valid_size()
    assert path.stat().st_size == EIGHT.size


def test_only_written_pages_are_allocated_on_disk(path):
    entries = entries_at(path, bytes_max=1000 * PAGE_BYTES)
    entries.append(1, 2)
    assert path.stat().st_blocks * 512 <= 4 * PAGE_BYTES


def test_full_array_rejects_appends(path):
    entries = entries_at(path, bytes_max=20)
    entries.append(1, 1)
    assert not entries.is_full
    entries.append(2, 2)
    assert entries.is_full
    with pytest.raises(AssertionError):
        entries.append(3, 3)
    assert all_entries(entries) == [(1, 1), (2, 2)]


def test_limit_below_one_entry_allows_one(path):
    entries = entries_at(path, bytes_max=4)
    entries.append(1, 1)
    assert entries.is_full


def test_lowering_the_limit_loses_no_entry(path):
    entries = entries_at(path)
    for number in range(10):
        entries.append(number, number)
    entries.trim_to_valid_size()
    reopened = entries_at(path, bytes_max=16)
    assert reopened.is_full
    reopened.trim_to_valid_size()
    assert all_entries(entries_at(path)) == [(number, number) for number in range(10)]


def test_append_works_after_sealing_and_after_reopening(path):
    entries = entries_at(path)
    entries.append(1, 1)
    entries.trim_to_valid_size()
    entries.append(2, 2)
    entries.trim_to_valid_size()
    reopened = entries_at(path)
    reopened.append(3, 3)
    assert all_entries(reopened) == [(1, 1), (2, 2), (3, 3)]


def test_truncate_keeps_the_first_entries(path):
    entries = entries_at(path)
    for number in range(10):
        entries.append(number, number)
    entries.truncate(3)
    assert path.stat().st_size == 3 * EIGHT.size
    entries.append(77, 77)
    assert all_entries(entries) == [(0, 0), (1, 1), (2, 2), (77, 77)]
    with pytest.raises(AssertionError):
        entries.truncate(5)


def test_reset_empties_a_damaged_file(path):
    path.write_bytes(b"noise" * 100)
    entries = entries_at(path)
    assert not entries.has_whole_entries
    entries.reset()
    assert (entries.count, path.read_bytes(), entries.has_whole_entries) == (0, b"", True)


def test_count_up_to_bisects_the_entries(path):
    values = [2, 3, 5, 7, 11, 13, 17]
    entries = entries_at(path)
    assert entries.count_up_to(5) == 0
    for value in values:
        entries.append(value, 0)
    assert [entries.count_up_to(value) for value in range(20)] == [
        bisect_right(values, value) for value in range(20)
    ]


def test_append_on_a_full_disk_raises_and_adds_no_entry(path):
    entries = entries_at(path)
    entries_per_page = PAGE_BYTES // EIGHT.size
    for number in range(entries_per_page):
        entries.append(number, number)
    with (
        FaultyDisk(fail_at=1, error=errno.ENOSPC, counting={"fallocate"}),
        pytest.raises(OSError, match="No space left"),
    ):
        entries.append(entries_per_page, entries_per_page)
    assert entries.count == entries_per_page
    entries.append(9, 9)
    assert all_entries(entries)[-2:] == [(entries_per_page - 1, entries_per_page - 1), (9, 9)]


def test_first_append_on_a_full_disk_raises(path):
    entries = entries_at(path)
    with (
        FaultyDisk(fail_at=1, error=errno.ENOSPC, counting={"fallocate"}),
        pytest.raises(OSError, match="No space left"),
    ):
        entries.append(1, 1)
    assert entries.count == 0
    entries.append(2, 2)
    assert all_entries(entries) == [(2, 2)]


def test_y5_externally_truncated_file_raises_os_error(path):
    entries = entries_at(path)
    for number in range(10):
        entries.append(number, number)
    entries.trim_to_valid_size()
    for length in (0, 79):
        path.write_bytes(bytes(length))
        with pytest.raises(OSError, match="cut short"):
            entries[9]
        with pytest.raises(OSError, match="cut short"):
            entries.append(1, 1)


def test_y5_externally_removed_file_raises_file_not_found(path):
    entries = entries_at(path)
    entries.append(1, 1)
    entries.trim_to_valid_size()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        entries[0]
    assert not path.exists()


def test_mapped_entries_stay_readable_after_the_file_is_unlinked(path):
    entries = entries_at(path)
    entries.append(1, 2)
    entries.trim_to_valid_size()
    assert entries[0] == (1, 2)
    path.unlink()
    assert entries[0] == (1, 2)


def test_close_handlers_leaves_the_file_unchanged(path):
    entries = entries_at(path)
    entries.append(1, 2)
    entries.close_handlers()
    assert path.stat().st_size == 10 * PAGE_BYTES
    assert all_entries(entries) == [(1, 2)]
