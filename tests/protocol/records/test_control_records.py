"""Commit and abort markers, as Kafka writes them."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    build_marker_batch,
    parse_control_record_type,
    parse_end_transaction_marker,
)
from odradek.protocol.records.record import Record
from tests.support.java_batches import JAVA_BATCHES


def control_record(*, key: bytes | None, value: bytes | None = b"") -> Record:
    return Record(offset=0, timestamp=0, key=key, value=value)


@pytest.mark.parametrize(
    ("marker", "name"),
    [
        (EndTransactionMarker(is_commit=True, coordinator_epoch=5), "commit"),
        (EndTransactionMarker(is_commit=False, coordinator_epoch=6), "abort"),
    ],
)
def test_markers_have_the_bytes_of_kafka(marker, name):
    batch = build_marker_batch(
        marker,
        timestamp=1234,
        producer_id=77,
        producer_epoch=3,
        base_offset=40,
        partition_leader_epoch=7,
    )
    assert batch == JAVA_BATCHES[name]


@pytest.mark.parametrize(
    ("name", "marker"),
    [
        ("commit", EndTransactionMarker(is_commit=True, coordinator_epoch=5)),
        ("abort", EndTransactionMarker(is_commit=False, coordinator_epoch=6)),
    ],
)
def test_markers_of_kafka_are_read(name, marker):
    batch = RecordBatch(JAVA_BATCHES[name])
    assert batch.is_valid()
    assert batch.is_control
    assert batch.is_transactional
    assert [parse_end_transaction_marker(record) for record in batch] == [marker]


def test_other_control_record_types_are_not_markers():
    leader_change = control_record(key=bytes.fromhex("00000002"))
    assert parse_control_record_type(leader_change) is ControlRecordType.LEADER_CHANGE
    assert parse_end_transaction_marker(leader_change) is None


def test_unknown_control_record_types_are_ignored():
    unknown_type = control_record(key=bytes.fromhex("0000007f"))
    assert parse_control_record_type(unknown_type) is ControlRecordType.UNKNOWN
    assert parse_end_transaction_marker(unknown_type) is None


def test_extra_bytes_of_later_versions_are_ignored():
    record = control_record(
        key=bytes.fromhex("00010001ffff"), value=bytes.fromhex("000100000009ffff")
    )
    assert parse_end_transaction_marker(record) == EndTransactionMarker(
        is_commit=True, coordinator_epoch=9
    )


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", bytes.fromhex("ffff0001")])
def test_key_without_a_type_is_corrupt(key):
    with pytest.raises(CorruptMessage, match="key"):
        parse_control_record_type(control_record(key=key))


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", bytes.fromhex("ffff00000001")])
def test_marker_without_a_coordinator_epoch_is_corrupt(value):
    with pytest.raises(CorruptMessage, match="value"):
        parse_end_transaction_marker(control_record(key=bytes.fromhex("00000001"), value=value))
