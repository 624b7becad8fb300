"""What a log knows of its leaders' epochs when its end is cut, then and after a crash."""

import shutil

import pytest

from odradek.storage.log_truncation import plan_truncation, truncate, truncate_fully
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


def cut(log, offset):
    truncate(log, offset, now_ms=NOW_MS)


def taken_over(log, offset, *, leader_epoch):
    batch = records_batch(b"new", base_offset=offset, partition_leader_epoch=leader_epoch)
    log.append_as_follower(batch, now_ms=NOW_MS)


def crashed(log, *, recovery_point=None):
    """What a restart would make of the files as they are now."""
    copy = log.directory.with_name("copy-0")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(log.directory, copy)
    point = log.recovery_point if recovery_point is None else recovery_point
    return recovered(copy, recovery_point=point)


def test_those_that_began_beyond_the_cut_are_forgotten(directory):
    log = opened(directory)
    for epoch in (1, 4, 7):
        append(log, b"a", leader_epoch=epoch)
    cut(log, 2)
    assert log.epochs.entries == ((1, 0), (4, 1))


def test_an_epoch_that_was_noted_and_has_no_records_is_forgotten_at_the_end(log):
    log.epochs.assign(9, start_offset=30)
    cut(log, 30)
    assert log.epochs.entries == ((0, 0),)


def test_those_that_were_cut_do_not_come_back_with_a_later_batch_after_a_crash(log):
    """If it were still known that the epoch began at 30, the batch there could be compacted."""
    append(log, b"old", leader_epoch=1)
    log.flush(now_ms=NOW_MS)
    cut(log, 30)
    taken_over(log, 32, leader_epoch=1)
    assert log.epochs.entries == crashed(log).epochs.entries == ((0, 0), (1, 32))


def test_one_that_had_no_records_does_not_come_back_either(log):
    log.epochs.assign(1, start_offset=30)
    log.flush(now_ms=NOW_MS)
    cut(log, 30)
    taken_over(log, 32, leader_epoch=1)
    assert log.epochs.entries == crashed(log).epochs.entries == ((0, 0), (1, 32))


def test_those_of_a_log_that_begins_anew_do_not_come_back_either(log):
    append(log, b"old", leader_epoch=1)
    log.flush(now_ms=NOW_MS)
    truncate_fully(log, 20)
    taken_over(log, 20, leader_epoch=0)
    taken_over(log, 32, leader_epoch=1)
    assert log.epochs.entries == crashed(log).epochs.entries == ((0, 20), (1, 32))


def test_a_flush_leaves_the_file_whole_until_their_batches_are_gone(directory):
    """Else a crash that brings the batches back leaves them in an epoch of others."""
    log = opened(directory)
    for epoch in (0, 1, 1):
        append(log, b"a", leader_epoch=epoch)
        log.roll(now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    end = log.recovery_point
    flush = log.plan_flush()
    truncation = plan_truncation(log, 1, now_ms=NOW_MS)
    flush.run()
    assert log.epochs.entries == ((0, 0),)
    assert crashed(log, recovery_point=end).epochs.entries == ((0, 0), (1, 1))
    truncation.run()
    assert crashed(log).epochs.entries == ((0, 0),)
