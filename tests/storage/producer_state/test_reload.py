"""Producer state taken to disk and back: snapshots, restarts, truncation, failing disks."""

import errno

import pytest

from odradek.storage.producers.snapshot import ProducerSnapshots
from tests.support.faulty_disk import FaultyDisk
from tests.support.power_cut import PowerCut, PowerIsOff
from tests.support.producer_log import NOON, ProducerLog, batch_by, marker_by

SYNCS = ("fsync", "sync_directory")


@pytest.fixture
def log(tmp_path):
    return ProducerLog(tmp_path)


def send_in_sequence(log, *, count, first=0, **fields):
    for sequence in range(first, first + count):
        log.send(batch_by(sequence=sequence, **fields))


def known_of(states):
    """All that does not depend on which snapshot it came from."""
    return {
        producer_id: (
            state.epoch,
            state.coordinator_epoch,
            state.last_timestamp,
            state.last_sequence,
            state.last_batch and state.last_batch.last_offset,
            state.transaction_first_offset,
        )
        for producer_id, state in states.states.items()
    }


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])


class TestTakingSnapshots:
    def test_one_is_taken_at_the_end_of_the_log(self, log):
        send_in_sequence(log, count=3)
        assert log.states.take_snapshot() == log.directory / "00000000000000000003.snapshot"
        assert log.states.snapshot_offset == 3

    def test_none_is_taken_while_the_end_has_not_moved(self, log):
        assert log.states.take_snapshot() is None
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        assert log.states.take_snapshot() is None

    def test_a_roll_may_put_the_end_beyond_the_last_batch(self, log):
        send_in_sequence(log, count=3)
        log.states.advance(10)
        log.states.take_snapshot()
        assert log.states.snapshots.offsets == [10]

    def test_one_is_synced_together_with_its_name(self, log):
        send_in_sequence(log, count=3)
        with FaultyDisk(counting=SYNCS) as disk:
            log.states.take_snapshot()
        assert disk.changes == 2

    def test_at_a_roll_none_waits_for_the_disk(self, log):
        send_in_sequence(log, count=3)
        with FaultyDisk(counting=SYNCS) as disk:
            log.states.take_snapshot(is_synced=False)
        assert disk.changes == 0


