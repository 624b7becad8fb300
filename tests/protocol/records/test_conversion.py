"""Edge cases of conversion between record formats. The vectors cover the usual cases."""

from struct import pack_into

import pytest

from odradek.protocol.errors import (
    CorruptMessage,
    EncodeError,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.conversion import down_convert, rebuild_for_append
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Header, Record, TimestampType
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_of, with_checksum
from tests.support.legacy_messages import message, wrapper
from tests.support.memory import peak_bytes

RECORDS = [
    Record(10, 1000, b"k", b"v", (Header("h", b"1"),)),
    Record(11, 3000, None, b""),
    Record(14, 2000, b"", None),
]


def down_converted(source, *, magic=1, first_offset=0, **bounds):
    return list(down_convert(source, magic=magic, first_offset=first_offset, **bounds))


def rebuilt(source, *, magic=2, **fields):
    batches = list(batches_of_any_magic(source))
    return rebuild_for_append(batches, BatchFields(**fields), magic=magic)


def records_in(parts):
    return [
        record
        for part in parts
        for batch in batches_of_any_magic(part.buffer)
        for record in batch.records()
    ]


class TestDownConversion:
    def test_headers_are_dropped_and_gaps_kept(self):
        parts = down_converted(batch_of(*RECORDS, base_offset=10))
        assert records_in(parts) == [record._replace(headers=()) for record in RECORDS]
        assert sum(part.converted_count for part in parts) == 3

    def test_magic_0_drops_timestamps(self):
        parts = down_converted(batch_of(*RECORDS, base_offset=10), magic=0)
        assert [record.timestamp for record in records_in(parts)] == [-1, -1, -1]

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    def test_codec_is_kept(self, codec):
        (part,) = down_converted(batch_of(*RECORDS, base_offset=10, codec=codec))
        wrapped = LegacyBatch(part.buffer)
        assert wrapped.codec is codec
        assert (wrapped.base_offset, wrapped.last_offset, wrapped.count) == (10, 14, 3)

    def test_batches_of_an_accepted_magic_pass_uncopied(self):
        source = message(0, b"a") + message(1, b"b", offset=1) + batch_of(b"c", base_offset=2)
        assert [part.buffer for part in down_converted(source, magic=2)] == [
            batch.view for batch in batches_of_any_magic(source)
        ]
        first, second, third = down_converted(source, magic=1)
        assert first.buffer.obj is source
        assert second.buffer.obj is source
        assert (first.converted_count, second.converted_count, third.converted_count) == (0, 0, 1)

    def test_partial_batch_at_the_end_is_dropped(self):
        whole = batch_of(b"a")
        assert len(down_converted(whole + batch_of(b"b", base_offset=1)[:-1])) == 1

    @pytest.mark.parametrize("codec", list(Codec))
    def test_control_batches_of_any_codec_are_dropped(self, codec):
        marker = batch_of(b"marker", is_control=True, codec=codec)
        assert down_converted(marker) == []
        assert [part.buffer for part in down_converted(marker, magic=2)] == [marker]

    def test_empty_batch_of_a_compacted_log_is_dropped(self):
        assert (
            down_converted(empty_batch(BatchFields(base_offset=5), last_offset=9, max_timestamp=0))
            == []
        )

    def test_last_offset_of_a_compacted_batch_is_lost(self):
        (part,) = down_converted(batch_of(b"a", codec=Codec.GZIP, last_offset=9))
        assert LegacyBatch(part.buffer).last_offset == 0

    def test_only_uncompressed_batches_are_trimmed_to_the_first_offset(self):
        plain = batch_of(*RECORDS, base_offset=10)
        packed = batch_of(*RECORDS, base_offset=10, codec=Codec.LZ4)
        assert [r.offset for r in records_in(down_converted(plain, first_offset=12))] == [14]
        assert [r.offset for r in records_in(down_converted(packed, first_offset=12))] == [
            10,
            11,
            14,
        ]
        assert down_converted(plain, first_offset=15) == []

    def test_legacy_messages_are_trimmed_only_if_rewritten(self):
        source = message(1, b"a", offset=3) + message(1, b"b", offset=4)
        assert [r.offset for r in records_in(down_converted(source, first_offset=4))] == [3, 4]
        assert [r.offset for r in records_in(down_converted(source, magic=0, first_offset=4))] == [
            4
        ]

    @pytest.mark.parametrize("magic", [0, 1])
    def test_zstd_is_rejected(self, magic):
        with pytest.raises(UnsupportedCompressionType):
            down_converted(batch_of(b"a", codec=Codec.ZSTD), magic=magic)

    def test_batches_before_a_rejected_batch_are_returned(self):
        source = batch_of(b"a") + batch_of(b"b", base_offset=1, codec=Codec.ZSTD)
        parts = down_convert(source, magic=1, first_offset=0)
        assert next(parts).converted_count == 1
        with pytest.raises(UnsupportedCompressionType):
            next(parts)

    def test_damaged_batch_is_rejected(self):
        damaged = batch_of(b"a")
        damaged[-2] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            down_converted(damaged)

    def test_damaged_message_is_rejected_if_it_is_rewritten(self):
        damaged = bytearray(message(1, b"a"))
        damaged[-1] ^= 1
        assert len(down_converted(damaged, magic=1)) == 1
        with pytest.raises(CorruptMessage, match="checksum"):
            down_converted(damaged, magic=0)

    @pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 1])
    def test_invalid_offsets_are_rejected(self, base_offset):
        damaged = batch_of(b"a", b"b")
        RecordBatch(damaged).assign_offsets(base_offset)
        with pytest.raises(CorruptMessage, match="offset"):
            down_converted(damaged)

    def test_offsets_that_do_not_ascend_are_rejected(self):
        inner = message(1, b"a", offset=1) + message(1, b"b", offset=1)
        with pytest.raises(CorruptMessage, match="offset"):
            down_converted(wrapper(1, inner, offset=1), magic=0)

    def test_timestamp_below_minus_one_is_rejected(self):
        damaged = batch_of(b"a")
        pack_into(">q", damaged, 27, -2)
        with pytest.raises(CorruptMessage, match="timestamp"):
            down_converted(with_checksum(damaged))

    def test_decompression_bomb_is_rejected(self):
        bomb = batch_of(bytes(20_000_000), codec=Codec.GZIP)

        def convert_bomb():
            with pytest.raises(CorruptMessage):
                down_converted(bomb, max_bytes=1_000_000)

        assert peak_bytes(convert_bomb) < 5_000_000


