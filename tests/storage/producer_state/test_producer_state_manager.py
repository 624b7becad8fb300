"""The producers of a partition: decisions on sets of batches, transactions, forgetting."""

import pytest

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.legacy import LegacyBatch
from odradek.storage.producers.state import LATE_AFTER_TIMEOUT_MS, AppendOrigin
from odradek.storage.producers.unstable import CompletedTransaction
from odradek.storage.transaction_index import AbortedTransaction
from tests.support.batches import batch_of
from tests.support.legacy_messages import message
from tests.support.producer_log import NOON, ProducerLog, batch_by, marker_by

CLIENT, COORDINATOR, REPLICATION = AppendOrigin


@pytest.fixture
def log(tmp_path):
    return ProducerLog(tmp_path)


def at(offset, batch):
    batch.number(offset)
    return batch


def transaction(*, producer_id, sequence=0):
    return batch_by(producer_id, sequence=sequence, transactional=True)


class TestDeciding:
    def test_changes_nothing(self, log):
        log.send(batch_by())
        before = dict(log.states.states)
        log.states.decide([batch_by(sequence=1, transactional=True)], CLIENT)
        assert log.states.states == before
        assert log.states.transactions.first_undecided_offset is None

    def test_batches_without_a_producer_id_pass_unseen(self, log):
        log.send(RecordBatch(batch_of(b"x")))
        assert len(log.states) == 0
        assert log.states.end_offset == 1

    def test_messages_of_the_old_formats_pass_unseen(self, log):
        decision = log.states.decide([LegacyBatch(message(1, b"old"))], CLIENT)
        assert decision.states == {}

    def test_a_retry_yields_its_original_and_nothing_to_apply(self, log):
        first = log.send(batch_by(count=3, timestamp=NOON))
        log.send(batch_by(sequence=3, timestamp=NOON + 1))
        retry = log.send(batch_by(count=3, timestamp=NOON))
        assert (retry.first_offset, retry.last_offset) == (0, 2) == (first.first_offset, 2)
        assert retry.timestamp == NOON
        assert retry.is_duplicate
        assert log.end_offset == 4

    def test_a_batch_twice_in_one_set_is_no_retry(self, log):
        with pytest.raises(OutOfOrderSequenceNumber):
            log.states.decide([at(0, batch_by()), at(1, batch_by())], CLIENT)

    def test_a_set_is_followed_batch_by_batch(self, log):
        log.states.apply(
            log.states.decide([at(0, batch_by()), at(1, batch_by(sequence=1))], CLIENT)
        )
        assert log.states.states[7].last_sequence == 1

    def test_producers_do_not_disturb_each_other(self, log):
        for sequence in range(3):
            for producer_id in (1, 2):
                log.send(batch_by(producer_id, sequence=sequence))
        assert [state.last_sequence for state in log.states.states.values()] == [2, 2]

    def test_what_is_refused_leaves_no_trace(self, log):
        log.send(batch_by())
        before = dict(log.states.states)
        with pytest.raises(OutOfOrderSequenceNumber):
            log.send(batch_by(sequence=2))
        assert log.states.states == before
        assert log.end_offset == 1


class TestOrigins:
    def test_sequences_of_a_coordinator_mean_nothing(self, log):
        for _ in range(2):
            log.send(batch_by(sequence=0, transactional=True), COORDINATOR)
        assert log.end_offset == 2

    def test_an_old_epoch_is_refused_to_coordinators_too(self, log):
        log.send(batch_by(epoch=1), COORDINATOR)
        with pytest.raises(InvalidProducerEpoch):
            log.send(batch_by(epoch=0), COORDINATOR)

    def test_a_replica_takes_gaps(self, log):
        log.replicate(at(0, batch_by(sequence=0)), at(1, batch_by(sequence=9)))
        assert log.states.states[7].last_sequence == 9

    def test_a_replica_takes_an_older_epoch_and_has_it_then(self, log):
        log.replicate(at(0, batch_by(epoch=3)), at(1, batch_by(epoch=2, sequence=5)))
        assert log.states.states[7].epoch == 2
        assert log.states.states[7].last_sequence == 5

    def test_a_replica_takes_the_same_batch_twice(self, log):
        log.replicate(at(0, batch_by()), at(1, batch_by()))
        assert log.end_offset == 2

    def test_a_replica_takes_the_marker_of_an_old_coordinator(self, log):
        log.replicate(at(0, marker_by(coordinator_epoch=5)), at(1, marker_by(coordinator_epoch=4)))
        assert log.states.states[7].coordinator_epoch == 4

    def test_a_replica_takes_a_batch_beside_the_open_transaction(self, log):
        log.replicate(at(0, batch_by(transactional=True)), at(1, batch_by(sequence=1)))
        assert log.states.transactions.first_undecided_offset == 0

    @pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
    def test_nobody_else_may_write_beside_the_open_transaction(self, log, origin):
        log.send(batch_by(transactional=True))
        with pytest.raises(InvalidTxnState):
            log.send(batch_by(sequence=1), origin)


