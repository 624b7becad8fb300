"""How many segments of a log stay open, and what happens when descriptors run out."""

import errno
import os
import subprocess
import sys
from weakref import WeakValueDictionary

import pytest

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import files, timestamp_lookup
from odradek.storage import open_segments as open_files
from odradek.storage.open_segments import OPEN_SEGMENTS_PER_LOG, TooManyOpenFiles
from odradek.storage.paths import LogFileType
from tests.support.log_managers import EVENTS, flush, managing
from tests.support.logs import NOW_MS, append, bytes_of

COUNT = 300
SETTINGS = {"segment_bytes": 200, "index_interval_bytes": 0, "segment_index_bytes": 4096}

#: Runs in a subprocess, as a lowered limit cannot be raised again.
UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
from odradek.storage import timestamp_lookup
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
    assert timestamp_lookup.offset_for_timestamp(log, NOW_MS + COUNT - 1).offset == COUNT - 1
    assert timestamp_lookup.offset_of_max_timestamp(log).offset == COUNT - 1
    regions = [log.read(at, max_bytes=1, max_offset=COUNT) for at in range(0, COUNT, 10)]
    for offset in range(COUNT):
        assert len(log.read(offset, max_bytes=1, max_offset=COUNT)) > 100
    log.update_high_watermark(COUNT)
    del regions
    assert manager.cleaner_manager.log_to_clean(log, now_ms=NOW_MS + 10**9).cleanable_bytes > 0
