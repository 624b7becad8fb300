"""Which record sets a leader takes, which it refuses and with what error."""

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
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.records.record import Header, Record, TimestampType
from odradek.protocol.varint import varint
from odradek.storage.admission.batch_validation import check_request
from odradek.storage.producers.append import AppendOrigin
from tests.support.appends import COMPACTED, NOW_MS, PLAIN, admitted, rules_of, written
from tests.support.batches import batch_around, batch_of, with_checksum
from tests.support.legacy_messages import message, wrapper

PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
MARKER = marker_batch(
    EndTransactionMarker(True, 0), timestamp=NOW_MS, producer_id=5, producer_epoch=0
)
RECORDS = [
    Record(0, NOW_MS, b"a", b"one", (Header("h", None),)),
    Record(1, NOW_MS + 5, b"b", None),
    Record(2, NOW_MS + 2, b"", bytes(300)),
]


def changed(batch, position, layout, *fields):
    """The batch with other header fields and the checksum that belongs to them."""
    changed = bytearray(batch)
    pack_into(layout, changed, position, *fields)
    return with_checksum(changed)


def flagged(batch, flag):
    return changed(batch, 21, ">H", int.from_bytes(batch[21:23], "big") | flag)


@pytest.fixture
def unread(monkeypatch):
    """Fails whoever looks into a batch."""

    def refuse(*_, **__):
        pytest.fail("a batch was decompressed")

    monkeypatch.setattr(batch_module, "decompress", refuse)


class TestRequests:
    def test_must_hold_a_whole_batch_since_version_3(self):
        for records in (b"", batch_of(b"v")[:-1]):
            check_request(records, version=2)
            with pytest.raises(InvalidRecord, match="no whole batch"):
                check_request(records, version=3)

    def test_hold_magic_2_only_since_version_3(self):
        old = message(1, b"v")
        check_request(old, version=2)
        with pytest.raises(InvalidRecord, match="magic 1 in a request of version 3"):
            check_request(old, version=3)

    def test_hold_one_batch_only_since_version_3(self):
        two = batch_of(b"v") * 2
        check_request(two, version=2)
        check_request(two[:-1], version=3)
        with pytest.raises(InvalidRecord, match="more than one batch"):
            check_request(two, version=3)

    def test_hold_zstd_from_version_7_on(self):
        zstd = batch_of(b"v", codec=Codec.ZSTD)
        check_request(zstd, version=7)
        for version in (3, 6):
            with pytest.raises(UnsupportedCompressionType, match=f"version {version}"):
                check_request(zstd, version=version)


class TestBytes:
    def test_of_a_whole_batch_are_written_as_they_came(self):
        batch = batch_of(*RECORDS)
        assert written(admitted(batch))[17:] == batch[17:]

    @pytest.mark.parametrize("cut", [1, 40, 70])
    def test_of_a_partial_batch_at_the_end_are_trimmed(self, cut):
        batch = batch_of(*RECORDS)
        assert written(admitted(batch + batch[:-cut]))[17:] == batch[17:]

    def test_that_hold_no_whole_batch_append_nothing(self):
        for records in (b"", batch_of(b"v")[:-1], b"\0" * 11):
            nothing = admitted(records)
            assert (nothing.buffers, nothing.batches, nothing.size_bytes) == ([], [], 0)
            assert (nothing.first_offset, nothing.last_offset) == (-1, -1)

    def test_S12_with_the_wrong_checksum_are_corrupt(self):
        batch = batch_of(b"value")
        batch[-1] ^= 1
        with pytest.raises(CorruptMessage, match="checksum"):
            admitted(batch)

    @pytest.mark.parametrize("magic", [3, 127, 255])
    def test_of_an_unknown_magic_are_corrupt(self, magic):
        batch = batch_of(b"value")
        batch[16] = magic
        with pytest.raises(CorruptMessage, match=f"magic {magic}"):
            admitted(batch)

    def test_too_few_for_a_header_are_corrupt(self):
        short = bytearray(batch_of(b"value")[:60])
        pack_into(">i", short, 8, len(short) - 12)
        with pytest.raises(CorruptMessage):
            admitted(short)

    def test_S12_too_many_for_the_topic_are_refused(self):
        batch = batch_of(b"value")
        assert admitted(batch, rules_of(max_message_bytes=str(len(batch))))
        with pytest.raises(MessageTooLarge, match=f"{len(batch)} bytes"):
            admitted(batch, rules_of(max_message_bytes=str(len(batch) - 1)))

    def test_too_many_for_a_segment_are_refused(self):
        batch = batch_of(b"value")
        assert admitted(batch, rules_of(segment_bytes=str(len(batch))))
        with pytest.raises(RecordListTooLarge, match=f"{len(batch)} bytes"):
            admitted(batch, rules_of(segment_bytes=str(len(batch) - 1)))

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_S12_of_an_unknown_codec_are_refused(self, codec):
        with pytest.raises(UnsupportedCompressionType, match=f"codec {codec}"):
            admitted(flagged(batch_of(b"value"), codec))


