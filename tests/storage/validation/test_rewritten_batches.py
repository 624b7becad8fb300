"""What is not written as it came: old formats, and codecs other than the topic's."""

import pytest

from odradek.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
)
from odradek.protocol.records.compression import LEVELS, Codec
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.records.legacy_builder import LegacyFormat, legacy_set
from odradek.protocol.records.record import Header, Record
from odradek.storage.producers.append import AppendOrigin
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
    @pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_gives_the_topics_codec(self, codec, wanted):
        batch = batch_of(*RECORDS, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
        taken = admitted(batch, rules_of(compression_type=wanted), next_offset=40)
        assert taken.batches[0].codec.name.lower() == wanted.replace("uncompressed", "none")
        assert list(taken.batches[0]) == [
            record._replace(offset=record.offset + 40) for record in RECORDS
        ]
        assert taken.batches[0].producer_id == 5
        assert taken.converted_count == (0 if taken.batches[0].codec is codec else len(RECORDS))

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
    def test_obeys_the_topics_level(self, codec):
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

    def test_is_measured_again(self):
        packed = batch_of(bytes(400), codec=Codec.GZIP)
        assert len(packed) < 300
        for limit, error in (
            ("max_message_bytes", MessageTooLarge),
            ("segment_bytes", RecordListTooLarge),
        ):
            assert admitted(packed, rules_of(**{limit: "300"}))
            with pytest.raises(error):
                admitted(packed, rules_of(**{limit: "300", "compression_type": "uncompressed"}))

    def test_does_not_make_room_for_what_came_too_large(self):
        rules = rules_of(max_message_bytes="300", compression_type="gzip")
        with pytest.raises(MessageTooLarge):
            admitted(batch_of(bytes(400)), rules)

    def test_stamps_the_time_of_append(self):
        rules = rules_of(compression_type="lz4", message_timestamp_type="LogAppendTime")
        taken = admitted(batch_of(*RECORDS), rules, now_ms=NOW_MS + 9)
        assert taken.append_time_ms == taken.max_timestamp == NOW_MS + 9
        assert {record.timestamp for record in taken.batches[0]} == {NOW_MS + 9}

    def test_leaves_markers_alone(self):
        marker = marker_batch(
            EndTransactionMarker(True, 0), timestamp=NOW_MS, producer_id=5, producer_epoch=0
        )
        rules = rules_of(compression_type="gzip")
        taken = admitted(marker, rules, origin=AppendOrigin.COORDINATOR)
        assert written(taken)[17:] == marker[17:]

    def test_refuses_timestamps_that_no_batch_could_hold(self):
        negative = batch_of(*RECORDS)
        negative[27:35] = (-2).to_bytes(8, "big", signed=True)
        with pytest.raises(InvalidTimestamp):
            admitted(with_checksum(negative), rules_of(compression_type="gzip"))


class TestOldFormats:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_become_one_batch_of_magic_2(self, magic, codec):
        records = [record._replace(headers=()) for record in RECORDS]
        old = legacy_set(records, LegacyFormat(magic=magic, codec=codec))
        taken = admitted(old, next_offset=10)
        assert taken.converted_count == 3
        assert taken.batches[0].codec is codec
        assert (taken.first_offset, taken.last_offset) == (10, 12)
        assert [(record.offset, record.key, record.value) for record in taken.batches[0]] == [
            (10 + record.offset, record.key, record.value) for record in records
        ]
        assert taken.max_timestamp == (NOW_MS + 5 if magic else -1)

    def test_end_where_a_message_is_partial(self):
        taken = admitted(message(1, b"one") + message(1, b"two")[:-1])
        assert [record.value for record in taken.batches[0]] == [b"one"]

    @pytest.mark.parametrize("magic", [0, 1])
    def test_with_the_wrong_checksum_are_corrupt(self, magic):
        damaged = bytearray(message(magic, b"one") + message(magic, b"two"))
        damaged[-1] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            admitted(damaged)

    def test_are_measured_message_by_message_and_then_as_one(self):
        messages = message(1, b"one") + message(1, b"two")
        assert admitted(messages, rules_of(max_message_bytes="90"))
        with pytest.raises(MessageTooLarge, match="more than 70"):
            admitted(messages, rules_of(max_message_bytes="70"))
        with pytest.raises(MessageTooLarge, match="37 bytes"):
            admitted(messages, rules_of(max_message_bytes="36"))

    def test_need_keys_where_the_topic_is_compacted(self):
        with pytest.raises(InvalidRecord, match="no key"):
            admitted(message(1, b"v"), COMPACTED)
        assert admitted(message(1, b"v", key=b"k"), COMPACTED)

    def test_with_damage_inside_are_refused(self):
        with pytest.raises(InvalidRecord, match="contradicts itself"):
            admitted(wrapper(1, b"no messages"))
