"""Recovery after compaction uses checkpoints and snapshots for facts that the batches had."""

import pytest

from odradek.storage.log_truncation import truncate_to
from odradek.storage.retention import apply_retention
from tests.support.compaction import append_pairs, compact, sealed, stored_batches
from tests.support.logs import NOW_MS, append, end_transaction, opened, recovered

SETTINGS = {"cleanup_policy": ("compact",), "delete_retention_ms": 10}


def log_with_epochs(directory):
    """Return a log whose first batch of epoch 1, at offset 1, will be compacted away."""
    log = opened(directory, **SETTINGS)
    for epoch, key in ((0, b"a"), (1, b"b"), (1, b"b"), (2, b"c")):
        append(log, b"value", key=key, leader_epoch=epoch)
    return sealed(log)


def test_epoch_start_offsets_survive_the_compaction_of_their_first_batches(tmp_path):
    log = log_with_epochs(tmp_path / "events-0")
    compact(log)
    assert [batch.base_offset for batch in stored_batches(log)] == [0, 2, 3]
    log.close_handlers()
    recovered_log = recovered(tmp_path / "events-0", **SETTINGS)
    assert list(recovered_log.leader_epoch_cache.entries) == [(0, 0), (1, 1), (2, 3)]


def test_batches_before_the_log_start_offset_do_not_change_epochs(tmp_path):
    log = log_with_epochs(tmp_path / "events-0")
    log.maybe_increment_log_start_offset(1)
    compact(log)
    log.leader_epoch_cache.flush()
    log.close_handlers()
    recovered_log = recovered(tmp_path / "events-0", log_start_offset=1, **SETTINGS)
    assert list(recovered_log.leader_epoch_cache.entries) == [(1, 1), (2, 3)]


def log_without_marker(directory):
    """Return a log without its committed transaction, which the snapshot at 1 lists as open."""
    log = opened(directory, **SETTINGS)
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append_pairs(log, (b"a", b"1"), **fields)
    sealed(log)
    end_transaction(log, producer_id=5, commit=True)
    append_pairs(log, (b"a", b"2"))
    log.maybe_increment_log_start_offset(1)
    apply_retention(log, now_ms=NOW_MS)
    for now_ms in (NOW_MS, NOW_MS + 20):
        append_pairs(log, (b"b", b"3"))
        compact(sealed(log), now_ms=now_ms)
    assert stored_batches(log)[0].base_offset > 1
    return log


@pytest.mark.parametrize("recovery_point", [0, 1, 3])
def test_transaction_whose_marker_was_compacted_is_not_open(tmp_path, recovery_point):
    log = log_without_marker(tmp_path / "events-0")
    states = {
        producer_id: state.last_sequence
        for producer_id, state in log.producer_state_manager.active_producers.items()
    }
    end_offset = log.log_end_offset
    log.close_handlers()
    recovered_log = recovered(
        tmp_path / "events-0", log_start_offset=1, recovery_point=recovery_point, **SETTINGS
    )
    assert recovered_log.last_stable_offset == end_offset
    assert {
        producer_id: state.last_sequence
        for producer_id, state in recovered_log.producer_state_manager.active_producers.items()
    } == states


def test_last_sequence_is_known_after_a_truncation(tmp_path):
    log = opened(tmp_path / "events-0", **SETTINGS)
    append_pairs(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    append_pairs(log, (b"a", b"2"))
    sealed(log)
    append_pairs(log, (b"a", b"3"), producer_id=5, producer_epoch=0, base_sequence=1)
    compact(log)
    truncate_to(log, 2, now_ms=NOW_MS)
    log.close_handlers()
    recovered_log = recovered(tmp_path / "events-0", **SETTINGS)
    assert recovered_log.producer_state_manager.active_producers[5].last_sequence == 0
