"""A transaction begins only after the coordinator has verified it (KIP-890)."""

import pytest

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
)
from odradek.protocol.records.batch import SEQUENCE_MAX
from odradek.storage.producer_state.producer_state_manager import AppendOrigin
from tests.support.producer_log import NOON, ProducerLog, batch_by, marker_by


@pytest.fixture
def log(tmp_path):
    return ProducerLog(tmp_path, transaction_partition_verification_enable=True)


def start_verification(log, *, epoch=0, sequence=0, now_ms=NOON, bumps_epochs=False):
    return log.states.start_verification(
        7, epoch=epoch, sequence=sequence, now_ms=now_ms, supports_epoch_bump=bumps_epochs
    )


def transactional(**fields):
    return batch_by(transactional=True, **fields)


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_transaction_without_a_guard_is_rejected(log, origin):
    with pytest.raises(InvalidTxnState, match="was not part of an ongoing transaction"):
        log.send(transactional(), origin)


def test_transaction_with_the_guard_of_the_producer_begins(log):
    log.send(transactional(), guard=start_verification(log))
    assert log.states.has_open_transaction(7, epoch=0)


def test_open_transaction_continues_without_a_guard(log):
    log.send(transactional(), guard=start_verification(log))
    assert start_verification(log, sequence=1) is None
    log.send(transactional(sequence=1))


def test_guard_is_valid_for_one_transaction_only(log):
    guard = start_verification(log)
    log.send(transactional(), guard=guard)
    log.end_transaction(marker_by())
    with pytest.raises(InvalidTxnState):
        log.send(transactional(sequence=1), guard=guard)


def test_marker_invalidates_the_guard(log):
    guard = start_verification(log)
    log.end_transaction(marker_by(is_commit=False))
    with pytest.raises(InvalidTxnState):
        log.send(transactional(), guard=guard)


def test_next_transaction_gets_another_guard(log):
    stale = start_verification(log)
    log.end_transaction(marker_by(is_commit=False))
    assert start_verification(log) is not stale
    with pytest.raises(InvalidTxnState):
        log.send(transactional(), guard=stale)


def test_starting_verification_again_returns_the_same_guard(log):
    assert start_verification(log) is start_verification(log, sequence=5)


def test_rejected_batch_keeps_the_guard_valid(log):
    log.send(batch_by())
    guard = start_verification(log, sequence=1)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.send(transactional(sequence=2), guard=guard)
    log.send(transactional(sequence=1), guard=guard)


def test_guard_of_another_producer_is_rejected(log):
    guard = start_verification(log)
    with pytest.raises(InvalidTxnState):
        log.send(transactional(producer_id=8), guard=guard)


def test_non_transactional_batches_need_no_guard(log):
    log.send(batch_by())
    assert log.end_offset == 1


def test_markers_need_no_guard(log):
    log.end_transaction(marker_by())
    assert log.end_offset == 1


def test_replicated_batches_need_no_guard(log):
    log.replicate(transactional())
    assert log.end_offset == 1


def test_verification_can_be_disabled_at_runtime(log):
    log.settings.transaction_partition_verification_enable = False
    log.send(transactional())
    assert log.end_offset == 1


def test_retry_without_a_guard_is_a_duplicate(log):
    log.send(transactional(), guard=start_verification(log))
    log.end_transaction(marker_by())
    assert log.send(transactional()).is_duplicate


class TestSequencesBeingVerified:
    def test_higher_sequence_does_not_overtake_the_lowest_being_verified(self, log):
        start_verification(log, sequence=5)
        guard = start_verification(log, sequence=8)
        with pytest.raises(OutOfOrderSequenceNumber, match="sequence 5 is being verified"):
            log.send(transactional(sequence=8), guard=guard)
        log.send(transactional(sequence=5), guard=guard)

    def test_lower_sequence_verified_later_becomes_the_lowest(self, log):
        start_verification(log, sequence=8)
        guard = start_verification(log, sequence=5)
        with pytest.raises(OutOfOrderSequenceNumber):
            log.send(transactional(sequence=8), guard=guard)

    def test_new_epoch_resets_the_lowest_sequence(self, log):
        start_verification(log, sequence=0)
        guard = start_verification(log, epoch=1, sequence=3)
        log.send(transactional(epoch=1, sequence=3), guard=guard)

    def test_old_epoch_does_not_change_the_lowest_sequence(self, log):
        start_verification(log, epoch=1, sequence=3)
        guard = start_verification(log, epoch=0, sequence=0)
        log.send(transactional(epoch=1, sequence=3), guard=guard)

    def test_non_transactional_batch_does_not_overtake_the_lowest_sequence(self, log):
        start_verification(log, sequence=0)
        with pytest.raises(OutOfOrderSequenceNumber, match="sequence 0 is being verified"):
            log.send(batch_by(sequence=1))

    def test_lowest_sequence_of_another_epoch_is_ignored(self, log):
        start_verification(log, epoch=0, sequence=0)
        log.send(batch_by(epoch=1, sequence=3))

    def test_late_copy_of_an_appended_batch_blocks_nothing(self, log):
        log.send(transactional(), guard=start_verification(log))
        log.end_transaction(marker_by())
        start_verification(log, sequence=0)
        log.send(transactional(sequence=1), guard=start_verification(log, sequence=1))
        assert log.end_offset == 3

    def test_late_copy_from_before_a_sequence_wrap_blocks_nothing(self, log):
        log.send(
            transactional(sequence=SEQUENCE_MAX),
            guard=start_verification(log, sequence=SEQUENCE_MAX),
        )
        log.send(transactional(sequence=0))
        log.end_transaction(marker_by())
        start_verification(log, sequence=0)
        log.send(transactional(sequence=1), guard=start_verification(log, sequence=1))
        assert log.end_offset == 4

    def test_fenced_producer_gets_invalid_producer_epoch_first(self, log):
        log.end_transaction(marker_by(epoch=1))
        guard = start_verification(log, epoch=0, sequence=0)
        with pytest.raises(InvalidProducerEpoch):
            log.send(transactional(epoch=0, sequence=9), guard=guard)


