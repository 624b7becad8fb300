"""Idempotent producer scenarios P1 to P7: the part that the log decides."""

from random import Random

import pytest

from odradek.protocol.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from odradek.protocol.records.batch import SEQUENCE_MAX
from tests.support.idempotent_log import IdempotentLog
from tests.support.logs import NOW_MS
from tests.support.producer_log import batch_by as any_batch_by


@pytest.fixture
def log(tmp_path):
    return IdempotentLog(tmp_path)


def batch_by(**fields):
    return any_batch_by(**{"timestamp": NOW_MS, **fields})


def send_in_sequence(log, *, count, first=0):
    return [log.send(batch_by(sequence=sequence)) for sequence in range(first, first + count)]


def sequences_in(log):
    return [batch.base_sequence for batch in log.batches]


def assert_rejected(log, batch, error):
    before = sequences_in(log)
    with pytest.raises(error):
        log.send(batch)
    assert sequences_in(log) == before


def test_p1_retry_after_a_lost_response_gets_the_original_offset(log):
    original = log.send(batch_by(count=3))
    retry = log.send(batch_by(count=3))
    assert retry.is_duplicate
    assert (retry.first_offset, retry.last_offset) == (original.first_offset, original.last_offset)
    assert len(log.batches) == 1


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "crash"])
def test_p1_retry_after_a_restart_gets_the_original_offset(log, is_clean):
    original = send_in_sequence(log, count=3)[-1]
    log.restart(is_clean=is_clean)
    retry = log.send(batch_by(sequence=2))
    assert retry.is_duplicate
    assert retry.first_offset == original.first_offset
    assert len(log.batches) == 3


def test_p1_retry_to_the_next_leader_gets_the_original_offset(log, tmp_path_factory):
    original = send_in_sequence(log, count=3)[-1]
    follower = IdempotentLog(tmp_path_factory.mktemp("follower"))
    follower.replicate(*log.batches)
    retry = follower.send(batch_by(sequence=2))
    assert retry.is_duplicate
    assert retry.first_offset == original.first_offset
    assert sequences_in(follower) == sequences_in(log)


def test_p1_truncated_batch_may_be_sent_again(log):
    send_in_sequence(log, count=3)
    log.truncate(2)
    assert not log.send(batch_by(sequence=2)).is_duplicate
    assert sequences_in(log) == [0, 1, 2]


@pytest.mark.parametrize("back", range(5))
def test_p2_retry_of_any_of_the_last_five_batches_is_a_duplicate(log, back):
    appended = send_in_sequence(log, count=8)
    retry = log.send(batch_by(sequence=7 - back))
    assert retry.is_duplicate
    assert retry.first_offset == appended[7 - back].first_offset
    assert len(log.batches) == 8


def test_p2_retry_of_an_earlier_batch_is_out_of_order(log):
    send_in_sequence(log, count=8)
    assert_rejected(log, batch_by(sequence=2), OutOfOrderSequenceNumber)


@pytest.mark.parametrize("sequence", [4, 5, 1000, SEQUENCE_MAX])
def test_p3_batch_after_a_sequence_gap_is_rejected(log, sequence):
    send_in_sequence(log, count=3)
    assert_rejected(log, batch_by(sequence=sequence), OutOfOrderSequenceNumber)


def test_p3_batch_is_appended_once_the_gap_is_filled(log):
    send_in_sequence(log, count=3)
    assert_rejected(log, batch_by(sequence=4), OutOfOrderSequenceNumber)
    send_in_sequence(log, first=3, count=2)
    assert sequences_in(log) == [0, 1, 2, 3, 4]


def test_p4_unknown_producer_may_start_with_any_sequence(log):
    send_in_sequence(log, first=17, count=2)
    assert sequences_in(log) == [17, 18]


def test_p4_new_epoch_of_a_known_producer_starts_at_sequence_zero(log):
    send_in_sequence(log, count=3)
    assert_rejected(log, batch_by(epoch=1, sequence=3), OutOfOrderSequenceNumber)
    log.send(batch_by(epoch=1, sequence=0))
    assert sequences_in(log) == [0, 1, 2, 0]


class PipeliningClient:
    """Sends numbered batches, five in flight; a lost connection loses requests and responses."""

    IN_FLIGHT_MAX = 5

    def __init__(self, log: IdempotentLog, random: Random) -> None:
        self._log = log
        self._random = random
        self._acknowledged = 0

    def send_all(self, count: int) -> None:
        while self._acknowledged < count:
            in_flight = range(
                self._acknowledged, min(self._acknowledged + self.IN_FLIGHT_MAX, count)
            )
            arrived = self._random.randint(0, len(in_flight))
            for sequence in in_flight[:arrived]:
                self._log.send(batch_by(sequence=sequence))
            self._acknowledged += self._random.randint(0, arrived)


@pytest.mark.parametrize("seed", range(20))
def test_p5_batches_keep_their_order_when_connections_are_lost(log, seed):
    PipeliningClient(log, Random(seed)).send_all(40)
    assert sequences_in(log) == list(range(40))


@pytest.mark.parametrize("seed", range(5))
def test_p5_batch_that_overtakes_a_lost_one_is_rejected(log, seed):
    random = Random(seed)
    send_in_sequence(log, count=3)
    lost = random.randint(3, 6)
    send_in_sequence(log, first=3, count=lost - 3)
    for sequence in range(lost + 1, 8):
        assert_rejected(log, batch_by(sequence=sequence), OutOfOrderSequenceNumber)
    send_in_sequence(log, first=lost, count=8 - lost)
    assert sequences_in(log) == list(range(8))


@pytest.mark.parametrize("sequence", [0, 3])
def test_p6_batch_with_an_old_epoch_is_rejected(log, sequence):
    send_in_sequence(log, count=3)
    log.send(batch_by(epoch=1))
    assert_rejected(log, batch_by(epoch=0, sequence=sequence), InvalidProducerEpoch)


def test_p6_batch_with_an_old_epoch_is_rejected_after_a_restart(log):
    log.send(batch_by(epoch=1))
    log.restart()
    assert_rejected(log, batch_by(epoch=0), InvalidProducerEpoch)


def test_p7_retry_is_a_duplicate_until_the_producer_expires(log):
    log.send(batch_by(timestamp=NOW_MS))
    log.states.remove_expired_producers(NOW_MS + log.settings.producer_id_expiration_ms - 1)
    assert log.send(batch_by(timestamp=NOW_MS)).is_duplicate


def test_p7_expired_producer_may_continue_its_sequence(log):
    send_in_sequence(log, count=3)
    log.states.remove_expired_producers(NOW_MS + log.settings.producer_id_expiration_ms)
    send_in_sequence(log, first=3, count=2)
    assert sequences_in(log) == [0, 1, 2, 3, 4]


def test_p7_expired_producer_may_start_a_new_epoch(log):
    send_in_sequence(log, count=3)
    log.states.remove_expired_producers(NOW_MS + log.settings.producer_id_expiration_ms)
    log.send(batch_by(epoch=1, sequence=0))
    assert sequences_in(log) == [0, 1, 2, 0]


def test_p7_batch_restored_by_a_restart_is_a_duplicate_after_expiration(log):
    send_in_sequence(log, first=5, count=1)
    log.states.remove_expired_producers(NOW_MS + log.settings.producer_id_expiration_ms)
    send_in_sequence(log, first=4, count=1)
    log.restart()
    assert log.send(batch_by(sequence=5)).is_duplicate
    assert sequences_in(log) == [5, 4]
