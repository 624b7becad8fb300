"""Rejected record sets leave the log unchanged (S12)."""

import pytest

from odradek.protocol.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from odradek.storage.validation.errors import OffsetsOutOfOrder, UnexpectedAppendOffset
from tests.support.batches import batch_around, batch_of, with_checksum
from tests.support.legacy_messages import message
from tests.support.logs import NOW_MS, append, opened, records_batch, records_from, recovered

COMPACTED = {"cleanup_policy": ("compact",)}
SMALL_MESSAGES = {"max_message_bytes": 100}
SMALL_SEGMENTS = {"segment_bytes": 200}
BOUNDED = {"message_timestamp_after_max_ms": 1000}
PRODUCER = {"producer_id": 7, "producer_epoch": 3}


def flipped(batch):
    batch = bytearray(batch)
    batch[-1] ^= 1
    return batch


REJECTED = {
    "no key for compaction": (COMPACTED, records_batch(b"a"), InvalidRecord),
    "no key in one of several records": (
        COMPACTED,
        batch_of(Record(0, NOW_MS, b"k", b"a"), Record(1, NOW_MS, None, b"b")),
        InvalidRecord,
    ),
    "no key for compaction, of an old format": (COMPACTED, message(1, b"a"), InvalidRecord),
    "larger than max.message.bytes": (SMALL_MESSAGES, records_batch(bytes(100)), MessageTooLarge),
    "larger than a segment": (SMALL_SEGMENTS, records_batch(bytes(300)), RecordListTooLarge),
    "a wrong checksum": ({}, flipped(records_batch(b"a")), CorruptMessage),
    "a wrong checksum of an old format": ({}, flipped(message(1, b"a")), CorruptMessage),
    "an unknown codec": (
        {},
        batch_around(b"?", count=1, last_delta=0, codec=5),
        UnsupportedCompressionType,
    ),
    "bytes that its codec cannot decompress": (
        {"compression_type": "zstd"},
        batch_around(b"no gzip", count=1, last_delta=0, codec=Codec.GZIP),
        InvalidRecord,
    ),
    "a timestamp from the future": (
        BOUNDED,
        records_batch(b"a", timestamp=NOW_MS + 1001),
        InvalidTimestamp,
    ),
    "a marker from a client": (
        {},
        batch_of(b"a", is_control=True, is_transactional=True, **PRODUCER),
        InvalidRecord,
    ),
    "more records than offsets": (
        {},
        batch_around(b"\x0c\0\0\0\1\1\0" * 3, count=3, last_delta=1),
        InvalidRecord,
    ),
    "two batches": ({}, records_batch(b"a") + records_batch(b"b"), InvalidRecord),
    "a base offset other than 0": ({}, records_batch(b"a", base_offset=5), InvalidRecord),
    "a gap in its sequence": (
        {},
        records_batch(b"a", base_sequence=5, **PRODUCER),
        OutOfOrderSequenceNumber,
    ),
    "an old epoch of its producer": (
        {},
        records_batch(b"a", producer_id=7, producer_epoch=2, base_sequence=1),
        InvalidProducerEpoch,
    ),
    "outside of its open transaction": (
        {},
        records_batch(b"a", producer_id=8, producer_epoch=0, base_sequence=1),
        InvalidTxnState,
    ),
}


def filled(directory, **settings):
    """A log with a producer, an open transaction and two leader epochs."""
    log = opened(directory, **settings)
    append(log, b"0", key=b"k", base_sequence=0, **PRODUCER)
    transaction = {"producer_id": 8, "producer_epoch": 0, "is_transactional": True}
    append(log, b"1", key=b"k", base_sequence=0, leader_epoch=2, **transaction)
    return log


def log_state(log):
    """The state of a log in memory and its files on disk."""
    memory = (
        (log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset),
        (
            log.recovery_point,
            log.size_bytes,
            log.leader_epoch_cache.entries,
            dict(log.producer_state_manager.active_producers),
        ),
        [(segment.base_offset, segment.max_timestamp_and_offset) for segment in log.segments],
    )
    return memory, {path.name: path.read_bytes() for path in log.directory.iterdir()}


