"""Reads of a segment whose batches or indexes are damaged."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.storage.log_segment import LogSegment, SegmentConfig
from odradek.storage.paths import LogFileType
from tests.support.damage import LENGTH_POSITION, flip, flip_in_batch, lengthen
from tests.support.logs import records_batch

BASE = 100
COUNT = 30
CONFIG = SegmentConfig(index_interval_bytes=300, index_bytes_max=4096)
DAMAGED = 14


@pytest.fixture
def segment(tmp_path):
    """A closed segment with one record per batch and every second batch in the index."""
    segment = LogSegment(tmp_path, BASE, CONFIG)
    segment.create()
    for number in range(COUNT):
        batch = records_batch(bytes(100), base_offset=BASE + number, timestamp=number)
        segment.append([batch], [RecordBatch(batch)])
    assert segment.offset_index.entries.count == 14
    segment.close()
    return segment


def reopened(segment):
    return LogSegment(segment.directory, BASE, CONFIG)


def reachable(segment):
    """The numbers of the batches that a lookup finds."""
    numbers = set()
    for number in range(COUNT):
        try:
            location = segment.translate_offset(BASE + number)
        except CorruptMessage:
            continue
        assert location.base_offset == BASE + number
        numbers.add(number)
    return numbers


@pytest.mark.parametrize("damaged", range(COUNT))
def test_s3_lookup_of_a_damaged_batch_raises_and_never_skips_it(segment, damaged):
    flip_in_batch(segment, damaged, LENGTH_POSITION)
    with pytest.raises(CorruptMessage, match="no batch at"):
        reopened(segment).translate_offset(BASE + damaged)


@pytest.mark.parametrize("damaged", range(COUNT))
def test_indexed_batches_after_a_damaged_one_are_found(segment, damaged):
    flip_in_batch(segment, damaged, LENGTH_POSITION)
    unreachable = set(range(COUNT)) - reachable(reopened(segment))
    assert unreachable <= {damaged, damaged + 1}


@pytest.mark.parametrize("damaged", range(COUNT))
def test_damaged_batch_does_not_change_an_intact_index(segment, damaged):
    before = segment.path(LogFileType.OFFSET_INDEX).read_bytes()
    flip_in_batch(segment, damaged, LENGTH_POSITION)
    reopened_segment = reopened(segment)
    reachable(reopened_segment)
    reopened_segment.close()
    assert segment.path(LogFileType.OFFSET_INDEX).read_bytes() == before


def test_batches_before_a_damaged_one_are_found_without_an_index(segment):
    flip_in_batch(segment, DAMAGED, LENGTH_POSITION)
    segment.path(LogFileType.OFFSET_INDEX).unlink()
    reopened_segment = reopened(segment)
    damage = reopened_segment.rebuild_indexes()
    assert isinstance(damage, CorruptMessage)
    assert reachable(reopened_segment) == set(range(DAMAGED))
    assert reopened_segment.max_timestamp_and_offset == (DAMAGED - 1, BASE + DAMAGED - 1)


def test_indexes_are_rebuilt_once_and_not_for_every_read(segment, monkeypatch):
    flip_in_batch(segment, DAMAGED, LENGTH_POSITION)
    for slot in range(14):
        flip(segment.path(LogFileType.OFFSET_INDEX), 8 * slot + 7, mask=0x01)
    reopened_segment = reopened(segment)
    rebuilds = []
    rebuild = reopened_segment.rebuild_indexes
    monkeypatch.setattr(
        reopened_segment, "rebuild_indexes", lambda: rebuilds.append(1) or rebuild()
    )
    assert reachable(reopened_segment) == set(range(DAMAGED))
    assert len(rebuilds) == 1


@pytest.mark.parametrize("garbage", [b"\0" * 5, b"\0" * 500, b"noise" * 30])
def test_read_next_offset_raises_if_garbage_follows_the_last_batch(segment, garbage):
    lengthen(segment.path(LogFileType.LOG), garbage)
    with pytest.raises(CorruptMessage):
        reopened(segment).read_next_offset()


@pytest.mark.parametrize("content", [LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX])
@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_s4_flipped_bit_anywhere_in_an_index_does_not_change_results(segment, content, mask):
    path = segment.path(content)
    intact = path.read_bytes()
    for position in range(len(intact)):
        flip(path, position, mask=mask)
        reopened_segment = reopened(segment)
        assert reachable(reopened_segment) == set(range(COUNT)), position
        assert reopened_segment.read_next_offset() == BASE + COUNT, position
        assert reopened_segment.max_timestamp_and_offset == (COUNT - 1, BASE + COUNT - 1), position
        reopened_segment.close_handlers()
        path.write_bytes(intact)


def test_y4_zeros_of_an_index_that_was_not_closed_do_not_change_results(segment):
    for content in (LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX):
        lengthen(segment.path(content), bytes(1200))
    reopened_segment = reopened(segment)
    assert reopened_segment.max_timestamp_and_offset == (COUNT - 1, BASE + COUNT - 1)
    assert reachable(reopened_segment) == set(range(COUNT))
    assert reopened_segment.read_next_offset() == BASE + COUNT


def test_index_with_unordered_entries_does_not_change_results(segment):
    for content in (LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX):
        stored = segment.path(content).read_bytes()
        middle = len(stored) // 24 * 12
        segment.path(content).write_bytes(stored[middle:] + stored[:middle])
    reopened_segment = reopened(segment)
    assert reachable(reopened_segment) == set(range(COUNT))
