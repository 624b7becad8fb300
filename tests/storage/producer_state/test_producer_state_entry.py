"""What a producer may append after what, and what is known of it then."""

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
from odradek.storage.producers.append import (
    UNKNOWN_PRODUCER,
    AppendedBatch,
    check_coordinator,
    check_epoch,
    check_in_transaction,
    check_sequence,
    marker_in,
)
from tests.support.batches import batch_of
from tests.support.producer_log import NOON, PARTITION, batch_by, marker_by


def after(*batches, state=UNKNOWN_PRODUCER):
    for batch in batches:
        state = state.after_marker(marker_in(batch)) if batch.is_control else state.after(batch)
    return state


def numbered(count, **fields):
    """So many batches of one record each, in sequence and at offsets 0, 1, ..."""
    batches = [batch_by(sequence=number, **fields) for number in range(count)]
    for offset, batch in enumerate(batches):
        batch.number(offset)
    return batches


class TestSequences:
    @pytest.mark.parametrize("sequence", [0, 1, 4711, SEQUENCE_MAX])
    def test_an_unknown_producer_may_begin_anywhere(self, sequence):
        check_sequence(UNKNOWN_PRODUCER, batch_by(sequence=sequence), PARTITION)

    def test_the_next_sequence_follows_the_last_of_the_batch_before(self):
        state = after(batch_by(sequence=5, count=3))
        check_sequence(state, batch_by(sequence=8), PARTITION)

    @pytest.mark.parametrize("sequence", [0, 5, 7, 9, SEQUENCE_MAX])
    def test_any_other_sequence_is_out_of_order(self, sequence):
        state = after(batch_by(sequence=5, count=3))
        with pytest.raises(OutOfOrderSequenceNumber, match=rf"from sequence {sequence} on.* is 8"):
            check_sequence(state, batch_by(sequence=sequence), PARTITION)

    def test_after_the_largest_sequence_comes_zero(self):
        state = after(batch_by(sequence=SEQUENCE_MAX))
        check_sequence(state, batch_by(sequence=0), PARTITION)

    def test_a_batch_may_hold_both_the_largest_sequence_and_zero(self):
        state = after(batch_by(sequence=SEQUENCE_MAX - 1, count=5))
        assert state.last_sequence == 2
        assert state.last_batch.first_sequence == SEQUENCE_MAX - 1
        check_sequence(state, batch_by(sequence=3), PARTITION)

    def test_sequences_do_not_jump_to_zero_before_the_largest(self):
        state = after(batch_by(sequence=SEQUENCE_MAX - 1))
        with pytest.raises(OutOfOrderSequenceNumber):
            check_sequence(state, batch_by(sequence=0), PARTITION)

    def test_a_new_epoch_of_a_known_producer_begins_at_zero(self):
        state = after(batch_by(sequence=5))
        check_sequence(state, batch_by(epoch=1, sequence=0), PARTITION)

    @pytest.mark.parametrize("sequence", [1, 6])
    def test_a_new_epoch_does_not_begin_elsewhere(self, sequence):
        state = after(batch_by(sequence=5))
        with pytest.raises(OutOfOrderSequenceNumber, match="new epoch 1 the next is 0"):
            check_sequence(state, batch_by(epoch=1, sequence=sequence), PARTITION)

    def test_an_epoch_that_only_a_marker_has_told_begins_at_zero(self):
        state = after(batch_by(sequence=5), marker_by(epoch=1))
        check_sequence(state, batch_by(epoch=1, sequence=0), PARTITION)
        with pytest.raises(OutOfOrderSequenceNumber):
            check_sequence(state, batch_by(epoch=1, sequence=6), PARTITION)

    def test_a_marker_of_the_same_epoch_leaves_sequences_as_they_are(self):
        state = after(batch_by(sequence=5), marker_by())
        check_sequence(state, batch_by(sequence=6), PARTITION)

    def test_the_refusal_names_producer_and_partition(self):
        state = after(batch_by(producer_id=42))
        with pytest.raises(OutOfOrderSequenceNumber, match="producer 42 wrote to orders-3 "):
            check_sequence(state, batch_by(producer_id=42, sequence=9), PARTITION)


class TestEpochs:
    @pytest.mark.parametrize("epoch", [3, 4, 32767])
    def test_the_same_epoch_and_later_ones_may_write(self, epoch):
        check_epoch(after(batch_by(epoch=3)), batch_by(epoch=epoch), PARTITION)

    @pytest.mark.parametrize("batch", [batch_by(epoch=2), marker_in(marker_by(epoch=2))])
    def test_an_earlier_epoch_may_not_write_batches_nor_end_transactions(self, batch):
        with pytest.raises(InvalidProducerEpoch, match=r"epoch 2, but .* epoch 3"):
            check_epoch(after(batch_by(epoch=3)), batch, PARTITION)

    def test_a_marker_may_raise_the_epoch(self):
        state = after(batch_by(epoch=3), marker_by(epoch=4))
        assert state.epoch == 4
        with pytest.raises(InvalidProducerEpoch):
            check_epoch(state, batch_by(epoch=3, sequence=1), PARTITION)


