"""LogSegment: one .log file and its indexes."""

import os

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.storage.log_segment import LogSegment, SegmentConfig
from odradek.storage.paths import FileStage, LogFileType
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import bytes_of, records_batch

BASE = 100
SMALL = SegmentConfig(index_interval_bytes=200, index_bytes_max=4096)


def append(segment, base_offset, count=1, *, timestamp=0, size=100):
    batch = records_batch(*[bytes(size)] * count, base_offset=base_offset, timestamp=timestamp)
    segment.append([batch], [RecordBatch(batch)])
    return bytes(batch)


@pytest.fixture
def segment(tmp_path):
    segment = LogSegment(tmp_path, BASE, SMALL)
    segment.create()
    return segment


def log_bytes(segment):
    return segment.path(LogFileType.LOG).read_bytes()


def test_appended_batches_can_be_read_from_any_offset(segment):
    batches = [append(segment, BASE + 3 * number, 3) for number in range(20)]
    for offset in range(BASE, BASE + 60):
        region = segment.read(offset, max_bytes=10, end_position=10**9, at_least_one=True)
        assert bytes_of(region) == batches[(offset - BASE) // 3]


def test_read_ends_at_max_bytes_or_end_position(segment):
    batches = [append(segment, BASE + number) for number in range(3)]
    size = len(batches[0])
    full = segment.read(BASE, max_bytes=10**6, end_position=2 * size, at_least_one=True)
    assert len(full) == 2 * size
    short = segment.read(BASE, max_bytes=5, end_position=3 * size, at_least_one=False)
    assert len(short) == 5
    none = segment.read(BASE + 2, max_bytes=5, end_position=2 * size, at_least_one=True)
    assert len(none) == 0


def test_read_past_the_end_returns_none(segment):
    append(segment, BASE)
    assert segment.read(BASE + 1, max_bytes=5, end_position=10**6, at_least_one=True) is None


def test_last_appended_batch_is_located_without_a_read_until_it_is_truncated(segment):
    first = append(segment, BASE)
    append(segment, BASE + 1, 3)
    with FaultyDisk(fail_at=1, counting={"pread"}):
        assert segment.translate_offset(BASE + 2).position == len(first)
    segment.finish_recovery(size_bytes=len(first))
    assert segment.translate_offset(BASE + 2) is None
    append(segment, BASE + 1)
    assert segment.translate_offset(BASE + 1).last_offset == BASE + 1


def test_read_at_an_offset_removed_by_compaction_returns_the_next_batch(segment):
    append(segment, BASE)
    later = append(segment, BASE + 50)
    region = segment.read(BASE + 20, max_bytes=5, end_position=10**6, at_least_one=True)
    assert bytes_of(region) == later


def test_max_timestamp_is_known_after_reopening(tmp_path, segment):
    for number, timestamp in enumerate([5, 9, 3, 9, 4]):
        append(segment, BASE + number, timestamp=timestamp)
    assert segment.max_timestamp_and_offset == (9, BASE + 1)
    segment.close()
    assert LogSegment(tmp_path, BASE, SMALL).max_timestamp_and_offset == (9, BASE + 1)


def test_region_stays_readable_after_the_segment_is_removed(segment):
    batch = append(segment, BASE)
    region = segment.read(BASE, max_bytes=10**6, end_position=10**6, at_least_one=True)
    segment.change_file_suffixes(FileStage.DELETED)
    segment.remove()
    assert bytes_of(region) == batch
    descriptor = int(region.descriptor)
    del region
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_preallocated_file_is_trimmed_when_sealed(tmp_path):
    config = SegmentConfig(preallocated_bytes=100_000)
    segment = LogSegment(tmp_path, 0, config)
    segment.create()
    batch = append(segment, 0)
    assert segment.path(LogFileType.LOG).stat().st_size == 100_000
    assert segment.read_next_offset() == 1
    segment.seal()
    assert log_bytes(segment) == batch


@pytest.mark.parametrize("content", [LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX])
@pytest.mark.parametrize("position", range(16))
def test_flipped_bit_in_an_index_does_not_change_results(tmp_path, segment, content, position):
    batches = [append(segment, BASE + 3 * n, 3, timestamp=n) for n in range(20)]
    segment.close()
    damaged = bytearray(segment.path(content).read_bytes())
    damaged[position] ^= 0x41
    segment.path(content).write_bytes(damaged)
    reopened = LogSegment(tmp_path, BASE, SMALL)
    for offset in range(BASE, BASE + 60):
        region = reopened.read(offset, max_bytes=1, end_position=10**9, at_least_one=True)
        assert bytes_of(region) == batches[(offset - BASE) // 3]
    assert reopened.read_next_offset() == BASE + 60
    assert reopened.max_timestamp_and_offset == (19, BASE + 59)


def test_read_without_an_offset_index(tmp_path, segment):
    batches = [append(segment, BASE + number) for number in range(20)]
    segment.close()
    segment.path(LogFileType.OFFSET_INDEX).unlink()
    reopened = LogSegment(tmp_path, BASE, SMALL)
    region = reopened.read(BASE + 15, max_bytes=1, end_position=10**9, at_least_one=True)
    assert bytes_of(region) == batches[15]


def test_all_files_are_renamed_together(segment, tmp_path):
    append(segment, BASE)
    append(segment, BASE + 1, size=500)
    append(segment, BASE + 2)
    segment.change_file_suffixes(FileStage.DELETED)
    assert {path.suffix for path in tmp_path.iterdir()} == {".deleted"}
    segment.remove()
    assert list(tmp_path.iterdir()) == []
