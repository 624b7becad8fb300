"""Batches that a leader rewrites: legacy formats, and codecs other than the topic's."""

import pytest

from odradek.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
)
from odradek.protocol.records.compression import LEVELS, Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from tests.support.appends import COMPACTED, NOW_MS, admitted, rules_of, written
from tests.support.batches import batch_of, with_checksum
from tests.support.legacy_messages import message, wrapper

RECORDS = [
    Record(0, NOW_MS, b"a", b"one", (Header("h", None),)),
    Record(1, NOW_MS + 5, b"b", None),
    Record(2, NOW_MS + 2, b"", bytes(300)),
]


class TestRewriting:
    @pytest.mark.parametrize("codec", Codec)
    @pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_batch_gets_the_codec_of_the_topic(self, codec, compression_type):
        batch = batch_of(*RECORDS, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
        validated = admitted(batch, rules_of(compression_type=compression_type), next_offset=40)
        assert validated.batches[0].codec.name.lower() == compression_type.replace(
            "uncompressed", "none"
        )
        assert list(validated.batches[0]) == [
            record._replace(offset=record.offset + 40) for record in RECORDS
        ]
        assert validated.batches[0].producer_id == 5
        assert validated.converted_count == (
            0 if validated.batches[0].codec is codec else len(RECORDS)
        )

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
    def test_batch_gets_the_compression_level_of_the_topic(self, codec):
        name = codec.name.lower()
        value = b"".join(b"%d" % (number * number) for number in range(4000))
        sizes = {
            level: admitted(
                batch_of(value),
                rules_of(**{"compression_type": name, f"compression_{name}_level": str(level)}),
            ).size_bytes
            for level in (min(LEVELS[codec][1:3]), max(LEVELS[codec]))
        }
        assert len(set(sizes.values())) == 2, sizes

    def test_size_is_checked_again_after_rewriting(self):
        compressed = batch_of(bytes(400), codec=Codec.GZIP)
        assert len(compressed) < 300
        for limit, error in (
            ("max_message_bytes", MessageTooLarge),
            ("segment_bytes", RecordListTooLarge),
        ):
            assert admitted(compressed, rules_of(**{limit: "300"}))
            with pytest.raises(error):
                admitted(compressed, rules_of(**{limit: "300", "compression_type": "uncompressed"}))

    def test_batch_received_too_large_is_rejected_before_compression(self):
        rules = rules_of(max_message_bytes="300", compression_type="gzip")
        with pytest.raises(MessageTooLarge):
            admitted(batch_of(bytes(400)), rules)

    def test_rewritten_batch_gets_log_append_time(self):
        rules = rules_of(compression_type="lz4", message_timestamp_type="LogAppendTime")
        validated = admitted(batch_of(*RECORDS), rules, now_ms=NOW_MS + 9)
        assert validated.append_time_ms == validated.max_timestamp == NOW_MS + 9
        assert {record.timestamp for record in validated.batches[0]} == {NOW_MS + 9}

    def test_markers_are_not_rewritten(self):
        marker = build_marker_batch(
            EndTransactionMarker(True, 0), timestamp=NOW_MS, producer_id=5, producer_epoch=0
        )
        rules = rules_of(compression_type="gzip")
        validated = admitted(marker, rules, origin=AppendOrigin.COORDINATOR)
        assert written(validated)[17:] == marker[17:]

    def test_negative_timestamps_are_rejected(self):
        negative = batch_of(*RECORDS)
        negative[27:35] = (-2).to_bytes(8, "big", signed=True)
        with pytest.raises(InvalidTimestamp):
            admitted(with_checksum(negative), rules_of(compression_type="gzip"))


class TestLegacyFormats:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_legacy_messages_become_one_batch_of_magic_2(self, magic, codec):
        records = [record._replace(headers=()) for record in RECORDS]
        old = build_legacy_set(records, LegacyFormat(magic=magic, codec=codec))
        validated = admitted(old, next_offset=10)
        assert validated.converted_count == 3
        assert validated.batches[0].codec is codec
        assert (validated.first_offset, validated.last_offset) == (10, 12)
        assert [(record.offset, record.key, record.value) for record in validated.batches[0]] == [
            (10 + record.offset, record.key, record.value) for record in records
        ]
        assert validated.max_timestamp == (NOW_MS + 5 if magic else -1)

    def test_partial_legacy_message_is_trimmed(self):
        validated = admitted(message(1, b"one") + message(1, b"two")[:-1])
        assert [record.value for record in validated.batches[0]] == [b"one"]

    @pytest.mark.parametrize("magic", [0, 1])
    def test_legacy_message_with_a_wrong_checksum_is_corrupt(self, magic):
        damaged = bytearray(message(magic, b"one") + message(magic, b"two"))
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            admitted(damaged)

    def test_size_is_checked_for_each_legacy_message_and_for_the_batch(self):
        messages = message(1, b"one") + message(1, b"two")
        assert admitted(messages, rules_of(max_message_bytes="90"))
        with pytest.raises(MessageTooLarge, match="maximum configured value of 70"):
            admitted(messages, rules_of(max_message_bytes="70"))
        with pytest.raises(MessageTooLarge, match="37 bytes"):
            admitted(messages, rules_of(max_message_bytes="36"))

    def test_legacy_messages_need_keys_in_a_compacted_topic(self):
        with pytest.raises(InvalidRecord, match="no key"):
            admitted(message(1, b"v"), COMPACTED)
        assert admitted(message(1, b"v", key=b"k"), COMPACTED)

    def test_legacy_wrapper_with_invalid_content_is_rejected(self):
        with pytest.raises(InvalidRecord, match="inconsistent batch"):
            admitted(wrapper(1, b"no messages"))
