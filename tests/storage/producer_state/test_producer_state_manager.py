"""ProducerStateManager: validation, origins, markers, unstable offsets and expiration."""

import pytest

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchFields, empty_batch
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.storage.producer_state.producer_state_manager import (
    LATE_TRANSACTION_BUFFER_MS,
    AppendOrigin,
)
from odradek.storage.producer_state.unstable_transactions import CompletedTxn
from odradek.storage.transaction_index import AbortedTxn
from tests.support.batches import batch_of
from tests.support.legacy_messages import message
from tests.support.producer_log import NOON, ProducerLog, batch_by, marker_by

CLIENT, COORDINATOR, REPLICATION = AppendOrigin


@pytest.fixture
def log(tmp_path):
    return ProducerLog(tmp_path)


def with_base_offset(offset, batch):
    batch.assign_offsets(offset)
    return batch


def transactional_batch(*, producer_id, sequence=0):
    return batch_by(producer_id, sequence=sequence, transactional=True)


class TestValidation:
    def test_validation_changes_nothing(self, log):
        log.send(batch_by())
        before = dict(log.states.active_producers)
        log.states.analyze_and_validate([batch_by(sequence=1, transactional=True)], CLIENT)
        assert log.states.active_producers == before
        assert log.states.transactions.first_undecided_offset is None

    def test_batches_without_a_producer_id_are_ignored(self, log):
        log.send(RecordBatch(batch_of(b"x")))
        assert len(log.states) == 0
        assert log.states.map_end_offset == 1

    def test_legacy_messages_are_ignored(self, log):
        append_info = log.states.analyze_and_validate([LegacyBatch(message(1, b"old"))], CLIENT)
        assert append_info.updated_entries == {}

    def test_retry_returns_the_original_and_appends_nothing(self, log):
        first = log.send(batch_by(count=3, timestamp=NOON))
        log.send(batch_by(sequence=3, timestamp=NOON + 1))
        retry = log.send(batch_by(count=3, timestamp=NOON))
        assert (retry.first_offset, retry.last_offset) == (0, 2) == (first.first_offset, 2)
        assert retry.timestamp == NOON
        assert retry.is_duplicate
        assert log.end_offset == 4

    def test_same_batch_twice_in_one_set_is_out_of_order(self, log):
        with pytest.raises(OutOfOrderSequenceNumber):
            log.states.analyze_and_validate(
                [with_base_offset(0, batch_by()), with_base_offset(1, batch_by())], CLIENT
            )

    def test_batches_of_a_set_are_validated_in_sequence(self, log):
        log.states.update(
            log.states.analyze_and_validate(
                [with_base_offset(0, batch_by()), with_base_offset(1, batch_by(sequence=1))], CLIENT
            )
        )
        assert log.states.active_producers[7].last_sequence == 1

    def test_producers_are_independent(self, log):
        for sequence in range(3):
            for producer_id in (1, 2):
                log.send(batch_by(producer_id, sequence=sequence))
        assert [state.last_sequence for state in log.states.active_producers.values()] == [2, 2]

    def test_rejected_batch_changes_nothing(self, log):
        log.send(batch_by())
        before = dict(log.states.active_producers)
        with pytest.raises(OutOfOrderSequenceNumber):
            log.send(batch_by(sequence=2))
        assert log.states.active_producers == before
        assert log.end_offset == 1


class TestOrigins:
    def test_sequences_of_coordinator_batches_are_not_checked(self, log):
        for _ in range(2):
            log.send(batch_by(sequence=0, transactional=True), COORDINATOR)
        assert log.end_offset == 2

    def test_coordinator_batch_with_an_old_epoch_is_rejected(self, log):
        log.send(batch_by(epoch=1), COORDINATOR)
        with pytest.raises(InvalidProducerEpoch):
            log.send(batch_by(epoch=0), COORDINATOR)

    def test_replicated_batch_may_have_a_sequence_gap(self, log):
        log.replicate(
            with_base_offset(0, batch_by(sequence=0)), with_base_offset(1, batch_by(sequence=9))
        )
        assert log.states.active_producers[7].last_sequence == 9

    def test_replicated_batch_may_lower_the_epoch(self, log):
        log.replicate(
            with_base_offset(0, batch_by(epoch=3)),
            with_base_offset(1, batch_by(epoch=2, sequence=5)),
        )
        assert log.states.active_producers[7].epoch == 2
        assert log.states.active_producers[7].last_sequence == 5

    def test_replicated_batch_may_be_repeated(self, log):
        log.replicate(with_base_offset(0, batch_by()), with_base_offset(1, batch_by()))
        assert log.end_offset == 2

    def test_replicated_marker_may_have_an_old_coordinator_epoch(self, log):
        log.replicate(
            with_base_offset(0, marker_by(coordinator_epoch=5)),
            with_base_offset(1, marker_by(coordinator_epoch=4)),
        )
        assert log.states.active_producers[7].coordinator_epoch == 4

    def test_replicated_batch_may_be_outside_the_open_transaction(self, log):
        log.replicate(
            with_base_offset(0, batch_by(transactional=True)),
            with_base_offset(1, batch_by(sequence=1)),
        )
        assert log.states.transactions.first_undecided_offset == 0

    @pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
    def test_client_or_coordinator_batch_outside_the_open_transaction_is_rejected(
        self, log, origin
    ):
        log.send(batch_by(transactional=True))
        with pytest.raises(InvalidTxnState):
            log.send(batch_by(sequence=1), origin)


