"""Which segments are cleaned into one."""

from odradek.storage.cleaner.segment_groups import SegmentExtent, group_segments_by_size
from odradek.storage.cleaner.task import SealedSegment


def extents(*sizes, index_bytes=0, time_index_bytes=0, step=10):
    return [
        SegmentExtent(SealedSegment(number * step, size), number * step + step, index, time_index)
        for number, (size, index, time_index) in enumerate(
            (size, index_bytes, time_index_bytes) for size in sizes
        )
    ]


def sizes_of(groups):
    return [[segment.size_bytes for segment in group] for group in groups]


def groups(segments, *, segment_bytes_max=100, index_bytes_max=100):
    return sizes_of(
        group_segments_by_size(
            segments, segment_bytes_max=segment_bytes_max, index_bytes_max=index_bytes_max
        )
    )


def test_neighbouring_segments_are_grouped_while_they_fit():
    assert groups(extents(50, 50, 1, 99, 1)) == [[50, 50], [1, 99], [1]]


def test_segment_that_is_too_large_is_a_group_alone():
    assert groups(extents(10, 500, 10, 10)) == [[10], [500], [10, 10]]


def test_indexes_must_fit_too():
    assert groups(extents(1, 1, 1, index_bytes=50)) == [[1, 1], [1]]
    assert groups(extents(1, 1, 1, time_index_bytes=50)) == [[1, 1], [1]]


def test_offsets_of_a_group_fit_the_index_range():
    half = 2**30
    assert groups(extents(1, 1, 1, step=half)) == [[1, 1], [1]]


def test_empty_segments_join_any_group():
    half = 2**30
    assert groups(extents(1, 0, 0, 0, 1, step=half)) == [[1, 0, 0, 0], [1]]


def test_no_segments_have_no_groups():
    assert groups([]) == []
