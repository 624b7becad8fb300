"""What Apache Kafka wrote of transactions is read, and would be written, as it stands."""

import pytest

from odradek.broker.transactions.records import (
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from odradek.protocol.internal.key_partition import partition_of
from odradek.protocol.internal.log_record import decode_part, encode_part, part_version
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control import EndTransactionMarker, marker_batch, marker_of
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1
from tests.support.kafka_json import to_json
from tests.support.recorded_transactions import STATE_PARTITIONS, recorded_transactions

RECORDED = {each.release: each for each in recorded_transactions()}
#: In which each release writes its values, by what its cluster has agreed on.
VALUE_VERSIONS = {KAFKA_3_9: 0, KAFKA_4_1: 1}
SERVER_VERSIONS = {KAFKA_3_9: 0, KAFKA_4_1: 2}


@pytest.fixture(params=RECORDED)
def recorded(request):
    return RECORDED[request.param]


class TestRecords:
    def test_keys_and_values_say_what_kafka_reads_in_them(self, recorded):
        for each in recorded.records:
            key = decode_part(TransactionLogKey, bytes.fromhex(each.key))
            assert to_json(key, 0) == each.shown_key
            if each.value is not None:
                stored = bytes.fromhex(each.value)
                value = decode_part(TransactionLogValue, stored)
                assert to_json(value, part_version(stored)) == each.shown_value

    def test_keys_and_values_are_written_as_kafka_writes_them(self, recorded):
        for each in recorded.records:
            for message, text in (
                (TransactionLogKey, each.key),
                (TransactionLogValue, each.value),
            ):
                if text is not None:
                    stored = bytes.fromhex(text)
                    again = encode_part(decode_part(message, stored), part_version(stored))
                    assert again == stored

    def test_the_coordinator_reads_and_writes_the_same(self, recorded):
        for each in recorded.records:
            if each.value is not None:
                stored = bytes.fromhex(each.value)
                transactional_id = read_key(bytes.fromhex(each.key))
                transaction = read_value(transactional_id, stored)
                version = SERVER_VERSIONS[recorded.release]
                assert transaction_key(transactional_id).hex() == each.key
                assert transaction_value(transaction, server_version=version) == stored

    def test_every_id_is_in_the_partition_where_it_is_looked_for(self, recorded):
        for each in recorded.records:
            transactional_id = each.shown_key["transactionalId"]
            assert partition_of(transactional_id, STATE_PARTITIONS) == each.partition

    def test_values_are_of_the_version_of_their_release(self, recorded):
        values = [bytes.fromhex(each.value) for each in recorded.records if each.value]
        assert {part_version(value) for value in values} == {VALUE_VERSIONS[recorded.release]}

    def test_every_state_that_is_written_is_there(self, recorded):
        values = [each.shown_value for each in recorded.records if each.shown_value]
        assert {each["transactionStatus"] for each in values} >= {0, 1, 2, 3, 4, 5}
        assert any(each.value is None for each in recorded.records)


class TestMarkers:
    def test_markers_say_what_kafka_reads_in_them(self, recorded):
        assert {each.marker for each in recorded.markers} == {"COMMIT", "ABORT"}
        for each in recorded.markers:
            batch = RecordBatch(bytearray.fromhex(each.batch))
            (record,) = batch.records()
            wanted = EndTransactionMarker(each.marker == "COMMIT", each.coordinator_epoch)
            assert marker_of(record) == wanted
            assert (batch.producer_id, batch.producer_epoch) == (
                each.producer_id,
                each.producer_epoch,
            )

    def test_markers_are_written_as_kafka_writes_them(self, recorded):
        for each in recorded.markers:
            batch = RecordBatch(bytearray.fromhex(each.batch))
            (record,) = batch.records()
            written = marker_batch(
                EndTransactionMarker(each.marker == "COMMIT", each.coordinator_epoch),
                timestamp=record.timestamp,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                base_offset=batch.base_offset,
                partition_leader_epoch=batch.partition_leader_epoch,
            )
            assert bytes(written) == bytes(batch.view)
