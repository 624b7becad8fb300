"""Clearing the open transactions of a producer snapshot."""

import pytest

from odradek.storage.producer_state.producer_state_entry import ProducerStateEntry
from odradek.storage.producer_state.snapshot import CorruptSnapshot, ProducerSnapshots
from tests.support.faulty_disk import FaultyDisk

OPEN = ProducerStateEntry(3, 7, 1000, 16, b"")
IDLE = ProducerStateEntry(0, 2, 2000, None, b"")


@pytest.fixture
def snapshots(tmp_path):
    snapshots = ProducerSnapshots(tmp_path)
    snapshots.write(20, {1: OPEN, 2: IDLE}, is_synced=True)
    return snapshots


def test_open_transactions_are_cleared_and_nothing_else_changes(snapshots):
    snapshots.clear_open_transactions(20)
    assert snapshots.read(20) == {1: ProducerStateEntry(3, 7, 1000, None, b""), 2: IDLE}
    assert snapshots.offsets == [20]


def test_missing_snapshot_is_not_created(snapshots):
    snapshots.clear_open_transactions(10)
    assert snapshots.offsets == [20]
    assert not snapshots.path(10).exists()


def test_nothing_is_written_without_open_transactions(snapshots):
    snapshots.clear_open_transactions(20)
    with FaultyDisk() as disk:
        snapshots.clear_open_transactions(20)
    assert disk.changes == 0


def test_corrupt_snapshot_stays_corrupt(snapshots):
    snapshots.path(20).write_bytes(b"?")
    snapshots.clear_open_transactions(20)
    with pytest.raises(CorruptSnapshot):
        snapshots.read(20)


@pytest.mark.parametrize("fail_at", range(1, 6))
def test_crash_leaves_the_old_or_the_new_snapshot(snapshots, fail_at):
    with FaultyDisk(fail_at=fail_at, persists=True), pytest.raises(OSError, match="Input"):
        snapshots.clear_open_transactions(20)
    assert snapshots.read(20)[1].current_txn_first_offset in (16, None)
