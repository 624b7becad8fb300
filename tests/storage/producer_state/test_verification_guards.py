"""Nobody begins a transaction that the coordinator does not know (KIP-890)."""

import pytest

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
)
from odradek.protocol.records.batch import SEQUENCE_MAX
from odradek.storage.producers.state import AppendOrigin
from tests.support.producer_log import NOON, ProducerLog, batch_by, marker_by


@pytest.fixture
def log(tmp_path):
    return ProducerLog(tmp_path, transaction_partition_verification_enable=True)


def begin(log, *, epoch=0, sequence=0, now_ms=NOON, bumps_epochs=False):
    return log.states.start_verification(
        7, epoch=epoch, sequence=sequence, now_ms=now_ms, bumps_epochs=bumps_epochs
    )


def transactional(**fields):
    return batch_by(transactional=True, **fields)


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_a_transaction_is_not_begun_without_a_guard(log, origin):
    with pytest.raises(InvalidTxnState, match="not known to be open"):
        log.send(transactional(), origin)


def test_with_the_producers_guard_it_is_begun(log):
    log.send(transactional(), guard=begin(log))
    assert log.states.has_open_transaction(7, epoch=0)


def test_an_open_transaction_goes_on_without_a_guard(log):
    log.send(transactional(), guard=begin(log))
    assert begin(log, sequence=1) is None
    log.send(transactional(sequence=1))


def test_a_guard_serves_one_transaction_only(log):
    guard = begin(log)
    log.send(transactional(), guard=guard)
    log.end_transaction(marker_by())
    with pytest.raises(InvalidTxnState):
        log.send(transactional(sequence=1), guard=guard)


def test_a_marker_that_comes_first_takes_the_guard_away(log):
    guard = begin(log)
    log.end_transaction(marker_by(is_commit=False))
    with pytest.raises(InvalidTxnState):
        log.send(transactional(), guard=guard)


def test_the_guard_of_the_next_transaction_is_another(log):
    stale = begin(log)
    log.end_transaction(marker_by(is_commit=False))
    assert begin(log) is not stale
    with pytest.raises(InvalidTxnState):
        log.send(transactional(), guard=stale)


def test_asking_again_yields_the_same_guard(log):
    assert begin(log) is begin(log, sequence=5)


def test_a_refused_batch_leaves_the_guard_where_it_is(log):
    log.send(batch_by())
    guard = begin(log, sequence=1)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.send(transactional(sequence=2), guard=guard)
    log.send(transactional(sequence=1), guard=guard)


def test_other_producers_need_their_own(log):
    guard = begin(log)
    with pytest.raises(InvalidTxnState):
        log.send(transactional(producer_id=8), guard=guard)


def test_batches_outside_transactions_need_none(log):
    log.send(batch_by())
    assert log.end_offset == 1


def test_markers_need_none(log):
    log.end_transaction(marker_by())
    assert log.end_offset == 1


def test_replicas_need_none(log):
    log.replicate(transactional())
    assert log.end_offset == 1


def test_the_check_can_be_switched_off_while_in_use(log):
    log.settings.transaction_partition_verification_enable = False
    log.send(transactional())
    assert log.end_offset == 1


def test_a_retry_is_recognised_without_a_guard(log):
    log.send(transactional(), guard=begin(log))
    log.end_transaction(marker_by())
    assert log.send(transactional()).is_duplicate


class TestSequencesThatWait:
    def test_a_higher_one_does_not_overtake_the_lowest_that_asked(self, log):
        begin(log, sequence=5)
        guard = begin(log, sequence=8)
        with pytest.raises(OutOfOrderSequenceNumber, match="5 waits to be let in"):
            log.send(transactional(sequence=8), guard=guard)
        log.send(transactional(sequence=5), guard=guard)

    def test_a_lower_one_that_asks_later_becomes_the_lowest(self, log):
        begin(log, sequence=8)
        guard = begin(log, sequence=5)
        with pytest.raises(OutOfOrderSequenceNumber):
            log.send(transactional(sequence=8), guard=guard)

    def test_a_new_epoch_counts_anew(self, log):
        begin(log, sequence=0)
        guard = begin(log, epoch=1, sequence=3)
        log.send(transactional(epoch=1, sequence=3), guard=guard)

    def test_an_old_epoch_does_not_count(self, log):
        begin(log, epoch=1, sequence=3)
        guard = begin(log, epoch=0, sequence=0)
        log.send(transactional(epoch=1, sequence=3), guard=guard)

    def test_batches_outside_transactions_wait_too(self, log):
        begin(log, sequence=0)
        with pytest.raises(OutOfOrderSequenceNumber, match="0 waits to be let in"):
            log.send(batch_by(sequence=1))

    def test_nobody_waits_for_another_epoch(self, log):
        begin(log, epoch=0, sequence=0)
        log.send(batch_by(epoch=1, sequence=3))

    def test_a_late_copy_of_what_is_in_the_log_holds_nothing_up(self, log):
        log.send(transactional(), guard=begin(log))
        log.end_transaction(marker_by())
        begin(log, sequence=0)
        log.send(transactional(sequence=1), guard=begin(log, sequence=1))
        assert log.end_offset == 3

    def test_nor_does_one_from_before_sequences_began_anew(self, log):
        log.send(transactional(sequence=SEQUENCE_MAX), guard=begin(log, sequence=SEQUENCE_MAX))
        log.send(transactional(sequence=0))
        log.end_transaction(marker_by())
        begin(log, sequence=0)
        log.send(transactional(sequence=1), guard=begin(log, sequence=1))
        assert log.end_offset == 4

    def test_a_fenced_producer_is_told_so_first(self, log):
        log.end_transaction(marker_by(epoch=1))
        guard = begin(log, epoch=0, sequence=0)
        with pytest.raises(InvalidProducerEpoch):
            log.send(transactional(epoch=0, sequence=9), guard=guard)


