"""Which batches and markers a producer may append next, and its state afterwards."""

import pytest

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from odradek.protocol.records.batch import SEQUENCE_MAX, RecordBatch
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.record import Record
from odradek.storage.producer_state.producer_state_entry import (
    UNKNOWN_PRODUCER,
    BatchMetadata,
    check_coordinator_epoch,
    check_in_transaction,
    check_producer_epoch,
    check_sequence,
    read_marker_batch,
)
from tests.support.batches import batch_of
from tests.support.producer_log import NOON, PARTITION, batch_by, marker_by


def state_after(*batches, state=UNKNOWN_PRODUCER):
    for batch in batches:
        state = (
            state.with_end_txn_marker(read_marker_batch(batch))
            if batch.is_control
            else state.with_batch(batch)
        )
    return state


def batches_in_sequence(count, **fields):
    """Batches of one record each, in sequence and at offsets 0, 1, ..."""
    batches = [batch_by(sequence=number, **fields) for number in range(count)]
    for offset, batch in enumerate(batches):
        batch.assign_offsets(offset)
    return batches


class TestSequences:
    @pytest.mark.parametrize("sequence", [0, 1, 4711, SEQUENCE_MAX])
    def test_unknown_producer_may_start_at_any_sequence(self, sequence):
        check_sequence(UNKNOWN_PRODUCER, batch_by(sequence=sequence), PARTITION)

    def test_next_sequence_follows_the_last_one_of_the_previous_batch(self):
        state = state_after(batch_by(sequence=5, count=3))
        check_sequence(state, batch_by(sequence=8), PARTITION)

    @pytest.mark.parametrize("sequence", [0, 5, 7, 9, SEQUENCE_MAX])
    def test_any_other_sequence_is_out_of_order(self, sequence):
        state = state_after(batch_by(sequence=5, count=3))
        with pytest.raises(
            OutOfOrderSequenceNumber,
            match=rf": {sequence} \(incoming sequence\).* expects sequence 8",
        ):
            check_sequence(state, batch_by(sequence=sequence), PARTITION)

    def test_sequence_wraps_to_zero_after_the_maximum(self):
        state = state_after(batch_by(sequence=SEQUENCE_MAX))
        check_sequence(state, batch_by(sequence=0), PARTITION)

    def test_sequence_may_wrap_inside_a_batch(self):
        state = state_after(batch_by(sequence=SEQUENCE_MAX - 1, count=5))
        assert state.last_sequence == 2
        assert state.last_batch.first_sequence == SEQUENCE_MAX - 1
        check_sequence(state, batch_by(sequence=3), PARTITION)

    def test_sequence_does_not_wrap_before_the_maximum(self):
        state = state_after(batch_by(sequence=SEQUENCE_MAX - 1))
        with pytest.raises(OutOfOrderSequenceNumber):
            check_sequence(state, batch_by(sequence=0), PARTITION)

    def test_new_epoch_of_a_known_producer_starts_at_zero(self):
        state = state_after(batch_by(sequence=5))
        check_sequence(state, batch_by(epoch=1, sequence=0), PARTITION)

    @pytest.mark.parametrize("sequence", [1, 6])
    def test_new_epoch_that_does_not_start_at_zero_is_out_of_order(self, sequence):
        state = state_after(batch_by(sequence=5))
        with pytest.raises(OutOfOrderSequenceNumber, match="new epoch 1 expects sequence 0"):
            check_sequence(state, batch_by(epoch=1, sequence=sequence), PARTITION)

    def test_epoch_known_only_from_a_marker_starts_at_zero(self):
        state = state_after(batch_by(sequence=5), marker_by(epoch=1))
        check_sequence(state, batch_by(epoch=1, sequence=0), PARTITION)
        with pytest.raises(OutOfOrderSequenceNumber):
            check_sequence(state, batch_by(epoch=1, sequence=6), PARTITION)

    def test_marker_of_the_same_epoch_keeps_the_sequence(self):
        state = state_after(batch_by(sequence=5), marker_by())
        check_sequence(state, batch_by(sequence=6), PARTITION)

    def test_error_names_producer_and_partition(self):
        state = state_after(batch_by(producer_id=42))
        with pytest.raises(OutOfOrderSequenceNumber, match="for producer 42 in orders-3: "):
            check_sequence(state, batch_by(producer_id=42, sequence=9), PARTITION)


