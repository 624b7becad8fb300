"""Transaction records that Apache Kafka wrote are read, and would be written, unchanged."""

import pytest

from odradek.broker.transactions.records import (
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from odradek.protocol.internal.coordinator_record import (
    decode_version_prefixed,
    encode_version_prefixed,
    read_version_prefix,
)
from odradek.protocol.internal.key_partition import partition_for
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control_records import (
    EndTransactionMarker,
    build_marker_batch,
    parse_end_transaction_marker,
)
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1
from tests.support.kafka_json import to_json
from tests.support.recorded_transactions import STATE_PARTITIONS, recorded_transactions

RECORDED = {each.release: each for each in recorded_transactions()}
#: The value version of each release, and the transaction version of its cluster.
VALUE_VERSIONS = {KAFKA_3_9: 0, KAFKA_4_1: 1}
SERVER_VERSIONS = {KAFKA_3_9: 0, KAFKA_4_1: 2}


@pytest.fixture(params=RECORDED)
def recorded(request):
    return RECORDED[request.param]


class TestRecords:
    def test_keys_and_values_decode_as_in_kafka(self, recorded):
        for each in recorded.records:
            key = decode_version_prefixed(TransactionLogKey, bytes.fromhex(each.key))
            assert to_json(key, 0) == each.shown_key
            if each.value is not None:
                stored = bytes.fromhex(each.value)
                value = decode_version_prefixed(TransactionLogValue, stored)
                assert to_json(value, read_version_prefix(stored)) == each.shown_value

    def test_keys_and_values_encode_as_in_kafka(self, recorded):
        for each in recorded.records:
            for message, text in (
                (TransactionLogKey, each.key),
                (TransactionLogValue, each.value),
            ):
                if text is not None:
                    stored = bytes.fromhex(text)
                    encoded = encode_version_prefixed(
                        decode_version_prefixed(message, stored), read_version_prefix(stored)
                    )
                    assert encoded == stored

    def test_coordinator_reads_and_writes_the_same_bytes(self, recorded):
        for each in recorded.records:
            if each.value is not None:
                stored = bytes.fromhex(each.value)
                transactional_id = read_key(bytes.fromhex(each.key))
                transaction = read_value(transactional_id, stored)
                version = SERVER_VERSIONS[recorded.release]
                assert transaction_key(transactional_id).hex() == each.key
                assert transaction_value(transaction, transaction_version=version) == stored

    def test_each_id_is_in_its_partition(self, recorded):
        for each in recorded.records:
            transactional_id = each.shown_key["transactionalId"]
            assert partition_for(transactional_id, STATE_PARTITIONS) == each.partition

    def test_values_have_the_version_of_their_release(self, recorded):
        values = [bytes.fromhex(each.value) for each in recorded.records if each.value]
        assert {read_version_prefix(value) for value in values} == {
            VALUE_VERSIONS[recorded.release]
        }

    def test_all_written_states_are_recorded(self, recorded):
        values = [each.shown_value for each in recorded.records if each.shown_value]
        assert {each["transactionStatus"] for each in values} >= {0, 1, 2, 3, 4, 5}
        assert any(each.value is None for each in recorded.records)


class TestMarkers:
    def test_markers_decode_as_in_kafka(self, recorded):
        assert {each.marker for each in recorded.markers} == {"COMMIT", "ABORT"}
        for each in recorded.markers:
            batch = RecordBatch(bytearray.fromhex(each.batch))
            (record,) = batch.records()
            expected = EndTransactionMarker(each.marker == "COMMIT", each.coordinator_epoch)
            assert parse_end_transaction_marker(record) == expected
            assert (batch.producer_id, batch.producer_epoch) == (
                each.producer_id,
                each.producer_epoch,
            )

    def test_markers_encode_as_in_kafka(self, recorded):
        for each in recorded.markers:
            batch = RecordBatch(bytearray.fromhex(each.batch))
            (record,) = batch.records()
            encoded = build_marker_batch(
                EndTransactionMarker(each.marker == "COMMIT", each.coordinator_epoch),
                timestamp=record.timestamp,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                base_offset=batch.base_offset,
                partition_leader_epoch=batch.partition_leader_epoch,
            )
            assert bytes(encoded) == bytes(batch.view)
