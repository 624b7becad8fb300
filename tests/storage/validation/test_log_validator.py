"""Which record sets a leader accepts, and the errors for those that it rejects."""

import pickle
from struct import pack_into

import pytest

from odradek.protocol.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from odradek.protocol.records import batch as batch_module
from odradek.protocol.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Header, Record, TimestampType
from odradek.protocol.varint import varint
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.log_validator import validate_produce_records
from tests.support.appends import COMPACTED, NOW_MS, PLAIN, admitted, rules_of, written
from tests.support.batches import batch_around, batch_of, with_checksum
from tests.support.legacy_messages import message, wrapper

PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
MARKER = build_marker_batch(
    EndTransactionMarker(True, 0), timestamp=NOW_MS, producer_id=5, producer_epoch=0
)
RECORDS = [
    Record(0, NOW_MS, b"a", b"one", (Header("h", None),)),
    Record(1, NOW_MS + 5, b"b", None),
    Record(2, NOW_MS + 2, b"", bytes(300)),
]


def changed(batch, position, layout, *fields):
    """The batch with other header fields and a matching checksum."""
    changed = bytearray(batch)
    pack_into(layout, changed, position, *fields)
    return with_checksum(changed)


def flagged(batch, flag):
    return changed(batch, 21, ">H", int.from_bytes(batch[21:23], "big") | flag)


@pytest.fixture
def unread(monkeypatch):
    """Fail the test if a batch is decompressed."""

    def fail(*_, **__):
        pytest.fail("a batch was decompressed")

    monkeypatch.setattr(batch_module, "decompress", fail)


class TestRequests:
    def test_version_3_requires_a_complete_batch(self):
        for records in (b"", batch_of(b"v")[:-1]):
            validate_produce_records(records, version=2)
            with pytest.raises(InvalidRecord, match="has no complete batch"):
                validate_produce_records(records, version=3)

    def test_version_3_requires_magic_2(self):
        old = message(1, b"v")
        validate_produce_records(old, version=2)
        with pytest.raises(
            InvalidRecord, match="magic 1 is not allowed in a Produce request of version 3"
        ):
            validate_produce_records(old, version=3)

    def test_version_3_allows_only_one_batch(self):
        two = batch_of(b"v") * 2
        validate_produce_records(two, version=2)
        validate_produce_records(two[:-1], version=3)
        with pytest.raises(InvalidRecord, match="more than one batch"):
            validate_produce_records(two, version=3)

    def test_zstd_requires_version_7(self):
        zstd = batch_of(b"v", codec=Codec.ZSTD)
        validate_produce_records(zstd, version=7)
        for version in (3, 6):
            with pytest.raises(UnsupportedCompressionType, match=f"version {version}"):
                validate_produce_records(zstd, version=version)


class TestBytes:
    def test_complete_batch_is_written_unchanged(self):
        batch = batch_of(*RECORDS)
        assert written(admitted(batch))[17:] == batch[17:]

    @pytest.mark.parametrize("cut", [1, 40, 70])
    def test_partial_batch_at_the_end_is_trimmed(self, cut):
        batch = batch_of(*RECORDS)
        assert written(admitted(batch + batch[:-cut]))[17:] == batch[17:]

    def test_bytes_without_a_complete_batch_append_nothing(self):
        for records in (b"", batch_of(b"v")[:-1], b"\0" * 11):
            validated = admitted(records)
            assert (validated.buffers, validated.batches, validated.size_bytes) == ([], [], 0)
            assert (validated.first_offset, validated.last_offset) == (-1, -1)

    def test_S12_batch_with_a_wrong_checksum_is_corrupt(self):
        batch = batch_of(b"value")
        batch[-1] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            admitted(batch)

    @pytest.mark.parametrize("magic", [3, 127, 255])
    def test_batch_of_an_unknown_magic_is_corrupt(self, magic):
        batch = batch_of(b"value")
        batch[16] = magic
        with pytest.raises(CorruptMessage, match=f"magic {magic}"):
            admitted(batch)

    def test_batch_shorter_than_its_header_is_corrupt(self):
        short = bytearray(batch_of(b"value")[:60])
        pack_into(">i", short, 8, len(short) - 12)
        with pytest.raises(CorruptMessage):
            admitted(short)

    def test_S12_batch_larger_than_max_message_bytes_is_rejected(self):
        batch = batch_of(b"value")
        assert admitted(batch, rules_of(max_message_bytes=str(len(batch))))
        with pytest.raises(MessageTooLarge, match=f"{len(batch)} bytes"):
            admitted(batch, rules_of(max_message_bytes=str(len(batch) - 1)))

    def test_batch_larger_than_a_segment_is_rejected(self):
        batch = batch_of(b"value")
        assert admitted(batch, rules_of(segment_bytes=str(len(batch))))
        with pytest.raises(RecordListTooLarge, match=f"{len(batch)} bytes"):
            admitted(batch, rules_of(segment_bytes=str(len(batch) - 1)))

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_S12_batch_of_an_unknown_codec_is_rejected(self, codec):
        with pytest.raises(UnsupportedCompressionType, match=f"codec {codec}"):
            admitted(flagged(batch_of(b"value"), codec))


