"""What a start makes of the files that an interrupted compaction left behind."""

import pytest

from odradek.storage.swap_recovery import finish_interrupted_swap
from tests.support.batches import batch_of


def batch(offset, *, last_offset=None):
    return bytes(batch_of(b"x", base_offset=offset, last_offset=last_offset))


def write(directory, **contents):
    """``log_0_swap=...`` is the file of that content, base offset and stage."""
    for name, content in contents.items():
        kind, offset, *stage = name.split("_")
        ending = f".{stage[0]}" if stage else ""
        (directory / f"{int(offset):020}.{kind}{ending}").write_bytes(content)


def found(directory):
    """The files by the same short names."""
    names = {}
    for path in directory.iterdir():
        offset, kind, *stage = path.name.split(".")
        names["_".join([kind, str(int(offset)), *stage])] = path.read_bytes()
    return names


def test_a_directory_without_a_compaction_stays_as_it_is(tmp_path):
    files = {"log_0": batch(0), "index_0": b"", "snapshot_0": b"", "log_5_deleted": b""}
    write(tmp_path, **files)
    assert finish_interrupted_swap(tmp_path) == []
    assert found(tmp_path) == files


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex"])
def test_unfinished_files_are_removed(tmp_path, kind):
    files = {"log_0": batch(0), "index_0": b"old"}
    write(tmp_path, **files, **{f"{kind}_0_cleaned": b"new"})
    assert finish_interrupted_swap(tmp_path) == [f"{0:020}.{kind}.cleaned"]
    assert found(tmp_path) == files


def test_files_that_are_not_all_renamed_are_unfinished(tmp_path):
    files = {"log_0": batch(0), "index_0": b"old", "txnindex_0": b"old"}
    write(tmp_path, **files, index_0_swap=b"new", txnindex_0_swap=b"new", log_0_cleaned=batch(0))
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == files


def test_batches_without_their_index_are_unfinished(tmp_path):
    files = {"log_0": batch(0), "txnindex_0": b"old"}
    write(tmp_path, **files, log_0_swap=batch(3), txnindex_0_cleaned=b"new")
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == files


def test_a_whole_segment_takes_the_place_of_those_within_its_offsets(tmp_path):
    write(tmp_path, log_0=batch(0), log_5=batch(5), index_5=b"old", log_9=batch(9), index_9=b"9")
    write(tmp_path, log_0_swap=batch(3, last_offset=8), index_0_swap=b"new")
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {
        "log_0": batch(3, last_offset=8),
        "index_0": b"new",
        "log_9": batch(9),
        "index_9": b"9",
    }


def test_an_index_of_the_old_segment_does_not_stay_with_the_new_one(tmp_path):
    write(tmp_path, log_0=batch(0), index_0=b"old", txnindex_0=b"old")
    write(tmp_path, log_0_swap=batch(3), index_0_swap=b"new")
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_0": batch(3), "index_0": b"new"}


def test_an_empty_segment_takes_the_place_of_the_old_one(tmp_path):
    write(tmp_path, log_7=batch(7), index_7=b"old", log_7_swap=b"", index_7_swap=b"")
    write(tmp_path, log_9=batch(9))
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_7": b"", "index_7": b"", "log_9": batch(9)}


def test_indexes_follow_batches_that_are_in_place(tmp_path):
    write(tmp_path, log_0=batch(3), index_0_swap=b"new", txnindex_0_swap=b"new")
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_0": batch(3), "index_0": b"new", "txnindex_0": b"new"}


def test_indexes_without_any_batches_are_removed(tmp_path):
    write(tmp_path, log_0=batch(0), index_5_swap=b"new")
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_0": batch(0)}


def test_an_earlier_segment_is_finished_though_a_later_one_is_not(tmp_path):
    write(tmp_path, log_0=batch(0), log_5=batch(5), log_9=batch(9))
    write(tmp_path, log_0_swap=batch(3, last_offset=6), log_9_cleaned=batch(9))
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_0": batch(3, last_offset=6), "log_9": batch(9)}


def test_a_split_of_which_a_part_is_unfinished_is_undone(tmp_path):
    write(tmp_path, log_0=batch(0), log_0_cleaned=batch(0), log_9_swap=batch(9))
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_0": batch(0)}


def test_snapshots_of_producers_are_left_to_the_loader(tmp_path):
    write(tmp_path, log_0=batch(0), snapshot_5=b"5", log_0_swap=batch(3, last_offset=6))
    finish_interrupted_swap(tmp_path)
    assert found(tmp_path) == {"log_0": batch(3, last_offset=6), "snapshot_5": b"5"}
