"""Segments with preallocate=true allocate all their disk space when they are created."""

import pytest

from odradek.storage.paths import LogFileType
from odradek.storage.settings import TopicSettings
from tests.support.logs import NOW_MS, append, opened, records_from, recovered

SETTINGS = {"preallocate": True, "segment_bytes": 1000}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    """Two sealed segments and an active one."""
    log = opened(directory, **SETTINGS)
    for _ in range(5):
        append(log, bytes(400))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    return log


def lengths(log):
    return [segment.path(LogFileType.LOG).stat().st_size for segment in log.segments]


def sizes(log):
    return [segment.size_bytes for segment in log.segments]


def offsets(log):
    return [record.offset for record in records_from(log)]


def test_active_segment_has_full_length_and_sealed_ones_are_trimmed(log):
    *sealed, active = lengths(log)
    assert sealed == sizes(log)[:-1]
    assert active == 1000


def test_reads_return_only_appended_bytes(log):
    assert offsets(log) == list(range(5))
    region = log.read(4, max_bytes=10_000, max_offset=5)
    assert len(region) == log.segments.active.size_bytes


def test_clean_close_trims_files_to_their_batches(log, directory):
    log.close(now_ms=NOW_MS)
    assert lengths(log) == sizes(log)
    reopened = opened(directory, **SETTINGS)
    assert append(reopened, b"next").first_offset == 5
    assert offsets(reopened) == list(range(6))


def test_clean_close_of_an_empty_log_trims_the_file(directory):
    log = opened(directory, **SETTINGS)
    log.close(now_ms=NOW_MS)
    assert lengths(log) == [0]
    log = opened(directory, **SETTINGS)
    log.close(now_ms=NOW_MS)
    assert opened(directory, **SETTINGS).log_end_offset == 0


def test_reading_a_sealed_segment_after_a_restart_does_not_change_it(log, directory):
    log.flush(now_ms=NOW_MS)
    log.close_handlers()
    reopened = recovered(directory, recovery_point=5, **SETTINGS)
    offsets(reopened)
    assert lengths(reopened) == sizes(reopened)
    reopened.close_handlers()
    assert offsets(recovered(directory, recovery_point=5, **SETTINGS)) == list(range(5))


def test_restart_allocates_nothing_until_the_next_roll(log, directory):
    log.close(now_ms=NOW_MS)
    reopened = opened(directory, **SETTINGS)
    append(reopened, b"next")
    assert lengths(reopened) == sizes(reopened)
    reopened.roll(now_ms=NOW_MS)
    append(reopened, b"next")
    assert lengths(reopened)[-1] == 1000


def test_setting_may_change_at_any_time(log, directory):
    log.configure(TopicSettings(segment_bytes=1000))
    for _ in range(3):
        append(log, bytes(400))
    assert lengths(log) == sizes(log)
    log.close(now_ms=NOW_MS)
    assert offsets(opened(directory)) == list(range(8))


def test_recovery_frees_preallocated_space(log, directory):
    log.close_handlers()
    reopened = recovered(directory, **SETTINGS)
    assert lengths(reopened) == sizes(reopened)
    assert offsets(reopened) == list(range(5))


def test_records_appended_after_opening_with_a_damaged_index_remain(tmp_path):
    settings = {"preallocate": True, "segment_bytes": 10_000, "index_interval_bytes": 0}
    log = opened(tmp_path / "events-0", **settings)
    for number in range(3):
        append(log, b"%d" % number, timestamp=NOW_MS + number)
    path = log.segments.active.path(LogFileType.TIME_INDEX)
    log.close(now_ms=NOW_MS)
    content = bytearray(path.read_bytes())
    content[-12] ^= 1
    path.write_bytes(content)
    log = opened(tmp_path / "events-0", **settings)
    append(log, b"3")
    assert [record.value for record in records_from(log)] == [b"0", b"1", b"2", b"3"]