class TestRecordSets:
    def test_two_batches_are_rejected(self):
        with pytest.raises(InvalidRecord, match="more than one batch"):
            admitted(batch_of(b"v") * 2)

    def test_two_legacy_wrappers_are_rejected(self):
        with pytest.raises(InvalidRecord, match="more than one batch"):
            admitted(wrapper(1, message(1, b"v")) * 2)

    def test_several_magics_are_rejected(self):
        for second in (message(0, b"v"), batch_of(b"v")):
            with pytest.raises(InvalidRecord, match="after one of magic 1"):
                admitted(message(1, b"v") + second)


class TestHeaders:
    def test_client_batch_must_have_base_offset_0(self):
        with_offset = batch_of(b"v", base_offset=3)
        with pytest.raises(InvalidRecord, match="base offset 3 in a client batch"):
            admitted(with_offset)
        assert admitted(with_offset, origin=AppendOrigin.COORDINATOR).first_offset == 0

    @pytest.mark.parametrize(
        ("count", "last_delta"), [(0, 0), (0, -1), (1, 1), (2, 0), (-1, 0), (1, -1), (-1, -2)]
    )
    def test_record_count_must_be_positive_and_match_the_offsets(self, count, last_delta):
        batch = changed(changed(batch_of(b"value"), 23, ">i", last_delta), 57, ">i", count)
        with pytest.raises(InvalidRecord):
            admitted(batch)

    def test_negative_count_with_a_wrong_checksum_is_corrupt(self):
        batch = bytearray(changed(batch_of(b"value"), 57, ">i", -1))
        batch[-1] ^= 1
        with pytest.raises(CorruptMessage):
            admitted(batch)

    def test_count_larger_than_the_bytes_can_hold_is_rejected(self):
        with pytest.raises(InvalidRecord, match="3 records in 20 bytes"):
            admitted(batch_around(bytes(20), count=3, last_delta=2))

    def test_control_batch_is_accepted_only_from_a_coordinator(self):
        with pytest.raises(InvalidRecord, match="control"):
            admitted(MARKER)
        assert admitted(MARKER, origin=AppendOrigin.COORDINATOR).batches[0].is_control

    def test_transactional_batch_without_a_producer_id_is_rejected(self):
        with pytest.raises(InvalidRecord, match="transactional"):
            admitted(flagged(batch_of(b"v"), TRANSACTIONAL_FLAG))
        batch = batch_of(b"v", is_transactional=True, **PRODUCER)
        assert admitted(batch).batches[0].is_transactional

    def test_batch_with_a_producer_id_needs_an_epoch_and_a_sequence(self):
        batch = batch_of(b"v", **PRODUCER)
        assert admitted(batch).batches[0].producer_id == 5
        with pytest.raises(InvalidProducerEpoch, match="epoch -1"):
            admitted(changed(batch, 51, ">h", -1))
        with pytest.raises(InvalidRecord, match="sequence -1"):
            admitted(changed(batch, 53, ">i", -1))

    def test_invalid_producer_id_is_rejected(self):
        with pytest.raises(InvalidRecord, match="producer id -2"):
            admitted(changed(batch_of(b"v", **PRODUCER), 43, ">q", -2))