manager.maintenance.apply_retention(NOW_MS)
assert not observer.failed and manager.directories.online
manager.close(now_ms=NOW_MS)
"""


@pytest.fixture
def few(monkeypatch):
    """Limit each log to the minimum, as if very many logs shared the descriptors."""
    monkeypatch.setattr(open_files, "max_open_segments", lambda: OPEN_SEGMENTS_PER_LOG)


@pytest.fixture
def alone(monkeypatch):
    """Hide logs of other tests: they may not be garbage collected yet and would count."""
    monkeypatch.setattr(open_files, "_open_segments_by_directory", WeakValueDictionary())


@pytest.fixture
def hosted(tmp_path):
    manager = managing(tmp_path, **SETTINGS)
    append_segments(manager.get_or_create_log(EVENTS, now_ms=NOW_MS), 60)
    manager.close(now_ms=NOW_MS)
    return managing(tmp_path, **SETTINGS).find(EVENTS)


def append_segments(hosted, count):
    with hosted as log:
        for _ in range(count):
            append(log, bytes(100), timestamp=NOW_MS + log.log_end_offset)
    return hosted


def open_segments(hosted):
    return [segment for segment in hosted.log.segments if segment.is_open]


def read(hosted, offset):
    with hosted as log:
        return log.read(offset, max_bytes=10**6, max_offset=log.log_end_offset)


def record_opened_names(monkeypatch):
    names = []
    real = os.open

    def recording_open(path, *arguments):
        names.append(os.path.basename(path))
        return real(path, *arguments)

    monkeypatch.setattr(files.system, "open", recording_open)
    return names


def exhaust_descriptors(monkeypatch, code=errno.EMFILE):
    def fail_open(path, *arguments):
        raise OSError(code, os.strerror(code), os.fspath(path))

    monkeypatch.setattr(files.system, "open", fail_open)


def test_log_with_many_segments_works_with_few_descriptors(tmp_path):
    manager = managing(tmp_path, **SETTINGS)
    hosted = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    for _ in range(COUNT // 50):
        append_segments(hosted, 50)
        flush(hosted)
    with hosted as log:
        assert len(log.segments) == COUNT
        assert len(open_segments(hosted)) == 1
    manager.close(now_ms=NOW_MS)
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_segments_opened_for_a_lookup_are_closed_again(hosted):
    read(hosted, 7)
    with hosted as log:
        timestamp_lookup.offset_for_timestamp(log, NOW_MS + 59)
        timestamp_lookup.offset_of_max_timestamp(log)
    assert [segment.base_offset for segment in open_segments(hosted)] == [7]


@pytest.mark.usefixtures("few")
def test_most_recently_read_segments_stay_open(hosted):
    for offset in range(40):
        read(hosted, offset)
    open_offsets = [segment.base_offset for segment in open_segments(hosted)]
    assert OPEN_SEGMENTS_PER_LOG * 7 // 8 <= len(open_offsets) <= OPEN_SEGMENTS_PER_LOG
    assert open_offsets == list(range(40 - len(open_offsets), 40))


@pytest.mark.usefixtures("alone")
def test_log_keeps_more_segments_open_while_descriptors_are_available(hosted):
    for offset in range(40):
        read(hosted, offset)
    assert len(open_segments(hosted)) == 40
    for limit, expected in [(1024, 1024 // 6), (20, OPEN_SEGMENTS_PER_LOG)]:
        assert max_open_segments_under(limit) == expected


def max_open_segments_under(limit):
    """The maximum of open segments of a log when no other log has a segment open."""
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); "
        "from odradek.storage.open_segments import max_open_segments; print(max_open_segments())"
    )
    return int(subprocess.check_output([sys.executable, "-c", code]))


def test_log_without_open_segments_has_no_share_of_descriptors(hosted, tmp_path):
    before = len(open_files._open_segments_by_directory)
    read(hosted, 7)
    assert len(open_files._open_segments_by_directory) == before + 1
    hosted.log.close_handlers()
    assert len(open_files._open_segments_by_directory) == before


def test_reads_within_the_open_segments_open_no_files(hosted, monkeypatch):
    for offset in range(OPEN_SEGMENTS_PER_LOG):
        read(hosted, offset)
    names = record_opened_names(monkeypatch)
    for _ in range(3):
        for offset in range(OPEN_SEGMENTS_PER_LOG):
            assert read(hosted, offset)
    assert names == []


@pytest.mark.usefixtures("few")
def test_region_stays_readable_when_its_segment_is_closed(hosted):
    region = read(hosted, 0)
    batches = hosted.log.segments.first.batches()
    before = bytes_of(region)
    for offset in range(1, 40):
        read(hosted, offset)
    assert not hosted.log.segments.first.is_open
    assert bytes_of(region) == before
    assert [batch.base_offset for _, batch in batches] == [0]


def test_written_segments_stay_open_until_sealed_and_flushed(hosted):
    append_segments(hosted, 5)
    for offset in range(40):
        read(hosted, offset)
    assert {60, 61, 62, 63, 64} <= {segment.base_offset for segment in open_segments(hosted)}
    flush(hosted)
    assert not {60, 61, 62, 63} & {segment.base_offset for segment in open_segments(hosted)}
    assert hosted.log.segments.active.is_open


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_running_out_of_descriptors_does_not_take_the_directory_offline(hosted, monkeypatch, code):
    with monkeypatch.context() as patch:
        exhaust_descriptors(patch, code)
        with pytest.raises(TooManyOpenFiles):
            read(hosted, 5)
        with pytest.raises(TooManyOpenFiles), hosted as log:
            timestamp_lookup.offset_for_timestamp(log, NOW_MS + 59)
        with pytest.raises(TooManyOpenFiles), hosted.directory.guard("creating"):
            files.open_for_reading(hosted.log.directory)
    assert hosted.directory.is_online
    assert read(hosted, 5)


def test_read_without_a_free_descriptor_closes_other_segments(hosted, monkeypatch):
    for offset in range(5):
        read(hosted, offset)
    with monkeypatch.context() as patch:
        exhaust_descriptors(patch)
        with pytest.raises(TooManyOpenFiles):
            read(hosted, 40)
    assert open_segments(hosted) == []
    assert read(hosted, 40)


def test_flush_without_a_free_descriptor_can_be_retried(hosted, monkeypatch):
    append_segments(hosted, 3)
    with monkeypatch.context() as patch:
        exhaust_descriptors(patch)
        with pytest.raises(TooManyOpenFiles):
            flush(hosted)
    assert hosted.directory.is_online
    flush(hosted)
    assert hosted.log.recovery_point == hosted.log.log_end_offset


def test_read_of_a_missing_log_file_raises_a_storage_error(hosted):
    path = hosted.log.segments.first.path(LogFileType.LOG)
    path.unlink()
    with pytest.raises(KafkaStorageError, match="No such file"):
        read(hosted, 0)
    assert not path.exists()
