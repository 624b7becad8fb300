"""Power cuts and disk failures at every step of the manager's operations on whole logs.

After a failure at any step, a flushed log is there once, with all its records. A log that was being
deleted is there whole or not at all.
"""

import errno
import shutil
from contextlib import contextmanager, suppress

import pytest

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import clean_shutdown
from odradek.storage.manager.disk_task import execute
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    Notebook,
    carry_all,
    contents,
    delete,
    flush,
    managing,
    move,
    values_in,
    written,
)
from tests.support.logs import NOW_MS, batches_from
from tests.support.power_cut import PowerCut, PowerIsOff

ORDERS_VALUES = [b"k1", b"k2"]
FLUSHED = [b"1", b"2", b"3"]
SEEDS = range(2)


@pytest.fixture
def template(tmp_path):
    """Two directories, EVENTS in the first and ORDERS in the second, closed cleanly."""
    root = tmp_path / "template"
    manager = start(root)
    written(manager, EVENTS, *FLUSHED)
    written(manager, ORDERS, *ORDERS_VALUES)
    manager.close(now_ms=NOW_MS)
    return root


@contextmanager
def copy_with_power_cut(template, name, *, seed=0, off_at=None):
    """Copy the template to a disk whose power can be cut."""
    root = template.with_name(name)
    shutil.copytree(template, root)
    with PowerCut(root, seed, off_at=off_at) as disk:
        yield disk
    shutil.rmtree(root)


def start(root, observer=None):
    # Small indexes, because each power cut reads the files.
    return managing(root / "a", root / "b", observer=observer, segment_index_bytes=4096)


def delete_log(manager):
    delete(manager, EVENTS)
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 60_000))


def move_log(manager):
    move(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 60_000))


def close_manager(manager):
    manager.close(now_ms=NOW_MS)


def delete_and_create_again(manager):
    delete(manager, EVENTS)
    flush(written(manager, EVENTS, b"new"))
    carry_all(manager.checkpoint_tasks())


def truncate_and_append_again(manager):
    hosted_log = manager.find(EVENTS)
    execute(manager.truncate(hosted_log, 1, now_ms=NOW_MS))
    written(manager, EVENTS, b"two", b"three")
    flush(hosted_log)


#: The operations, and the values that EVENTS may have after an interruption. None: no such log.
SCENARIOS = {
    delete_log: [FLUSHED, None],
    move_log: [FLUSHED],
    close_manager: [FLUSHED],
    delete_and_create_again: [FLUSHED, None, [], [b"new"]],
    truncate_and_append_again: [FLUSHED, [b"1"], [b"1", b"two"], [b"1", b"two", b"three"]],
}


def changes_in(scenario, template):
    """Return the number of file changes of the start, and then of the scenario."""
    with copy_with_power_cut(template, "counted") as disk:
        manager = start(disk.root)
        at_start = disk.changes
        scenario(manager)
        return at_start, disk.changes - at_start


def check(disk, allowed):
    manager = start(disk.root)
    actual = contents(manager)
    assert actual.pop(ORDERS) == ORDERS_VALUES, str(disk)
    assert actual.get(EVENTS) in allowed, (actual, str(disk))
    # The restarted log accepts appends, and they survive a clean shutdown.
    written(manager, EVENTS, b"next")
    expected = contents(manager)
    manager.close(now_ms=NOW_MS)
    observer = Notebook()
    restarted = start(disk.root, observer)
    assert contents(restarted) == expected, str(disk)
    assert observer == Notebook(), str(disk)
    restarted.close_handlers()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_power_cut_before_any_change_leaves_every_log_once_and_whole(template, scenario):
    for n in range(1, sum(changes_in(scenario, template)) + 2):
        for seed in SEEDS:
            with copy_with_power_cut(template, f"{n}-{seed}", seed=seed, off_at=n) as disk:
                with suppress(PowerIsOff):
                    scenario(start(disk.root))
                disk.cut()
                check(disk, SCENARIOS[scenario])