class TestMarkers:
    def test_marker_of_an_unknown_producer_creates_its_state(self, log):
        log.end_transaction(marker_by(epoch=4, coordinator_epoch=9, timestamp=NOON + 2))
        state = log.states.active_producers[7]
        assert (state.epoch, state.coordinator_epoch, state.last_timestamp) == (4, 9, NOON + 2)
        assert state.last_batch is None

    def test_marker_without_a_transaction_completes_none(self, log):
        append_info = log.states.analyze_and_validate([marker_by()], COORDINATOR)
        assert append_info.completed_txns == []

    @pytest.mark.parametrize("is_commit", [True, False])
    def test_a_marker_completes_the_open_transaction(self, log, is_commit):
        log.send(RecordBatch(batch_of(b"before")))
        log.send(batch_by(count=2, transactional=True))
        append_info = log.states.analyze_and_validate(
            [with_base_offset(3, marker_by(is_commit=is_commit))], COORDINATOR
        )
        assert append_info.completed_txns == [
            CompletedTxn(producer_id=7, first_offset=1, last_offset=3, is_aborted=not is_commit)
        ]

    def test_marker_with_an_old_epoch_is_rejected(self, log):
        log.send(batch_by(epoch=2, transactional=True))
        with pytest.raises(InvalidProducerEpoch):
            log.end_transaction(marker_by(epoch=1))

    def test_marker_with_an_old_coordinator_epoch_is_fenced(self, log):
        log.end_transaction(marker_by(coordinator_epoch=2))
        with pytest.raises(TransactionCoordinatorFenced):
            log.end_transaction(marker_by(coordinator_epoch=1))

    def test_control_batch_emptied_by_compaction_creates_no_state(self, log):
        fields = BatchFields(producer_id=7, producer_epoch=0, is_control=True)
        log.replicate(RecordBatch(empty_batch(fields, last_offset=0, max_timestamp=NOON)))
        assert len(log.states) == 0
        assert log.states.map_end_offset == 1


class TestUnstableOffsets:
    def test_no_unstable_offset_without_transactions(self, log):
        log.send(batch_by())
        assert log.states.transactions.first_unstable_offset is None
        assert log.states.transactions.first_undecided_offset is None

    def test_an_open_transaction_is_unstable_from_its_first_batch_on(self, log):
        log.send(RecordBatch(batch_of(b"before")))
        log.send(transactional_batch(producer_id=1))
        log.send(transactional_batch(producer_id=1, sequence=1))
        assert log.states.transactions.first_unstable_offset == 1
        assert log.states.transactions.first_undecided_offset == 1

    def test_ended_transaction_is_unstable_until_its_marker_is_replicated(self, log):
        log.send(transactional_batch(producer_id=1))
        marker = log.end_transaction(marker_by(1))
        assert log.states.transactions.first_undecided_offset is None
        log.states.transactions.on_high_watermark_updated(marker.last_offset)
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark_updated(marker.last_offset + 1)
        assert log.states.transactions.first_unstable_offset is None

    def test_first_of_several_open_or_ended_transactions_counts(self, log):
        for producer_id in (1, 2, 3):
            log.send(transactional_batch(producer_id=producer_id))
        log.end_transaction(marker_by(1))
        assert log.states.transactions.first_undecided_offset == 1
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark_updated(log.end_offset)
        assert log.states.transactions.first_unstable_offset == 1

    def test_outer_transaction_keeps_inner_ones_unstable(self, log):
        for producer_id in (1, 2):
            log.send(transactional_batch(producer_id=producer_id))
        inner = log.end_transaction(marker_by(2))
        outer = log.end_transaction(marker_by(1))
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark_updated(inner.last_offset + 1)
        assert log.states.transactions.first_unstable_offset == 0
        log.states.transactions.on_high_watermark_updated(outer.last_offset + 1)
        assert log.states.transactions.first_unstable_offset is None

    def test_open_transaction_keeps_a_later_ended_one_unstable(self, log):
        for producer_id in (1, 2):
            log.send(transactional_batch(producer_id=producer_id))
        log.end_transaction(marker_by(2))
        assert log.states.transactions.first_unstable_offset == 0

    def test_first_unstable_offset_moves_to_the_later_transaction(self, log):
        for producer_id in (1, 2):
            log.send(transactional_batch(producer_id=producer_id))
        first = log.end_transaction(marker_by(1))
        log.end_transaction(marker_by(2))
        log.states.transactions.on_high_watermark_updated(first.last_offset + 1)
        assert log.states.transactions.first_unstable_offset == 1

    def test_transaction_stays_undecided_until_it_is_completed(self, log):
        log.send(transactional_batch(producer_id=1))
        log.states.update(
            log.states.analyze_and_validate([with_base_offset(1, marker_by(1))], COORDINATOR)
        )
        log.states.transactions.on_high_watermark_updated(2)
        assert log.states.transactions.first_unstable_offset == 0

    def test_producer_may_have_an_ended_and_an_open_transaction(self, log):
        log.send(transactional_batch(producer_id=1))
        log.end_transaction(marker_by(1))
        log.send(transactional_batch(producer_id=1, sequence=1))
        assert log.states.transactions.first_unstable_offset == 0
        assert log.states.transactions.first_undecided_offset == 2


