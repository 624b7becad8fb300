"""Recovering the metadata of a producer's last batches after a restart."""

import pytest

from odradek.protocol.errors import OutOfOrderSequenceNumber
from odradek.storage.log_truncation import truncate_to
from odradek.storage.producer_state.producer_state_entry import NUM_BATCHES_TO_RETAIN
from tests.support.damage import LENGTH_POSITION, flip_in_batch
from tests.support.logs import NOW_MS, append, end_transaction, opened, recovered

PRODUCER = {"producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


def send(log, sequence, **fields):
    timestamp = NOW_MS - 1000 + sequence
    return append(log, b"a", base_sequence=sequence, timestamp=timestamp, **PRODUCER, **fields)


def restarted(log, *, is_clean):
    if is_clean:
        log.close(now_ms=NOW_MS)
        return opened(log.directory)
    log.close_handlers()
    return recovered(log.directory)


@pytest.mark.parametrize("is_clean", [True, False])
class TestRestart:
    def test_p2_retry_of_any_of_the_last_five_batches_is_a_duplicate(self, directory, is_clean):
        log = opened(directory)
        original = [send(log, sequence) for sequence in range(8)]
        append(log, b"of nobody")
        log = restarted(log, is_clean=is_clean)
        for sequence in range(8 - NUM_BATCHES_TO_RETAIN, 8):
            retry = send(log, sequence)
            assert retry.is_duplicate
            assert retry.first_offset == original[sequence].first_offset
        with pytest.raises(OutOfOrderSequenceNumber):
            send(log, 8 - NUM_BATCHES_TO_RETAIN - 1)

    def test_p2_retry_after_the_end_of_the_transaction_is_a_duplicate(self, directory, is_clean):
        log = opened(directory)
        for sequence in range(3):
            send(log, sequence, is_transactional=True)
        end_transaction(log, producer_id=7, commit=True)
        log = restarted(log, is_clean=is_clean)
        for sequence in range(3):
            retry = send(log, sequence, is_transactional=True)
            assert (retry.is_duplicate, retry.first_offset) == (True, sequence)
            assert retry.append_time_ms == NOW_MS - 1000 + sequence

    def test_p2_retry_of_batches_in_several_segments_is_a_duplicate(self, directory, is_clean):
        log = opened(directory)
        for sequence in range(4):
            send(log, sequence)
            log.roll(now_ms=NOW_MS)
        log = restarted(log, is_clean=is_clean)
        assert [send(log, sequence).first_offset for sequence in range(4)] == [0, 1, 2, 3]

    def test_batches_of_an_older_epoch_are_not_recovered(self, directory, is_clean):
        log = opened(directory)
        send(log, 0)
        append(log, b"a", producer_id=7, producer_epoch=1, base_sequence=0)
        log = restarted(log, is_clean=is_clean)
        (batch,) = log.producer_state_manager.active_producers[7].batches
        assert batch.last_offset == 1


def test_truncation_recovers_the_remaining_batches(directory):
    log = opened(directory)
    for sequence in range(6):
        send(log, sequence)
    truncate_to(log, 4, now_ms=NOW_MS)
    assert [send(log, sequence).first_offset for sequence in range(4)] == [0, 1, 2, 3]
    assert not send(log, 4).is_duplicate


def test_unreadable_batches_are_skipped(directory):
    log = opened(directory)
    for sequence in range(6):
        send(log, sequence)
    log.roll(now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    flip_in_batch(log.segments.first, 2, LENGTH_POSITION)
    log = opened(directory, recovery_point=6)
    assert send(log, 5).is_duplicate
    assert send(log, 6).first_offset == 6
