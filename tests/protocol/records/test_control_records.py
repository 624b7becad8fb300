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
def test_markers_have_the_bytes_that_kafka_writes(marker, name):
    written = marker_batch(
        marker,
        timestamp=1234,
        producer_id=77,
        producer_epoch=3,
        base_offset=40,
        partition_leader_epoch=7,
    )
    assert written == JAVA_BATCHES[name]


@pytest.mark.parametrize(
    ("name", "marker"),
    [
        ("commit", EndTransactionMarker(is_commit=True, coordinator_epoch=5)),
        ("abort", EndTransactionMarker(is_commit=False, coordinator_epoch=6)),
    ],
)
def test_kafkas_markers_are_read(name, marker):
    batch = RecordBatch(JAVA_BATCHES[name])
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
