"""Periodic log maintenance when no file descriptor is left for one of the logs."""

from contextlib import suppress

import pytest

from odradek.storage.cleaner.log_cleaning_state import IDLE
from odradek.storage.manager.disk_task import execute
from odradek.storage.open_segments import TooManyOpenFiles
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
    """Create two logs and reopen them, because access to reopened logs takes descriptors."""
    manager = managing(tmp_path, segment_bytes=200, file_delete_delay_ms=0, **settings)
    for partition in (EVENTS, ORDERS):
        hosted_log = manager.get_or_create_log(partition, now_ms=NOW_MS)
        with hosted_log as log:
            for _ in range(4):
                append(log, bytes(100), key=b"k", timestamp=NOW_MS - 5000)
    manager.close(now_ms=NOW_MS)
    return managing(tmp_path, segment_bytes=200, file_delete_delay_ms=0, **settings)


def test_retention_without_descriptors_is_left_for_the_next_round(tmp_path):
    manager = two_old_logs(tmp_path, retention_ms=1000)
    with FewDescriptors(fail_at=1):
        expired = retain(manager)
    assert {segment.partition for segment in expired} == {ORDERS}
    assert {segment.partition for segment in retain(manager)} == {EVENTS}
    assert manager.directories.online


def test_retention_without_descriptors_at_any_call_completes_later(tmp_path):
    for fail_at in range(1, 100):
        root = tmp_path / str(fail_at)
        manager = two_old_logs(root, retention_ms=1000, retention_bytes=400)
        with FewDescriptors(fail_at=fail_at) as system:
            for task in manager.maintenance.apply_retention(NOW_MS).tasks:
                with suppress(TooManyOpenFiles):
                    execute(task)
        if not system.failed_calls:
            break
        assert manager.directories.online
        carry_all(manager.repair_tasks(now_ms=NOW_MS))
        retain(manager)
        for partition in (EVENTS, ORDERS):
            with manager.find(partition) as log:
                assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (4, 4, 1)
            assert manager.cleaner_manager.states[partition] is IDLE
        carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
        assert len(names_in(root / "events-0", ".log")) == 1
    assert fail_at > 10


def test_compaction_skips_a_log_without_descriptors(tmp_path):
    compacted = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0}
    manager = two_old_logs(tmp_path, **compacted, min_compaction_lag_ms=1)
    for fail_at in range(1, 30):
        with FewDescriptors(fail_at=fail_at) as system:
            compaction = manager.maintenance.next_compaction(NOW_MS, CLEANER)
        if compaction is not None:
            with compaction:
                pass
        assert (
            manager.cleaner_manager.states[EVENTS] is manager.cleaner_manager.states[ORDERS] is IDLE
        )
        if not system.failed_calls:
            break
    assert fail_at > 3


def test_removal_without_descriptors_is_repeated_later(tmp_path):
    manager = managing(tmp_path, file_delete_delay_ms=0)
    written(manager, EVENTS, b"a")
    delete(manager, EVENTS)
    (removal_task,) = manager.maintenance.due_removal_tasks(NOW_MS)
    with FewDescriptors(fail_at=1), pytest.raises(TooManyOpenFiles):
        execute(removal_task)
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    assert names_in(tmp_path, "-delete") == []
