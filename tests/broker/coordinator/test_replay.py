"""What a partition of an internal topic amounts to."""

import pytest

from odradek.protocol.records.legacy import LegacyBatch
from tests.support.group_log import MemoryLog
from tests.support.legacy_messages import message


@pytest.fixture
def log():
    return MemoryLog()


def left(log):
    return {key: value for _, key, value in log.replay().records()}


def test_the_last_record_of_each_key_counts_in_the_order_of_the_log(log):
    log.append([(b"a", b"1"), (b"b", b"1")])
    log.append([(b"c", b"1"), (b"a", b"2")])
    assert log.replay().records() == [(1, b"b", b"1"), (2, b"c", b"1"), (3, b"a", b"2")]


def test_a_tombstone_takes_its_key_away(log):
    log.append([(b"a", b"1"), (b"b", b"1")])
    log.append([(b"a", None)])
    assert left(log) == {b"b": b"1"}


def in_transaction(log, producer_id, *records):
    log.append_in_transaction(records, producer_id=producer_id, producer_epoch=0)


def test_what_is_in_an_open_transaction_is_pending(log):
    in_transaction(log, 7, (b"a", b"1"))
    in_transaction(log, 8, (b"b", b"1"))
    replay = log.replay()
    assert replay.records() == []
    assert list(replay.pending()) == [(7, (0, b"a", b"1")), (8, (1, b"b", b"1"))]


@pytest.mark.parametrize(("is_commit", "expected"), [(True, {b"a": b"2"}), (False, {b"a": b"1"})])
def test_the_marker_says_whether_it_counts(log, is_commit, expected):
    log.append([(b"a", b"1")])
    in_transaction(log, 7, (b"a", b"2"))
    log.mark(7, is_commit=is_commit)
    assert left(log) == expected
    assert not list(log.replay().pending())


def test_a_plain_record_that_came_after_counts_all_the_same(log):
    in_transaction(log, 7, (b"a", b"2"))
    log.append([(b"a", b"3")])
    log.mark(7, is_commit=True)
    assert left(log) == {b"a": b"3"}


def test_a_tombstone_takes_what_is_pending_too(log):
    in_transaction(log, 7, (b"a", b"2"), (b"b", b"2"))
    log.append([(b"a", None)])
    log.mark(7, is_commit=True)
    assert left(log) == {b"b": b"2"}


def test_a_marker_of_somebody_who_wrote_nothing_says_nothing(log):
    log.append([(b"a", b"1")])
    log.mark(9, is_commit=True)
    assert left(log) == {b"a": b"1"}


@pytest.mark.parametrize("magic", [0, 1])
def test_what_the_oldest_brokers_wrote_is_read(log, magic):
    replay = log.replay()
    replay.take(LegacyBatch(message(magic, b"v", key=b"k"), 0))
    assert [(key, value) for _, key, value in replay.records()] == [(b"k", b"v")]