class TestProducerEpochs:
    @pytest.mark.parametrize("epoch", [3, 4, 32767])
    def test_same_and_later_epochs_may_write(self, epoch):
        check_producer_epoch(state_after(batch_by(epoch=3)), batch_by(epoch=epoch), PARTITION)

    @pytest.mark.parametrize("batch", [batch_by(epoch=2), read_marker_batch(marker_by(epoch=2))])
    def test_batch_or_marker_with_an_old_epoch_is_rejected(self, batch):
        with pytest.raises(InvalidProducerEpoch, match=r"is 2, which is .* epoch 3"):
            check_producer_epoch(state_after(batch_by(epoch=3)), batch, PARTITION)

    def test_marker_may_raise_the_epoch(self):
        state = state_after(batch_by(epoch=3), marker_by(epoch=4))
        assert state.epoch == 4
        with pytest.raises(InvalidProducerEpoch):
            check_producer_epoch(state, batch_by(epoch=3, sequence=1), PARTITION)


class TestTransactions:
    def test_first_transactional_batch_begins_a_transaction(self):
        batch = batch_by(transactional=True)
        batch.assign_offsets(12)
        assert state_after(batch).current_txn_first_offset == 12

    def test_later_transactional_batches_continue_the_transaction(self):
        first, second = batches_in_sequence(2, transactional=True)
        assert state_after(first, second).current_txn_first_offset == 0

    def test_new_epoch_continues_the_transaction_of_the_old_one(self):
        first, _, third = batches_in_sequence(3, transactional=True)
        second = batch_by(epoch=1, transactional=True)
        assert state_after(first, second, third).current_txn_first_offset == 0

    @pytest.mark.parametrize("is_commit", [True, False])
    def test_marker_ends_the_transaction(self, is_commit):
        state = state_after(batch_by(transactional=True), marker_by(is_commit=is_commit))
        assert state.current_txn_first_offset is None

    def test_non_transactional_batch_in_an_open_transaction_is_rejected(self):
        state = state_after(batch_by(transactional=True))
        check_in_transaction(state, batch_by(sequence=1, transactional=True), PARTITION)
        with pytest.raises(InvalidTxnState, match="its transaction is open since offset 0"):
            check_in_transaction(state, batch_by(sequence=1), PARTITION)

    def test_any_batch_is_accepted_without_an_open_transaction(self):
        state = state_after(batch_by())
        check_in_transaction(state, batch_by(sequence=1), PARTITION)
        check_in_transaction(state, batch_by(sequence=1, transactional=True), PARTITION)

    def test_marker_with_an_old_coordinator_epoch_is_fenced(self):
        state = state_after(batch_by(transactional=True), marker_by(coordinator_epoch=5))
        check_coordinator_epoch(state, read_marker_batch(marker_by(coordinator_epoch=5)), PARTITION)
        check_coordinator_epoch(state, read_marker_batch(marker_by(coordinator_epoch=6)), PARTITION)
        with pytest.raises(TransactionCoordinatorFenced, match=r"epoch 4 .* epoch 5"):
            check_coordinator_epoch(
                state, read_marker_batch(marker_by(coordinator_epoch=4)), PARTITION
            )

    def test_marker_updates_the_last_timestamp_of_the_producer(self):
        state = state_after(batch_by(timestamp=NOON), marker_by(timestamp=NOON + 5))
        assert state.last_timestamp == NOON + 5
        assert state.last_batch.timestamp == NOON

    def test_control_batch_emptied_by_compaction_has_no_marker(self):
        fields = BatchFields(producer_id=7, producer_epoch=0, is_control=True)
        batch = RecordBatch(empty_batch(fields, last_offset=0, max_timestamp=NOON))
        assert read_marker_batch(batch) is None

    def test_control_batch_of_an_unknown_type_has_no_marker(self):
        unknown_control_record = Record(0, NOON, b"\0\0\0\7", b"")
        assert (
            read_marker_batch(RecordBatch(batch_of(unknown_control_record, is_control=True)))
            is None
        )


