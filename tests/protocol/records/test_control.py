"""Commit and abort markers, as Kafka writes them."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    control_type_of,
    marker_batch,
    marker_of,
)
from odradek.protocol.records.record import Record

# Made by MemoryRecords.withEndTransactionMarker of Apache Kafka 3.9.1 (4.1.1 makes the same).
COMMIT = bytes.fromhex(
    "000000000000002800000042000000070237ef34b900300000000000000000000004d200000000000004d200000000"
    "0000004d0003ffffffff000000012000000008000000010c00000000000500"
)
ABORT = bytes.fromhex(
    "0000000000000028000000420000000702f7364a6800300000000000000000000004d200000000000004d200000000"
    "0000004d0003ffffffff000000012000000008000000000c00000000000600"
)


def control_record(*, key: bytes | None, value: bytes | None = b"") -> Record:
    return Record(offset=0, timestamp=0, key=key, value=value)


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        (EndTransactionMarker(is_commit=True, coordinator_epoch=5), COMMIT),
        (EndTransactionMarker(is_commit=False, coordinator_epoch=6), ABORT),
    ],
)
def test_markers_have_the_bytes_that_kafka_writes(marker, expected):
    written = marker_batch(
        marker,
        timestamp=1234,
        producer_id=77,
        producer_epoch=3,
        base_offset=40,
        partition_leader_epoch=7,
    )
    assert written == expected


@pytest.mark.parametrize(
    ("batch", "marker"),
    [
        (COMMIT, EndTransactionMarker(is_commit=True, coordinator_epoch=5)),
        (ABORT, EndTransactionMarker(is_commit=False, coordinator_epoch=6)),
    ],
)
def test_kafkas_markers_are_read(batch, marker):
    batch = RecordBatch(batch)
    assert batch.is_valid()
    assert batch.is_control
    assert batch.is_transactional
    assert [marker_of(record) for record in batch] == [marker]


def test_other_types_are_no_markers():
    leader_change = control_record(key=bytes.fromhex("00000002"))
    assert control_type_of(leader_change) is ControlType.LEADER_CHANGE
    assert marker_of(leader_change) is None


def test_types_of_the_future_are_passed_over():
    unheard_of = control_record(key=bytes.fromhex("0000007f"))
    assert control_type_of(unheard_of) is ControlType.UNKNOWN
    assert marker_of(unheard_of) is None


def test_later_versions_may_be_longer():
    record = control_record(
        key=bytes.fromhex("00010001ffff"), value=bytes.fromhex("000100000009ffff")
    )
    assert marker_of(record) == EndTransactionMarker(is_commit=True, coordinator_epoch=9)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", bytes.fromhex("ffff0001")])
def test_a_key_that_names_no_type_is_corrupt(key):
    with pytest.raises(CorruptMessage, match="key"):
        control_type_of(control_record(key=key))


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", bytes.fromhex("ffff00000001")])
def test_a_marker_without_its_epoch_is_corrupt(value):
    with pytest.raises(CorruptMessage, match="value"):
        marker_of(control_record(key=bytes.fromhex("00000001"), value=value))
