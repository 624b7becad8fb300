"""Aborted data and markers, as compaction reads over them."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import HEADER_BYTES, RecordBatch
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.storage.cleaner.transactions import MarkerFate, TransactionsRead
from odradek.storage.transaction_index import AbortedTransaction
from tests.support.batches import batch_of

PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
DONE, NEEDED = MarkerFate(is_done=True), MarkerFate(is_done=False)


def transactional(offset, **fields):
    fields = {**PRODUCER, **fields}
    return RecordBatch(batch_of(b"v", base_offset=offset, is_transactional=True, **fields))


def without_records(offset):
    fields = BatchFields(base_offset=offset, is_transactional=True, **PRODUCER)
    return RecordBatch(empty_batch(fields, last_offset=offset, max_timestamp=0))


def marker(offset, *, commit, producer_id=5):
    return RecordBatch(
        marker_batch(
            EndTransactionMarker(commit, 0),
            timestamp=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_offset=offset,
        )
    )


def divided(batch):
    content = bytes(batch.view)
    return content[:HEADER_BYTES], content[HEADER_BYTES:]


def aborted(first, last, producer_id=5):
    return AbortedTransaction(producer_id, first, last, last + 1)


def test_a_transaction_without_an_entry_is_committed():
    read = TransactionsRead([])
    assert not read.is_aborted(transactional(3))
    assert read.end(marker(4, commit=True)) == NEEDED


def test_an_aborted_transaction_lasts_from_its_first_offset_to_its_marker():
    entry = aborted(3, 5)
    read = TransactionsRead([entry])
    assert not read.is_aborted(transactional(1))
    assert read.end(marker(2, commit=True)) == NEEDED
    assert read.is_aborted(transactional(3))
    assert read.is_aborted(transactional(4))
    assert read.end(marker(5, commit=False)) == MarkerFate(is_done=False, aborted=entry)
    assert not read.is_aborted(transactional(6))


def test_what_others_write_meanwhile_is_not_aborted():
    read = TransactionsRead([aborted(3, 5)])
    assert read.is_aborted(transactional(3))
    assert not read.is_aborted(transactional(4, producer_id=6))
    assert not read.is_aborted(RecordBatch(batch_of(b"v", base_offset=4, **PRODUCER)))


def test_an_entry_that_several_indexes_were_asked_for_counts_once():
    read = TransactionsRead([aborted(3, 4), aborted(3, 4)])
    assert read.is_aborted(transactional(3))
    assert not read.end(marker(4, commit=False)).is_done
    assert read.end(marker(5, commit=False)) == DONE


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_without_data_before_it_is_done(commit):
    assert TransactionsRead([]).end(marker(4, commit=commit)) == DONE


def test_an_entry_without_data_goes_with_it():
    assert TransactionsRead([aborted(3, 4)]).end(marker(4, commit=False)) == DONE


def test_a_marker_that_was_emptied_is_done():
    fields = BatchFields(base_offset=4, is_transactional=True, is_control=True, **PRODUCER)
    emptied = RecordBatch(empty_batch(fields, last_offset=4, max_timestamp=0))
    assert TransactionsRead([]).end(emptied) == DONE


def test_a_marker_of_an_unknown_kind_is_needed():
    header, records = divided(marker(4, commit=True))
    unknown = header + records.replace(b"\0\0\0\1", b"\0\0\0\7")
    assert TransactionsRead([]).end(RecordBatch(unknown)) == NEEDED


def test_an_entry_that_has_lost_its_marker_ends_where_the_marker_was():
    read = TransactionsRead([aborted(3, 5)])
    assert read.is_aborted(transactional(4))
    assert not read.is_aborted(transactional(6))
    assert read.end(marker(7, commit=True)) == NEEDED


def test_an_abort_of_records_that_no_entry_tells_of_is_corrupt():
    read = TransactionsRead([])
    read.is_aborted(transactional(3))
    with pytest.raises(CorruptMessage):
        read.end(marker(4, commit=False))


def test_an_abort_of_batches_without_records_needs_no_entry():
    read = TransactionsRead([])
    read.is_aborted(without_records(3))
    assert read.end(marker(4, commit=False)) == NEEDED
