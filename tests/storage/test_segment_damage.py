"""What a reader is told when the batches of a segment, or its indexes, are damaged."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.storage.log_segment import LogSegment, SegmentShape
from odradek.storage.paths import Content
from tests.support.damage import LENGTH_POSITION, flip, flip_in_batch, lengthen
from tests.support.logs import records_batch

BASE = 100
COUNT = 30
SHAPE = SegmentShape(index_interval_bytes=300, index_bytes_max=4096)
DAMAGED = 14


@pytest.fixture
def segment(tmp_path):
    """One record to a batch, every second batch in the index; closed."""
    segment = LogSegment(tmp_path, BASE, SHAPE)
    segment.create()
    for number in range(COUNT):
        batch = records_batch(bytes(100), base_offset=BASE + number, timestamp=number)
        segment.append([batch], [RecordBatch(batch)])
    assert segment.index.entries.count == 14
    segment.close()
    return segment


def reopened(segment):
    return LogSegment(segment.directory, BASE, SHAPE)


def reachable(segment):
    """The numbers of the batches that can be found."""
    found = set()
    for number in range(COUNT):
        try:
            place = segment.find(BASE + number)
        except CorruptMessage:
            continue
        assert place.base_offset == BASE + number
        found.add(number)
    return found


@pytest.mark.parametrize("damaged", range(COUNT))
def test_s3_a_batch_behind_a_broken_one_is_an_error_and_never_passed_over(segment, damaged):
    flip_in_batch(segment, damaged, LENGTH_POSITION)
    with pytest.raises(CorruptMessage, match="no batch at"):
        reopened(segment).find(BASE + damaged)


@pytest.mark.parametrize("damaged", range(COUNT))
def test_batches_that_the_index_leads_to_are_found_beyond_a_broken_one(segment, damaged):
    flip_in_batch(segment, damaged, LENGTH_POSITION)
    unreachable = set(range(COUNT)) - reachable(reopened(segment))
    assert unreachable <= {damaged, damaged + 1}


@pytest.mark.parametrize("damaged", range(COUNT))
def test_a_broken_batch_takes_no_entry_from_a_sound_index(segment, damaged):
    before = segment.path(Content.OFFSET_INDEX).read_bytes()
    flip_in_batch(segment, damaged, LENGTH_POSITION)
    again = reopened(segment)
    reachable(again)
    again.close()
    assert segment.path(Content.OFFSET_INDEX).read_bytes() == before


def test_without_an_index_what_comes_before_a_broken_batch_is_found(segment):
    flip_in_batch(segment, DAMAGED, LENGTH_POSITION)
    segment.path(Content.OFFSET_INDEX).unlink()
    again = reopened(segment)
    damage = again.rebuild_indexes()
    assert isinstance(damage, CorruptMessage)
    assert reachable(again) == set(range(DAMAGED))
    assert again.largest == (DAMAGED - 1, BASE + DAMAGED - 1)


def test_indexes_are_made_anew_once_and_not_for_every_reader(segment, monkeypatch):
    flip_in_batch(segment, DAMAGED, LENGTH_POSITION)
    for slot in range(14):
        flip(segment.path(Content.OFFSET_INDEX), 8 * slot + 7, mask=0x01)
    again = reopened(segment)
    made = []
    rebuild = again.rebuild_indexes
    monkeypatch.setattr(again, "rebuild_indexes", lambda: made.append(1) or rebuild())
    assert reachable(again) == set(range(DAMAGED))
    assert len(made) == 1


@pytest.mark.parametrize("garbage", [b"\0" * 5, b"\0" * 500, b"noise" * 30])
def test_what_follows_the_last_batch_is_an_error_for_whoever_asks_for_the_end(segment, garbage):
    lengthen(segment.path(Content.BATCHES), garbage)
    with pytest.raises(CorruptMessage):
        reopened(segment).next_offset()


@pytest.mark.parametrize("content", [Content.OFFSET_INDEX, Content.TIME_INDEX])
@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_s4_a_flipped_bit_anywhere_in_an_index_changes_no_answer(segment, content, mask):
    path = segment.path(content)
    sound = path.read_bytes()
    for position in range(len(sound)):
        flip(path, position, mask=mask)
        again = reopened(segment)
        assert reachable(again) == set(range(COUNT)), position
        assert again.next_offset() == BASE + COUNT, position
        assert again.largest == (COUNT - 1, BASE + COUNT - 1), position
        again.abandon()
        path.write_bytes(sound)


def test_y4_the_zeros_of_an_index_that_was_not_closed_change_no_answer(segment):
    for content in (Content.OFFSET_INDEX, Content.TIME_INDEX):
        lengthen(segment.path(content), bytes(1200))
    again = reopened(segment)
    assert again.largest == (COUNT - 1, BASE + COUNT - 1)
    assert reachable(again) == set(range(COUNT))
    assert again.next_offset() == BASE + COUNT


def test_an_index_whose_entries_do_not_ascend_changes_no_answer(segment):
    for content in (Content.OFFSET_INDEX, Content.TIME_INDEX):
        stored = segment.path(content).read_bytes()
        middle = len(stored) // 24 * 12
        segment.path(content).write_bytes(stored[middle:] + stored[:middle])
    again = reopened(segment)
    assert reachable(again) == set(range(COUNT))