class TestRebuildingForAppend:
    def test_messages_become_one_batch_with_the_next_offsets(self):
        sent = message(1, b"a", offset=7, timestamp=50) + message(1, b"b", offset=7, timestamp=40)
        converted = rebuilt(sent, base_offset=100, partition_leader_epoch=3)
        batch = RecordBatch(converted.buffer)
        batch.check_crc()
        assert converted.converted_count == batch.count == 2
        assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (100, 101, 3)
        assert (batch.base_timestamp, batch.max_timestamp, batch.producer_id) == (50, 50, -1)
        assert [(r.offset, r.timestamp, r.value) for r in batch] == [
            (100, 50, b"a"),
            (101, 40, b"b"),
        ]

    def test_records_of_magic_0_get_no_timestamp(self):
        batch = RecordBatch(rebuilt(message(0, b"a")).buffer)
        assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.CREATE_TIME, -1)
        assert [record.timestamp for record in batch] == [-1]

    def test_records_of_magic_0_can_get_the_append_time(self):
        batch = RecordBatch(rebuilt(message(0, b"a"), append_time_ms=77).buffer)
        assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 77)
        assert [record.timestamp for record in batch] == [77]

    def test_another_codec_keeps_producer_and_headers(self):
        sent = batch_of(
            *RECORDS,
            base_offset=10,
            codec=Codec.GZIP,
            producer_id=5,
            producer_epoch=1,
            base_sequence=9,
            is_transactional=True,
        )
        batch = RecordBatch(rebuilt(sent, base_offset=20, codec=Codec.ZSTD, level=1).buffer)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 9)
        assert batch.is_transactional
        assert batch.codec is Codec.ZSTD
        assert [r.headers for r in batch] == [r.headers for r in RECORDS]
        assert [r.offset for r in batch] == [20, 21, 22]

    def test_log_in_a_legacy_format_gets_legacy_messages(self):
        converted = rebuilt(batch_of(b"a", b"b"), magic=1, base_offset=50, append_time_ms=9)
        expected = [Record(50, 9, None, b"a"), Record(51, 9, None, b"b")]
        assert records_in([converted]) == expected
        assert converted.buffer == build_legacy_set(
            expected, LegacyFormat(magic=1, append_time_ms=9)
        )

    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("is_transactional", [False, True])
    def test_log_in_a_legacy_format_rejects_producer_ids(self, magic, is_transactional):
        producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
        sent = batch_of(b"a", **producer, is_transactional=is_transactional)
        with pytest.raises(UnsupportedForMessageFormat):
            rebuilt(sent, magic=magic)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_log_in_a_legacy_format_rejects_headers(self, magic):
        with pytest.raises(UnsupportedForMessageFormat):
            rebuilt(batch_of(*RECORDS), magic=magic)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_log_in_a_legacy_format_rejects_zstd(self, magic):
        with pytest.raises(UnsupportedCompressionType):
            rebuilt(batch_of(b"a"), magic=magic, codec=Codec.ZSTD)

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            message(0, b"a") + message(1, b"b"),
            message(1, b"a") + batch_of(b"b"),
            batch_of(b"a") + batch_of(b"b"),
            message(1, b"a") + wrapper(1, message(1, b"b")),
            wrapper(0, message(0, b"a")) * 2,
            empty_batch(BatchFields(), last_offset=0, max_timestamp=0),
        ],
        ids=[
            "nothing",
            "two old magics",
            "old and new",
            "two batches",
            "a message and a wrapper",
            "two wrappers",
            "no record",
        ],
    )
    @pytest.mark.parametrize("magic", [0, 1, 2])
    def test_records_that_do_not_form_a_single_batch_are_rejected(self, sent, magic):
        with pytest.raises(InvalidRecord):
            rebuilt(sent, magic=magic)

    @pytest.mark.parametrize("timestamp", [-(2**63), -2, 2**63 - 1])
    @pytest.mark.parametrize("magic", [0, 1, 2])
    def test_timestamps_that_cannot_be_encoded_are_rejected(self, timestamp, magic):
        with pytest.raises(InvalidTimestamp):
            rebuilt(message(1, b"a", timestamp=timestamp), magic=magic)

    def test_widest_span_of_timestamps_survives(self):
        times = [-1, 2**63 - 2]
        sent = b"".join(message(1, b"a", timestamp=time) for time in times)
        assert [record.timestamp for record in RecordBatch(rebuilt(sent).buffer)] == times

    def test_inconsistent_producer_fields_are_rejected(self):
        sent = batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
        pack_into(">h", sent, 51, -1)
        with pytest.raises(InvalidRecord):
            rebuilt(with_checksum(sent))

    @pytest.mark.parametrize("magic", [1, 2])
    def test_invalid_compression_level_is_not_an_invalid_record(self, magic):
        with pytest.raises(EncodeError, match="level: GZIP has no level 10"):
            rebuilt(message(1, b"a"), magic=magic, codec=Codec.GZIP, level=10)

    def test_damaged_wrapper_is_rejected(self):
        with pytest.raises(CorruptMessage):
            rebuilt(message(1, b"not gzip", attributes=Codec.GZIP))
