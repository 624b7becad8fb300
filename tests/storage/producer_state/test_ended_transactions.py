"""A snapshot may be told that the transactions it calls open have ended."""

import pytest

from odradek.storage.producers.append import ProducerState
from odradek.storage.producers.snapshot import ProducerSnapshotDamaged, ProducerSnapshots
from tests.support.faulty_disk import FaultyDisk

OPEN = ProducerState(3, 7, 1000, 16, b"")
IDLE = ProducerState(0, 2, 2000, None, b"")


@pytest.fixture
def snapshots(tmp_path):
    snapshots = ProducerSnapshots(tmp_path)
    snapshots.write(20, {1: OPEN, 2: IDLE}, is_synced=True)
    return snapshots


def test_none_is_open_any_more_and_nothing_else_has_changed(snapshots):
    snapshots.end_transactions(20)
    assert snapshots.read(20) == {1: ProducerState(3, 7, 1000, None, b""), 2: IDLE}
    assert snapshots.offsets == [20]


def test_without_a_snapshot_none_is_made(snapshots):
    snapshots.end_transactions(10)
    assert snapshots.offsets == [20]
    assert not snapshots.path(10).exists()


def test_nothing_is_written_if_none_is_open(snapshots):
    snapshots.end_transactions(20)
    with FaultyDisk() as disk:
        snapshots.end_transactions(20)
    assert disk.changes == 0


def test_a_damaged_one_stays_damaged(snapshots):
    snapshots.path(20).write_bytes(b"?")
    snapshots.end_transactions(20)
    with pytest.raises(ProducerSnapshotDamaged):
        snapshots.read(20)


@pytest.mark.parametrize("fail_at", range(1, 6))
def test_a_crash_leaves_the_old_or_the_new_one(snapshots, fail_at):
    with FaultyDisk(fail_at=fail_at, persists=True), pytest.raises(OSError, match="Input"):
        snapshots.end_transactions(20)
    assert snapshots.read(20)[1].transaction_first_offset in (16, None)
