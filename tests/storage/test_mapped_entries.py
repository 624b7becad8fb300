"""An array of entries of one size, in a file that is read through a memory map."""

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


def everything(entries):
    return [entries[slot] for slot in range(entries.count)]


@pytest.mark.parametrize("layout", [EIGHT, TWELVE], ids=["8 bytes", "12 bytes"])
def test_what_is_appended_can_be_read_at_once_and_after_reopening(path, layout):
    entries = entries_at(path, layout)
    expected = [(number, 7 * number) for number in range(MANY)]
    for entry in expected:
        entries.append(*entry)
    assert everything(entries) == expected
    entries.seal()
    assert path.read_bytes() == b"".join(layout.pack(*entry) for entry in expected)
    assert everything(entries_at(path, layout)) == expected


def test_nothing_is_made_before_the_first_append(path):
    entries = entries_at(path)
    assert (entries.count, entries.was_there, path.exists()) == (0, False, False)
    entries.append(1, 2)
    assert path.exists()


def test_a_file_that_is_appended_to_is_as_long_as_it_may_become(path):
    entries = entries_at(path, bytes_max=10 * PAGE_BYTES + 7)
    entries.append(1, 2)
    assert path.stat().st_size == 10 * PAGE_BYTES
    entries.seal()
    assert path.stat().st_size == EIGHT.size


def test_only_pages_that_are_written_to_take_room_on_the_disk(path):
    entries = entries_at(path, bytes_max=1000 * PAGE_BYTES)
    entries.append(1, 2)
    assert path.stat().st_blocks * 512 <= 4 * PAGE_BYTES


def test_it_is_full_when_no_more_may_be_appended(path):
    entries = entries_at(path, bytes_max=20)
    entries.append(1, 1)
    assert not entries.is_full
    entries.append(2, 2)
    assert entries.is_full
    with pytest.raises(AssertionError):
        entries.append(3, 3)
    assert everything(entries) == [(1, 1), (2, 2)]


def test_a_limit_below_one_entry_leaves_room_for_one(path):
    entries = entries_at(path, bytes_max=4)
    entries.append(1, 1)
    assert entries.is_full


def test_a_limit_that_was_lowered_loses_no_entry(path):
    entries = entries_at(path)
    for number in range(10):
        entries.append(number, number)
    entries.seal()
    lower = entries_at(path, bytes_max=16)
    assert lower.is_full
    lower.seal()
    assert everything(entries_at(path)) == [(number, number) for number in range(10)]


def test_appending_goes_on_after_sealing_and_after_reopening(path):
    entries = entries_at(path)
    entries.append(1, 1)
    entries.seal()
    entries.append(2, 2)
    entries.seal()
    again = entries_at(path)
    again.append(3, 3)
    assert everything(again) == [(1, 1), (2, 2), (3, 3)]


def test_the_first_entries_stay_when_the_others_are_cut_off(path):
    entries = entries_at(path)
    for number in range(10):
        entries.append(number, number)
    entries.truncate(3)
    assert path.stat().st_size == 3 * EIGHT.size
    entries.append(77, 77)
    assert everything(entries) == [(0, 0), (1, 1), (2, 2), (77, 77)]
    with pytest.raises(AssertionError):
        entries.truncate(5)


def test_a_reset_file_is_empty_whatever_it_was(path):
    path.write_bytes(b"noise" * 100)
    entries = entries_at(path)
    assert not entries.has_whole_entries
    entries.reset()
    assert (entries.count, path.read_bytes(), entries.has_whole_entries) == (0, b"", True)


def test_counting_up_to_a_value_is_bisection(path):
    values = [2, 3, 5, 7, 11, 13, 17]
    entries = entries_at(path)
    assert entries.count_up_to(5) == 0
    for value in values:
        entries.append(value, 0)
    assert [entries.count_up_to(value) for value in range(20)] == [
        bisect_right(values, value) for value in range(20)
    ]


def test_a_full_disk_refuses_an_entry_and_nothing_is_there_of_it(path):
    entries = entries_at(path)
    in_a_page = PAGE_BYTES // EIGHT.size
    for number in range(in_a_page):
        entries.append(number, number)
    with (
        FaultyDisk(fail_at=1, error=errno.ENOSPC, counting={"fallocate"}),
        pytest.raises(OSError, match="No space left"),
    ):
        entries.append(in_a_page, in_a_page)
    assert entries.count == in_a_page
    entries.append(9, 9)
    assert everything(entries)[-2:] == [(in_a_page - 1, in_a_page - 1), (9, 9)]


def test_a_full_disk_refuses_the_very_first_entry(path):
    entries = entries_at(path)
    with (
        FaultyDisk(fail_at=1, error=errno.ENOSPC, counting={"fallocate"}),
        pytest.raises(OSError, match="No space left"),
    ):
        entries.append(1, 1)
    assert entries.count == 0
    entries.append(2, 2)
    assert everything(entries) == [(2, 2)]


def test_y5_a_file_that_somebody_cut_short_is_an_error_of_the_disk(path):
    entries = entries_at(path)
    for number in range(10):
        entries.append(number, number)
    entries.seal()
    for length in (0, 79):
        path.write_bytes(bytes(length))
        with pytest.raises(OSError, match="cut short"):
            entries[9]
        with pytest.raises(OSError, match="cut short"):
            entries.append(1, 1)


def test_y5_a_file_that_somebody_removed_is_an_error_of_the_disk(path):
    entries = entries_at(path)
    entries.append(1, 1)
    entries.seal()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        entries[0]
    assert not path.exists()


def test_what_is_mapped_outlives_the_removal_of_its_name(path):
    entries = entries_at(path)
    entries.append(1, 2)
    entries.seal()
    assert entries[0] == (1, 2)
    path.unlink()
    assert entries[0] == (1, 2)


def test_an_abandoned_file_is_left_as_it_is(path):
    entries = entries_at(path)
    entries.append(1, 2)
    entries.abandon()
    assert path.stat().st_size == 10 * PAGE_BYTES
    assert everything(entries) == [(1, 2)]
