"""The state that the records of an internal topic's partition add up to."""

import pytest

from odradek.protocol.records.legacy_batch import LegacyBatch
from tests.support.group_log import MemoryLog
from tests.support.legacy_messages import message


@pytest.fixture
def log():
    return MemoryLog()


def replayed(log):
    return {key: value for _, key, value in log.replay().records()}


def test_last_record_of_each_key_counts_in_log_order(log):
    log.append([(b"a", b"1"), (b"b", b"1")])
    log.append([(b"c", b"1"), (b"a", b"2")])
    assert log.replay().records() == [(1, b"b", b"1"), (2, b"c", b"1"), (3, b"a", b"2")]


def test_tombstone_removes_its_key(log):
    log.append([(b"a", b"1"), (b"b", b"1")])
    log.append([(b"a", None)])
    assert replayed(log) == {b"b": b"1"}


def append_in_transaction(log, producer_id, *records):
    log.append_in_transaction(records, producer_id=producer_id, producer_epoch=0)


def test_records_of_an_open_transaction_are_pending(log):
    append_in_transaction(log, 7, (b"a", b"1"))
    append_in_transaction(log, 8, (b"b", b"1"))
    replay = log.replay()
    assert replay.records() == []
    assert list(replay.pending()) == [(7, (0, b"a", b"1")), (8, (1, b"b", b"1"))]


@pytest.mark.parametrize(("is_commit", "expected"), [(True, {b"a": b"2"}), (False, {b"a": b"1"})])
def test_marker_decides_whether_transactional_records_count(log, is_commit, expected):
    log.append([(b"a", b"1")])
    append_in_transaction(log, 7, (b"a", b"2"))
    log.mark(7, is_commit=is_commit)
    assert replayed(log) == expected
    assert not list(log.replay().pending())


def test_later_plain_record_wins_over_an_earlier_committed_one(log):
    append_in_transaction(log, 7, (b"a", b"2"))
    log.append([(b"a", b"3")])
    log.mark(7, is_commit=True)
    assert replayed(log) == {b"a": b"3"}


def test_tombstone_removes_pending_records(log):
    append_in_transaction(log, 7, (b"a", b"2"), (b"b", b"2"))
    log.append([(b"a", None)])
    log.mark(7, is_commit=True)
    assert replayed(log) == {b"b": b"2"}


def test_marker_of_a_producer_without_records_changes_nothing(log):
    log.append([(b"a", b"1")])
    log.mark(9, is_commit=True)
    assert replayed(log) == {b"a": b"1"}


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_message_formats_are_read(log, magic):
    replay = log.replay()
    replay.add_batch(LegacyBatch(message(magic, b"v", key=b"k"), 0))
    assert [(key, value) for _, key, value in replay.records()] == [(b"k", b"v")]
