"""Aborted data and transaction markers during a cleaning."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import HEADER_BYTES, RecordBatch
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.storage.cleaner.cleaned_transaction_metadata import (
    CleanedTransactionMetadata,
    MarkerRetention,
)
from odradek.storage.transaction_index import AbortedTxn
from tests.support.batches import batch_of

PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
DISCARDABLE, NEEDED = MarkerRetention(can_discard=True), MarkerRetention(can_discard=False)


def transactional(offset, **fields):
    fields = {**PRODUCER, **fields}
    return RecordBatch(batch_of(b"v", base_offset=offset, is_transactional=True, **fields))


def without_records(offset):
    fields = BatchFields(base_offset=offset, is_transactional=True, **PRODUCER)
    return RecordBatch(empty_batch(fields, last_offset=offset, max_timestamp=0))


def marker(offset, *, commit, producer_id=5):
    return RecordBatch(
        build_marker_batch(
            EndTransactionMarker(commit, 0),
            timestamp=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_offset=offset,
        )
    )


def split_header(batch):
    content = bytes(batch.view)
    return content[:HEADER_BYTES], content[HEADER_BYTES:]


def aborted(first, last, producer_id=5):
    return AbortedTxn(producer_id, first, last, last + 1)


def test_transaction_without_an_index_entry_is_committed():
    metadata = CleanedTransactionMetadata([])
    assert not metadata.on_batch_read(transactional(3))
    assert metadata.on_control_batch_read(marker(4, commit=True)) == NEEDED


def test_aborted_transaction_spans_its_first_offset_to_its_marker():
    entry = aborted(3, 5)
    metadata = CleanedTransactionMetadata([entry])
    assert not metadata.on_batch_read(transactional(1))
    assert metadata.on_control_batch_read(marker(2, commit=True)) == NEEDED
    assert metadata.on_batch_read(transactional(3))
    assert metadata.on_batch_read(transactional(4))
    assert metadata.on_control_batch_read(marker(5, commit=False)) == MarkerRetention(
        can_discard=False, aborted_txn=entry
    )
    assert not metadata.on_batch_read(transactional(6))


def test_batches_of_other_producers_are_not_aborted():
    metadata = CleanedTransactionMetadata([aborted(3, 5)])
    assert metadata.on_batch_read(transactional(3))
    assert not metadata.on_batch_read(transactional(4, producer_id=6))
    assert not metadata.on_batch_read(RecordBatch(batch_of(b"v", base_offset=4, **PRODUCER)))


def test_duplicate_index_entry_counts_once():
    metadata = CleanedTransactionMetadata([aborted(3, 4), aborted(3, 4)])
    assert metadata.on_batch_read(transactional(3))
    assert not metadata.on_control_batch_read(marker(4, commit=False)).can_discard
    assert metadata.on_control_batch_read(marker(5, commit=False)) == DISCARDABLE


@pytest.mark.parametrize("commit", [True, False])
def test_marker_without_data_can_be_discarded(commit):
    assert (
        CleanedTransactionMetadata([]).on_control_batch_read(marker(4, commit=commit))
        == DISCARDABLE
    )


def test_abort_marker_without_data_can_be_discarded_with_its_entry():
    assert (
        CleanedTransactionMetadata([aborted(3, 4)]).on_control_batch_read(marker(4, commit=False))
        == DISCARDABLE
    )


def test_empty_marker_can_be_discarded():
    fields = BatchFields(base_offset=4, is_transactional=True, is_control=True, **PRODUCER)
    emptied = RecordBatch(empty_batch(fields, last_offset=4, max_timestamp=0))
    assert CleanedTransactionMetadata([]).on_control_batch_read(emptied) == DISCARDABLE


def test_marker_of_an_unknown_type_is_kept():
    header, records = split_header(marker(4, commit=True))
    unknown = header + records.replace(b"\0\0\0\1", b"\0\0\0\7")
    assert CleanedTransactionMetadata([]).on_control_batch_read(RecordBatch(unknown)) == NEEDED


def test_entry_without_its_marker_ends_at_the_marker_offset():
    metadata = CleanedTransactionMetadata([aborted(3, 5)])
    assert metadata.on_batch_read(transactional(4))
    assert not metadata.on_batch_read(transactional(6))
    assert metadata.on_control_batch_read(marker(7, commit=True)) == NEEDED


def test_abort_of_records_without_an_index_entry_is_corrupt():
    metadata = CleanedTransactionMetadata([])
    metadata.on_batch_read(transactional(3))
    with pytest.raises(CorruptMessage):
        metadata.on_control_batch_read(marker(4, commit=False))


def test_abort_of_empty_batches_needs_no_index_entry():
    metadata = CleanedTransactionMetadata([])
    metadata.on_batch_read(without_records(3))
    assert metadata.on_control_batch_read(marker(4, commit=False)) == NEEDED