class TestRecords:
    @pytest.mark.parametrize("codec", Codec)
    def test_records_are_not_read_if_no_rule_requires_it(self, codec, unread):
        batch = batch_of(*RECORDS, codec=codec)
        assert admitted(batch).last_offset == 2
        assert admitted(batch, rules_of(message_timestamp_type="LogAppendTime")).last_offset == 2

    def test_records_are_not_read_if_the_codec_is_that_of_the_topic(self, unread):
        rules = rules_of(compression_type="gzip", compression_gzip_level="1")
        batch = batch_of(*RECORDS, codec=Codec.GZIP)
        assert written(admitted(batch, rules))[17:] == batch[17:]

    def test_records_are_not_read_for_timestamp_bounds_with_log_append_time(self, unread):
        rules = rules_of(
            message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1"
        )
        assert admitted(batch_of(*RECORDS), rules)

    @pytest.mark.parametrize("value_bytes", [1, 100, 10_000])
    @pytest.mark.parametrize("count", [1, 3])
    def test_first_record_that_fits_is_accepted(self, count, value_bytes, unread):
        valid_batch = batch_of(*[bytes(value_bytes)] * count)
        assert written(admitted(valid_batch))[17:] == valid_batch[17:]

    @pytest.mark.parametrize(
        "records",
        [
            b"no records at all",
            varint(-1) + bytes(20),
            varint(21 - 1) + bytes(21),  # a byte is left over
            varint(22) + bytes(21),
            varint(200) + bytes(21),
            varint(20_000) + bytes(21),
            b"\xff" * 21,
        ],
    )
    def test_invalid_first_record_is_rejected(self, records):
        for rules in (PLAIN, rules_of(message_timestamp_type="LogAppendTime")):
            with pytest.raises(InvalidRecord, match="inconsistent batch"):
                admitted(batch_around(records, count=1, last_delta=0), rules)

    def test_first_record_that_leaves_no_room_for_the_others_is_rejected(self):
        first = batch_of(bytes(50))[HEADER_BYTES:]
        with pytest.raises(InvalidRecord, match="inconsistent batch"):
            admitted(batch_around(first, count=2, last_delta=1))

    def test_invalid_later_record_is_accepted_if_records_are_not_read(self, unread):
        first = batch_of(b"v")[HEADER_BYTES:]
        inconsistent = batch_around(first + b"no records at all", count=2, last_delta=1)
        assert written(admitted(inconsistent))[17:] == inconsistent[17:]

    def test_records_that_contradict_the_header_are_rejected_if_read(self):
        inconsistent = batch_around(b"no records at all", count=2, last_delta=1)
        for rules in (
            COMPACTED,
            rules_of(message_timestamp_after_max_ms="1"),
            rules_of(compression_type="lz4"),
        ):
            with pytest.raises(InvalidRecord, match="inconsistent batch"):
                admitted(inconsistent, rules)

    def test_records_that_cannot_be_decompressed_are_rejected_if_read(self):
        with pytest.raises(InvalidRecord, match="inconsistent batch: GZIP"):
            admitted(batch_around(b"plain", count=1, last_delta=0, codec=Codec.GZIP), COMPACTED)


class TestMaxTimestamps:
    def test_impossible_max_timestamp_is_corrected(self):
        batch = changed(batch_of(*RECORDS), 35, ">q", -1)
        assert written(admitted(batch))[17:] == batch_of(*RECORDS)[17:]

    def test_possible_max_timestamp_is_accepted_without_reading_records(self, unread):
        batch = changed(batch_of(*RECORDS), 35, ">q", NOW_MS + 1_000)
        assert admitted(batch).max_timestamp == NOW_MS + 1_000

    def test_wrong_max_timestamp_is_corrected_if_records_are_read(self):
        batch = changed(batch_of(*RECORDS), 35, ">q", NOW_MS + 1_000)
        assert written(admitted(batch, COMPACTED))[17:] == batch_of(*RECORDS)[17:]


