"""What becomes of a compaction that a crash interrupted, by the files it leaves behind."""

import pytest

from odradek.storage.paths import Content, Stage, file_named, file_path
from odradek.storage.swap_recovery import finish_interrupted_swap
from tests.support.logs import NOW_MS, append, opened, records_from

OLD = [0, 2, 4]  # where the segments begin that were compacted into one
LATER = [6, 8]
INDEXES = (Content.OFFSET_INDEX, Content.TIME_INDEX)


@pytest.fixture
def directory(tmp_path):
    """Five segments of two batches each."""
    directory = tmp_path / "events-0"
    log = opened(directory, index_interval_bytes=0)
    for number in range(10):
        if number and number % 2 == 0:
            log.roll(now_ms=NOW_MS)
        append(log, b"%d" % number, timestamp=NOW_MS + number)
    log.close(now_ms=NOW_MS)
    return directory


def put_merged(directory, stage, *, kept=(0, 2, 4), contents=(*INDEXES, Content.BATCHES)):
    """What compaction made of the old segments, with indexes that lead nowhere."""
    batches = b"".join(file_path(directory, base, Content.BATCHES).read_bytes() for base in kept)
    for content in contents:
        made = batches if content is Content.BATCHES else b""
        file_path(directory, 0, content, stage).write_bytes(made)


def set_aside(directory, *base_offsets):
    for base_offset in base_offsets:
        for content in (*INDEXES, Content.BATCHES):
            path = file_path(directory, base_offset, content)
            path.rename(file_path(directory, base_offset, content, Stage.DELETED))


def segments_in(directory):
    names = [file_named(path.name) for path in directory.iterdir()]
    found = [name for name in names if name is not None and name.stage is Stage.IN_USE]
    return sorted(name.offset for name in found if name.content is Content.BATCHES)


def values(directory):
    log = opened(directory)
    return [int(record.value) for record in records_from(log)]


def has_leftovers(directory):
    return any(path.suffix in (".cleaned", ".swap") for path in directory.iterdir())


def test_without_a_compaction_nothing_happens(directory):
    before = {path: path.read_bytes() for path in directory.iterdir()}
    assert finish_interrupted_swap(directory) == []
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


def test_one_that_was_still_writing_is_undone(directory):
    put_merged(directory, Stage.CLEANED, kept=[0])
    reported = finish_interrupted_swap(directory)
    assert "00000000000000000000.log.cleaned" in reported
    assert segments_in(directory) == [*OLD, *LATER]
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_one_that_had_only_begun_to_rename_is_undone(directory):
    put_merged(directory, Stage.CLEANED, contents=[Content.BATCHES])
    put_merged(directory, Stage.SWAP, contents=INDEXES)
    finish_interrupted_swap(directory)
    assert segments_in(directory) == [*OLD, *LATER]
    assert not has_leftovers(directory)


@pytest.mark.parametrize("gone", [[], [0], [0, 2], OLD])
def test_one_that_was_whole_is_finished_however_many_old_segments_are_left(directory, gone):
    put_merged(directory, Stage.SWAP)
    set_aside(directory, *gone)
    finish_interrupted_swap(directory)
    assert segments_in(directory) == [0, *LATER]
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_indexes_follow_batches_that_are_in_place(directory):
    put_merged(directory, Stage.SWAP)
    set_aside(directory, *OLD)
    swapped = file_path(directory, 0, Content.BATCHES, Stage.SWAP)
    swapped.rename(file_path(directory, 0, Content.BATCHES))
    finish_interrupted_swap(directory)
    assert file_path(directory, 0, Content.OFFSET_INDEX).read_bytes() == b""
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_the_transaction_index_follows_too(directory):
    put_merged(directory, Stage.SWAP)
    stored = bytes(34)
    file_path(directory, 0, Content.TRANSACTION_INDEX, Stage.SWAP).write_bytes(stored)
    finish_interrupted_swap(directory)
    assert file_path(directory, 0, Content.TRANSACTION_INDEX).read_bytes() == stored


def test_the_old_transaction_indexes_do_not_outlive_their_batches(directory):
    file_path(directory, 2, Content.TRANSACTION_INDEX).write_bytes(bytes(34))
    file_path(directory, 0, Content.TRANSACTION_INDEX).write_bytes(bytes(34))
    put_merged(directory, Stage.SWAP)
    finish_interrupted_swap(directory)
    assert list(directory.glob("*.txnindex")) == []


def test_indexes_without_any_batches_are_of_no_use(directory):
    for content in INDEXES:
        file_path(directory, 50, content, Stage.SWAP).write_bytes(b"")
    finish_interrupted_swap(directory)
    assert segments_in(directory) == [*OLD, *LATER]
    assert list(directory.glob("00000000000000000050.*")) == []


def test_a_segment_that_lost_all_its_records_replaces_its_namesake_only(directory):
    put_merged(directory, Stage.SWAP, kept=[])
    finish_interrupted_swap(directory)
    assert segments_in(directory) == [*OLD, *LATER]
    assert values(directory) == list(range(2, 10))


def test_a_compaction_before_one_that_was_not_whole_is_finished(directory):
    put_merged(directory, Stage.SWAP)
    file_path(directory, 6, Content.BATCHES, Stage.CLEANED).write_bytes(b"half a ba")
    file_path(directory, 8, Content.BATCHES, Stage.SWAP).write_bytes(b"of the same split")
    finish_interrupted_swap(directory)
    assert segments_in(directory) == [0, *LATER]
    assert not has_leftovers(directory)
    assert values(directory) == list(range(10))


def test_finishing_twice_changes_nothing_more(directory):
    put_merged(directory, Stage.SWAP)
    finish_interrupted_swap(directory)
    before = {path: path.read_bytes() for path in directory.iterdir()}
    assert finish_interrupted_swap(directory) == []
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
