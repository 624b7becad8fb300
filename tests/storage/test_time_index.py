"""The time index maps a timestamp to the offset from which a lookup starts."""

import pytest

from odradek.storage.time_index import TimeIndex, TimestampOffset

BASE = 100


@pytest.fixture
def index(tmp_path):
    return TimeIndex(tmp_path / "00000000000000000100.timeindex", base_offset=BASE, bytes_max=120)


def filled(index, *entries):
    for timestamp, offset in entries:
        index.maybe_append(TimestampOffset(timestamp, offset))
    return index


def test_only_later_timestamps_are_appended(index):
    filled(index, (10, 101), (10, 105), (9, 106), (12, 107))
    assert [index.entry(slot) for slot in range(index.entries.count)] == [(10, 101), (12, 107)]


def test_lookup_returns_the_last_entry_at_or_before_the_timestamp(index):
    filled(index, (10, 101), (20, 110))
    assert index.lookup(9) == (-1, BASE)
    assert index.lookup(10) == (10, 101)
    assert index.lookup(99) == (20, 110)


def test_entries_are_timestamp_and_relative_offset(index):
    filled(index, (10, 101), (20, 110)).entries.trim_to_valid_size()
    assert index.entries.path.read_bytes() == bytes.fromhex(
        "000000000000000a 00000001 0000000000000014 0000000a"
    )


def test_one_entry_is_reserved_for_sealing(index):
    for number in range(9):
        filled(index, (number, BASE + number))
    assert index.is_full
    filled(index, (99, BASE + 50))
    assert index.last_entry == (99, BASE + 50)
    filled(index, (100, BASE + 51))
    assert index.last_entry == (99, BASE + 50)


def test_truncate_removes_entries_at_or_after_the_offset(index):
    filled(index, (10, 101), (20, 110), (30, 120)).truncate(110)
    assert index.last_entry == (10, 101)
    filled(index, (11, 110))
    assert index.last_entry == (11, 110)


def test_reopened_index_accepts_entries(index):
    filled(index, (10, 101)).entries.trim_to_valid_size()
    reopened = TimeIndex(index.entries.path, base_offset=BASE, bytes_max=120)
    filled(reopened, (10, 105), (11, 106))
    assert reopened.entries.count == 2