class TestZombies:
    @pytest.mark.parametrize("bumps_epochs", [False, True])
    def test_zombie_does_not_block_a_transaction_of_a_later_epoch(self, log, bumps_epochs):
        log.send(
            transactional(epoch=1),
            guard=start_verification(log, epoch=1, bumps_epochs=bumps_epochs),
        )
        zombie_guard = start_verification(log, epoch=0, bumps_epochs=bumps_epochs)
        with pytest.raises(InvalidProducerEpoch):
            log.send(transactional(epoch=0), guard=zombie_guard)
        log.send(transactional(epoch=1, sequence=1))
        assert log.end_offset == 2

    def test_guard_of_a_zombie_is_not_valid_for_others(self, log):
        log.send(transactional(epoch=1), guard=start_verification(log, epoch=1))
        log.end_transaction(marker_by(epoch=1))
        zombie_guard = start_verification(log, epoch=0, sequence=0)
        with pytest.raises(InvalidTxnState):
            log.send(transactional(epoch=1, sequence=1), guard=zombie_guard)
        log.send(
            transactional(epoch=1, sequence=1), guard=start_verification(log, epoch=1, sequence=1)
        )

    def test_epoch_bumping_producer_after_a_zombie_must_start_at_sequence_0(self, log):
        start_verification(log, epoch=0, bumps_epochs=False)
        guard = start_verification(log, epoch=1, sequence=3, bumps_epochs=True)
        with pytest.raises(OutOfOrderSequenceNumber, match="the first sequence must be 0"):
            log.send(transactional(epoch=1, sequence=3), guard=guard)

    def test_other_producer_after_a_zombie_may_start_at_any_sequence(self, log):
        start_verification(log, epoch=0, bumps_epochs=True)
        guard = start_verification(log, epoch=1, sequence=3, bumps_epochs=False)
        log.send(transactional(epoch=1, sequence=3), guard=guard)
        assert log.end_offset == 1


class TestEpochBumpPerTransaction:
    def test_open_transaction_of_an_earlier_epoch_needs_a_new_guard(self, log):
        log.send(transactional(), guard=start_verification(log))
        guard = start_verification(log, epoch=1)
        assert guard is not None
        with pytest.raises(InvalidTxnState):
            log.send(transactional(epoch=1))

    def test_marker_with_the_next_epoch_restarts_the_sequence(self, log):
        log.send(transactional(), guard=start_verification(log, bumps_epochs=True))
        log.end_transaction(marker_by(epoch=1))
        guard = start_verification(log, epoch=1, sequence=1, bumps_epochs=True)
        with pytest.raises(OutOfOrderSequenceNumber):
            log.send(transactional(epoch=1, sequence=1), guard=guard)
        log.send(transactional(epoch=1), guard=start_verification(log, epoch=1, bumps_epochs=True))

    def test_old_epoch_is_fenced_after_the_marker(self, log):
        log.send(transactional(), guard=start_verification(log, bumps_epochs=True))
        log.end_transaction(marker_by(epoch=1))
        guard = start_verification(log, epoch=0, sequence=1, bumps_epochs=True)
        with pytest.raises(InvalidProducerEpoch):
            log.send(transactional(sequence=1), guard=guard)

    def test_unknown_epoch_bumping_producer_must_start_at_sequence_0(self, log):
        guard = start_verification(log, sequence=3, bumps_epochs=True)
        with pytest.raises(OutOfOrderSequenceNumber, match="the first sequence must be 0"):
            log.send(transactional(sequence=3), guard=guard)

    def test_unknown_producer_without_epoch_bump_may_start_at_any_sequence(self, log):
        log.send(transactional(sequence=3), guard=start_verification(log, sequence=3))


class TestExpiration:
    def test_unused_guard_expires(self, log):
        guard = start_verification(log, now_ms=NOON)
        log.states.remove_expired_producers(NOON + log.settings.producer_id_expiration_ms)
        with pytest.raises(InvalidTxnState):
            log.send(transactional(), guard=guard)

    def test_younger_guard_does_not_expire(self, log):
        guard = start_verification(log, now_ms=NOON + 1)
        log.states.remove_expired_producers(NOON + log.settings.producer_id_expiration_ms)
        log.send(transactional(), guard=guard)