@pytest.mark.parametrize(("settings", "records", "error"), REJECTED.values(), ids=REJECTED)
class TestLeader:
    def test_s12_leader_rejects_the_set_and_its_log_is_unchanged(
        self, tmp_path, settings, records, error
    ):
        log = filled(tmp_path / "events-0", **settings)
        before = log_state(log)
        with pytest.raises(error):
            log.append_as_leader(bytearray(records), leader_epoch=9, now_ms=NOW_MS)
        assert log_state(log) == before

    def test_s12_next_append_continues_at_the_previous_end(
        self, tmp_path, settings, records, error
    ):
        directory = tmp_path / "events-0"
        log = filled(directory, **settings)
        with pytest.raises(error):
            log.append_as_leader(bytearray(records), leader_epoch=9, now_ms=NOW_MS)
        assert append(log, b"2", key=b"k", leader_epoch=2).first_offset == 2
        log.close_handlers()
        reopened = recovered(directory, **settings)
        assert [record.value for record in records_from(reopened)] == [b"0", b"1", b"2"]
        assert reopened.leader_epoch_cache.entries == ((0, 0), (2, 1))


REJECTED_BY_FOLLOWER = {
    "a wrong checksum": (flipped(records_batch(b"a", base_offset=2)), CorruptMessage),
    "offsets that it has": (records_batch(b"a", base_offset=1), UnexpectedAppendOffset),
    "offsets that it has in part": (
        records_batch(b"a", b"b", base_offset=1),
        UnexpectedAppendOffset,
    ),
    "offsets that do not ascend": (
        records_batch(b"a", base_offset=9) + records_batch(b"b", base_offset=8),
        OffsetsOutOfOrder,
    ),
    "offsets that overlap": (
        records_batch(b"a", b"b", base_offset=8) + records_batch(b"c", b"d", base_offset=9),
        OffsetsOutOfOrder,
    ),
    "a wrong checksum after a good batch": (
        records_batch(b"a", base_offset=2) + flipped(records_batch(b"b", base_offset=3)),
        CorruptMessage,
    ),
    "an invalid marker": (
        with_checksum(batch_of(b"a", base_offset=2, is_control=True, **PRODUCER)),
        CorruptMessage,
    ),
}


@pytest.mark.parametrize(
    ("records", "error"), REJECTED_BY_FOLLOWER.values(), ids=REJECTED_BY_FOLLOWER
)
def test_s12_follower_rejects_the_set_and_its_log_is_unchanged(tmp_path, records, error):
    log = filled(tmp_path / "events-0")
    before = log_state(log)
    with pytest.raises(error):
        log.append_as_follower(bytearray(records), now_ms=NOW_MS)
    assert log_state(log) == before


@pytest.mark.parametrize("length", [0, 1, 11, 16, 30, 68])
def test_s12_set_without_a_complete_batch_appends_nothing(tmp_path, length):
    log = filled(tmp_path / "events-0")
    before = log_state(log)
    torn = bytearray(records_batch(b"a")[:length])
    append_info = log.append_as_leader(torn, leader_epoch=9, now_ms=NOW_MS)
    assert (append_info.first_offset, append_info.last_offset) == (-1, -1)
    assert log.append_as_follower(torn, now_ms=NOW_MS).first_offset == -1
    assert log_state(log) == before


def test_s12_incomplete_second_batch_is_trimmed(tmp_path):
    log = filled(tmp_path / "events-0")
    size = log.size_bytes
    whole = records_batch(b"a")
    log.append_as_leader(whole + records_batch(b"b")[:40], leader_epoch=2, now_ms=NOW_MS)
    assert (log.log_end_offset, log.size_bytes) == (3, size + len(whole))