def test_power_cut_during_recovery_of_an_interrupted_move_loses_nothing(template):
    at_start, count = changes_in(move_log, template)
    for first_cut in range(at_start + count // 2, at_start + count + 1):
        for second_cut in (1, 2, 4, 7):
            name, seed = f"{first_cut}-{second_cut}", first_cut * second_cut
            with copy_with_power_cut(template, name, seed=seed, off_at=first_cut) as disk:
                with suppress(PowerIsOff):
                    move_log(start(disk.root))
                disk.cut()
                with PowerCut(disk.root, seed, off_at=second_cut) as restarted:
                    with suppress(PowerIsOff):
                        start(restarted.root).abandon()
                    restarted.cut()
                    check(restarted, [FLUSHED])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_failed_change_loses_no_log_and_affects_no_other_directory(template, scenario, error):
    _, count = changes_in(scenario, template)
    for n in range(1, count + 1):
        with copy_with_power_cut(template, str(n)) as disk:
            manager = start(disk.root)
            with FaultyDisk(fail_at=n, error=error), suppress(KafkaStorageError):
                scenario(manager)
            (failed,) = manager.directories.offline
            for hosted_log in manager.logs:
                assert hosted_log.is_usable is (hosted_log.directory is not failed)
                if hosted_log.is_usable and hosted_log.partition == ORDERS:
                    assert values_in(hosted_log) == ORDERS_VALUES
            manager.close_handlers()
            check(disk, SCENARIOS[scenario])


# Guarantees after a step has completed


@pytest.mark.parametrize("seed", range(10))
def test_removed_clean_shutdown_marker_does_not_return(template, seed):
    with copy_with_power_cut(template, "used", seed=seed) as disk:
        written(start(disk.root), EVENTS, b"not synced")
        disk.cut()
        assert clean_shutdown.read(disk.root / "a") is None


@pytest.mark.parametrize("seed", range(10))
def test_deleted_log_does_not_return(tmp_path, seed):
    (tmp_path / "logs").mkdir()
    with PowerCut(tmp_path / "logs", seed) as disk:
        manager = start(disk.root)
        written(manager, EVENTS, *FLUSHED)
        delete(manager, EVENTS)
        disk.cut()
        assert contents(start(disk.root)) == {}


@pytest.mark.parametrize("seed", range(10))
def test_flushed_new_log_survives_a_power_cut(tmp_path, seed):
    (tmp_path / "logs").mkdir()
    with PowerCut(tmp_path / "logs", seed) as disk:
        flush(written(start(disk.root), EVENTS, *FLUSHED))
        disk.cut()
        assert contents(start(disk.root)) == {EVENTS: FLUSHED}


@pytest.mark.parametrize("seed", range(40))
def test_records_appended_after_a_truncation_are_recovered(tmp_path, seed):
    old, new = ([word + b"%d" % number for number in range(8)] for word in (b"old", b"new"))
    settings = {"segment_bytes": 300, "segment_index_bytes": 4096}
    (tmp_path / "logs").mkdir()
    with PowerCut(tmp_path / "logs", seed) as disk:
        manager = managing(disk.root, **settings)
        hosted_log = written(manager, EVENTS, *(value + bytes(90) for value in old))
        flush(hosted_log)
        carry_all(manager.checkpoint_tasks())
        execute(manager.truncate(hosted_log, 1, now_ms=NOW_MS))
        written(manager, EVENTS, *(value + bytes(90) for value in new))
        disk.cut()
        log = managing(disk.root, **settings).find(EVENTS).log
        expected = old[:1] + new
        for batch in batches_from(log, 0):
            batch.check_crc()
            for record in batch.records():
                assert record.value.rstrip(b"\0") == expected[record.offset], str(disk)
        assert log.log_end_offset >= 1