class TestLogAppendTime:
    RULES = rules_of(message_timestamp_type="LogAppendTime")

    @pytest.mark.parametrize("codec", Codec)
    def test_append_time_is_set_in_place_without_changing_the_records(self, codec):
        batch = batch_of(*RECORDS, codec=codec)
        validated = admitted(batch, self.RULES, now_ms=NOW_MS + 9)
        assert validated.append_time_ms == validated.max_timestamp == NOW_MS + 9
        assert validated.batches[0].is_valid()
        assert written(validated)[HEADER_BYTES:] == batch[HEADER_BYTES:]
        assert {record.timestamp for record in validated.batches[0]} == {NOW_MS + 9}

    def test_append_time_set_by_a_client_is_rejected(self):
        with pytest.raises(InvalidTimestamp):
            admitted(flagged(batch_of(*RECORDS), LOG_APPEND_TIME_FLAG), self.RULES)

    def test_append_time_flag_is_cleared_if_the_topic_uses_create_time(self):
        batch = flagged(batch_of(*RECORDS), LOG_APPEND_TIME_FLAG)
        validated = admitted(batch)
        assert validated.append_time_ms == -1
        assert validated.batches[0].timestamp_type is TimestampType.CREATE_TIME
        assert validated.batches[0].is_valid()


def test_validation_errors_can_be_pickled():
    for records, rules in ((batch_of(b"v"), COMPACTED), (MARKER, PLAIN)):
        with pytest.raises(KafkaError) as raised:
            admitted(records, rules)
        copy = pickle.loads(pickle.dumps(raised.value))
        assert type(copy) is type(raised.value)
        assert vars(copy) == vars(raised.value)


def test_delete_horizon_flag_is_accepted_as_in_kafka():
    assert admitted(flagged(batch_of(b"v"), 0x40)).batches[0].delete_horizon_ms == 0


def test_client_batch_with_the_control_flag_is_rejected():
    with pytest.raises(InvalidRecord, match="control"):
        admitted(flagged(batch_of(b"v"), CONTROL_FLAG))


class TestCoordinatorBatches:
    """The broker has just built these batches itself, so only their size is checked."""

    @pytest.mark.parametrize("codec", ["producer", "uncompressed"])
    def test_coordinator_batch_is_accepted_unchanged(self, codec):
        batch = batch_of(b"no key", base_offset=3)
        rules = rules_of(cleanup_policy="compact", compression_type=codec)
        validated = admitted(batch, rules, origin=AppendOrigin.COORDINATOR)
        assert (validated.first_offset, validated.converted_count) == (0, 0)

    @pytest.mark.parametrize(
        ("limit", "error"),
        [("max_message_bytes", MessageTooLarge), ("segment_bytes", RecordListTooLarge)],
    )
    def test_coordinator_batch_must_not_be_too_large(self, limit, error):
        batch = batch_of(bytes(100))
        with pytest.raises(error):
            admitted(batch, rules_of(**{limit: "100"}), origin=AppendOrigin.COORDINATOR)

    def test_coordinator_batch_is_recompressed_to_the_codec_of_the_topic(self):
        validated = admitted(
            batch_of(b"v"), rules_of(compression_type="gzip"), origin=AppendOrigin.COORDINATOR
        )
        assert validated.batches[0].codec is Codec.GZIP

    def test_coordinator_batch_gets_log_append_time_if_configured(self):
        rules = rules_of(message_timestamp_type="LogAppendTime")
        validated = admitted(batch_of(b"v"), rules, origin=AppendOrigin.COORDINATOR)
        assert validated.batches[0].timestamp_type is TimestampType.LOG_APPEND_TIME
