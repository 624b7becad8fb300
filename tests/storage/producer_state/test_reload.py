"""Producer state across snapshots, restarts, truncations, failing disks and power cuts."""

import errno

import pytest

from odradek.storage.producer_state.snapshot import ProducerSnapshots
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


def comparable_state(states):
    """The state that does not depend on the snapshot it was loaded from."""
    return {
        producer_id: (
            state.epoch,
            state.coordinator_epoch,
            state.last_timestamp,
            state.last_sequence,
            state.last_batch and state.last_batch.last_offset,
            state.current_txn_first_offset,
        )
        for producer_id, state in states.active_producers.items()
    }


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])


class TestSnapshots:
    def test_snapshot_is_taken_at_the_log_end(self, log):
        send_in_sequence(log, count=3)
        assert log.states.take_snapshot() == log.directory / "00000000000000000003.snapshot"
        assert log.states.last_snapshot_offset == 3

    def test_no_snapshot_is_taken_while_the_log_end_has_not_moved(self, log):
        assert log.states.take_snapshot() is None
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        assert log.states.take_snapshot() is None

    def test_snapshot_offset_may_lie_beyond_the_last_batch(self, log):
        send_in_sequence(log, count=3)
        log.states.update_map_end_offset(10)
        log.states.take_snapshot()
        assert log.states.snapshots.offsets == [10]

    def test_snapshot_and_directory_are_synced(self, log):
        send_in_sequence(log, count=3)
        with FaultyDisk(counting=SYNCS) as disk:
            log.states.take_snapshot()
        assert disk.changes == 2

    def test_snapshot_of_a_roll_is_not_synced(self, log):
        send_in_sequence(log, count=3)
        with FaultyDisk(counting=SYNCS) as disk:
            log.states.take_snapshot(is_synced=False)
        assert disk.changes == 0


