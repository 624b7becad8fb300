"""Indexes that fail the sanity check are rebuilt, so lookups need no long scans."""

import os
from contextlib import suppress

import pytest

from odradek.storage import files
from odradek.storage.log_loader import LogLoadReport
from odradek.storage.open_segments import TooManyOpenFiles
from odradek.storage.paths import LogFileType, file_path
from odradek.storage.timestamp_lookup import offset_for_timestamp
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import EVENTS, carry_all, managing
from tests.support.logs import NOW_MS, append, opened, records_from, recovered
from tests.support.power_cut import PowerCut

SETTINGS = {"index_interval_bytes": 100, "segment_index_bytes": 8000}
COUNT = 20
INDEXES = [LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX]


def fill(log):
    for number in range(COUNT):
        append(log, bytes(100), timestamp=NOW_MS + number)


@pytest.fixture
def directory(tmp_path):
    """A log directory with a sealed segment full of index entries and an active one."""
    log = opened(tmp_path / "events-0", **SETTINGS)
    fill(log)
    log.roll(now_ms=NOW_MS)
    append(log, b"z", timestamp=NOW_MS + COUNT)
    log.close(now_ms=NOW_MS)
    return log.directory


def index_files(directory):
    return [file_path(directory, 0, content) for content in INDEXES]


def contents(directory):
    return [path.read_bytes() for path in index_files(directory)]


@pytest.mark.parametrize(
    ("damaged", "length"), [(0, None), (1, None), (0, 0), (0, 4800), (1, 4800)]
)
def test_index_with_trailing_zeros_or_no_entries_is_rebuilt(directory, damaged, length):
    before = contents(directory)
    path = index_files(directory)[damaged]
    os.truncate(path, 0)
    if length is None:
        path.write_bytes(before[damaged][:24] + bytes(24))
    else:
        os.truncate(path, length)
    load_report = LogLoadReport()
    log = opened(directory, load_report, **SETTINGS)
    assert len(load_report.problems) == 1
    assert "is rebuilt" in load_report.problems[0]
    assert contents(directory) == before
    assert len(records_from(log)) == COUNT + 1


def test_time_index_without_entries_is_rebuilt_on_lookup(directory):
    before = contents(directory)
    os.truncate(index_files(directory)[1], 0)
    log = opened(directory, **SETTINGS)
    assert offset_for_timestamp(log, NOW_MS + 7).offset == 7
    assert contents(directory) == before


def test_indexes_of_the_active_segment_are_checked(directory):
    active = file_path(directory, COUNT, LogFileType.TIME_INDEX)
    before = active.read_bytes()
    os.truncate(active, 1200)
    load_report = LogLoadReport()
    opened(directory, load_report, **SETTINGS)
    assert len(load_report.problems) == 1
    assert active.read_bytes() == before


@pytest.mark.parametrize("sizes", [[5000], [50, 5000], [], [10]])
def test_segment_that_needs_no_index_entries_is_not_rebuilt(tmp_path, sizes):
    log = opened(tmp_path / "events-0", **SETTINGS)
    for size in sizes:
        append(log, bytes(size), timestamp=-1)
    log.roll(now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    load_report = LogLoadReport()
    opened(log.directory, load_report, **SETTINGS)
    assert load_report.problems == []


@pytest.mark.parametrize("seed", range(10))
def test_power_cut_keeps_indexes_of_a_segment_sealed_after_its_flush(tmp_path, seed):
    directory = tmp_path / "events-0"
    with PowerCut(tmp_path, seed) as disk:
        files.system.mkdir(directory)
        log = opened(directory, **SETTINGS)
        fill(log)
        log.flush(now_ms=NOW_MS)
        files.sync_directory(tmp_path)
        log.roll(now_ms=NOW_MS)
        sealed = contents(directory)
        append(log, b"z")
        log.flush(now_ms=NOW_MS)
        recovery_point = log.recovery_point
        log.close_handlers()
        disk.cut()
        assert contents(directory) == sealed, disk
        load_report = LogLoadReport()
        recovered(directory, load_report, recovery_point=recovery_point, **SETTINGS)
    assert load_report.problems == []


def corrupt_positions(path):
    entries = bytearray(path.read_bytes())
    entries[7::8] = bytes(byte ^ 1 for byte in entries[7::8])
    path.write_bytes(entries)


def read_last(log):
    log.read(COUNT - 1, max_bytes=100, max_offset=COUNT)


def find_last(log):
    assert offset_for_timestamp(log, NOW_MS + COUNT - 1).offset == COUNT - 1


@pytest.mark.parametrize("lookup", [read_last, find_last])
def test_rebuild_without_free_descriptors_is_retried(directory, lookup):
    before = contents(directory)
    for fail_at in range(1, 30):
        corrupt_positions(index_files(directory)[0])
        manager = managing(directory.parent, **SETTINGS)
        hosted = manager.find(EVENTS)
        with FewDescriptors(fail_at=fail_at) as system, suppress(TooManyOpenFiles), hosted as log:
            lookup(log)
        carry_all(manager.repair_tasks(now_ms=NOW_MS))
        with hosted as log:
            lookup(log)
        assert contents(directory) == before, (fail_at, system.failed_calls)
        manager.close(now_ms=NOW_MS)
        if not system.failed_calls:
            break
    assert fail_at > 5


def test_interrupted_rebuild_is_repeated_when_the_log_is_opened(directory):
    before = contents(directory)
    for fail_at in range(1, 30):
        log = opened(directory, **SETTINGS)
        segment = log.segments.first
        with FewDescriptors(fail_at=fail_at) as system, suppress(OSError):
            segment.rebuild_indexes()
        log.close_handlers()
        reopened = opened(directory, **SETTINGS)
        assert contents(directory) == before, (fail_at, system.failed_calls)
        reopened.close(now_ms=NOW_MS)
        if not system.failed_calls:
            break
    assert fail_at > 3