class TestTransactions:
    def test_the_first_transactional_batch_begins_a_transaction(self):
        batch = batch_by(transactional=True)
        batch.number(12)
        assert after(batch).transaction_first_offset == 12

    def test_later_ones_continue_it(self):
        first, second = numbered(2, transactional=True)
        assert after(first, second).transaction_first_offset == 0

    def test_a_new_epoch_continues_the_transaction_of_the_old_one(self):
        first, _, third = numbered(3, transactional=True)
        second = batch_by(epoch=1, transactional=True)
        assert after(first, second, third).transaction_first_offset == 0

    @pytest.mark.parametrize("is_commit", [True, False])
    def test_a_marker_ends_it(self, is_commit):
        state = after(batch_by(transactional=True), marker_by(is_commit=is_commit))
        assert state.transaction_first_offset is None

    def test_no_batch_outside_the_transaction_may_come_in_between(self):
        state = after(batch_by(transactional=True))
        check_in_transaction(state, batch_by(sequence=1, transactional=True), PARTITION)
        with pytest.raises(InvalidTxnState, match="has one open since offset 0"):
            check_in_transaction(state, batch_by(sequence=1), PARTITION)

    def test_without_a_transaction_any_batch_will_do(self):
        state = after(batch_by())
        check_in_transaction(state, batch_by(sequence=1), PARTITION)
        check_in_transaction(state, batch_by(sequence=1, transactional=True), PARTITION)

    def test_a_coordinator_that_has_been_replaced_ends_nothing(self):
        state = after(batch_by(transactional=True), marker_by(coordinator_epoch=5))
        check_coordinator(state, marker_in(marker_by(coordinator_epoch=5)), PARTITION)
        check_coordinator(state, marker_in(marker_by(coordinator_epoch=6)), PARTITION)
        with pytest.raises(TransactionCoordinatorFenced, match=r"epoch 4 .* epoch 5"):
            check_coordinator(state, marker_in(marker_by(coordinator_epoch=4)), PARTITION)

    def test_the_time_of_a_marker_is_the_producers_last(self):
        state = after(batch_by(timestamp=NOON), marker_by(timestamp=NOON + 5))
        assert state.last_timestamp == NOON + 5
        assert state.last_batch.timestamp == NOON

    def test_a_control_batch_emptied_by_compaction_says_nothing(self):
        fields = BatchFields(producer_id=7, producer_epoch=0, is_control=True)
        batch = RecordBatch(empty_batch(fields, last_offset=0, max_timestamp=NOON))
        assert marker_in(batch) is None

    def test_a_control_batch_of_a_later_kind_says_nothing(self):
        later = Record(0, NOON, b"\0\0\0\7", b"")
        assert marker_in(RecordBatch(batch_of(later, is_control=True))) is None


class TestRetries:
    def test_each_of_the_last_five_batches_is_recognised(self):
        batches = numbered(7)
        state = after(*batches)
        recognised = [state.original_of(batch) is not None for batch in batches]
        assert recognised == [False, False, True, True, True, True, True]

    def test_what_is_known_of_the_original_is_where_and_when_it_was_appended(self):
        batch = batch_by(sequence=3, count=4, timestamp=NOON + 1)
        batch.number(100)
        assert after(batch).original_of(batch) == AppendedBatch(
            last_sequence=6, last_offset=103, offset_delta=3, timestamp=NOON + 1
        )

    def test_the_original_begins_and_ends_where_the_retry_does(self):
        state = after(batch_by(sequence=3, count=4))
        assert state.original_of(batch_by(sequence=3, count=3)) is None
        assert state.original_of(batch_by(sequence=4, count=3)) is None
        assert state.original_of(batch_by(sequence=3, count=4)) is not None

    def test_a_retry_is_of_the_same_epoch(self):
        state = after(batch_by(epoch=1))
        assert state.original_of(batch_by(epoch=0)) is None
        assert state.original_of(batch_by(epoch=2)) is None

    def test_a_new_epoch_forgets_the_batches_of_the_old_one(self):
        state = after(*numbered(3), batch_by(epoch=1))
        assert [batch.last_sequence for batch in state.batches] == [0]

    def test_a_marker_of_a_new_epoch_forgets_them_too(self):
        assert after(*numbered(3), marker_by(epoch=1)).batches == []

    def test_of_two_originals_the_first_counts(self):
        first, second = numbered(2)
        second.base_sequence = 0
        assert after(first, second).original_of(first).last_offset == 0

    def test_a_batch_across_the_largest_sequence_is_recognised(self):
        batch = batch_by(sequence=SEQUENCE_MAX - 1, count=5)
        assert after(batch).original_of(batch) is not None

    def test_states_do_not_change_when_others_follow(self):
        first, second = numbered(2)
        state = after(first)
        after(second, state=state)
        assert state == after(first)


class TestTheUsualBatch:
    @pytest.mark.parametrize("is_open", [True, False])
    @pytest.mark.parametrize("transactional", [True, False])
    @pytest.mark.parametrize("epoch", [0, 1, 2])
    @pytest.mark.parametrize("sequence", [0, 4, 5, 6])
    def test_nothing_is_refused_that_continues_a_state(
        self, is_open, transactional, epoch, sequence
    ):
        state = after(batch_by(epoch=1, sequence=4, transactional=is_open))
        batch = batch_by(epoch=epoch, sequence=sequence, transactional=transactional)
        assert state.is_continued_by(batch) == ((epoch, sequence, transactional) == (1, 5, is_open))

    def test_the_wrap_around_is_left_to_the_checks(self):
        state = after(batch_by(sequence=SEQUENCE_MAX))
        assert not state.is_continued_by(batch_by(sequence=0))
        state = after(batch_by(sequence=0), state=state)
        assert not state.is_continued_by(batch_by(sequence=1))

    def test_a_retry_continues_nothing_even_if_it_is_in_sequence(self):
        state = after(batch_by(sequence=5), batch_by(sequence=4))
        assert not state.is_continued_by(batch_by(sequence=5))

    def test_nothing_continues_what_is_unknown(self):
        assert not UNKNOWN_PRODUCER.is_continued_by(batch_by())
        assert not after(marker_by()).is_continued_by(batch_by())
