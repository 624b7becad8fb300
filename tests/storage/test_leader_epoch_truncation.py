"""Leader epochs of a truncated log, before and after a crash."""

import shutil

import pytest

from odradek.storage.log_truncation import plan_truncation, truncate_fully_and_start_at, truncate_to
from tests.support.logs import NOW_MS, append, opened, records_batch, recovered


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    log = opened(directory)
    for _ in range(30):
        append(log, b"a")
    return log


def truncate(log, offset):
    truncate_to(log, offset, now_ms=NOW_MS)


def replicate(log, offset, *, leader_epoch):
    batch = records_batch(b"new", base_offset=offset, partition_leader_epoch=leader_epoch)
    log.append_as_follower(batch, now_ms=NOW_MS)


def recovered_copy(log, *, recovery_point=None):
    """The log that a restart would recover from the current files."""
    copy = log.directory.with_name("copy-0")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(log.directory, copy)
    point = log.recovery_point if recovery_point is None else recovery_point
    return recovered(copy, recovery_point=point)


def test_epochs_that_start_beyond_the_offset_are_removed(directory):
    log = opened(directory)
    for epoch in (1, 4, 7):
        append(log, b"a", leader_epoch=epoch)
    truncate(log, 2)
    assert log.leader_epoch_cache.entries == ((1, 0), (4, 1))


def test_epoch_without_records_is_removed_by_truncation_at_the_end(log):
    log.leader_epoch_cache.assign(9, start_offset=30)
    truncate(log, 30)
    assert log.leader_epoch_cache.entries == ((0, 0),)


def test_truncated_epoch_does_not_come_back_after_a_crash(log):
    """An entry for offset 30 could be believed, as compaction may have removed its batch."""
    append(log, b"old", leader_epoch=1)
    log.flush(now_ms=NOW_MS)
    truncate(log, 30)
    replicate(log, 32, leader_epoch=1)
    assert (
        log.leader_epoch_cache.entries
        == recovered_copy(log).leader_epoch_cache.entries
        == ((0, 0), (1, 32))
    )


def test_truncated_epoch_without_records_does_not_come_back_after_a_crash(log):
    log.leader_epoch_cache.assign(1, start_offset=30)
    log.flush(now_ms=NOW_MS)
    truncate(log, 30)
    replicate(log, 32, leader_epoch=1)
    assert (
        log.leader_epoch_cache.entries
        == recovered_copy(log).leader_epoch_cache.entries
        == ((0, 0), (1, 32))
    )


def test_epochs_before_a_full_truncation_do_not_come_back_after_a_crash(log):
    append(log, b"old", leader_epoch=1)
    log.flush(now_ms=NOW_MS)
    truncate_fully_and_start_at(log, 20)
    replicate(log, 20, leader_epoch=0)
    replicate(log, 32, leader_epoch=1)
    assert (
        log.leader_epoch_cache.entries
        == recovered_copy(log).leader_epoch_cache.entries
        == ((0, 20), (1, 32))
    )


def test_flush_keeps_truncated_epochs_in_the_file_until_their_batches_are_gone(directory):
    """Otherwise a crash that brings the batches back assigns them to the previous epoch."""
    log = opened(directory)
    for epoch in (0, 1, 1):
        append(log, b"a", leader_epoch=epoch)
        log.roll(now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    end = log.recovery_point
    flush = log.plan_flush()
    truncation = plan_truncation(log, 1, now_ms=NOW_MS)
    flush.run()
    assert log.leader_epoch_cache.entries == ((0, 0),)
    assert recovered_copy(log, recovery_point=end).leader_epoch_cache.entries == ((0, 0), (1, 1))
    truncation.run()
    assert recovered_copy(log).leader_epoch_cache.entries == ((0, 0),)