class TestReloading:
    def test_without_snapshots_all_is_to_be_replayed(self, log):
        log.states.reload(start=5, end=20, now_ms=NOON)
        assert log.states.end_offset == 5

    def test_the_newest_snapshot_is_where_the_replay_begins(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        send_in_sequence(log, first=3, count=2)
        log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.reload(start=0, end=9, now_ms=NOON)
        assert states.end_offset == states.snapshot_offset == 5
        assert states.states[7].last_sequence == 4

    def test_snapshots_beyond_the_end_are_removed_and_not_loaded(self, log):
        for count in (3, 2, 1):
            send_in_sequence(log, first=log.end_offset, count=count)
            log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.reload(start=0, end=4, now_ms=NOON)
        assert states.states[7].last_sequence == 2
        assert ProducerSnapshots(log.directory).offsets == [3]

    def test_snapshots_before_the_start_are_removed_and_not_loaded(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.reload(start=4, end=9, now_ms=NOON)
        assert states.is_empty
        assert states.end_offset == 4
        assert ProducerSnapshots(log.directory).offsets == []

    def test_an_emptied_log_still_knows_its_producers(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.reload(start=3, end=3, now_ms=NOON)
        assert states.states[7].last_sequence == 2

    def test_a_damaged_snapshot_is_reported_and_removed_and_the_one_before_loaded(self, log):
        for _ in range(3):
            send_in_sequence(log, first=log.end_offset, count=2)
            path = log.states.take_snapshot()
        damage(path)
        damage(log.states.snapshots.path(4))
        states = ProducerLog(log.directory).states
        damages = states.reload(start=0, end=9, now_ms=NOON)
        assert [each.path for each in damages] == [path, log.states.snapshots.path(4)]
        assert states.end_offset == 2
        assert ProducerSnapshots(log.directory).offsets == [2]

    def test_idle_producers_are_left_behind_but_not_open_transactions(self, log):
        log.send(batch_by(1, timestamp=NOON))
        log.send(batch_by(2, timestamp=NOON, transactional=True))
        log.send(batch_by(3, timestamp=NOON + 1))
        log.states.take_snapshot()
        log.restart(now_ms=NOON + log.settings.producer_id_expiration_ms)
        assert set(log.states.states) == {2, 3}

    def test_open_transactions_come_back_in_the_order_they_began(self, log):
        for producer_id in (9, 3, 5):
            log.send(batch_by(producer_id, transactional=True))
        log.end_transaction(marker_by(9))
        log.send(batch_by(9, sequence=1, transactional=True))
        log.states.take_snapshot()
        log.restart()
        for producer_id, first in ((3, 1), (5, 2), (9, 4)):
            assert log.states.transactions.first_undecided_offset == first
            log.end_transaction(marker_by(producer_id))

    def test_a_transaction_may_begin_before_and_end_after_the_snapshot(self, log):
        log.send(batch_by(transactional=True))
        log.states.take_snapshot()
        log.end_transaction(marker_by(is_commit=False))
        log.restart()
        assert log.states.transactions.first_undecided_offset is None
        assert log.states.transactions.first_unstable_offset == 0

    def test_after_a_snapshot_only_its_own_batch_is_recognised_as_sent_before(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        log.restart()
        assert [batch.last_sequence for batch in log.states.states[7].batches] == [2]

    def test_the_log_ending_where_it_did_only_its_start_may_have_moved(self, log):
        send_in_sequence(log, count=3)
        log.states.reload(start=2, end=3, now_ms=NOON)
        assert len(log.states.states[7].batches) == 3


class TestTruncating:
    def test_what_was_cut_off_is_forgotten(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        log.send(batch_by(8, transactional=True))
        log.send(batch_by(epoch=1))
        log.truncate(3)
        assert set(log.states.states) == {7}
        assert log.states.states[7].epoch == 0
        assert log.states.transactions.first_unstable_offset is None

    def test_a_marker_that_was_cut_off_leaves_its_transaction_open(self, log):
        log.send(batch_by(transactional=True))
        log.end_transaction(marker_by())
        log.truncate(1)
        assert log.states.transactions.first_undecided_offset == 0

    def test_removed_snapshots_do_not_come_back_with_the_power(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        with FaultyDisk(counting=("sync_directory",)) as disk:
            log.truncate(2)
        assert disk.changes == 1

    def test_without_truncation_a_restart_waits_for_no_disk(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        with FaultyDisk(counting=SYNCS) as disk:
            log.restart()
        assert disk.changes == 0


def write_history(log):
    """Snapshots synced and not, a transaction, and a truncation after which all is different."""
    send_in_sequence(log, count=3)
    log.states.take_snapshot(is_synced=False)
    log.send(batch_by(8, transactional=True))
    log.states.take_snapshot()
    log.end_transaction(marker_by(8))
    send_in_sequence(log, first=3, count=2)
    log.states.take_snapshot()
    log.truncate(4)
    log.send(batch_by(8, epoch=3, transactional=True))
    send_in_sequence(log, first=0, count=5, epoch=1)
    log.states.take_snapshot(is_synced=False)


def known_from_scratch(log):
    """What going over the whole log tells."""
    fresh = ProducerLog(log.directory)
    fresh.states.replay(log.batches, end_offset=log.end_offset)
    return known_of(fresh.states), fresh.states.transactions.first_undecided_offset


def known(log):
    return known_of(log.states), log.states.transactions.first_undecided_offset


def changes_of_history(log):
    with FaultyDisk() as disk:
        write_history(log)
    return disk.changes


class TestFailingDisks:
    @pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
    @pytest.mark.parametrize("short_write", [True, False])
    def test_whatever_call_fails_a_restart_knows_what_the_log_tells(
        self, tmp_path, error, short_write
    ):
        (tmp_path / "whole").mkdir()
        for n in range(1, changes_of_history(ProducerLog(tmp_path / "whole")) + 1):
            directory = tmp_path / str(n)
            directory.mkdir()
            log = ProducerLog(directory)
            with (
                FaultyDisk(fail_at=n, error=error, short_write=short_write) as disk,
                pytest.raises(OSError, match=r"No space|Input/output"),
            ):
                write_history(log)
            assert disk.failed_calls
            log.restart()
            assert known(log) == known_from_scratch(log)

    def test_a_snapshot_that_could_not_be_written_is_tried_again(self, log):
        send_in_sequence(log, count=3)
        with FaultyDisk(fail_at=1, error=errno.ENOSPC), pytest.raises(OSError, match="No space"):
            log.states.take_snapshot()
        assert log.states.snapshots.offsets == []
        assert log.states.take_snapshot() is not None

    def test_a_truncation_that_failed_has_forgotten_nothing(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        with FaultyDisk(fail_at=1), pytest.raises(OSError, match="Input/output"):
            log.states.begin_anew(0)
        assert log.states.states[7].last_sequence == 2


class TestPowerCuts:
    @pytest.mark.parametrize("seed", range(10))
    def test_whenever_the_power_goes_a_restart_knows_what_the_log_tells(self, tmp_path, seed):
        (tmp_path / "whole").mkdir()
        for n in range(1, changes_of_history(ProducerLog(tmp_path / "whole")) + 2):
            directory = tmp_path / str(n)
            directory.mkdir()
            log = ProducerLog(directory)
            with PowerCut(directory, seed * 100 + n, off_at=n) as disk:
                cut_in(disk, log, write_history)
                cut_in(disk, log, grow)

    def test_the_history_is_one_that_can_be_told(self, log):
        write_history(log)
        log.restart()
        assert known(log) == known_from_scratch(log)


def grow(log):
    """Past the offsets of all snapshots that were ever taken."""
    while log.end_offset < 12:
        log.send(batch_by(30 + log.end_offset))
    log.states.take_snapshot(is_synced=False)


def cut_in(disk, log, write):
    try:
        write(log)
    except PowerIsOff:
        assert disk.changes
    disk.cut()
    log.restart()
    assert known(log) == known_from_scratch(log), str(disk)
