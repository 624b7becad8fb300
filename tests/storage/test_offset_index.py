"""The offset index maps an offset to a position in the .log file."""

import pytest

from odradek.storage.offset_index import OffsetIndex, OffsetPosition

BASE = 1000


@pytest.fixture
def index(tmp_path):
    return OffsetIndex(tmp_path / "00000000000000001000.index", base_offset=BASE, bytes_max=1024)


def filled(index, *entries):
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_lookup_in_an_empty_index_returns_the_segment_start(index):
    assert index.lookup(5000) == (BASE, 0)


def test_lookup_returns_the_last_entry_at_or_before_the_offset(index):
    filled(index, (1010, 100), (1020, 200), (1030, 300))
    assert index.lookup(1009) == (BASE, 0)
    assert index.lookup(1010) == (1010, 100)
    assert index.lookup(1029) == (1020, 200)
    assert index.lookup(9999) == (1030, 300)


def test_file_has_maximum_length_while_open_and_is_trimmed_when_sealed(index):
    filled(index, (1010, 100), (1020, 200))
    assert index.entries.path.stat().st_size == 1024
    index.entries.trim_to_valid_size()
    assert index.entries.path.read_bytes() == bytes.fromhex("0000000a00000064 00000014000000c8")


def test_entries_can_be_added_after_sealing(index):
    filled(index, (1010, 100)).entries.trim_to_valid_size()
    filled(index, (1020, 200))
    assert index.lookup(1025) == (1020, 200)
    assert index.lookup(1015) == (1010, 100)


def test_truncate_removes_entries_at_or_after_the_offset(index):
    filled(index, (1010, 100), (1020, 200), (1030, 300)).truncate(1020)
    assert index.last_entry == (1010, 100)
    filled(index, (1015, 150))
    assert index.lookup(1020) == (1015, 150)


def test_index_is_full_when_no_further_entry_fits(tmp_path):
    index = OffsetIndex(tmp_path / "i", base_offset=0, bytes_max=23)
    filled(index, (1, 1), (2, 2))
    assert index.is_full


def test_only_offsets_within_31_bits_of_the_base_can_be_appended(index):
    assert index.can_append_offset(BASE + 2**31 - 1)
    assert not index.can_append_offset(BASE + 2**31)
    assert not index.can_append_offset(BASE - 1)


def test_the_entry_after_a_position_is_found(index):
    filled(index, (1010, 100), (1020, 200))
    assert index.entry_after(99) == OffsetPosition(1010, 100)
    assert index.entry_after(100) == OffsetPosition(1020, 200)
    assert index.entry_after(200) is None


def test_pages_are_allocated_before_they_are_written(index, tmp_path):
    large = OffsetIndex(tmp_path / "large", base_offset=0, bytes_max=10 * 1024 * 1024)
    for number in range(1, 600):
        large.append(offset=number, position=number)
    allocated = (tmp_path / "large").stat().st_blocks * 512
    assert 599 * 8 <= allocated <= 16 * 4096
