"""Power cuts and failing disks at every step of what the manager does to whole logs.

Whatever step is the last one: a log that was synced is there afterwards, once, with all its
records, unless it was to be deleted, and then it is there whole or not at all.
"""

import errno
import shutil
from contextlib import contextmanager, suppress

import pytest

from odradek.protocol.errors import KafkaStorageError
from odradek.storage import clean_shutdown
from odradek.storage.manager.disk_work import carry_out
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

KEPT = [b"k1", b"k2"]
SYNCED = [b"1", b"2", b"3"]
SEEDS = range(2)


@pytest.fixture
def template(tmp_path):
    """Two directories, EVENTS in the first and ORDERS in the second, closed cleanly."""
    root = tmp_path / "template"
    manager = start(root)
    written(manager, EVENTS, *SYNCED)
    written(manager, ORDERS, *KEPT)
    manager.close(now_ms=NOW_MS)
    return root


@contextmanager
def powered(template, name, *, seed=0, off_at=None):
    """A copy of the template, on a disk that may lose its power."""
    root = template.with_name(name)
    shutil.copytree(template, root)
    with PowerCut(root, seed, off_at=off_at) as disk:
        yield disk
    shutil.rmtree(root)


def start(root, observer=None):
    # Large indexes would be read at every cut, for nothing.
    return managing(root / "a", root / "b", observer=observer, segment_index_bytes=4096)


def deleting(manager):
    delete(manager, EVENTS)
    carry_all(manager.upkeep.removals_due(NOW_MS + 60_000))


def moving(manager):
    move(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.upkeep.removals_due(NOW_MS + 60_000))


def closing(manager):
    manager.close(now_ms=NOW_MS)


def deleting_and_making_again(manager):
    delete(manager, EVENTS)
    flush(written(manager, EVENTS, b"new"))
    carry_all(manager.checkpoints())


def cutting_and_writing_again(manager):
    hosted = manager.find(EVENTS)
    carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
    written(manager, EVENTS, b"two", b"three")
    flush(hosted)


#: What is done, and what EVENTS may hold when it is interrupted; None is: there is no such log.
SCENARIOS = {
    deleting: [SYNCED, None],
    moving: [SYNCED],
    closing: [SYNCED],
    deleting_and_making_again: [SYNCED, None, [], [b"new"]],
    cutting_and_writing_again: [SYNCED, [b"1"], [b"1", b"two"], [b"1", b"two", b"three"]],
}


def changes_in(scenario, template):
    """How many changes the start and then the scenario make."""
    with powered(template, "counted") as disk:
        manager = start(disk.root)
        at_start = disk.changes
        scenario(manager)
        return at_start, disk.changes - at_start


def check(disk, allowed):
    manager = start(disk.root)
    found = contents(manager)
    assert found.pop(ORDERS) == KEPT, str(disk)
    assert found.get(EVENTS) in allowed, (found, str(disk))
    # What was found is used, and is there again.
    written(manager, EVENTS, b"next")
    expected = contents(manager)
    manager.close(now_ms=NOW_MS)
    observer = Notebook()
    again = start(disk.root, observer)
    assert contents(again) == expected, str(disk)
    assert observer == Notebook(), str(disk)
    again.abandon()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_power_cut_before_any_change_leaves_every_log_once_and_whole(template, scenario):
    for n in range(1, sum(changes_in(scenario, template)) + 2):
        for seed in SEEDS:
            with powered(template, f"{n}-{seed}", seed=seed, off_at=n) as disk:
                with suppress(PowerIsOff):
                    scenario(start(disk.root))
                disk.cut()
                check(disk, SCENARIOS[scenario])


def test_a_power_cut_while_an_interrupted_move_is_put_right_changes_nothing(template):
    at_start, count = changes_in(moving, template)
    for first_cut in range(at_start + count // 2, at_start + count + 1):
        for second_cut in (1, 2, 4, 7):
            name, seed = f"{first_cut}-{second_cut}", first_cut * second_cut
            with powered(template, name, seed=seed, off_at=first_cut) as disk:
                with suppress(PowerIsOff):
                    moving(start(disk.root))
                disk.cut()
                with PowerCut(disk.root, seed, off_at=second_cut) as again:
                    with suppress(PowerIsOff):
                        start(again.root).abandon()
                    again.cut()
                    check(again, [SYNCED])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_failing_change_loses_no_log_and_harms_no_other_directory(template, scenario, error):
    _, count = changes_in(scenario, template)
    for n in range(1, count + 1):
        with powered(template, str(n)) as disk:
            manager = start(disk.root)
            with FaultyDisk(fail_at=n, error=error), suppress(KafkaStorageError):
                scenario(manager)
            (failed,) = manager.directories.offline
            for hosted in manager.logs:
                assert hosted.is_usable is (hosted.directory is not failed)
                if hosted.is_usable and hosted.partition == ORDERS:
                    assert values_in(hosted) == KEPT
            manager.abandon()
            check(disk, SCENARIOS[scenario])


# What is promised once a step is done


@pytest.mark.parametrize("seed", range(10))
def test_the_marker_of_a_clean_stop_does_not_come_back(template, seed):
    with powered(template, "used", seed=seed) as disk:
        written(start(disk.root), EVENTS, b"not synced")
        disk.cut()
        assert clean_shutdown.read(disk.root / "a") is None


@pytest.mark.parametrize("seed", range(10))
def test_a_deleted_log_does_not_come_back(tmp_path, seed):
    (tmp_path / "logs").mkdir()
    with PowerCut(tmp_path / "logs", seed) as disk:
        manager = start(disk.root)
        written(manager, EVENTS, *SYNCED)
        delete(manager, EVENTS)
        disk.cut()
        assert contents(start(disk.root)) == {}


@pytest.mark.parametrize("seed", range(10))
def test_a_new_log_is_there_once_it_has_been_synced(tmp_path, seed):
    (tmp_path / "logs").mkdir()
    with PowerCut(tmp_path / "logs", seed) as disk:
        flush(written(start(disk.root), EVENTS, *SYNCED))
        disk.cut()
        assert contents(start(disk.root)) == {EVENTS: SYNCED}


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_anew_after_a_truncation_is_recovered_like_anything_new(tmp_path, seed):
    old, new = ([word + b"%d" % number for number in range(8)] for word in (b"old", b"new"))
    settings = {"segment_bytes": 300, "segment_index_bytes": 4096}
    (tmp_path / "logs").mkdir()
    with PowerCut(tmp_path / "logs", seed) as disk:
        manager = managing(disk.root, **settings)
        hosted = written(manager, EVENTS, *(value + bytes(90) for value in old))
        flush(hosted)
        carry_all(manager.checkpoints())
        carry_out(manager.truncate(hosted, 1, now_ms=NOW_MS))
        written(manager, EVENTS, *(value + bytes(90) for value in new))
        disk.cut()
        log = managing(disk.root, **settings).find(EVENTS).log
        expected = old[:1] + new
        for batch in batches_from(log, 0):
            batch.check_crc()
            for record in batch.records():
                assert record.value.rstrip(b"\0") == expected[record.offset], str(disk)
        assert log.end_offset >= 1
