"""One .log file and its indexes."""

import os

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.storage.log_segment import LogSegment, SegmentShape
from odradek.storage.paths import Content, Stage
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import bytes_of, records_batch

BASE = 100
SMALL = SegmentShape(index_interval_bytes=200, index_bytes_max=4096)


def append(segment, base_offset, count=1, *, timestamp=0, size=100):
    batch = records_batch(*[bytes(size)] * count, base_offset=base_offset, timestamp=timestamp)
    segment.append([batch], [RecordBatch(batch)])
    return bytes(batch)


@pytest.fixture
def segment(tmp_path):
    segment = LogSegment(tmp_path, BASE, SMALL)
    segment.create()
    return segment


def everything(segment):
    return segment.path(Content.BATCHES).read_bytes()


def test_what_is_appended_can_be_read_from_any_offset(segment):
    batches = [append(segment, BASE + 3 * number, 3) for number in range(20)]
    for offset in range(BASE, BASE + 60):
        region = segment.read(offset, max_bytes=10, end_position=10**9, at_least_one=True)
        assert bytes_of(region) == batches[(offset - BASE) // 3]


def test_a_read_ends_where_it_may_or_must(segment):
    batches = [append(segment, BASE + number) for number in range(3)]
    size = len(batches[0])
    full = segment.read(BASE, max_bytes=10**6, end_position=2 * size, at_least_one=True)
    assert len(full) == 2 * size
    short = segment.read(BASE, max_bytes=5, end_position=3 * size, at_least_one=False)
    assert len(short) == 5
    none = segment.read(BASE + 2, max_bytes=5, end_position=2 * size, at_least_one=True)
    assert len(none) == 0


def test_reading_past_the_end_finds_nothing(segment):
    append(segment, BASE)
    assert segment.read(BASE + 1, max_bytes=5, end_position=10**6, at_least_one=True) is None


def test_what_was_appended_last_is_found_without_reading_and_not_once_it_was_cut(segment):
    first = append(segment, BASE)
    append(segment, BASE + 1, 3)
    with FaultyDisk(fail_at=1, counting={"pread"}):
        assert segment.find(BASE + 2).position == len(first)
    segment.recovered(size_bytes=len(first))
    assert segment.find(BASE + 2) is None
    append(segment, BASE + 1)
    assert segment.find(BASE + 1).last_offset == BASE + 1


def test_an_offset_that_compaction_took_leads_to_the_next_batch(segment):
    append(segment, BASE)
    later = append(segment, BASE + 50)
    region = segment.read(BASE + 20, max_bytes=5, end_position=10**6, at_least_one=True)
    assert bytes_of(region) == later


def test_the_largest_timestamp_is_known_after_reopening(tmp_path, segment):
    for number, timestamp in enumerate([5, 9, 3, 9, 4]):
        append(segment, BASE + number, timestamp=timestamp)
    assert segment.largest == (9, BASE + 1)
    segment.close()
    assert LogSegment(tmp_path, BASE, SMALL).largest == (9, BASE + 1)


def test_a_lent_region_outlives_the_segment(segment):
    batch = append(segment, BASE)
    region = segment.read(BASE, max_bytes=10**6, end_position=10**6, at_least_one=True)
    segment.move(Stage.DELETED)
    segment.remove()
    assert bytes_of(region) == batch
    descriptor = int(region.descriptor)
    del region
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_preallocated_file_is_cut_when_sealed(tmp_path):
    shape = SegmentShape(preallocated_bytes=100_000)
    segment = LogSegment(tmp_path, 0, shape)
    segment.create()
    batch = append(segment, 0)
    assert segment.path(Content.BATCHES).stat().st_size == 100_000
    assert segment.next_offset() == 1
    segment.seal()
    assert everything(segment) == batch


@pytest.mark.parametrize("content", [Content.OFFSET_INDEX, Content.TIME_INDEX])
@pytest.mark.parametrize("position", range(16))
def test_a_flipped_bit_in_an_index_changes_no_answer(tmp_path, segment, content, position):
    batches = [append(segment, BASE + 3 * n, 3, timestamp=n) for n in range(20)]
    segment.close()
    damaged = bytearray(segment.path(content).read_bytes())
    damaged[position] ^= 0x41
    segment.path(content).write_bytes(damaged)
    reopened = LogSegment(tmp_path, BASE, SMALL)
    for offset in range(BASE, BASE + 60):
        region = reopened.read(offset, max_bytes=1, end_position=10**9, at_least_one=True)
        assert bytes_of(region) == batches[(offset - BASE) // 3]
    assert reopened.next_offset() == BASE + 60
    assert reopened.largest == (19, BASE + 59)


def test_a_missing_index_is_as_good_as_an_empty_one(tmp_path, segment):
    batches = [append(segment, BASE + number) for number in range(20)]
    segment.close()
    segment.path(Content.OFFSET_INDEX).unlink()
    reopened = LogSegment(tmp_path, BASE, SMALL)
    region = reopened.read(BASE + 15, max_bytes=1, end_position=10**9, at_least_one=True)
    assert bytes_of(region) == batches[15]


def test_files_are_renamed_together(segment, tmp_path):
    append(segment, BASE)
    append(segment, BASE + 1, size=500)
    append(segment, BASE + 2)
    segment.move(Stage.DELETED)
    assert {path.suffix for path in tmp_path.iterdir()} == {".deleted"}
    segment.remove()
    assert list(tmp_path.iterdir()) == []