class TestZombies:
    @pytest.mark.parametrize("bumps_epochs", [False, True])
    def test_one_holds_up_no_transaction_of_a_later_epoch(self, log, bumps_epochs):
        log.send(transactional(epoch=1), guard=begin(log, epoch=1, bumps_epochs=bumps_epochs))
        zombies = begin(log, epoch=0, bumps_epochs=bumps_epochs)
        with pytest.raises(InvalidProducerEpoch):
            log.send(transactional(epoch=0), guard=zombies)
        log.send(transactional(epoch=1, sequence=1))
        assert log.end_offset == 2

    def test_its_guard_serves_nobody(self, log):
        log.send(transactional(epoch=1), guard=begin(log, epoch=1))
        log.end_transaction(marker_by(epoch=1))
        zombies = begin(log, epoch=0, sequence=0)
        with pytest.raises(InvalidTxnState):
            log.send(transactional(epoch=1, sequence=1), guard=zombies)
        log.send(transactional(epoch=1, sequence=1), guard=begin(log, epoch=1, sequence=1))

    def test_who_takes_its_guard_over_begins_as_it_must_itself(self, log):
        begin(log, epoch=0, bumps_epochs=False)
        guard = begin(log, epoch=1, sequence=3, bumps_epochs=True)
        with pytest.raises(OutOfOrderSequenceNumber, match="nothing before"):
            log.send(transactional(epoch=1, sequence=3), guard=guard)

    def test_or_as_it_may(self, log):
        begin(log, epoch=0, bumps_epochs=True)
        guard = begin(log, epoch=1, sequence=3, bumps_epochs=False)
        log.send(transactional(epoch=1, sequence=3), guard=guard)
        assert log.end_offset == 1


class TestAnEpochForEachTransaction:
    def test_a_transaction_of_an_earlier_epoch_is_not_the_producers_now(self, log):
        log.send(transactional(), guard=begin(log))
        guard = begin(log, epoch=1)
        assert guard is not None
        with pytest.raises(InvalidTxnState):
            log.send(transactional(epoch=1))

    def test_a_marker_with_the_next_epoch_begins_sequences_anew(self, log):
        log.send(transactional(), guard=begin(log, bumps_epochs=True))
        log.end_transaction(marker_by(epoch=1))
        guard = begin(log, epoch=1, sequence=1, bumps_epochs=True)
        with pytest.raises(OutOfOrderSequenceNumber):
            log.send(transactional(epoch=1, sequence=1), guard=guard)
        log.send(transactional(epoch=1), guard=begin(log, epoch=1, bumps_epochs=True))

    def test_whoever_wrote_before_the_marker_is_fenced_after_it(self, log):
        log.send(transactional(), guard=begin(log, bumps_epochs=True))
        log.end_transaction(marker_by(epoch=1))
        guard = begin(log, epoch=0, sequence=1, bumps_epochs=True)
        with pytest.raises(InvalidProducerEpoch):
            log.send(transactional(sequence=1), guard=guard)

    def test_a_producer_that_nothing_is_known_of_begins_at_0(self, log):
        guard = begin(log, sequence=3, bumps_epochs=True)
        with pytest.raises(OutOfOrderSequenceNumber, match="nothing before"):
            log.send(transactional(sequence=3), guard=guard)

    def test_others_may_begin_anywhere(self, log):
        log.send(transactional(sequence=3), guard=begin(log, sequence=3))


class TestExpiry:
    def test_a_guard_that_nobody_came_back_for_expires(self, log):
        guard = begin(log, now_ms=NOON)
        log.states.expire(NOON + log.settings.producer_id_expiration_ms)
        with pytest.raises(InvalidTxnState):
            log.send(transactional(), guard=guard)

    def test_a_younger_one_does_not(self, log):
        guard = begin(log, now_ms=NOON + 1)
        log.states.expire(NOON + log.settings.producer_id_expiration_ms)
        log.send(transactional(), guard=guard)