class TestMarkers:
    def test_the_marker_of_an_unknown_producer_makes_its_epoch_known(self, log):
        log.end_transaction(marker_by(epoch=4, coordinator_epoch=9, timestamp=NOON + 2))
        state = log.states.states[7]
        assert (state.epoch, state.coordinator_epoch, state.last_timestamp) == (4, 9, NOON + 2)
        assert state.last_batch is None

    def test_a_marker_without_a_transaction_completes_none(self, log):
        decision = log.states.decide([marker_by()], COORDINATOR)
        assert decision.completed == []

    @pytest.mark.parametrize("is_commit", [True, False])
    def test_a_marker_completes_the_open_transaction(self, log, is_commit):
        log.send(RecordBatch(batch_of(b"before")))
        log.send(batch_by(count=2, transactional=True))
        decision = log.states.decide([at(3, marker_by(is_commit=is_commit))], COORDINATOR)
        assert decision.completed == [
            CompletedTransaction(
                producer_id=7, first_offset=1, last_offset=3, is_aborted=not is_commit
            )
        ]

    def test_a_marker_of_an_old_epoch_is_refused(self, log):
        log.send(batch_by(epoch=2, transactional=True))
        with pytest.raises(InvalidProducerEpoch):
            log.end_transaction(marker_by(epoch=1))

    def test_a_marker_of_an_old_coordinator_is_refused(self, log):
        log.end_transaction(marker_by(coordinator_epoch=2))
        with pytest.raises(TransactionCoordinatorFenced):
            log.end_transaction(marker_by(coordinator_epoch=1))

    def test_an_emptied_control_batch_makes_no_producer_known(self, log):
        fields = BatchFields(producer_id=7, producer_epoch=0, is_control=True)
        log.replicate(RecordBatch(empty_batch(fields, last_offset=0, max_timestamp=NOON)))
        assert len(log.states) == 0
        assert log.states.end_offset == 1


class TestUnstableOffsets:
    def test_without_transactions_there_are_none(self, log):
        log.send(batch_by())
        assert log.states.transactions.first_unstable_offset is None
        assert log.states.transactions.first_undecided_offset is None

    def test_an_open_transaction_is_unstable_from_its_first_batch_on(self, log):
        log.send(RecordBatch(batch_of(b"before")))
        log.send(transaction(producer_id=1))
        log.send(transaction(producer_id=1, sequence=1))
        assert log.states.transactions.first_unstable_offset == 1
        assert log.states.transactions.first_undecided_offset == 1

    def test_an_ended_one_is_unstable_until_its_marker_is_below_the_high_watermark(self, log):
        log.send(transaction(producer_id=1))
        marker = log.end_transaction(marker_by(1))
        assert log.states.transactions.first_undecided_offset is None
        log.states.transactions.on_high_watermark(marker.last_offset)
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark(marker.last_offset + 1)
        assert log.states.transactions.first_unstable_offset is None

    def test_the_first_of_several_counts_whether_open_or_ended(self, log):
        for producer_id in (1, 2, 3):
            log.send(transaction(producer_id=producer_id))
        log.end_transaction(marker_by(1))
        assert log.states.transactions.first_undecided_offset == 1
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark(log.end_offset)
        assert log.states.transactions.first_unstable_offset == 1

    def test_one_that_began_first_and_ended_last_holds_up_those_within(self, log):
        for producer_id in (1, 2):
            log.send(transaction(producer_id=producer_id))
        inner = log.end_transaction(marker_by(2))
        outer = log.end_transaction(marker_by(1))
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark(inner.last_offset + 1)
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark(outer.last_offset + 1)
        assert log.states.transactions.first_unstable_offset is None

    def test_one_that_is_open_holds_up_a_later_one_that_has_ended(self, log):
        for producer_id in (1, 2):
            log.send(transaction(producer_id=producer_id))
        log.end_transaction(marker_by(2))
        assert log.states.transactions.first_unstable_offset == 0

    def test_one_that_ended_first_leaves_the_later_one(self, log):
        for producer_id in (1, 2):
            log.send(transaction(producer_id=producer_id))
        first = log.end_transaction(marker_by(1))
        log.end_transaction(marker_by(2))
        log.states.transactions.on_high_watermark(first.last_offset + 1)
        assert log.states.transactions.first_unstable_offset == 1

    def test_until_the_transaction_is_completed_it_stays_undecided(self, log):
        log.send(transaction(producer_id=1))
        log.states.apply(log.states.decide([at(1, marker_by(1))], COORDINATOR))
        log.states.transactions.on_high_watermark(2)
        assert log.states.transactions.first_unstable_offset == 0

    def test_a_producer_may_have_one_ended_and_one_open(self, log):
        log.send(transaction(producer_id=1))
        log.end_transaction(marker_by(1))
        log.send(transaction(producer_id=1, sequence=1))
        assert log.states.transactions.first_unstable_offset == 0
        assert log.states.transactions.first_undecided_offset == 2


