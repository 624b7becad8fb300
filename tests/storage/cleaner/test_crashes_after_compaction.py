"""What recovery can no longer learn from the batches was written down before they went."""

import pytest

from odradek.storage.log_truncation import truncate
from odradek.storage.retention import apply_retention
from tests.support.compaction import append_pairs, compact, sealed, stored_batches
from tests.support.logs import NOW_MS, append, end_transaction, opened, recovered

SETTINGS = {"cleanup_policy": ("compact",), "delete_retention_ms": 10}


def with_epochs(directory):
    """Of epoch 1 the first batch, at 1, will be compacted away."""
    log = opened(directory, **SETTINGS)
    for epoch, key in ((0, b"a"), (1, b"b"), (1, b"b"), (2, b"c")):
        append(log, b"value", key=key, leader_epoch=epoch)
    return sealed(log)


def test_epochs_begin_where_they_did_though_their_first_batches_are_gone(tmp_path):
    log = with_epochs(tmp_path / "events-0")
    compact(log)
    assert [batch.base_offset for batch in stored_batches(log)] == [0, 2, 3]
    log.abandon()
    again = recovered(tmp_path / "events-0", **SETTINGS)
    assert list(again.epochs.entries) == [(0, 0), (1, 1), (2, 3)]


def test_batches_before_the_start_of_the_log_contradict_no_epoch(tmp_path):
    log = with_epochs(tmp_path / "events-0")
    log.advance_start(1)
    compact(log)
    log.epochs.flush()
    log.abandon()
    again = recovered(tmp_path / "events-0", start_offset=1, **SETTINGS)
    assert list(again.epochs.entries) == [(1, 1), (2, 3)]


def without_marker(directory):
    """A committed transaction of which all is gone; the snapshot at 1 calls it open."""
    log = opened(directory, **SETTINGS)
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append_pairs(log, (b"a", b"1"), **fields)
    sealed(log)
    end_transaction(log, producer_id=5, commit=True)
    append_pairs(log, (b"a", b"2"))
    log.advance_start(1)
    apply_retention(log, now_ms=NOW_MS)
    for now_ms in (NOW_MS, NOW_MS + 20):
        append_pairs(log, (b"b", b"3"))
        compact(sealed(log), now_ms=now_ms)
    assert stored_batches(log)[0].base_offset > 1
    return log


@pytest.mark.parametrize("recovery_point", [0, 1, 3])
def test_a_transaction_whose_marker_is_gone_is_not_open(tmp_path, recovery_point):
    log = without_marker(tmp_path / "events-0")
    states = {each: state.last_sequence for each, state in log.producers.states.items()}
    end_offset = log.end_offset
    log.abandon()
    again = recovered(
        tmp_path / "events-0", start_offset=1, recovery_point=recovery_point, **SETTINGS
    )
    assert again.last_stable_offset == end_offset
    assert {each: state.last_sequence for each, state in again.producers.states.items()} == states


def test_a_sequence_is_known_though_what_followed_was_truncated(tmp_path):
    log = opened(tmp_path / "events-0", **SETTINGS)
    append_pairs(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    append_pairs(log, (b"a", b"2"))
    sealed(log)
    append_pairs(log, (b"a", b"3"), producer_id=5, producer_epoch=0, base_sequence=1)
    compact(log)
    truncate(log, 2, now_ms=NOW_MS)
    log.abandon()
    again = recovered(tmp_path / "events-0", **SETTINGS)
    assert again.producers.states[5].last_sequence == 0
