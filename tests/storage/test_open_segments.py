"""Which of a log's segments are open, and which are closed so that others can be?"""

import errno
import os
import subprocess
import sys
from weakref import WeakValueDictionary

import pytest

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import files, log_lookup
from odradek.storage import open_segments as open_files
from odradek.storage.open_segments import OPEN_MAX, OutOfDescriptors
from odradek.storage.paths import Content
from tests.support.log_managers import EVENTS, flush, managing
from tests.support.logs import NOW_MS, append, bytes_of

COUNT = 300
SETTINGS = {"segment_bytes": 200, "index_interval_bytes": 0, "segment_index_bytes": 4096}

#: Run by itself, as a limit cannot be taken back.
UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
from odradek.storage import log_lookup
from tests.support.log_managers import EVENTS, Notebook, managing
from tests.support.logs import NOW_MS
from tests.storage.test_open_segments import COUNT, SETTINGS

resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
observer = Notebook()
settings = dict(SETTINGS, min_compaction_lag_ms=1, max_compaction_lag_ms=10**6)
settings["cleanup_policy"] = frozenset({"compact", "delete"})
manager = managing(Path(sys.argv[1]), observer=observer, **settings)
hosted = manager.find(EVENTS)
with hosted as log:
    assert len(log.segments) == COUNT
    assert log_lookup.first_at_or_after(log, NOW_MS + COUNT - 1).offset == COUNT - 1
    assert log_lookup.of_largest_timestamp(log).offset == COUNT - 1
    regions = [log.read(at, max_bytes=1, up_to=COUNT) for at in range(0, COUNT, 10)]
    for offset in range(COUNT):
        assert len(log.read(offset, max_bytes=1, up_to=COUNT)) > 100
    log.advance_high_watermark(COUNT)
    del regions
    assert manager.cleaner.consider(log, now_ms=NOW_MS + 10**9).dirty_bytes > 0
