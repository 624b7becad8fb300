"""Indexes that no writer leaves: they are made anew, and nobody has to walk for want of entries."""

import os
from contextlib import suppress

import pytest

from odradek.storage import files
from odradek.storage.log_loader import Findings
from odradek.storage.log_lookup import first_at_or_after
from odradek.storage.open_segments import OutOfDescriptors
from odradek.storage.paths import Content, file_path
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import EVENTS, carry_all, managing
from tests.support.logs import NOW_MS, append, opened, records_from, recovered
from tests.support.power_cut import PowerCut

SETTINGS = {"index_interval_bytes": 100, "segment_index_bytes": 8000}
COUNT = 20
INDEXES = [Content.OFFSET_INDEX, Content.TIME_INDEX]


def fill(log):
    for number in range(COUNT):
        append(log, bytes(100), timestamp=NOW_MS + number)


@pytest.fixture
def directory(tmp_path):
    """Of a sealed segment, full of index entries, and an active one."""
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
def test_zeros_at_its_end_or_no_entries_have_an_index_made_anew(directory, damaged, length):
    before = contents(directory)
    path = index_files(directory)[damaged]
    os.truncate(path, 0)
    if length is None:
        path.write_bytes(before[damaged][:24] + bytes(24))
    else:
        os.truncate(path, length)
    findings = Findings()
    log = opened(directory, findings, **SETTINGS)
    assert len(findings.notes) == 1
    assert "made anew" in findings.notes[0]
    assert contents(directory) == before
    assert len(records_from(log)) == COUNT + 1


def test_a_time_index_without_entries_is_made_anew_when_it_is_asked(directory):
    before = contents(directory)
    os.truncate(index_files(directory)[1], 0)
    log = opened(directory, **SETTINGS)
    assert first_at_or_after(log, NOW_MS + 7).offset == 7
    assert contents(directory) == before


def test_the_indexes_of_the_active_segment_are_looked_at_too(directory):
    active = file_path(directory, COUNT, Content.TIME_INDEX)
    before = active.read_bytes()
    os.truncate(active, 1200)
    findings = Findings()
    opened(directory, findings, **SETTINGS)
    assert len(findings.notes) == 1
    assert active.read_bytes() == before


@pytest.mark.parametrize("sizes", [[5000], [50, 5000], [], [10]])
def test_a_segment_that_needs_no_entries_is_left_alone(tmp_path, sizes):
    log = opened(tmp_path / "events-0", **SETTINGS)
    for size in sizes:
        append(log, bytes(size), timestamp=-1)
    log.roll(now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    findings = Findings()
    opened(log.directory, findings, **SETTINGS)
    assert findings.notes == []


@pytest.mark.parametrize("seed", range(10))
def test_a_segment_sealed_after_it_was_flushed_keeps_its_indexes_in_a_power_cut(tmp_path, seed):
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
        log.abandon()
        disk.cut()
        assert contents(directory) == sealed, disk
        findings = Findings()
        recovered(directory, findings, recovery_point=recovery_point, **SETTINGS)
    assert findings.notes == []


def lead_astray(path):
    entries = bytearray(path.read_bytes())
    entries[7::8] = bytes(each ^ 1 for each in entries[7::8])
    path.write_bytes(entries)


def read_last(log):
    log.read(COUNT - 1, max_bytes=100, up_to=COUNT)


def find_last(log):
    assert first_at_or_after(log, NOW_MS + COUNT - 1).offset == COUNT - 1


@pytest.mark.parametrize("ask", [read_last, find_last])
def test_a_rebuild_that_wants_for_descriptors_is_tried_again(directory, ask):
    before = contents(directory)
    for fail_at in range(1, 30):
        lead_astray(index_files(directory)[0])
        manager = managing(directory.parent, **SETTINGS)
        hosted = manager.find(EVENTS)
        with FewDescriptors(fail_at=fail_at) as system, suppress(OutOfDescriptors), hosted as log:
            ask(log)
        carry_all(manager.mendings(now_ms=NOW_MS))
        with hosted as log:
            ask(log)
        assert contents(directory) == before, (fail_at, system.failed_calls)
        manager.close(now_ms=NOW_MS)
        if not system.failed_calls:
            break
    assert fail_at > 5


def test_a_rebuild_that_a_kill_has_ended_is_begun_again_when_the_log_is_opened(directory):
    before = contents(directory)
    for fail_at in range(1, 30):
        log = opened(directory, **SETTINGS)
        segment = log.segments.first
        with FewDescriptors(fail_at=fail_at) as system, suppress(OSError):
            segment.rebuild_indexes()
        log.abandon()
        again = opened(directory, **SETTINGS)
        assert contents(directory) == before, (fail_at, system.failed_calls)
        again.close(now_ms=NOW_MS)
        if not system.failed_calls:
            break
    assert fail_at > 3