class TestLastStableOffsetOfACompletedTransaction:
    def test_only_transaction_has_the_offset_after_its_marker(self, log):
        log.send(transactional_batch(producer_id=1))
        log.end_transaction(marker_by(1, is_commit=False))
        assert log.aborted == [AbortedTxn(1, 0, 1, last_stable_offset=2)]

    def test_another_open_transaction_lowers_it(self, log):
        for producer_id in (1, 2):
            log.send(transactional_batch(producer_id=producer_id))
        log.end_transaction(marker_by(2, is_commit=False))
        log.end_transaction(marker_by(1, is_commit=False))
        assert log.aborted == [
            AbortedTxn(2, 1, 2, last_stable_offset=0),
            AbortedTxn(1, 0, 3, last_stable_offset=4),
        ]

    def test_transactions_that_begin_later_in_the_same_set_do_not_change_it(self, log):
        log.replicate(
            with_base_offset(0, transactional_batch(producer_id=1)),
            with_base_offset(1, marker_by(1, is_commit=False)),
            with_base_offset(2, batch_by(3)),
            with_base_offset(3, transactional_batch(producer_id=1, sequence=1)),
            with_base_offset(4, transactional_batch(producer_id=2)),
        )
        assert log.aborted == [AbortedTxn(1, 0, 1, last_stable_offset=2)]


class TestExpirationAndDeletion:
    def test_idle_producer_expires_after_producer_id_expiration_ms(self, log):
        log.send(batch_by(timestamp=NOON))
        idle_ms = log.settings.producer_id_expiration_ms
        assert log.states.remove_expired_producers(NOON + idle_ms - 1) == 0
        assert log.states.remove_expired_producers(NOON + idle_ms) == 1
        assert len(log.states) == 0

    def test_a_producer_with_an_open_transaction_never_expires(self, log):
        log.send(batch_by(transactional=True, timestamp=NOON))
        assert log.states.remove_expired_producers(NOON * 2) == 0

    def test_expiration_setting_may_change(self, log):
        log.send(batch_by(timestamp=NOON))
        log.settings.producer_id_expiration_ms = 10
        assert log.states.remove_expired_producers(NOON + 10) == 1

    def test_incrementing_the_log_start_forgets_no_producer(self, log):
        log.send(batch_by())
        log.states.on_log_start_offset_incremented(1)
        assert log.send(batch_by()).is_duplicate

    def test_incrementing_the_log_start_forgets_transactions_that_ended_before(self, log):
        log.send(transactional_batch(producer_id=1))
        log.end_transaction(marker_by(1))
        log.states.on_log_start_offset_incremented(1)
        assert log.states.transactions.first_unstable_offset == 0
        log.states.on_log_start_offset_incremented(2)
        assert log.states.transactions.first_unstable_offset is None

    def test_incrementing_the_log_start_beyond_the_end_moves_the_map_end(self, log):
        log.send(batch_by())
        log.states.on_log_start_offset_incremented(50)
        assert log.states.map_end_offset == 50

    def test_snapshot_is_taken_after_all_batches_were_deleted(self, log):
        log.send(batch_by())
        log.states.on_log_start_offset_incremented(log.states.map_end_offset)
        assert log.states.take_snapshot() is not None

    def test_full_truncation_forgets_everything(self, log):
        log.send(transactional_batch(producer_id=1))
        log.states.take_snapshot()
        log.send(transactional_batch(producer_id=2))
        log.end_transaction(marker_by(2))
        log.states.truncate_fully_and_start_at(100)
        assert log.states.is_empty
        assert log.states.transactions.first_unstable_offset is None
        assert log.states.map_end_offset == 100
        assert list(log.directory.iterdir()) == []


class TestLateTransactions:
    TIMEOUT_MS = 900_000

    def test_transaction_is_late_a_buffer_time_after_the_maximum_timeout(self, log):
        log.send(batch_by(transactional=True, timestamp=NOON))
        latest = NOON + self.TIMEOUT_MS + LATE_TRANSACTION_BUFFER_MS
        assert not log.states.has_late_transaction(latest, timeout_max_ms=self.TIMEOUT_MS)
        assert log.states.has_late_transaction(latest + 1, timeout_max_ms=self.TIMEOUT_MS)

    def test_no_late_transaction_without_an_open_one(self, log):
        log.send(batch_by(timestamp=NOON))
        assert not log.states.has_late_transaction(NOON * 2, timeout_max_ms=self.TIMEOUT_MS)