class TestLastStableOffsetOfACompletedTransaction:
    def test_alone_it_is_the_one_after_the_marker(self, log):
        log.send(transaction(producer_id=1))
        log.end_transaction(marker_by(1, is_commit=False))
        assert log.aborted == [AbortedTransaction(1, 0, 1, last_stable_offset=2)]

    def test_another_open_one_holds_it_back(self, log):
        for producer_id in (1, 2):
            log.send(transaction(producer_id=producer_id))
        log.end_transaction(marker_by(2, is_commit=False))
        log.end_transaction(marker_by(1, is_commit=False))
        assert log.aborted == [
            AbortedTransaction(2, 1, 2, last_stable_offset=0),
            AbortedTransaction(1, 0, 3, last_stable_offset=4),
        ]

    def test_transactions_begun_later_in_the_same_set_do_not_move_it(self, log):
        log.replicate(
            at(0, transaction(producer_id=1)),
            at(1, marker_by(1, is_commit=False)),
            at(2, batch_by(3)),
            at(3, transaction(producer_id=1, sequence=1)),
            at(4, transaction(producer_id=2)),
        )
        assert log.aborted == [AbortedTransaction(1, 0, 1, last_stable_offset=2)]


class TestForgetting:
    def test_an_idle_producer_expires_when_the_time_has_passed(self, log):
        log.send(batch_by(timestamp=NOON))
        idle_ms = log.settings.producer_id_expiration_ms
        assert log.states.expire(NOON + idle_ms - 1) == 0
        assert log.states.expire(NOON + idle_ms) == 1
        assert len(log.states) == 0

    def test_a_producer_with_an_open_transaction_never_expires(self, log):
        log.send(batch_by(transactional=True, timestamp=NOON))
        assert log.states.expire(NOON * 2) == 0

    def test_the_time_to_expire_may_change(self, log):
        log.send(batch_by(timestamp=NOON))
        log.settings.producer_id_expiration_ms = 10
        assert log.states.expire(NOON + 10) == 1

    def test_deleting_the_start_of_the_log_forgets_no_producer(self, log):
        log.send(batch_by())
        log.states.on_log_start_moved(1)
        assert log.send(batch_by()).is_duplicate

    def test_deleting_the_start_forgets_transactions_that_ended_there(self, log):
        log.send(transaction(producer_id=1))
        log.end_transaction(marker_by(1))
        log.states.on_log_start_moved(1)
        assert log.states.transactions.first_unstable_offset == 0
        log.states.on_log_start_moved(2)
        assert log.states.transactions.first_unstable_offset is None

    def test_deleting_all_of_the_log_moves_the_known_end(self, log):
        log.send(batch_by())
        log.states.on_log_start_moved(50)
        assert log.states.end_offset == 50

    def test_what_deleted_batches_told_goes_into_the_next_snapshot(self, log):
        log.send(batch_by())
        log.states.on_log_start_moved(log.states.end_offset)
        assert log.states.take_snapshot() is not None

    def test_full_truncation_forgets_everything(self, log):
        log.send(transaction(producer_id=1))
        log.states.take_snapshot()
        log.send(transaction(producer_id=2))
        log.end_transaction(marker_by(2))
        log.states.begin_anew(100)
        assert log.states.is_empty
        assert log.states.transactions.first_unstable_offset is None
        assert log.states.end_offset == 100
        assert list(log.directory.iterdir()) == []


class TestLateTransactions:
    TIMEOUT_MS = 900_000

    def test_a_transaction_is_late_some_time_after_any_would_have_timed_out(self, log):
        log.send(batch_by(transactional=True, timestamp=NOON))
        latest = NOON + self.TIMEOUT_MS + LATE_AFTER_TIMEOUT_MS
        assert not log.states.has_late_transaction(latest, timeout_max_ms=self.TIMEOUT_MS)
        assert log.states.has_late_transaction(latest + 1, timeout_max_ms=self.TIMEOUT_MS)

    def test_without_a_transaction_none_is_late(self, log):
        log.send(batch_by(timestamp=NOON))
        assert not log.states.has_late_transaction(NOON * 2, timeout_max_ms=self.TIMEOUT_MS)
