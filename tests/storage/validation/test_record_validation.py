"""Validating the keys and timestamps of records, and the errors that name invalid records."""

import pytest

from odradek.protocol.records.batch import LOG_APPEND_TIME_FLAG
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from odradek.storage.validation import record_validation
from odradek.storage.validation.errors import InvalidRecords, InvalidTimestamps, RecordError
from tests.support.appends import COMPACTED, NOW_MS, admitted, rules_of
from tests.support.batches import batch_of, with_checksum

HOUR_MS = 3_600_000
BOUNDED = rules_of(
    message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(2 * HOUR_MS)
)


def batch_at(*timestamps, **fields):
    records = (
        Record(offset, timestamp, b"key", b"v") for offset, timestamp in enumerate(timestamps)
    )
    return batch_of(*records, **fields)


def with_append_time_flag(batch):
    batch[22] |= LOG_APPEND_TIME_FLAG
    return with_checksum(batch)


def record_indexes(raised):
    return [error.batch_index for error in raised.value.record_errors]


class TestKeys:
    @pytest.mark.parametrize("codec", Codec)
    def test_S12_missing_keys_in_a_compacted_topic_are_reported_per_record(self, codec):
        keys = [b"a", None, b"", None]
        batch = batch_of(
            *(Record(offset, 0, key, b"v") for offset, key in enumerate(keys)), codec=codec
        )
        assert admitted(batch)
        with pytest.raises(InvalidRecords) as raised:
            admitted(batch, COMPACTED)
        message = "no key: a compacted topic requires a key"
        assert raised.value.record_errors == (RecordError(1, message), RecordError(3, message))
        assert str(raised.value) == f"record 1 of the batch: {message}, and 1 more"

    def test_keys_are_required_with_compact_delete_policy(self):
        with pytest.raises(InvalidRecords, match="record 0 of the batch: no key"):
            admitted(batch_of(b"v"), rules_of(cleanup_policy="delete,compact"))


class TestTimestamps:
    def test_timestamps_within_the_bounds_are_accepted(self):
        batch = batch_at(NOW_MS - HOUR_MS, NOW_MS, NOW_MS + 2 * HOUR_MS)
        assert admitted(batch, BOUNDED).max_timestamp == NOW_MS + 2 * HOUR_MS

    @pytest.mark.parametrize("codec", Codec)
    def test_timestamps_outside_the_bounds_are_reported_per_record(self, codec):
        early, late = NOW_MS - HOUR_MS - 1, NOW_MS + 2 * HOUR_MS + 1
        with pytest.raises(InvalidTimestamps) as raised:
            admitted(batch_at(early, NOW_MS, late, codec=codec), BOUNDED)
        assert record_indexes(raised) == [0, 2]
        bounds = f"is not between {NOW_MS - HOUR_MS} and {NOW_MS + 2 * HOUR_MS}"
        assert raised.value.record_errors[1].message == f"timestamp {late} {bounds}"

    def test_missing_timestamps_are_accepted(self):
        assert admitted(batch_at(-1, NOW_MS), BOUNDED).max_timestamp == NOW_MS
        assert admitted(batch_at(-1), BOUNDED).max_timestamp == -1

    def test_bounds_may_be_set_on_one_side_only(self):
        past = rules_of(message_timestamp_before_max_ms="1")
        future = rules_of(message_timestamp_after_max_ms="1")
        assert admitted(batch_at(2**62), past)
        assert admitted(batch_at(0), future)
        for batch, rules in ((batch_at(0), past), (batch_at(2**62), future)):
            with pytest.raises(InvalidTimestamps):
                admitted(batch, rules)

    def test_deprecated_difference_setting_applies_where_the_newer_is_not_set(self):
        older = rules_of(
            message_timestamp_difference_max_ms="10", message_timestamp_after_max_ms="20"
        )
        assert admitted(batch_at(NOW_MS - 10, NOW_MS + 20), older)
        for timestamp in (NOW_MS - 11, NOW_MS + 21):
            with pytest.raises(InvalidTimestamps):
                admitted(batch_at(timestamp), older)

    def test_negative_timestamps_are_rejected_in_a_compacted_topic(self):
        negative = batch_at(0, 1)
        negative[27:43] = (-2).to_bytes(8, "big", signed=True) * 2
        assert admitted(with_checksum(negative))
        with pytest.raises(InvalidTimestamps) as raised:
            admitted(with_checksum(negative), COMPACTED)
        assert record_indexes(raised) == [0]

    def test_append_time_flag_is_rejected_for_every_record_with_log_append_time(self):
        rules = rules_of(message_timestamp_type="LogAppendTime")
        with pytest.raises(InvalidTimestamps, match="is marked as log append time") as raised:
            admitted(with_append_time_flag(batch_at(NOW_MS, NOW_MS)), rules)
        assert record_indexes(raised) == [0, 1]

    def test_timestamps_with_the_append_time_flag_must_be_within_the_bounds(self):
        assert admitted(with_append_time_flag(batch_at(NOW_MS)), BOUNDED)
        for timestamp in (0, -1):
            with pytest.raises(InvalidTimestamps):
                admitted(with_append_time_flag(batch_at(timestamp)), BOUNDED)


def test_invalid_timestamp_takes_precedence_over_a_missing_key():
    batch = batch_of(Record(0, NOW_MS, None, b"v"), Record(1, 0, b"k", b"v"))
    rules = rules_of(cleanup_policy="compact", message_timestamp_before_max_ms="1")
    with pytest.raises(InvalidTimestamps) as raised:
        admitted(batch, rules)
    assert record_indexes(raised) == [0, 1]


def test_number_of_reported_record_errors_is_limited(monkeypatch):
    monkeypatch.setattr(record_validation, "RECORD_ERRORS_MAX", 3)
    with pytest.raises(InvalidRecords) as raised:
        admitted(batch_of(*[b"v"] * 5), COMPACTED)
    assert record_indexes(raised) == [0, 1, 2]
