"""The records inside a batch: keys, timestamps, and how the wrong ones are named."""

import pytest

from odradek.protocol.records.batch import LOG_APPEND_TIME_FLAG
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from odradek.storage.admission import record_checks
from odradek.storage.admission.errors import InvalidRecords, InvalidTimestamps, RecordError
from tests.support.appends import COMPACTED, NOW_MS, admitted, rules_of
from tests.support.batches import batch_of, with_checksum

HOUR_MS = 3_600_000
BOUNDED = rules_of(
    message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(2 * HOUR_MS)
)


def batch_at(*timestamps, **fields):
    records = (Record(offset, at, b"key", b"v") for offset, at in enumerate(timestamps))
    return batch_of(*records, **fields)


def claiming_append_time(batch):
    batch[22] |= LOG_APPEND_TIME_FLAG
    return with_checksum(batch)


def places(refusal):
    return [error.batch_index for error in refusal.value.record_errors]


class TestKeys:
    @pytest.mark.parametrize("codec", Codec)
    def test_S12_missing_from_a_compacted_topic_are_named_by_record(self, codec):
        keys = [b"a", None, b"", None]
        batch = batch_of(
            *(Record(offset, 0, key, b"v") for offset, key in enumerate(keys)), codec=codec
        )
        assert admitted(batch)
        with pytest.raises(InvalidRecords) as refusal:
            admitted(batch, COMPACTED)
        message = "no key, which a compacted topic demands"
        assert refusal.value.record_errors == (RecordError(1, message), RecordError(3, message))
        assert str(refusal.value) == f"record 1 of the batch: {message}, and 1 more"

    def test_are_demanded_where_old_segments_are_deleted_too(self):
        with pytest.raises(InvalidRecords, match="record 0 of the batch: no key"):
            admitted(batch_of(b"v"), rules_of(cleanup_policy="delete,compact"))


class TestTimestamps:
    def test_from_bound_to_bound_pass(self):
        batch = batch_at(NOW_MS - HOUR_MS, NOW_MS, NOW_MS + 2 * HOUR_MS)
        assert admitted(batch, BOUNDED).max_timestamp == NOW_MS + 2 * HOUR_MS

    @pytest.mark.parametrize("codec", Codec)
    def test_outside_the_bounds_are_named_by_record(self, codec):
        early, late = NOW_MS - HOUR_MS - 1, NOW_MS + 2 * HOUR_MS + 1
        with pytest.raises(InvalidTimestamps) as refusal:
            admitted(batch_at(early, NOW_MS, late, codec=codec), BOUNDED)
        assert places(refusal) == [0, 2]
        bounds = f"is not between {NOW_MS - HOUR_MS} and {NOW_MS + 2 * HOUR_MS}"
        assert refusal.value.record_errors[1].message == f"timestamp {late} {bounds}"

    def test_that_are_missing_pass(self):
        assert admitted(batch_at(-1, NOW_MS), BOUNDED).max_timestamp == NOW_MS
        assert admitted(batch_at(-1), BOUNDED).max_timestamp == -1

    def test_are_bounded_on_one_side_only_if_so_set(self):
        past = rules_of(message_timestamp_before_max_ms="1")
        future = rules_of(message_timestamp_after_max_ms="1")
        assert admitted(batch_at(2**62), past)
        assert admitted(batch_at(0), future)
        for batch, rules in ((batch_at(0), past), (batch_at(2**62), future)):
            with pytest.raises(InvalidTimestamps):
                admitted(batch, rules)

    def test_are_bounded_by_the_older_setting_where_the_newer_is_not_given(self):
        older = rules_of(
            message_timestamp_difference_max_ms="10", message_timestamp_after_max_ms="20"
        )
        assert admitted(batch_at(NOW_MS - 10, NOW_MS + 20), older)
        for timestamp in (NOW_MS - 11, NOW_MS + 21):
            with pytest.raises(InvalidTimestamps):
                admitted(batch_at(timestamp), older)

    def test_below_none_are_refused_where_compaction_would_have_to_write_them(self):
        negative = batch_at(0, 1)
        negative[27:43] = (-2).to_bytes(8, "big", signed=True) * 2
        assert admitted(with_checksum(negative))
        with pytest.raises(InvalidTimestamps) as refusal:
            admitted(with_checksum(negative), COMPACTED)
        assert places(refusal) == [0]

    def test_that_claim_to_be_of_append_are_refused_for_every_record(self):
        rules = rules_of(message_timestamp_type="LogAppendTime")
        with pytest.raises(InvalidTimestamps, match="said to be the time of append") as refusal:
            admitted(claiming_append_time(batch_at(NOW_MS, NOW_MS)), rules)
        assert places(refusal) == [0, 1]

    def test_that_claim_to_be_of_append_are_bounded_like_any(self):
        assert admitted(claiming_append_time(batch_at(NOW_MS)), BOUNDED)
        for claimed in (0, -1):
            with pytest.raises(InvalidTimestamps):
                admitted(claiming_append_time(batch_at(claimed)), BOUNDED)


def test_a_timestamp_that_is_wrong_outweighs_a_key_that_is_missing():
    batch = batch_of(Record(0, NOW_MS, None, b"v"), Record(1, 0, b"k", b"v"))
    rules = rules_of(cleanup_policy="compact", message_timestamp_before_max_ms="1")
    with pytest.raises(InvalidTimestamps) as refusal:
        admitted(batch, rules)
    assert places(refusal) == [0, 1]


def test_of_very_many_wrong_records_the_first_are_named(monkeypatch):
    monkeypatch.setattr(record_checks, "RECORD_ERRORS_MAX", 3)
    with pytest.raises(InvalidRecords) as refusal:
        admitted(batch_of(*[b"v"] * 5), COMPACTED)
    assert places(refusal) == [0, 1, 2]
