"""Removing files in two steps: renamed at once, removed when nobody can still be reading them."""

import pytest

from odradek.storage import files
from odradek.storage.deletion import remove, set_aside, set_aside_from_the_end
from odradek.storage.paths import Content
from tests.support.logs import (
    NOW_MS,
    append,
    bytes_of,
    end_transaction,
    opened,
    records_from,
    recovered,
)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    """Three segments, each with all the files that a segment may have."""
    log = opened(directory, index_interval_bytes=0)
    for number in range(3):
        fields = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0}
        append(log, b"a", is_transactional=True, **fields)
        end_transaction(log, producer_id=number, commit=False)
        append(log, b"b")
        log.roll(now_ms=NOW_MS)
    return log


def names(directory):
    return {path.name for path in directory.iterdir()}


def files_of(base_offset, ending=""):
    return {
        f"{base_offset:020}{content.value}{ending}"
        for content in Content
        if base_offset or content is not Content.PRODUCER_SNAPSHOT
    }


def test_all_files_of_a_segment_and_its_snapshot_are_renamed(log, directory):
    segment = log.segments.at(3)
    assert files_of(3) <= names(directory)
    set_aside([segment], log.producers.snapshots)
    assert files_of(3, ".deleted") <= names(directory)
    assert not files_of(3) & names(directory)
    assert 3 not in log.producers.snapshots.offsets


def test_others_stay_as_they_are(log, directory):
    before = names(directory) - files_of(3)
    set_aside([log.segments.at(3)], log.producers.snapshots)
    assert names(directory) == before | files_of(3, ".deleted")


def test_all_of_them_are_gone_in_the_end(log, directory):
    before = names(directory) - files_of(3) - files_of(6)
    going = [log.segments.at(3), log.segments.at(6)]
    set_aside(going, log.producers.snapshots)
    remove(going)
    assert names(directory) == before


def test_what_is_gone_already_need_not_be_removed(log, directory):
    segment = log.segments.at(3)
    set_aside([segment], log.producers.snapshots)
    for path in directory.glob("*.deleted"):
        path.unlink()
    remove([segment])


def test_none_is_nothing_to_do(log, directory):
    before = names(directory)
    set_aside([], log.producers.snapshots)
    remove([])
    assert names(directory) == before


def test_a_reader_may_go_on_reading(log):
    region = log.read(3, max_bytes=10_000, up_to=9)
    before = bytes_of(region)
    segment = log.segments.at(3)
    set_aside([segment], log.producers.snapshots)
    remove([segment])
    assert bytes_of(region) == before


def test_a_segment_that_waits_can_still_be_read_and_makes_no_new_files(log, directory):
    segment = log.segments.at(3)
    set_aside([segment], log.producers.snapshots)
    segment.abandon()
    waiting = names(directory)
    assert segment.find(4).last_offset == 4
    assert segment.largest.timestamp == NOW_MS
    segment.seal()
    assert names(directory) == waiting


def test_a_restart_removes_what_waits(log, directory):
    set_aside([log.segments.first], log.producers.snapshots)
    log.abandon()
    again = recovered(directory, index_interval_bytes=0)
    assert again.start_offset == 3
    assert [record.value for record in records_from(again)] == [b"a", b"b"] * 2
    assert not any(name.endswith(".deleted") for name in names(directory))


class Calls:
    """The changes of names, in order."""

    def __init__(self, monkeypatch):
        self.made = []
        rename, sync = files.system.rename, files.system.sync_directory

        def note_rename(source, target):
            self.made.append(source.name)
            rename(source, target)

        def note_sync(path):
            self.made.append("sync")
            sync(path)

        monkeypatch.setattr(files.system, "rename", note_rename)
        monkeypatch.setattr(files.system, "sync_directory", note_sync)


def test_batches_go_for_good_before_their_indexes(log, monkeypatch):
    calls = Calls(monkeypatch)
    set_aside([log.segments.at(3), log.segments.at(6)], log.producers.snapshots)
    assert calls.made[:3] == ["00000000000000000003.log", "00000000000000000006.log", "sync"]
    assert not any(name.endswith(".log") for name in calls.made[3:])


def test_from_the_end_each_goes_for_good_before_the_one_before_it(log, monkeypatch):
    calls = Calls(monkeypatch)
    set_aside_from_the_end([log.segments.at(3), log.segments.at(6)], log.producers.snapshots)
    in_order = [name for name in calls.made if name == "sync" or name.endswith(".log")]
    assert in_order == ["00000000000000000006.log", "sync", "00000000000000000003.log", "sync"]