manager.upkeep.apply_retention(NOW_MS)
assert not observer.failed and manager.directories.online
manager.close(now_ms=NOW_MS)
"""


@pytest.fixture
def few(monkeypatch):
    """As if so many logs shared the descriptors that none may have more than it must."""
    monkeypatch.setattr(open_files, "open_max", lambda: OPEN_MAX)


@pytest.fixture
def alone(monkeypatch):
    """Logs of other tests may not have been collected yet, and would have their share."""
    monkeypatch.setattr(open_files, "_in_directory", WeakValueDictionary())


@pytest.fixture
def hosted(tmp_path):
    manager = managing(tmp_path, **SETTINGS)
    written(manager.create(EVENTS, now_ms=NOW_MS), 60)
    manager.close(now_ms=NOW_MS)
    return managing(tmp_path, **SETTINGS).find(EVENTS)


def written(hosted, count):
    with hosted as log:
        for _ in range(count):
            append(log, bytes(100), timestamp=NOW_MS + log.end_offset)
    return hosted


def open_segments(hosted):
    return [segment for segment in hosted.log.segments if segment.is_open]


def read(hosted, offset):
    with hosted as log:
        return log.read(offset, max_bytes=10**6, up_to=log.end_offset)


def opened_names(monkeypatch):
    names = []
    real = os.open

    def noted(path, *arguments):
        names.append(os.path.basename(path))
        return real(path, *arguments)

    monkeypatch.setattr(files.system, "open", noted)
    return names


def run_out(monkeypatch, code=errno.EMFILE):
    def refuse(path, *arguments):
        raise OSError(code, os.strerror(code), os.fspath(path))

    monkeypatch.setattr(files.system, "open", refuse)


def test_a_log_of_many_segments_is_used_with_few_descriptors(tmp_path):
    manager = managing(tmp_path, **SETTINGS)
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    for _ in range(COUNT // 50):
        written(hosted, 50)
        flush(hosted)
    with hosted as log:
        assert len(log.segments) == COUNT
        assert len(open_segments(hosted)) == 1
    manager.close(now_ms=NOW_MS)
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_what_was_opened_for_a_look_is_closed_again(hosted):
    read(hosted, 7)
    with hosted as log:
        log_lookup.first_at_or_after(log, NOW_MS + 59)
        log_lookup.of_largest_timestamp(log)
    assert [segment.base_offset for segment in open_segments(hosted)] == [7]


@pytest.mark.usefixtures("few")
def test_reads_leave_the_segments_open_that_were_opened_last(hosted):
    for offset in range(40):
        read(hosted, offset)
    left = [segment.base_offset for segment in open_segments(hosted)]
    assert OPEN_MAX * 7 // 8 <= len(left) <= OPEN_MAX
    assert left == list(range(40 - len(left), 40))


@pytest.mark.usefixtures("alone")
def test_a_log_keeps_more_of_them_open_as_long_as_there_are_descriptors_to_share(hosted):
    for offset in range(40):
        read(hosted, offset)
    assert len(open_segments(hosted)) == 40
    for limit, most in [(1024, 1024 // 6), (20, OPEN_MAX)]:
        assert share_of_one_log(limit) == most


def share_of_one_log(limit):
    """Where no other log has a segment open."""
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); "
        "from odradek.storage.open_segments import open_max; print(open_max())"
    )
    return int(subprocess.check_output([sys.executable, "-c", code]))


def test_a_log_that_has_no_segment_open_has_no_share(hosted, tmp_path):
    before = len(open_files._in_directory)
    read(hosted, 7)
    assert len(open_files._in_directory) == before + 1
    hosted.log.abandon()
    assert len(open_files._in_directory) == before


def test_reads_that_stay_within_as_many_segments_open_none(hosted, monkeypatch):
    for offset in range(OPEN_MAX):
        read(hosted, offset)
    names = opened_names(monkeypatch)
    for _ in range(3):
        for offset in range(OPEN_MAX):
            assert read(hosted, offset)
    assert names == []


@pytest.mark.usefixtures("few")
def test_what_was_lent_stays_readable_when_its_segment_is_closed(hosted):
    lent = read(hosted, 0)
    walk = hosted.log.segments.first.batches()
    before = bytes_of(lent)
    for offset in range(1, 40):
        read(hosted, offset)
    assert not hosted.log.segments.first.is_open
    assert bytes_of(lent) == before
    assert [batch.base_offset for _, batch in walk] == [0]


def test_what_was_written_stays_open_until_it_is_sealed_and_synced(hosted):
    written(hosted, 5)
    for offset in range(40):
        read(hosted, offset)
    assert {60, 61, 62, 63, 64} <= {segment.base_offset for segment in open_segments(hosted)}
    flush(hosted)
    assert not {60, 61, 62, 63} & {segment.base_offset for segment in open_segments(hosted)}
    assert hosted.log.segments.active.is_open


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_want_of_descriptors_is_no_failure_of_the_disk(hosted, monkeypatch, code):
    with monkeypatch.context() as patch:
        run_out(patch, code)
        with pytest.raises(OutOfDescriptors):
            read(hosted, 5)
        with pytest.raises(OutOfDescriptors), hosted as log:
            log_lookup.first_at_or_after(log, NOW_MS + 59)
        with pytest.raises(OutOfDescriptors), hosted.directory.guard("creating"):
            files.open_for_reading(hosted.log.directory)
    assert hosted.directory.is_online
    assert read(hosted, 5)


def test_a_read_for_which_no_descriptor_is_left_gives_up_those_of_others(hosted, monkeypatch):
    for offset in range(5):
        read(hosted, offset)
    with monkeypatch.context() as patch:
        run_out(patch)
        with pytest.raises(OutOfDescriptors):
            read(hosted, 40)
    assert open_segments(hosted) == []
    assert read(hosted, 40)


def test_a_flush_for_which_no_descriptor_was_left_is_tried_again(hosted, monkeypatch):
    written(hosted, 3)
    with monkeypatch.context() as patch:
        run_out(patch)
        with pytest.raises(OutOfDescriptors):
            flush(hosted)
    assert hosted.directory.is_online
    flush(hosted)
    assert hosted.log.recovery_point == hosted.log.end_offset


def test_a_missing_file_of_batches_is_a_storage_error_and_not_made_by_a_read(hosted):
    path = hosted.log.segments.first.path(Content.BATCHES)
    path.unlink()
    with pytest.raises(KafkaStorageError, match="No such file"):
        read(hosted, 0)
    assert not path.exists()
