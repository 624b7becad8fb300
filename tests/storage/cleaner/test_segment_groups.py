"""Which segments become one."""

from odradek.storage.cleaner.groups import SegmentExtent, grouped
from odradek.storage.cleaner.task import SealedSegment


def extents(*sizes, index_bytes=0, time_index_bytes=0, step=10):
    return [
        SegmentExtent(SealedSegment(slot * step, size), slot * step + step, index, time_index)
        for slot, (size, index, time_index) in enumerate(
            (size, index_bytes, time_index_bytes) for size in sizes
        )
    ]


def sizes_of(groups):
    return [[segment.size_bytes for segment in group] for group in groups]


def groups(segments, *, segment_bytes_max=100, index_bytes_max=100):
    return sizes_of(
        grouped(segments, segment_bytes_max=segment_bytes_max, index_bytes_max=index_bytes_max)
    )


def test_neighbours_are_together_while_they_fit():
    assert groups(extents(50, 50, 1, 99, 1)) == [[50, 50], [1, 99], [1]]


def test_a_segment_that_is_too_large_stands_alone():
    assert groups(extents(10, 500, 10, 10)) == [[10], [500], [10, 10]]


def test_the_indexes_must_fit_too():
    assert groups(extents(1, 1, 1, index_bytes=50)) == [[1, 1], [1]]
    assert groups(extents(1, 1, 1, time_index_bytes=50)) == [[1, 1], [1]]


def test_offsets_must_be_near_enough_to_the_first():
    half = 2**30
    assert groups(extents(1, 1, 1, step=half)) == [[1, 1], [1]]


def test_empty_segments_are_near_everything():
    half = 2**30
    assert groups(extents(1, 0, 0, 0, 1, step=half)) == [[1, 0, 0, 0], [1]]


def test_nothing_is_in_no_group():
    assert groups([]) == []
