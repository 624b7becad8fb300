"""The segments of a log, in order."""

import pytest

from odradek.storage.log_segment import LogSegment, SegmentShape
from odradek.storage.segment_list import SegmentList
from odradek.storage.transaction_index import AbortedTransaction


def bases(segments):
    return [segment.base_offset for segment in segments]


@pytest.fixture
def at(tmp_path):
    return lambda base_offset: LogSegment(tmp_path, base_offset, SegmentShape())


@pytest.fixture
def three(at):
    return SegmentList([at(30), at(10), at(20)])


def test_they_are_in_the_order_of_their_base_offsets(three):
    assert bases(three) == [10, 20, 30]
    assert bases(reversed(three)) == [30, 20, 10]
    assert len(three) == 3
    assert (three.first.base_offset, three.active.base_offset) == (10, 30)


@pytest.mark.parametrize(
    ("offset", "base_offset"), [(10, 10), (19, 10), (20, 20), (29, 20), (30, 30), (10**18, 30)]
)
def test_an_offset_is_in_the_last_segment_that_begins_by_it(three, offset, base_offset):
    assert three.holding(offset).base_offset == base_offset


def test_no_segment_holds_what_lies_before_the_first(three):
    assert three.holding(9) is None
    assert SegmentList().holding(0) is None


def test_a_segment_is_found_by_its_base_offset_only(three):
    assert three.at(20).base_offset == 20
    assert [three.at(offset) for offset in (9, 21, 31)] == [None, None, None]


def test_after_the_active_segment_comes_none(three):
    assert three.after(three.first).base_offset == 20
    assert three.after(three.active) is None


def test_after_a_segment_that_is_gone_comes_the_next_that_is_there(three):
    middle = three.at(20)
    three.remove([middle])
    assert three.after(middle).base_offset == 30


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [10, 20, 30]), (15, [10, 20, 30]), (20, [20, 30]), (99, [30])]
)
def test_from_an_offset_on_begins_with_the_segment_that_holds_it(three, offset, expected):
    assert bases(three.from_offset(offset)) == expected
    assert SegmentList().from_offset(offset) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 10, []),
        (0, 11, [10]),
        (10, 20, [10]),
        (15, 21, [10, 20]),
        (20, 30, [20]),
        (29, 99, [20, 30]),
        (99, 100, [30]),
        (20, 20, []),
    ],
)
def test_between_two_offsets_are_those_that_may_hold_any_of_them(three, start, end, expected):
    assert bases(three.between(start, end)) == expected


def test_a_new_segment_comes_last(three, at):
    three.add(at(40))
    assert three.active.base_offset == 40
    with pytest.raises(AssertionError):
        three.add(at(40))


def test_segments_may_go_from_both_ends(three):
    three.remove([three.first, three.active])
    assert bases(three) == [20]
    assert three.first is three.active


def test_compaction_puts_one_segment_in_the_place_of_several(three, at):
    old = [three.at(10), three.at(20)]
    merged = at(10)
    three.replace(old, [merged])
    assert bases(three) == [10, 30]
    assert three.holding(25) is merged


def test_what_was_handed_out_does_not_change_with_the_list(three):
    handed_out = three.from_offset(0)
    three.remove([three.first])
    assert bases(handed_out) == [10, 20, 30]


def test_the_size_is_that_of_all(three):
    for segment in three:
        segment.size_bytes = segment.base_offset
    assert three.size_bytes == 60
    assert SegmentList().size_bytes == 0


# Aborted transactions


def abort_in(segment):
    offset = segment.base_offset
    segment.transaction_index.append(AbortedTransaction(1, offset, offset + 1, offset + 2))


def test_only_segments_with_aborted_transactions_are_looked_at(three):
    abort_in(three.at(10))
    abort_in(three.at(30))
    assert bases(three.aborting_from(0)) == bases(three.aborting_from(19)) == [10, 30]
    assert bases(three.aborting_from(20)) == [30]


def test_one_that_is_aborted_later_is_found_before_and_after_its_segment_is_sealed(three, at):
    assert bases(three.aborting_from(0)) == []
    abort_in(three.active)
    assert bases(three.aborting_from(0)) == [30]
    three.add(at(40))
    assert bases(three.aborting_from(0)) == [30]


def test_segments_that_compaction_has_written_are_looked_at_anew(three, at):
    abort_in(three.at(20))
    assert bases(three.aborting_from(0)) == [20]
    three.at(20).transaction_index.reset()
    abort_in(at(10))
    three.replace([three.at(10), three.at(20)], [at(10)])
    assert bases(three.aborting_from(0)) == [10]


def test_one_whose_file_has_not_been_read_may_have_some(at):
    abort_in(at(10))
    assert bases(SegmentList([at(10), at(20)]).aborting_from(0)) == [10]