class TestSets:
    def test_of_two_batches_are_refused(self):
        with pytest.raises(InvalidRecord, match="more than one batch"):
            admitted(batch_of(b"v") * 2)

    def test_of_two_wrappers_are_refused(self):
        with pytest.raises(InvalidRecord, match="more than one batch"):
            admitted(wrapper(1, message(1, b"v")) * 2)

    def test_of_several_magics_are_refused(self):
        for second in (message(0, b"v"), batch_of(b"v")):
            with pytest.raises(InvalidRecord, match="after one of magic 1"):
                admitted(message(1, b"v") + second)


class TestHeaders:
    def test_of_clients_begin_at_offset_0(self):
        placed = batch_of(b"v", base_offset=3)
        with pytest.raises(InvalidRecord, match="base offset 3"):
            admitted(placed)
        assert admitted(placed, origin=AppendOrigin.COORDINATOR).first_offset == 0

    @pytest.mark.parametrize(
        ("count", "last_delta"), [(0, 0), (0, -1), (1, 1), (2, 0), (-1, 0), (1, -1), (-1, -2)]
    )
    def test_must_have_as_many_records_as_offsets_and_one_at_least(self, count, last_delta):
        batch = changed(changed(batch_of(b"value"), 23, ">i", last_delta), 57, ">i", count)
        with pytest.raises(InvalidRecord):
            admitted(batch)

    def test_with_a_negative_count_and_the_wrong_checksum_are_corrupt(self):
        batch = bytearray(changed(batch_of(b"value"), 57, ">i", -1))
        batch[-1] ^= 1
        with pytest.raises(CorruptMessage):
            admitted(batch)

    def test_may_not_claim_more_records_than_the_bytes_can_hold(self):
        with pytest.raises(InvalidRecord, match="3 records in 20 bytes"):
            admitted(batch_around(bytes(20), count=3, last_delta=2))

    def test_of_control_batches_are_the_coordinators(self):
        with pytest.raises(InvalidRecord, match="control"):
            admitted(MARKER)
        assert admitted(MARKER, origin=AppendOrigin.COORDINATOR).batches[0].is_control

    def test_of_transactions_name_a_producer(self):
        with pytest.raises(InvalidRecord, match="transactional"):
            admitted(flagged(batch_of(b"v"), TRANSACTIONAL_FLAG))
        batch = batch_of(b"v", is_transactional=True, **PRODUCER)
        assert admitted(batch).batches[0].is_transactional

    def test_with_a_producer_have_an_epoch_and_a_sequence(self):
        batch = batch_of(b"v", **PRODUCER)
        assert admitted(batch).batches[0].producer_id == 5
        with pytest.raises(InvalidProducerEpoch, match="epoch -1"):
            admitted(changed(batch, 51, ">h", -1))
        with pytest.raises(InvalidRecord, match="sequence -1"):
            admitted(changed(batch, 53, ">i", -1))

    def test_have_no_producer_but_a_real_one(self):
        with pytest.raises(InvalidRecord, match="producer id -2"):
            admitted(changed(batch_of(b"v", **PRODUCER), 43, ">q", -2))


class TestInsides:
    @pytest.mark.parametrize("codec", Codec)
    def test_stay_unread_where_nothing_depends_on_them(self, codec, unread):
        batch = batch_of(*RECORDS, codec=codec)
        assert admitted(batch).last_offset == 2
        assert admitted(batch, rules_of(message_timestamp_type="LogAppendTime")).last_offset == 2

    def test_stay_unread_where_the_codec_is_the_topics(self, unread):
        rules = rules_of(compression_type="gzip", compression_gzip_level="1")
        batch = batch_of(*RECORDS, codec=Codec.GZIP)
        assert written(admitted(batch, rules))[17:] == batch[17:]

    def test_stay_unread_where_bounds_do_not_count(self, unread):
        rules = rules_of(
            message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1"
        )
        assert admitted(batch_of(*RECORDS), rules)

    @pytest.mark.parametrize("value_bytes", [1, 100, 10_000])
    @pytest.mark.parametrize("count", [1, 3])
    def test_begin_with_a_record_that_fits(self, count, value_bytes, unread):
        right = batch_of(*[bytes(value_bytes)] * count)
        assert written(admitted(right))[17:] == right[17:]

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
    def test_that_begin_with_none_are_refused(self, records):
        for rules in (PLAIN, rules_of(message_timestamp_type="LogAppendTime")):
            with pytest.raises(InvalidRecord, match="contradicts itself"):
                admitted(batch_around(records, count=1, last_delta=0), rules)

    def test_that_leave_no_room_for_the_others_are_refused(self):
        first = batch_of(bytes(50))[HEADER_BYTES:]
        with pytest.raises(InvalidRecord, match="contradicts itself"):
            admitted(batch_around(first, count=2, last_delta=1))

    def test_that_contradict_the_header_later_on_pass_unread(self, unread):
        first = batch_of(b"v")[HEADER_BYTES:]
        lying = batch_around(first + b"no records at all", count=2, last_delta=1)
        assert written(admitted(lying))[17:] == lying[17:]

    def test_that_contradict_the_header_are_refused_once_read(self):
        lying = batch_around(b"no records at all", count=2, last_delta=1)
        for rules in (
            COMPACTED,
            rules_of(message_timestamp_after_max_ms="1"),
            rules_of(compression_type="lz4"),
        ):
            with pytest.raises(InvalidRecord, match="contradicts itself"):
                admitted(lying, rules)

    def test_that_no_codec_wrote_are_refused_once_read(self):
        with pytest.raises(InvalidRecord, match="contradicts itself: GZIP"):
            admitted(batch_around(b"plain", count=1, last_delta=0, codec=Codec.GZIP), COMPACTED)