class TestReloading:
    def test_replay_starts_at_the_log_start_without_snapshots(self, log):
        log.states.truncate_and_reload(start=5, end=20, now_ms=NOON)
        assert log.states.map_end_offset == 5

    def test_replay_starts_at_the_newest_snapshot(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        send_in_sequence(log, first=3, count=2)
        log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.truncate_and_reload(start=0, end=9, now_ms=NOON)
        assert states.map_end_offset == states.last_snapshot_offset == 5
        assert states.active_producers[7].last_sequence == 4

    def test_snapshots_beyond_the_end_are_removed_and_not_loaded(self, log):
        for count in (3, 2, 1):
            send_in_sequence(log, first=log.end_offset, count=count)
            log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.truncate_and_reload(start=0, end=4, now_ms=NOON)
        assert states.active_producers[7].last_sequence == 2
        assert ProducerSnapshots(log.directory).offsets == [3]

    def test_snapshots_before_the_start_are_removed_and_not_loaded(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.truncate_and_reload(start=4, end=9, now_ms=NOON)
        assert states.is_empty
        assert states.map_end_offset == 4
        assert ProducerSnapshots(log.directory).offsets == []

    def test_producers_of_an_emptied_log_are_still_known(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        states = ProducerLog(log.directory).states
        states.truncate_and_reload(start=3, end=3, now_ms=NOON)
        assert states.active_producers[7].last_sequence == 2

    def test_corrupt_snapshot_is_removed_and_the_previous_one_is_loaded(self, log):
        for _ in range(3):
            send_in_sequence(log, first=log.end_offset, count=2)
            path = log.states.take_snapshot()
        damage(path)
        damage(log.states.snapshots.path(4))
        states = ProducerLog(log.directory).states
        errors = states.truncate_and_reload(start=0, end=9, now_ms=NOON)
        assert [error.path for error in errors] == [path, log.states.snapshots.path(4)]
        assert states.map_end_offset == 2
        assert ProducerSnapshots(log.directory).offsets == [2]

    def test_expired_producers_are_not_loaded_unless_in_a_transaction(self, log):
        log.send(batch_by(1, timestamp=NOON))
        log.send(batch_by(2, timestamp=NOON, transactional=True))
        log.send(batch_by(3, timestamp=NOON + 1))
        log.states.take_snapshot()
        log.restart(now_ms=NOON + log.settings.producer_id_expiration_ms)
        assert set(log.states.active_producers) == {2, 3}

    def test_open_transactions_are_loaded_in_the_order_they_began(self, log):
        for producer_id in (9, 3, 5):
            log.send(batch_by(producer_id, transactional=True))
        log.end_transaction(marker_by(9))
        log.send(batch_by(9, sequence=1, transactional=True))
        log.states.take_snapshot()
        log.restart()
        for producer_id, first in ((3, 1), (5, 2), (9, 4)):
            assert log.states.transactions.first_undecided_offset == first
            log.end_transaction(marker_by(producer_id))

    def test_transaction_may_begin_before_and_end_after_the_snapshot(self, log):
        log.send(batch_by(transactional=True))
        log.states.take_snapshot()
        log.end_transaction(marker_by(is_commit=False))
        log.restart()
        assert log.states.transactions.first_undecided_offset is None
        assert log.states.transactions.first_unstable_offset == 0

    def test_snapshot_keeps_only_the_newest_batch_of_a_producer(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        log.restart()
        assert [batch.last_sequence for batch in log.states.active_producers[7].batches] == [2]

    def test_reload_with_an_unchanged_end_keeps_all_batches(self, log):
        send_in_sequence(log, count=3)
        log.states.truncate_and_reload(start=2, end=3, now_ms=NOON)
        assert len(log.states.active_producers[7].batches) == 3


class TestTruncating:
    def test_truncated_producers_epochs_and_transactions_are_forgotten(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        log.send(batch_by(8, transactional=True))
        log.send(batch_by(epoch=1))
        log.truncate(3)
        assert set(log.states.active_producers) == {7}
        assert log.states.active_producers[7].epoch == 0
        assert log.states.transactions.first_unstable_offset is None

    def test_truncated_marker_leaves_its_transaction_open(self, log):
        log.send(batch_by(transactional=True))
        log.end_transaction(marker_by())
        log.truncate(1)
        assert log.states.transactions.first_undecided_offset == 0

    def test_removal_of_snapshots_is_synced(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        with FaultyDisk(counting=("sync_directory",)) as disk:
            log.truncate(2)
        assert disk.changes == 1

    def test_restart_without_truncation_syncs_nothing(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        with FaultyDisk(counting=SYNCS) as disk:
            log.restart()
        assert disk.changes == 0


def write_history(log):
    """Synced and unsynced snapshots, a transaction, and a truncation followed by other batches."""
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


def replayed_state(log):
    """The state after replaying the whole log."""
    fresh = ProducerLog(log.directory)
    fresh.states.replay(log.batches, end_offset=log.end_offset)
    return comparable_state(fresh.states), fresh.states.transactions.first_undecided_offset


def loaded_state(log):
    return comparable_state(log.states), log.states.transactions.first_undecided_offset


def count_history_changes(log):
    with FaultyDisk() as disk:
        write_history(log)
    return disk.changes


class TestFailingDisks:
    @pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
    @pytest.mark.parametrize("short_write", [True, False])
    def test_restart_after_any_failed_call_equals_a_replay(self, tmp_path, error, short_write):
        (tmp_path / "whole").mkdir()
        for n in range(1, count_history_changes(ProducerLog(tmp_path / "whole")) + 1):
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
            assert loaded_state(log) == replayed_state(log)

    def test_failed_snapshot_can_be_retried(self, log):
        send_in_sequence(log, count=3)
        with FaultyDisk(fail_at=1, error=errno.ENOSPC), pytest.raises(OSError, match="No space"):
            log.states.take_snapshot()
        assert log.states.snapshots.offsets == []
        assert log.states.take_snapshot() is not None

    def test_failed_truncation_forgets_nothing(self, log):
        send_in_sequence(log, count=3)
        log.states.take_snapshot()
        with FaultyDisk(fail_at=1), pytest.raises(OSError, match="Input/output"):
            log.states.truncate_fully_and_start_at(0)
        assert log.states.active_producers[7].last_sequence == 2


class TestPowerCuts:
    @pytest.mark.parametrize("seed", range(10))
    def test_restart_after_any_power_cut_equals_a_replay(self, tmp_path, seed):
        (tmp_path / "whole").mkdir()
        for n in range(1, count_history_changes(ProducerLog(tmp_path / "whole")) + 2):
            directory = tmp_path / str(n)
            directory.mkdir()
            log = ProducerLog(directory)
            with PowerCut(directory, seed * 100 + n, off_at=n) as disk:
                write_and_cut_power(disk, log, write_history)
                write_and_cut_power(disk, log, grow)

    def test_restart_after_the_whole_history_equals_a_replay(self, log):
        write_history(log)
        log.restart()
        assert loaded_state(log) == replayed_state(log)


def grow(log):
    """Append past the offsets of all snapshots taken so far."""
    while log.end_offset < 12:
        log.send(batch_by(30 + log.end_offset))
    log.states.take_snapshot(is_synced=False)


def write_and_cut_power(disk, log, write):
    try:
        write(log)
    except PowerIsOff:
        assert disk.changes
    disk.cut()
    log.restart()
    assert loaded_state(log) == replayed_state(log), str(disk)
