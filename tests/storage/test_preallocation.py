"""Segments that take up all their room on disk at once."""

import pytest

from odradek.storage.paths import Content
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
    return [segment.path(Content.BATCHES).stat().st_size for segment in log.segments]


def sizes(log):
    return [segment.size_bytes for segment in log.segments]


def offsets(log):
    return [record.offset for record in records_from(log)]


def test_the_active_segment_is_as_long_as_it_may_become_and_sealed_ones_are_cut(log):
    *sealed, active = lengths(log)
    assert sealed == sizes(log)[:-1]
    assert active == 1000


def test_readers_see_no_more_than_what_was_appended(log):
    assert offsets(log) == list(range(5))
    region = log.read(4, max_bytes=10_000, up_to=5)
    assert len(region) == log.segments.active.size_bytes


def test_a_clean_stop_leaves_files_that_end_with_their_batches(log, directory):
    log.close(now_ms=NOW_MS)
    assert lengths(log) == sizes(log)
    again = opened(directory, **SETTINGS)
    assert append(again, b"next").first_offset == 5
    assert offsets(again) == list(range(6))


def test_a_stop_before_anything_was_appended_does_too(directory):
    log = opened(directory, **SETTINGS)
    log.close(now_ms=NOW_MS)
    assert lengths(log) == [0]
    log = opened(directory, **SETTINGS)
    log.close(now_ms=NOW_MS)
    assert opened(directory, **SETTINGS).end_offset == 0


def test_reading_a_sealed_segment_after_a_restart_leaves_it_as_it_is(log, directory):
    log.flush(now_ms=NOW_MS)
    log.abandon()
    again = recovered(directory, recovery_point=5, **SETTINGS)
    offsets(again)
    assert lengths(again) == sizes(again)
    again.abandon()
    assert offsets(recovered(directory, recovery_point=5, **SETTINGS)) == list(range(5))


def test_a_restart_allocates_nothing_until_the_next_segment(log, directory):
    log.close(now_ms=NOW_MS)
    again = opened(directory, **SETTINGS)
    append(again, b"next")
    assert lengths(again) == sizes(again)
    again.roll(now_ms=NOW_MS)
    append(again, b"next")
    assert lengths(again)[-1] == 1000


def test_the_setting_may_change_at_any_time(log, directory):
    log.configure(TopicSettings(segment_bytes=1000))
    for _ in range(3):
        append(log, bytes(400))
    assert lengths(log) == sizes(log)
    log.close(now_ms=NOW_MS)
    assert offsets(opened(directory)) == list(range(8))


def test_after_a_crash_the_room_is_given_back(log, directory):
    log.abandon()
    again = recovered(directory, **SETTINGS)
    assert lengths(again) == sizes(again)
    assert offsets(again) == list(range(5))


def test_what_is_appended_stays_though_the_indexes_are_found_damaged_then(tmp_path):
    settings = {"preallocate": True, "segment_bytes": 10_000, "index_interval_bytes": 0}
    log = opened(tmp_path / "events-0", **settings)
    for number in range(3):
        append(log, b"%d" % number, timestamp=NOW_MS + number)
    path = log.segments.active.path(Content.TIME_INDEX)
    log.close(now_ms=NOW_MS)
    content = bytearray(path.read_bytes())
    content[-12] ^= 1
    path.write_bytes(content)
    log = opened(tmp_path / "events-0", **settings)
    append(log, b"3")
    assert [record.value for record in records_from(log)] == [b"0", b"1", b"2", b"3"]