class TestLargestTimestamps:
    def test_that_cannot_be_are_put_right(self):
        batch = changed(batch_of(*RECORDS), 35, ">q", -1)
        assert written(admitted(batch))[17:] == batch_of(*RECORDS)[17:]

    def test_that_may_be_are_believed(self, unread):
        batch = changed(batch_of(*RECORDS), 35, ">q", NOW_MS + 1_000)
        assert admitted(batch).max_timestamp == NOW_MS + 1_000

    def test_are_put_right_wherever_records_are_read(self):
        batch = changed(batch_of(*RECORDS), 35, ">q", NOW_MS + 1_000)
        assert written(admitted(batch, COMPACTED))[17:] == batch_of(*RECORDS)[17:]


class TestAppendTime:
    RULES = rules_of(message_timestamp_type="LogAppendTime")

    @pytest.mark.parametrize("codec", Codec)
    def test_is_set_in_place_and_the_records_stay(self, codec):
        batch = batch_of(*RECORDS, codec=codec)
        taken = admitted(batch, self.RULES, now_ms=NOW_MS + 9)
        assert taken.append_time_ms == taken.max_timestamp == NOW_MS + 9
        assert taken.batches[0].is_valid()
        assert written(taken)[HEADER_BYTES:] == batch[HEADER_BYTES:]
        assert {record.timestamp for record in taken.batches[0]} == {NOW_MS + 9}

    def test_is_not_a_clients_to_claim(self):
        with pytest.raises(InvalidTimestamp):
            admitted(flagged(batch_of(*RECORDS), LOG_APPEND_TIME_FLAG), self.RULES)

    def test_claimed_where_it_does_not_count_is_dropped(self):
        batch = flagged(batch_of(*RECORDS), LOG_APPEND_TIME_FLAG)
        taken = admitted(batch)
        assert taken.append_time_ms == -1
        assert taken.batches[0].timestamp_type is TimestampType.CREATE_TIME
        assert taken.batches[0].is_valid()


def test_a_refusal_survives_the_way_from_a_worker_process():
    for records, rules in ((batch_of(b"v"), COMPACTED), (MARKER, PLAIN)):
        with pytest.raises(KafkaError) as refusal:
            admitted(records, rules)
        copy = pickle.loads(pickle.dumps(refusal.value))
        assert type(copy) is type(refusal.value)
        assert vars(copy) == vars(refusal.value)


def test_a_flag_of_compaction_is_let_pass_as_in_kafka():
    assert admitted(flagged(batch_of(b"v"), 0x40)).batches[0].delete_horizon_ms == 0


def test_control_batches_of_clients_are_refused_whatever_else_they_say():
    with pytest.raises(InvalidRecord, match="control"):
        admitted(flagged(batch_of(b"v"), CONTROL_FLAG))


class TestBatchesOfACoordinator:
    """Made in this process a moment ago, they are only measured."""

    @pytest.mark.parametrize("codec", ["producer", "uncompressed"])
    def test_are_taken_as_they_are(self, codec):
        batch = batch_of(b"no key", base_offset=3)
        rules = rules_of(cleanup_policy="compact", compression_type=codec)
        taken = admitted(batch, rules, origin=AppendOrigin.COORDINATOR)
        assert (taken.first_offset, taken.converted_count) == (0, 0)

    @pytest.mark.parametrize(
        ("limit", "refusal"),
        [("max_message_bytes", MessageTooLarge), ("segment_bytes", RecordListTooLarge)],
    )
    def test_must_not_be_too_large(self, limit, refusal):
        batch = batch_of(bytes(100))
        with pytest.raises(refusal):
            admitted(batch, rules_of(**{limit: "100"}), origin=AppendOrigin.COORDINATOR)

    def test_are_rewritten_where_the_topic_has_another_codec(self):
        taken = admitted(
            batch_of(b"v"), rules_of(compression_type="gzip"), origin=AppendOrigin.COORDINATOR
        )
        assert taken.batches[0].codec is Codec.GZIP

    def test_bear_the_brokers_time_where_its_clock_counts(self):
        rules = rules_of(message_timestamp_type="LogAppendTime")
        taken = admitted(batch_of(b"v"), rules, origin=AppendOrigin.COORDINATOR)
        assert taken.batches[0].timestamp_type is TimestampType.LOG_APPEND_TIME
