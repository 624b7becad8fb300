"""What logs need from time to time, when no descriptor is left to look at one of them."""

from contextlib import suppress

import pytest

from odradek.storage.cleaner.states import IDLE
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.open_segments import OutOfDescriptors
from tests.support.compaction import CLEANER
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    carry_all,
    delete,
    managing,
    names_in,
    retain,
    written,
)
from tests.support.logs import NOW_MS, append


def two_old_logs(tmp_path, **settings):
    """Reopened, so that a look at them takes descriptors."""
    manager = managing(tmp_path, segment_bytes=200, file_delete_delay_ms=0, **settings)
    for partition in (EVENTS, ORDERS):
        hosted = manager.create(partition, now_ms=NOW_MS)
        with hosted as log:
            for _ in range(4):
                append(log, bytes(100), key=b"k", timestamp=NOW_MS - 5000)
    manager.close(now_ms=NOW_MS)
    return managing(tmp_path, segment_bytes=200, file_delete_delay_ms=0, **settings)


def test_retention_of_a_log_that_wants_for_descriptors_is_left_for_the_next_round(tmp_path):
    manager = two_old_logs(tmp_path, retention_ms=1000)
    with FewDescriptors(fail_at=1):
        outlived = retain(manager)
    assert {each.partition for each in outlived} == {ORDERS}
    assert {each.partition for each in retain(manager)} == {EVENTS}
    assert manager.directories.online


def test_at_whichever_call_retention_wants_for_descriptors_a_later_round_ends_it(tmp_path):
    for fail_at in range(1, 100):
        root = tmp_path / str(fail_at)
        manager = two_old_logs(root, retention_ms=1000, retention_bytes=400)
        with FewDescriptors(fail_at=fail_at) as system:
            for work in manager.upkeep.apply_retention(NOW_MS).works:
                with suppress(OutOfDescriptors):
                    carry_out(work)
        if not system.failed_calls:
            break
        assert manager.directories.online
        carry_all(manager.mendings(now_ms=NOW_MS))
        retain(manager)
        for partition in (EVENTS, ORDERS):
            with manager.find(partition) as log:
                assert (log.start_offset, log.end_offset, len(log.segments)) == (4, 4, 1)
            assert manager.cleaner.states[partition] is IDLE
        carry_all(manager.upkeep.removals_due(NOW_MS))
        assert len(names_in(root / "events-0", ".log")) == 1
    assert fail_at > 10


def test_compaction_passes_over_a_log_that_wants_for_descriptors(tmp_path):
    compacted = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0}
    manager = two_old_logs(tmp_path, **compacted, min_compaction_lag_ms=1)
    for fail_at in range(1, 30):
        with FewDescriptors(fail_at=fail_at) as system:
            found = manager.upkeep.next_compaction(NOW_MS, CLEANER)
        if found is not None:
            with found:
                pass
        assert manager.cleaner.states[EVENTS] is manager.cleaner.states[ORDERS] is IDLE
        if not system.failed_calls:
            break
    assert fail_at > 3


def test_what_could_not_be_removed_for_want_of_descriptors_is_removed_later(tmp_path):
    manager = managing(tmp_path, file_delete_delay_ms=0)
    written(manager, EVENTS, b"a")
    delete(manager, EVENTS)
    (removal,) = manager.upkeep.removals_due(NOW_MS)
    with FewDescriptors(fail_at=1), pytest.raises(OutOfDescriptors):
        carry_out(removal)
    carry_all(manager.upkeep.removals_due(NOW_MS))
    assert names_in(tmp_path, "-delete") == []