class TestRetries:
    def test_each_of_the_last_five_batches_is_a_duplicate(self):
        batches = batches_in_sequence(7)
        state = state_after(*batches)
        are_duplicates = [state.find_duplicate_batch(batch) is not None for batch in batches]
        assert are_duplicates == [False, False, True, True, True, True, True]

    def test_duplicate_has_the_metadata_of_the_original(self):
        batch = batch_by(sequence=3, count=4, timestamp=NOON + 1)
        batch.assign_offsets(100)
        assert state_after(batch).find_duplicate_batch(batch) == BatchMetadata(
            last_sequence=6, last_offset=103, offset_delta=3, timestamp=NOON + 1
        )

    def test_duplicate_must_have_the_same_first_and_last_sequence(self):
        state = state_after(batch_by(sequence=3, count=4))
        assert state.find_duplicate_batch(batch_by(sequence=3, count=3)) is None
        assert state.find_duplicate_batch(batch_by(sequence=4, count=3)) is None
        assert state.find_duplicate_batch(batch_by(sequence=3, count=4)) is not None

    def test_duplicate_must_have_the_same_epoch(self):
        state = state_after(batch_by(epoch=1))
        assert state.find_duplicate_batch(batch_by(epoch=0)) is None
        assert state.find_duplicate_batch(batch_by(epoch=2)) is None

    def test_new_epoch_removes_the_batches_of_the_old_one(self):
        state = state_after(*batches_in_sequence(3), batch_by(epoch=1))
        assert [batch.last_sequence for batch in state.batches] == [0]

    def test_marker_of_a_new_epoch_removes_the_batches_of_the_old_one(self):
        assert state_after(*batches_in_sequence(3), marker_by(epoch=1)).batches == []

    def test_first_of_two_matching_batches_is_the_duplicate(self):
        first, second = batches_in_sequence(2)
        second.base_sequence = 0
        assert state_after(first, second).find_duplicate_batch(first).last_offset == 0

    def test_duplicate_that_wraps_the_sequence_is_found(self):
        batch = batch_by(sequence=SEQUENCE_MAX - 1, count=5)
        assert state_after(batch).find_duplicate_batch(batch) is not None

    def test_state_is_not_changed_by_a_following_one(self):
        first, second = batches_in_sequence(2)
        state = state_after(first)
        state_after(second, state=state)
        assert state == state_after(first)


class TestNextInSequence:
    @pytest.mark.parametrize("is_open", [True, False])
    @pytest.mark.parametrize("transactional", [True, False])
    @pytest.mark.parametrize("epoch", [0, 1, 2])
    @pytest.mark.parametrize("sequence", [0, 4, 5, 6])
    def test_only_same_epoch_next_sequence_and_same_transactionality_is_next(
        self, is_open, transactional, epoch, sequence
    ):
        state = state_after(batch_by(epoch=1, sequence=4, transactional=is_open))
        batch = batch_by(epoch=epoch, sequence=sequence, transactional=transactional)
        assert state.is_next_in_sequence(batch) == (
            (epoch, sequence, transactional) == (1, 5, is_open)
        )

    def test_sequence_wrap_is_not_on_the_fast_path(self):
        state = state_after(batch_by(sequence=SEQUENCE_MAX))
        assert not state.is_next_in_sequence(batch_by(sequence=0))
        state = state_after(batch_by(sequence=0), state=state)
        assert not state.is_next_in_sequence(batch_by(sequence=1))

    def test_duplicate_is_not_next_even_if_it_is_in_sequence(self):
        state = state_after(batch_by(sequence=5), batch_by(sequence=4))
        assert not state.is_next_in_sequence(batch_by(sequence=5))

    def test_no_batch_is_next_for_an_unknown_producer(self):
        assert not UNKNOWN_PRODUCER.is_next_in_sequence(batch_by())
        assert not state_after(marker_by()).is_next_in_sequence(batch_by())
